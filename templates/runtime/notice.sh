# The program hears of it NOTICE seconds before the walltime ends, by a file STOP in the run folder,
# which all nodes share; what still runs LAST_CALL seconds before it gets SIGTERM.
begin_walltime() {
    printf -v run_end '%(%s)T' -1
    run_end=${SLURM_JOB_END_TIME:-$((run_end + WALLTIME - SECONDS))} warned='' now=''
    echo "$run_end" >"$attempt_dir/end"
    trap mind_walltime USR1
    trap 'note_signal && stop=SIGTERM && end_job' TERM INT
    # Where no scheduler says when; a pipe that this script prints to ends with it.
    if [[ -n ${TIMER-} ]]; then remind "$((WALLTIME - SECONDS - NOTICE))" &>/dev/null & fi
    if has begin_chain; then begin_chain; fi
}
remind() {    # remind SECONDS: send this script USR1 by then, if it still runs
    local end=$((SECONDS + $1))
    while ((SECONDS < end)) && kill -0 "$$" 2>/dev/null; do sleep 1; done
    kill -USR1 "$$" 2>/dev/null
}
mind_walltime() {
    if [[ -z $warned ]]; then
        warned=$SECONDS
        printf -v now '%(%s)T' -1
        say "the walltime ends in $((run_end - now)) s: the program is asked to stop"
        : >"$run_dir/STOP"
        if has settle_chain; then queue_successor; fi
        remind "$((NOTICE - LAST_CALL))" &>/dev/null &
    elif [[ -z $stop ]] && ((SECONDS - warned >= NOTICE - LAST_CALL)); then
        stop="the end of the walltime"
        end_job
    fi
}
note_signal() {    # a job that is ended at its walltime was not cancelled
    printf -v now '%(%s)T' -1
    if has settle_chain && ((now >= run_end)); then early_outcome='continued 143'; fi
}
settle_walltime() {    # may set word and status, and says why
    if has settle_chain; then settle_chain; fi
    rm -f "$run_dir/STOP"
    if [[ -n $word || $stop == SIG* ]]; then return; fi
    if [[ -e $run_dir/STOPPED ]]; then
        stop='' status=0 word='done'
        say "STOPPED as asked, before the run was done"
    elif [[ -n $stop ]]; then
        word=failed status=143
        say "ENDED by $stop"
    fi
}
