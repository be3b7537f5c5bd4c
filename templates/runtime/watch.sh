find_rank() { node_rank=$1 rank=${2-$1} local_rank=${3-}; }
run_job() {    # sets status from the nodes' own records, since pbsdsh always returns 0
    local patience=45 index
    lost='' launchers=()
    tell_nodes
    for index in $(if has bring_launcher; then echo 0; else echo "${!names[@]}"; fi); do
        launch "$index" >>"$attempt_dir/launcher.log" 2>&1 </dev/null &
        launchers+=("$!")
    done
    until is_over || [[ -n $stop$lost || -e $attempt_dir/failed ]]; do
        find_lost
        sleep 1 || :
    done
    kill -TERM "${launchers[@]}" 2>/dev/null || :
    until is_over || ((patience-- == 0)); do sleep 1 || :; done
    kill -KILL "${launchers[@]}" 2>/dev/null || :
    status=$((${#lost} > 0))
    if [[ -z $lost && -e $attempt_dir/failed ]]; then read -r _ status _ <"$attempt_dir/failed"; fi
}
is_over() {    # whether every node is lost or has recorded its end
    local index
    for index in "${!names[@]}"; do
        [[ -e $attempt_dir/node-$index.ended || " $lost " == *" ${names[index]} "* ]] || return 1
    done
}
end_job() { :; }    # run_job ends the nodes
