run_rank() {    # the agent calls this for each process, which gets its own log files
    local log=$JOBGEN_RUN_DIR/logs/$JOBGEN_NODE/rank-$RANK start="start $((JOBGEN_ATTEMPT + 1))"
    say "rank $RANK is process $BASHPID" && exec >>"$log.out" 2>>"$log.err"
    ((!JOBGEN_ATTEMPT)) || { say "$start" && say "$start" >&2; }
    export TORCHELASTIC_ERROR_FILE=$JOBGEN_RUN_DIR/errors/$JOBGEN_NODE-$RANK.json
    [[ -z ${SLURM_JOB_ID-} ]] || export SLURM_PROCID=$RANK SLURM_LOCALID=$LOCAL_RANK \
        SLURM_NTASKS=$WORLD_SIZE SLURM_NPROCS=$WORLD_SIZE    # libraries read these
    tee -a "$JOBGEN_AGENT/reached" "${0%/*}/reached-$JOBGEN_NODE" </dev/null
    program
}
