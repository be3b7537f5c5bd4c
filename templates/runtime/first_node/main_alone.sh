main() {
    # torchrun calls this same file again for each process: run_rank.
    if declare -F "${1-}" >/dev/null; then "$@"; exit; fi
    # What another job submits is none of its processes.
    if [[ -n ${JOBGEN_AGENT-} ]]; then exec env -u JOBGEN_AGENT bash "$0" "$@"; fi
    find_job "$@"
    make_run_folder
    find_nodes
    node=${NODES[0]} node_rank=0 log=$run_dir/logs/${NODES[0]}/agent.log
    mkdir -p "${log%/*}"
    echo "$node" >"$attempt_dir/nodes"
    say "job $job_id, start $attempt, on $node; logs are in $run_dir"
    say "$node is node 0 of start $attempt; it needs no rendezvous" >>"$log"
    prepare_node
    attend start_agent >>"$log" 2>&1 </dev/null
    exit "$status"
}
