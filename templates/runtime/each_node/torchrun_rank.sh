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
