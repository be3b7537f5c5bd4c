# PBS notices a lost node after hours, and pbsdsh returns 0 always: here the nodes' records count.
BEAT=${BEAT:-20} SILENT=${SILENT:-6} MISSING=${MISSING:-15} lost='' signs=() looks=() launchers=()
find_rank() { node_rank=$1 rank=${2-$1} local_rank=${3-}; }
run_job() {    # sets status
    local turn=0 patience=45 index
    tell_nodes
    for index in $(if has find_mpiexec; then echo 0; else echo "${!NODES[@]}"; fi); do
        launch "$index" >>"$attempt_dir/launcher.log" 2>&1 </dev/null &
        launchers+=("$!")
    done
    until is_over || [[ -n $stop$lost || -e $attempt_dir/failed ]]; do
        if ((turn++ % BEAT == 0)); then find_lost; fi
        sleep 1 || :
    done
    kill -TERM "${launchers[@]}" 2>/dev/null || :
    until is_over || ((patience-- == 0)); do sleep 1 || :; done
    kill -KILL "${launchers[@]}" 2>/dev/null || :
    status=$((${#lost} > 0))
    if [[ -z $lost && -e $attempt_dir/failed ]]; then read -r _ status _ <"$attempt_dir/failed"; fi
}
is_over() {    # whether all nodes that are not lost have recorded their end
    local index
    for index in "${!NODES[@]}"; do
        [[ -e $attempt_dir/node-$index.ended || " $lost " == *" ${NODES[index]} "* ]] || return 1
    done
}
end_job() {    # run_job ends the nodes; the scheduler may leave no time for more than this
    if [[ $stop == SIG* ]]; then echo "${early_outcome:-cancelled 143}" >"$attempt_dir/outcome"; fi
}
# A node is lost that shows the same sign of life in SILENT looks, BEAT seconds apart, or none in
# MISSING. A file system that stands still is not a node's fault: so looks count, not seconds.
find_lost() {    # sets lost and reason
    local index sign most why
    for index in "${!NODES[@]}"; do
        if [[ -e $attempt_dir/node-$index.ended ]]; then continue; fi
        read -r sign 2>/dev/null <"$attempt_dir/node-$index.alive" || sign=''
        most=$((${#sign} ? SILENT : MISSING))
        if [[ $sign != "${signs[index]-}" ]]; then looks[index]=0 signs[index]=$sign; fi
        why="no sign of life for $((${looks[index]:=0} * BEAT)) s"
        if ! kill -0 "${launchers[index]:-${launchers[0]}}" 2>/dev/null; then
            most=4    # its launcher has ended, and a file server may be late to show its record
            why+=": $(tail -n 1 "$attempt_dir/launcher.log")"
        fi
        if ((looks[index]++ >= most)); then
            lost+=${lost:+ }${NODES[index]}
            reason=": $lost is lost: $why"
            echo "lost $lost" >"$attempt_dir/failed"
        fi
    done
}
