# The first process of a node compares it with the others; the rest of its processes wait.
compare_once() {    # compare_once GPUS ADDRESS INTERFACE
    if ((LOCAL_RANK == 0)); then
        compare_nodes "$@"
        : >"$attempt_dir/node-$node_rank.compared"
    fi
    until [[ -e $attempt_dir/node-$node_rank.compared ]]; do sleep 0.5; done
}
