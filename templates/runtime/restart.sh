# After a failure: a verdict by the causes that jobgen diagnose knows, and another start.
export -n SECONDS    # of the allocation: an earlier start in it hands them on
choose_nodes() {    # choose_nodes COUNT KEPT: those to avoid come last, but for the first KEPT
    job_number=$((10#$job_number + 3571 * attempt))    # for another port
    allocated=$(printf '%s\n' "${NODES[@]}")
    chosen=$(grep -svxF -e "${NODES[*]:0:$2}" "$run_dir/avoid" | cat <(echo "$allocated") - |
        grep -xF -e "$allocated" | tac | awk '!seen[$0]++' | tac | head -n "$1") || :
    mapfile -t NODES < <(grep -xF -e "$chosen" <<<"$allocated")
    find "$run_dir" -name 'rank-*.err' -printf '%p %s\n' >"$attempt_dir/sizes"
}
judge() {    # sets verdict, cause, rank, nodes, the line that they rest on, and good nodes' count
    local log text pattern lines='' node last
    local pre="([^ ':]+)'?: [^:]*No such file" post="No such file[a-z ]*: '([^']+)"
    if [[ -z $reason ]]; then reason=" with exit code $status" && find_first_error; fi
    [[ $reason =~ (rank\ ([0-9]+)\ on\ )?([^ ]+),\ by\  ]]
    rank=${BASH_REMATCH[2]:--} nodes=${BASH_REMATCH[3]:-$lost}
    text=$(
        sed "0,/ of start $attempt;/d;s/^ *//" "${file%/*}/agent.log" | grep -A 1 "^rank *: $rank\b"
        for log in "$attempt_dir/launcher.log" "${peers[-1]}" "$file"; do    # since this start
            tail -c "+$((1 + 10#0$(sed -n "s|^$log ||p" "$attempt_dir/sizes")))" "$log" | tail -n 60
        done
        echo "${lost:+jobgen: FAILED$reason}"
    )
    while [[ -z $lines ]] && read -r verdict cause pattern; do
        lines=$(grep -P -e "$pattern" <<<"$text")
    done <<<"$FAULTS"
    verdict=${verdict:-stop} cause=${cause:-program} line=$(grep . <<<"${lines:-$text}" | tail -n 1)
    if [[ $cause == program && -n ${peers-} && $file != */rank-* ]]; then
        verdict=restart cause=peer-lost line=$(grep Error "${peers[-1]}" | tail -n 1)
    elif [[ -z $line || $cause:$reason == program:*/launcher.log ]] || ! grep -qP x <<<x; then
        verdict=unknown cause=exit-$status
    elif [[ $cause == program && ($line =~ $post || $line =~ $pre) && -e ${BASH_REMATCH[1]} ]]; then
        verdict=unknown cause=hidden-file
    elif [[ $verdict == restart ]]; then    # of the nodes that the lines name, if they do
        lines=$(printf '%s\n' "$lines" | sed 's/ ON [^ ]*//' | grep -owF -e "$chosen")
        nodes=$(sort -u <<<"${lines:-$nodes}" | xargs)
    elif [[ $cause == waited ]]; then    # for the node on which no rank has failed
        nodes=$(grep -vxF -f <(dirname "${peers[@]}" | xargs -n 1 basename) <<<"$chosen" | xargs)
    fi
    for node in $([[ $verdict != restart ]] || echo "$nodes"); do
        TZ=UTC printf '%s\t%s\t%(%FT%TZ)T\t%s\n' "$node" "$cause" -1 "$line" >>"$run_dir/bad-nodes"
    done
    { xargs -rn 1 <<<"$nodes"; cut -f 1 "$run_dir/bad-nodes"; } >"$run_dir/avoid"    # bad ones last
    good=$(grep -cvxF -e "$(cut -f 1 "$run_dir/bad-nodes")" <<<"$allocated")
    read -r -a last <"$run_dir/attempts/$((attempt - 1))/verdict"
    if (($(head -qn 1 "$run_dir"/attempts/*/verdict | grep -cE '^(restart|un)') >= RESTARTS)); then
        verdict=stop line+=" (after $RESTARTS restarts)"
    elif [[ ($verdict:${last[0]} == unknown:unknown || "$cause $rank" == "${last[*]:1:2}") &&
        $rank$verdict$nodes != -restart?* &&
        -z $(find "$run_dir"/{,roles/*/}{checkpoints,PROGRESS} -type f -newer "$attempt_dir/job")
        ]]; then
        verdict=stop line+=" (again, and nothing was saved in between)"
    fi
    printf '%s\n' "$verdict $cause $rank $nodes" "$line" >"$attempt_dir/verdict"
    say "verdict: $verdict ($cause)${nodes:+ on $nodes}: $line"
} 2>/dev/null
start_again() {    # another start follows here, or elsewhere by the chain, or none
    [[ -z $stop$word$warned && -e $attempt_dir/nodes && ! -e $run_dir/STOPPED ]] || return 0
    if ((status == 0)) || { has is_preempted && is_preempted; }; then return; fi
    judge
    if [[ $verdict == stop ]]; then return; fi
    if ((good < ${#NODES[@]} || ${WALLTIME:-SECONDS + 9999} - SECONDS < NOTICE + 60)); then
        say "this allocation has no node or no time left for another start"
        lost=$(sort -u "$run_dir/avoid" | xargs)
        return
    fi
    say "start $((attempt + 1)) follows in this allocation"
    (word=continued && conclude 1)
    grep -slzxF "JOBGEN_AGENT=$tmp_dir" /proc/[0-9]*/environ | tr -dc '0-9\n' |
        xargs -r kill -KILL
    trap - TERM INT USR1 EXIT
    exec env -u JOBGEN_AGENT SECONDS="$SECONDS" ${first_job:+JOBGEN_CHAIN="$first_job"} \
        ${script_pid:+JOBGEN_SUBMIT_ID="$job_id"} bash "$this_script"
}
