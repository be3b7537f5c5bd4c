# What the agent starts for each process: its own log files, then the program.
run_rank() {
    local logs=$JOBGEN_RUN_DIR/logs/$JOBGEN_NODE/rank-$RANK
    local error=$JOBGEN_RUN_DIR/errors/$JOBGEN_NODE-$RANK
    if ((TORCHELASTIC_RESTART_COUNT)); then error+=.restart-$TORCHELASTIC_RESTART_COUNT; fi
    exec >>"$logs.out" 2>>"$logs.err"
    # torch writes an exception into a folder of its own; keep it under node and rank instead.
    ln -sf "$error.json" "$TORCHELASTIC_ERROR_FILE"
    program
}
list_exit_codes() {    # list_exit_codes NODE: a line RANK CODE for each, by the agent's table
    sed -n "/ of start $attempt;/,\$p" "$run_dir/logs/$1/agent.log" | awk '
        $1 == "rank" { rank = $3 }
        $1 == "exitcode" && $3 != -15 { print rank, $3 < 0 ? 128 - $3 : $3 }'
}
