# A node: its log, checks that spare the others a time-out, the agent, and how it ended.
run_node() {    # run_node [NODE_RANK]
    find_rank "$@"
    find_node "$rank"
    say "$node is node $node_rank of start $attempt; the rendezvous is at $MASTER_ADDR:$MASTER_PORT"
    trap 'report_node "$?"' EXIT
    prepare_node
    check_rendezvous
    : >"$attempt_dir/node-$node_rank.started"
    attend start_agent
    # torchrun calls every stop an error; the program says by a file that it stopped in order.
    if [[ -n $stop && -e $run_dir/STOPPED ]]; then status=0; fi
    exit "$status"
}
report_node() {    # report_node STATUS; the first node to fail leaves a file of its own
    trap '' TERM INT HUP
    if (($1)); then (set -o noclobber && echo "$node_rank $1" >"$attempt_dir/failed") || :; fi
    rm -rf "${tmp_dir-}"
    echo "$1" >"$attempt_dir/node-$node_rank.ended" || :
} 2>/dev/null
