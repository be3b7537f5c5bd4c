run_job() {    # starts the job's one node here; sets status
    node=${names[0]} node_rank=0 && echo "$node" >"$attempt_dir/nodes"
    mkdir -p "$run_dir/logs/$node" && log=$run_dir/logs/$node/agent.log
    say "job $job_id, start $((attempt + 1)), on $node; logs are in $run_dir"
    say "$node is node 0 in start $((attempt + 1)); it needs no rendezvous" >>"$log"
    run_agent >>"$log" 2>&1 </dev/null
}
end_job() { end_child; }
