find_node() {    # find_node NODE_RANK: what the first node has written for all, and the log
    node_rank=$1 stop='' child='' attempt_dir=${BASH_SOURCE[0]%/*} this_script=${BASH_SOURCE[0]}
    run_dir=${attempt_dir%/attempts/*} attempt=${attempt_dir##*/}
    node=$(sed -n "$((node_rank + 1))p" "$attempt_dir/nodes")
    # shellcheck source=/dev/null
    . "$attempt_dir/world"
    optional take_over
    cd "$work_dir"
    optional loosen_umask
    mkdir -p "$run_dir/logs/$node"
    exec >>"$run_dir/logs/$node/agent.log" 2>&1 </dev/null
    trap 'stop=SIGTERM; kill -TERM "$child" 2>/dev/null || :' TERM INT HUP
}
check_rendezvous() {
    optional name_interface
    getent ahosts "$MASTER_ADDR" >/dev/null ||
        die "$node cannot resolve the name of the first node, $MASTER_ADDR"
    if ((${RANK:-$node_rank} == 0)) && (: <>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; then
        die "port $MASTER_PORT on $node is in use by another program"
    fi
}
