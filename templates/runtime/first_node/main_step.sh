main() {
    # The nodes call this same file again, with a function to begin with.
    if declare -F "${1-}" >/dev/null; then "$@"; exit; fi
    # What another job submits is none of its processes.
    if [[ -n ${JOBGEN_AGENT-} ]]; then exec env -u JOBGEN_AGENT bash "$0" "$@"; fi
    find_job "$@"
    make_run_folder
    find_nodes
    tell_nodes
    attend launch 0 >"$attempt_dir/launcher.log" 2>&1 </dev/null
    check_nodes
    exit "$status"
}
check_nodes() {    # the launcher's 0 is believed only if all nodes say so; Slurm knows a lost one
    local index silent='' end=$((SECONDS + 15))
    lost=$(sed -n 's/^srun: error: Node failure on //p' "$attempt_dir/launcher.log" | sort -u)
    lost=${lost//$'\n'/ }
    if [[ -n $lost ]]; then
        echo "lost $lost" >"$attempt_dir/failed"
        why="Slurm says that the node has failed" stop=''
        reason="$lost is lost: $why"
        exit 1
    fi
    for index in "${!NODES[@]}"; do
        until [[ -n $stop || -e $attempt_dir/node-$index.ended ]] || ((status || SECONDS > end)); do
            sleep 0.5
        done
        [[ -e $attempt_dir/node-$index.ended ]] || silent+=" ${NODES[index]}"
    done
    if [[ -z $stop && -n $silent ]] && ((status == 0)); then
        reason="nothing is heard from$silent; do all nodes share the folder $PWD?"
        exit 1
    fi
}
