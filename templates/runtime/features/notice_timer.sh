# The program is told NOTICE seconds before the walltime ends, on all nodes, by a file STOP in the
# shared run folder; what still runs LAST_CALL seconds before it gets SIGTERM. No scheduler says when:
# this script keeps the time itself, from when it began.
begin_walltime() {
    printf -v run_end '%(%s)T' -2
    run_end=$((run_end + WALLTIME)) warned='' now=''
    echo "$run_end" >"$attempt_dir/end"
    each_turn=mind_walltime
    optional begin_chain
}
mind_walltime() {
    printf -v now '%(%s)T' -1
    if [[ -z $warned ]] && ((now >= run_end - NOTICE)); then
        warned=$SECONDS
        say "the walltime ends in $((run_end - now)) s: the program is told to stop"
        : >"$run_dir/STOP"
        optional queue_successor
    elif [[ -z $stop && -n $warned ]] && ((SECONDS - warned >= NOTICE - LAST_CALL)); then
        end_job "the end of the walltime"
    fi
}
settle_walltime() {
    optional settle_chain
    rm -f "$run_dir/STOP"
    if [[ $stop != SIG* && -e $run_dir/STOPPED ]]; then stop='' status=0; fi
}
tell_end() { export JOBGEN_END=$run_end; }
