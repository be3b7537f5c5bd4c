# The first node that fails ends the job. What launchers return is not trusted, the nodes' records are;
# a shared file system may take a while to show one.
launchers=() LAG=${LAG:-90}
launchers_gone() {    # how many of them have ended
    local pid gone=0
    for pid in "${launchers[@]}"; do
        kill -0 "$pid" 2>/dev/null || gone=$((gone + 1))
    done
    echo "$gone"
}
nodes_with() {    # nodes_with started|ended: how many nodes have recorded it
    find "$attempt_dir" -maxdepth 1 -name "node-*.$1" | wc -l
}
nodes_without() {    # nodes_without started|ended: the names of those that have not
    local index names=()
    for index in "${!NODES[@]}"; do
        [[ -e $attempt_dir/node-$index.$1 ]] || names+=("${NODES[index]}")
    done
    echo "${names[*]-}"
}
supervise() {    # sets status
    local expected=${#NODES[@]} missing_since='' next_look=0 gone ended pid patience=$LAG
    lost='' why='' status=0
    while [[ -z $stop && ! -e $attempt_dir/failed ]]; do
        gone=$(launchers_gone)
        ((gone < ${#launchers[@]})) || break
        # A launcher that is gone while its node has recorded nothing: the node is lost.
        # Only then is the shared folder read, not every second of a run.
        ended=0
        if ((gone)); then ended=$(nodes_with ended); fi
        if ((gone <= ended)); then
            missing_since=
        elif ((SECONDS > ${missing_since:=$SECONDS} + LAG)); then
            lost=$(nodes_without ended) expected=$((ended + ${#launchers[@]} - gone))
            break
        fi
        if ((SECONDS >= next_look)); then
            look
            next_look=$((SECONDS + BEAT))
            if [[ -n $lost ]]; then
                expected=$((expected - $(wc -w <<<"$lost")))
                break
            fi
        fi
        "${each_turn:-:}"
        sleep 1 &
        wait "$!" || :
    done
    # Nothing is left to save where a node is gone: the others need not take long to stop.
    if [[ -n $lost ]]; then echo "lost $lost" >"$attempt_dir/failed"; fi
    if (($(launchers_gone) < ${#launchers[@]})); then
        kill -TERM "${launchers[@]}" 2>/dev/null || :
        patience=45
    else
        # A launcher that has failed is believed: then the records only tell the details.
        for pid in "${launchers[@]}"; do wait "$pid" || status=$? patience=15; done
    fi
    patience=$((SECONDS + patience))
    while (($(nodes_with ended) < expected && SECONDS < patience)); do sleep 0.5 || :; done
    kill -KILL "${launchers[@]}" 2>/dev/null || :
    if [[ -n $stop ]]; then return; fi
    if [[ -n $why ]]; then
        reason="$lost is lost: $why"
    elif [[ -z $lost && ! -e $attempt_dir/failed ]] && ((status == 0)); then
        lost=$(nodes_without ended)
    fi
    if [[ -n $lost && -z $reason ]]; then
        reason="nothing is heard from $lost; do all nodes share the folder $PWD?"
    fi
    if [[ -n $reason || -e $attempt_dir/failed ]]; then status=1; fi
}
end_job() {    # end_job REASON; the scheduler may leave no time for more than this
    stop=$1
    optional note_signal
    if [[ $stop == SIG* ]]; then record_outcome "${at_signal:-cancelled}" 143; fi
}
