# A verdict on a failure: `stop` where the program is at fault, `restart` where a node or the
# network is, `unknown` once. Then another start takes the place of this one, on other nodes.
WALLTIME=${JOBGEN_LEFT:-${WALLTIME-}}    # what an earlier start has left of the allocation
unset JOBGEN_LEFT
choose_nodes() {    # choose_nodes COUNT KEPT: the first KEPT; of the others the suspected ones last
    local all=("${NODES[@]}") slots=("${SLOTS[@]-}") index
    trap 'end_start "$?"' EXIT
    job_number=$((10#$job_number + 3571 * attempt)) NODES=() SLOTS=()    # for another port
    if [[ ${THEN-} == resubmit ]] && ! has start_role; then
        lost=$(list_bad | xargs)    # what the next job is not given, until the launcher has ended
    fi
    find "$run_dir" -path '*/logs/*' -printf '%s %p\n' >"$attempt_dir/sizes"
    while read -r index; do
        NODES+=("${all[index]}") SLOTS+=("${slots[index]-}")
    done < <(cat "$run_dir"/{attempts/*/verdict,bad-nodes} - <<<": ${all[*]}" 2>/dev/null |
        awk -v kept="$2" '/\t/ { n[$1] += 9 } /^(restart|unknown) / {
            for (i = 4; i <= NF; i++) n[$i]++ } $1 == ":" {
            for (i = 2; i <= NF; i++) print (i - 2 < kept ? 0 : n[$i] + 0), i - 2 }' |
        sort -n | sed -n "1,$1s/.* //p" | sort -n)
    idle=$(printf '%s\n' "${all[@]}" | grep -vxF "$(printf '%s\n' "${NODES[@]}")" | xargs) || :
    if [[ -n $idle ]]; then say "idle in this start: $idle"; fi
}
list_bad() { cut -f 1 "$run_dir/bad-nodes" 2>/dev/null | sort -u || :; }
show_new() {    # show_new LOG: the end of what this start has added
    tail -c "+$(awk -v file="$1" '{ n = $1; sub("[^ ]* ", "") } $0 == file { size = n }
        END { print size + 1 }' "$attempt_dir/sizes")" "$1" | tail -n 60
} 2>/dev/null
judge() {    # judge STATUS: sets verdict, cause, rank, nodes, and the line that they rest on
    local code=$1 pattern text lines='' before alone=''
    rank=- nodes=${lost-}
    if has end_node && ! has start_role && [[ ! -e $attempt_dir/failed ]]; then
        alone=yes    # the launcher has failed, and no process
    fi
    IFS=$'\t' read -r file peer < <(find_first_error && printf '%s\t%s\n' "$file" "${peer-}")
    if [[ $reason =~ :\ rank\ ([0-9]+)\ on\ ([^,]+) ]]; then    # of a shell that was killed
        nodes=${BASH_REMATCH[2]} rank=${BASH_REMATCH[1]}
    elif [[ -z $nodes$alone && $file =~ /logs/([^/]+)/(rank-([0-9]+))? ]]; then
        nodes=${BASH_REMATCH[1]} rank=${BASH_REMATCH[3]:--}
        code=$(show_new "${file%/*}/agent.log" | awk -v rank="$rank" -v code="$1" '$1 == "rank" {
            own = $3 == rank } $1 == "exitcode" && own { code = $3 } END { print code }')
    fi
    text=$(for log in "$attempt_dir/launcher.log" "$peer" "$file"; do show_new "$log"; done)
    if [[ -n ${lost-} ]]; then text+=$'\n'"jobgen: FAILED$reason"; fi
    while [[ -z $lines ]] && read -r verdict cause pattern; do
        lines=$(grep -P -e "$pattern" <<<"$text")
    done <<<"$FAULTS"
    line=$(tail -n 1 <<<"${lines:-$(grep . <<<"$text")}")
    if [[ -z $lines ]]; then
        verdict=stop cause=program
        if [[ -n $peer ]] || has_lost_peer "$file"; then
            verdict=restart cause=peer-lost nodes=''
            line=$(show_new "${peer:-$file}" | grep Error | tail -n 1)
        elif [[ -z $line || -n $alone || $code == -[679] || $code == 137 ]] ||
            ! grep -qP x <<<x; then
            verdict=unknown cause=exit-$code
        fi
    elif [[ $verdict == restart ]]; then    # of the nodes that the lines name, if they do
        lines=$(printf '%s\n' "$lines" | sed 's/ ON [^ ]*//' |
            grep -owF "$(printf '%s\n' "${NODES[@]}")")
        nodes=$(sort -u <<<"${lines:-$nodes}" | xargs)
        if [[ $cause == port-in-use ]]; then nodes=''; fi    # each start has another port
    elif [[ $cause == waited ]]; then    # for a node that has said nothing
        nodes=$(for node in "${NODES[@]}"; do
            for log in "$run_dir/logs/$node"/rank-*.err; do show_new "$log"; done |
                grep -q Error || echo "$node"
        done)
        if (($(wc -l <<<"$nodes") > 1)); then nodes=''; fi
    fi
    read -r -a before <"$run_dir/attempts/$((attempt - 1))/verdict"
    if [[ ($verdict:${before[0]} == unknown:unknown || "$cause $rank" == "${before[*]:1:2}") &&
        $rank$verdict$nodes != -restart?* &&
        -z $(find "$run_dir"/{,roles/*/}{checkpoints,PROGRESS} -type f -newer "$attempt_dir/sizes")
        ]]; then
        verdict=stop line+=" (again, and nothing was saved in between)"
    fi
    printf '%s\n' "$verdict $cause $rank $nodes" "$line" >"$attempt_dir/verdict"
    say "verdict: $verdict, by $cause${nodes:+ on $nodes}: $line"
} 2>/dev/null
end_start() {    # end_start STATUS: a failure may be followed by another start, here or elsewhere
    local node left=${WALLTIME:+$((WALLTIME - SECONDS))} had bad
    set +eu
    trap 'stop=SIGTERM' TERM INT
    trap '' USR1
    if (($1)) && [[ -z $stop$word$warned && -e $attempt_dir/nodes && ! -e $run_dir/STOPPED ]] &&
        ! { has is_preempted && is_preempted; }; then
        had=$(cat "$run_dir"/attempts/*/verdict 2>/dev/null | grep -cE '^(restart|unknown) ')
        judge "$1"
        for node in $([[ $verdict != restart ]] || echo "$nodes"); do
            TZ=UTC printf '%s\t%s\t%(%FT%TZ)T\t%s\n' "$node" "$cause" -1 "$line"
        done >>"$run_dir/bad-nodes"
        bad=$(tr ' ' '\n' <<<"${NODES[*]} $idle" | grep . | grep -cxF "$(list_bad)")
        if [[ $verdict != stop ]] && ((had >= RESTARTS)); then
            say "it does not start again: it has had its $RESTARTS restarts"
        elif [[ $verdict != stop ]] &&
            ((bad > $(wc -w <<<"$idle") || ${left:-9999} < ${NOTICE-0} + 60)); then
            lost=$(list_bad | xargs)
            say "this allocation has no node or no time left for another start"
        elif [[ -z $stop && $verdict != stop ]]; then
            say "start $((attempt + 2)) follows in this allocation"
            printf '%-80s\n' "continued $1" 1<>"$attempt_dir/reserved"
            mv "$attempt_dir/reserved" "$attempt_dir/outcome"
            grep -slzxF "JOBGEN_AGENT=$tmp_dir" /proc/[0-9]*/environ | tr -dc '0-9\n' |
                xargs -r kill -KILL
            rm -rf "$tmp_dir" "$attempt_dir/from_shell"
            trap - TERM INT USR1 EXIT
            exec env -u JOBGEN_AGENT ${left:+JOBGEN_LEFT="$left"} \
                ${first_job:+JOBGEN_CHAIN="$first_job"} ${script_pid:+JOBGEN_SUBMIT_ID="$job_id"} \
                bash "$this_script"
        fi
    fi
    trap '' TERM INT PIPE    # which a requeue sends to what runs here, too
    (conclude "$1") | sed 's/nothing is heard any more from/a verdict is against/'
    set -- "${PIPESTATUS[0]}"
    for _ in {1..15}; do    # Slurm takes it for a job in the queue, where this one will be again
        [[ ${THEN-}$(<"$attempt_dir/outcome") == requeuecontinued* && -n $(list_bad) ]] || break
        ! scontrol update JobId="$job_id" ExcNodeList="$(list_bad | paste -sd ,)" 2>&1 || break
        sleep 1
    done
    exit "$1"
}
