tell_nodes() {    # what each node has to know; the rendezvous has a secret, for its owner alone
    local secret
    printf '%s\n' "${NODES[@]}" >"$attempt_dir/nodes"
    read -r secret </proc/sys/kernel/random/uuid
    (umask 077 && : >"$attempt_dir/world")
    printf '%s=%q\n' MASTER_ADDR "$MASTER_ADDR" MASTER_PORT "$MASTER_PORT" rendezvous_id "$secret" \
        work_dir "$PWD" run_end "${run_end-}" script_pid "${script_pid-}" >"$attempt_dir/world"
    optional hand_on
    say "job $job_id, start $attempt, on ${NODES[*]}; logs are in $run_dir"
}
