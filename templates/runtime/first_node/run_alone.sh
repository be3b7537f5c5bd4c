run_job() {    # sets status
    node=${NODES[0]} node_rank=0 log=$run_dir/logs/${NODES[0]}/agent.log
    mkdir -p "${log%/*}"
    echo "$node" >"$attempt_dir/nodes"
    say "job $job_id, start $attempt, on $node; logs are in $run_dir"
    say "$node is node 0 of start $attempt; it needs no rendezvous" >>"$log"
    prepare_node
    attend log_agent
}
log_agent() {
    exec >>"$log" 2>&1 </dev/null
    start_agent
}
