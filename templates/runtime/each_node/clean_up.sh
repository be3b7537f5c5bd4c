# Until the shell that waits for the agent has ended or was killed: then what the agent has left
# behind ends too.
guard_node() { beside clean_up "$tmp_dir" "$run_dir/logs/$node/agent.log"; }
clean_up() {    # clean_up PID TMP_DIR LOG
    set +e
    while is_there "$1"; do sleep 1; done
    kill_marked "$2"
    if [[ -d $2 ]]; then say "the shell around the agent was killed" >>"$3"; fi
    rm -rf "$2"
}
