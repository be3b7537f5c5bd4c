faults='restart preflight preflight: [^ :]+: 
restart launch-failed Task launch for \S+ failed on node (\S+?): (?!Unable to layout|More processors)|Could not run prolog|[Pp]rolog (error|hook failure|failed)|error launching .* on (\S+)|[Uu]nable to (create|contact) .*slurmstepd|slurmstepd: error: execve\(\): \S+/slurm_script: |Munge (en|de)code failed|(srun|slurmstepd): .*Invalid user id|(launch[ _]fail.{3,24}requeued[ _]held|JobHoldMaxRequeue)(: (\S+) could not start it \()?
restart node-lost ^node lost( \((no sign of life from ([^,)]+)|(\S+) is lost: ))?|\bNODE_FAIL\b|\bBOOT_FAIL\b|DUE TO (\S+ )?NODE FAILURE|Node failure on ([^\s)]+)|job killed: node \d+ \(([^)]+)\)|requested job die|Remote daemon: .* on node (\S+)|\bping (RPC timeout from|failed on) ([\w-]+)|slurm_receive_msgs: \[+([^\]]+)\S* failed|lost communication with its daemon|\bnode has (died|crashed)|\b[Nn]ode .*marked (as )?dead|nothing is heard from ([^\s;]+)|FAILED: (role \S+: )?(\S+)( is lost|: not started): (?!jobgen: )
restart gpu-error \bXid\b(?!.*: (13|31|43|45)\b).*\d+|[Uu]ncorrectable .{0,20}\berror|GPU.IS.LOST|GPU is lost|fallen off the bus|CUDA error: hardware stack error|Unable to determine the device handle|system not yet initialized|(?i:cuda_?error_?(system_?not_?ready|ecc_?uncorr|hardware_?stack|nvlink_?uncorr))|error in the Fabric Manager or NVSwitches|(all CUDA-capable devices are|CUDA-capable device\(s\) is/are) busy or unavailable|(?i:driver/library version mismatch)
restart file-system [Ss]tale (NFS )?file handle|Input/output error|[Tt]ransport endpoint|Remote I/O error|[Ee]rrno:? ?(5|107|108|116|121)\b
restart network-hardware ibv_\w+ failed|NET/(IB|OFI).*(error|failed|No route)|fi_\w+ failed|Got completion .* with (error|status)|[Tt]ransport retry count(er)? exceeded|hfi units? (are|is) active|can.t open hfi unit
stop out-of-memory (?i)out.of.memory|oom[-_ ]?kill|MemoryError|bad_alloc|allocate memory|ALLOC_FAILED|memory (limit|pressure|allocation)|v?mem \S+ exceeded
unknown waited Timed out after \d+ seconds waiting for clients|Timed out initializing process group in store based barrier|Watchdog caught collective operation timeout|[Tt]imed out waiting \d+ms for (recv|send)|Ranks .* failed to pass monitoredBarrier|DEADLINE_EXCEEDED: (Barrier|GetKeyValue\(\)) timed out|Timeout waiting for key|not all of them arrived on time|Termination timeout for `|wait timeout after \d+ms|\b[Nn]o (step|progress) (for|in|since|within) [\d.]+ ?s
unknown ambiguous ^ *exitcode *: -\d|^(?!.*Warning).*No space left on device$
last error ^(?!.*(Warning:|error: \S+ tasks? |CANCELLED AT|ChildFailedError))((\[rank\S+ )?\S*(Error|Exception|Exit|Interrupt)\b|.*(error: |Fatal error|syntax error|not found|No [sm]|Assertion .* failed))
unknown ambiguous ^(?!\S*(Syntax|Name|Attribute|Type|Key|Index)Error|.*(device-side assert|: Invalid )).*(?i:ccl|gloo|in use|socket|connect|network|fetch config|name resolution|time[ds]?[ -]?out|\bpeer|cuda.*error|cudnn|cublas|(device|gpu|npu)s? .*(found|available|busy)|\b(nodes?|hosts?|servers?|workers?|daemon|stale|killed|lost|died|signal)\b|\bI/O\b|corrupt|truncat|unexpected (pos|eof|end)|\b\d+ bytes|unavailable|internal error|.\/(tmp|var|dev|proc)\b)
stop program ^(\[rank\d+\]: ?)?[\w.]*(Syntax|Indentation|Tab|Name|UnboundLocal|Attribute|Type|Key|Index|NotImplemented|ZeroDivision|Recursion|ModuleNotFound|Unicode\w*|Validation|\w*[Cc]onfig\w*|Value|Assertion|Import|FileNotFound|NotADirectory|IsADirectory|FileExists|Permission)(Error|Exception)\b|device-side assert|Assertion .* failed|Fortran runtime error|Fatal error in \w+: Invalid|(Error|Exception|Failure|error): .*(?i:n[o.]t (been )?(found|supported|implemented|allowed|permitted|exist|match|defined|valid|compiled|initialized|have|require)|can.?not|invalid|expected|mismatch|missing|must|should|shape|size|dtype|tensor|param|argument|option|--\w|layout|state_?dict|config|exceed|already|grad)|[Nn]o such (option|file)|No space left .*.\/|No module named|: not found$|command not found|syntax error|ermission denied'
export -n SECONDS    # an earlier start passes on the seconds since the allocation began
choose_nodes() {    # choose_nodes COUNT KEPT: puts nodes to avoid last, except the first KEPT
    job_number=$((10#$job_number + 3571 * attempt))    # for a new port
    allocated=$(printf '%s\n' "${names[@]}")
    chosen=$(grep -svxF -e "${names[*]:0:$2}" "$run_dir/avoid" | cat <(echo "$allocated") - |
        grep -xF -e "$allocated" | tac | awk '!seen[$0]++' | tac | head -n "$1") || :
    mapfile -t names < <(grep -xF -e "$chosen" <<<"$allocated")
    find "$run_dir" -name 'rank-*.err' -printf '%p %s\n' >"$attempt_dir/sizes"
}
judge() {    # by faults: sets verdict, cause, rank, nodes, line and good
    local log text pattern lines='' said node last saved start=$((attempt + 1))
    if [[ -z $reason ]]; then reason=" with exit code $status" && find_first_error; fi
    [[ $reason =~ (rank\ ([0-9]+)\ on\ )?([^ ]+),\ see\  ]]
    rank=${BASH_REMATCH[2]:--} nodes=${BASH_REMATCH[3]:-$lost}
    text=$(sed "0,/ in start $start;/d" "${file%/*}/agent.log" | grep -A 1 "^ *rank *: $rank\b"
        for log in "$attempt_dir/launcher.log" "${peers[-1]}" "$file"; do    # from this start only
            tail -c "+$((1 + 10#0$(sed -n "s|^$log ||p" "$attempt_dir/sizes")))" "$log" | tail -n 60
        done
        echo "${lost:+jobgen: FAILED$reason}")
    while [[ -z $lines ]] && read -r verdict cause pattern; do
        lines=$(grep -P -e "$pattern" <<<"${said-$text}")
        if [[ $verdict == last ]]; then said=$(tail -n 1 <<<"$lines") lines=''; fi
    done <<<"$faults"
    verdict=${verdict:-unknown} cause=${cause:-exit-$status}
    line=$(grep . <<<"${lines:-$text}" | tail -n 1 | grep . || echo "it said nothing")
    if [[ $cause =~ ^(exit|ambig|program) && -n ${peers-} && $file != */rank-* ]]; then
        verdict=restart cause=peer-lost line=$(grep Error "${peers[-1]}" | tail -n 1)
    elif [[ $verdict == restart ]]; then    # blames the nodes that lines name, not who says it
        [[ $cause != node-lost ]] || nodes='' lines=${lost:-$(grep -oP -e "$pattern" <<<"$lines")}
        nodes=$(grep -owF -e "$chosen" <<<"$lines" | sort -u | xargs | grep . || echo "$nodes")
    elif [[ $cause == waited ]]; then    # blames nodes where no rank failed
        nodes=$(grep -vxF -f <(dirname "${peers[@]}" | xargs -n 1 basename) <<<"$chosen" | xargs)
    elif [[ $line == *No\ such* && $line =~ .*[\ \'](/[^\':]+) && -e ${BASH_REMATCH[1]} ]]; then
        verdict=unknown cause=hidden-file
    fi
    for node in $([[ $verdict != restart ]] || echo "$nodes"); do
        TZ=UTC printf '%s\t%s\t%(%FT%TZ)T\t%s\n' "$node" "$cause" -1 "$line" >>"$run_dir/bad-nodes"
    done
    { xargs -rn 1 <<<"$nodes"; cut -f 1 "$run_dir/bad-nodes"; } >"$run_dir/avoid"    # bad last
    good=$(grep -cvxF -e "$(cut -f 1 "$run_dir/bad-nodes")" <<<"$allocated")
    saved=$(find "$run_dir"/{,roles/*/}{checkpoints,PROGRESS} -type f -newer "$attempt_dir/job")
    read -r -a last <"$run_dir/attempts/$((attempt - 1))/verdict"
    if (($(head -qn 1 "$run_dir"/attempts/*/verdict | grep -cE '^(restart|un)') >= restarts)); then
        verdict=stop line+=" (after $restarts restarts)"
    elif [[ -z $saved && $rank$verdict$nodes != -restart?* &&
        ($verdict:${last[0]} == unknown:unknown || "$cause $rank" == "${last[*]:1:2}") ]]; then
        verdict=stop line+=" (again, and nothing was saved in between)"
    fi
    printf '%s\n' "$verdict $cause $rank $nodes" "$line" >"$attempt_dir/verdict"
    say "verdict: $verdict ($cause)${nodes:+ on $nodes}: $line"
} 2>/dev/null
start_again() {    # starts again in this allocation if the verdict and the time allow
    [[ -z $stop$word$warned && -e $attempt_dir/nodes ]] || return 0
    [[ $status != 0 && $reason != ": PREEMPTED"* ]] && judge && [[ $verdict != stop ]] || return 0
    ! has is_gone || ! is_gone || good=0
    lost=$(sort -u "$run_dir/avoid" | xargs) lack=(time node)    # the chain excludes them
    ((good >= ${#names[@]} && ${walltime:-SECONDS + 9999} - SECONDS >= notice + 60)) ||
        { say "this allocation has no ${lack[good < ${#names[@]}]} for another start" && return; }
    say "start $((attempt + 2)) follows in this allocation"
    (word=continued && conclude 1); unset JOBGEN_AGENT    # marks what to kill
    grep -slzxF "JOBGEN_AGENT=$tmp_dir" /proc/[0-9]*/environ | cut -d / -f 3 | xargs -r kill -9 2>&-
    trap - TERM INT USR1 EXIT
    exec env SECONDS="$SECONDS" ${first_job:+JOBGEN_CHAIN="$first_job"} \
        ${script_pid:+JOBGEN_SUBMIT_ID="$job_id"} bash "$this_script"
}
