# The user's own script starts its programs itself. It runs on this node alone, in a separate
# process, and gets the signals that the scheduler sends to the batch script.
run_job() {    # sets status
    local signal log before failed
    node=${names[0]} log=$run_dir/logs/${names[0]} work_dir=$PWD
    mkdir -p "$log"
    echo "$node" >"$attempt_dir/nodes"
    say "job $job_id, start $((attempt + 1)), on $node; logs are in $run_dir"
    for signal in HUP USR2 CONT $(has begin_walltime || echo USR1); do
        trap 'pass_on '"$signal" "$signal"
    done
    say "$node is node 0 in start $((attempt + 1)); it needs no rendezvous" >>"$log/agent.log"
    before=$(stat -c %s "$log/rank-0.out" 2>/dev/null || echo 0)
    run_child run_body
    if ((status)); then printf '%s : %s\n' rank 0 exitcode "$status" >>"$log/agent.log"; fi
    [[ $stop$status == 0 && ! -e $run_dir/STOPPED ]] || return 0
    # pbsdsh only prints that a task of it has failed, and exits with 0.
    failed=$(tail -c "+$((before + 1))" "$log/rank-0.out" | grep 'pbsdsh: .* status [1-9]') || :
    if [[ -n $failed ]]; then
        word='done' && : >"$run_dir/DONE"
        say "DONE: the script ended with exit code 0, but not all its tasks did: ${failed%%$'\n'*}"
    fi
}
run_body() {
    export JOBGEN_RUN_DIR=$run_dir JOBGEN_JOB_ID=${run_dir##*/} JOBGEN_ATTEMPT=$attempt
    export JOBGEN_NODE=$node
    trap - HUP USR1 USR2 CONT TERM INT
    exec >>"$run_dir/logs/$node/rank-0.out" 2>>"$run_dir/logs/$node/rank-0.err" </dev/null
    set +u
    environment
    set -u
    program
}
pass_on() { kill -s "$1" "${child:-${!-}}" || :; }    # $! is the child until run_child sets it
end_job() { end_child; }
