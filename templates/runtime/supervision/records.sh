# The first node that fails ends the job. What launchers return is not trusted, the nodes' records
# are; a shared file system may take a while to show one.
launchers=() LAG=${LAG:-90}
launchers_run() { kill -0 "${launchers[@]}" 2>/dev/null; }
list_silent() {    # the names of the nodes that have not recorded their end
    local index
    for index in "${!NODES[@]}"; do
        [[ -e $attempt_dir/node-$index.ended ]] || echo "${NODES[index]}"
    done
}
run_job() {    # sets status
    local next_look=0 patience=$LAG pid silent
    status=0
    tell_nodes
    start_launchers >"$attempt_dir/launcher.log" 2>&1 </dev/null
    while [[ -z $stop$lost && ! -e $attempt_dir/failed ]] && launchers_run; do
        if ((SECONDS >= next_look)); then
            look
            next_look=$((SECONDS + BEAT))
        fi
        sleep 1 &
        wait "$!" || :
    done
    # Nothing is left to save where a node is gone: the others need not take long to stop.
    if [[ -n $lost ]]; then echo "lost $lost" >"$attempt_dir/failed"; fi
    if launchers_run; then
        kill -TERM "${launchers[@]}" 2>/dev/null || :
        patience=45
    else
        # A launcher that has failed is believed: then the records only tell the details.
        for pid in "${launchers[@]}"; do wait "$pid" || status=$? patience=15; done
    fi
    patience=$((SECONDS + patience))
    while silent=$(list_silent | grep -vxF "${lost// /$'\n'}") && ((SECONDS < patience)); do
        sleep 0.5 || :
    done
    kill -KILL "${launchers[@]}" 2>/dev/null || :
    if [[ -n $stop ]]; then return; fi
    if [[ -n $lost ]]; then
        reason="$lost is lost: $why"
    elif [[ -n $silent && ! -e $attempt_dir/failed ]] && ((status == 0)); then
        lost=${silent//$'\n'/ }
        reason="nothing is heard from $lost; do all nodes share the folder $PWD?"
    fi
    if [[ -n $reason || -e $attempt_dir/failed ]]; then status=1; fi
}
end_job() {    # end_job REASON; the scheduler may leave no time for more than this
    stop=$1
    optional note_signal
    if [[ $stop == SIG* ]]; then record_outcome "${at_signal:-cancelled}" 143; fi
}
