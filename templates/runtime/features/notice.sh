# The program is told NOTICE seconds before the walltime ends, on all nodes, by a file STOP in the
# shared run folder; what still runs LAST_CALL seconds before it gets SIGTERM.
begin_walltime() {
    printf -v run_end '%(%s)T' -2    # when this script has begun
    run_end=${SLURM_JOB_END_TIME:-$((run_end + WALLTIME))} warned='' now=''
    echo "$run_end" >"$attempt_dir/end"
    trap mind_walltime USR1
    optional set_timer
    optional begin_chain
}
mind_walltime() {
    if [[ -z $warned ]]; then
        warned=$SECONDS
        printf -v now '%(%s)T' -1
        say "the walltime ends in $((run_end - now)) s: the program is told to stop"
        : >"$run_dir/STOP"
        optional queue_successor
        beside remind "$((NOTICE - LAST_CALL))"
    elif [[ -z $stop ]] && ((SECONDS - warned >= NOTICE - LAST_CALL)); then
        end_job "the end of the walltime"
    fi
}
settle_walltime() {
    optional settle_chain
    rm -f "$run_dir/STOP"
    if [[ -z $word && $stop != SIG* && -e $run_dir/STOPPED ]]; then stop='' status=0; fi
}
tell_end() { export JOBGEN_END=$run_end; }
