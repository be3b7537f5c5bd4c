# $notice seconds before the walltime ends, a file STOP in the run folder asks the program to stop.
# $last_call seconds before the end, whatever still runs gets SIGTERM.
begin_walltime() {
    printf -v run_end '%(%s)T' -1
    run_end=${SLURM_JOB_END_TIME:-$((run_end + walltime - SECONDS))} warned='' now=''
    echo "$run_end" >"$attempt_dir/end"
    trap mind_walltime USR1
    trap 'note_signal && stop=SIGTERM && end_early' TERM INT
    # With timer, the script times itself; remind must not hold its output pipe open.
    if [[ -n ${timer-} ]]; then remind "$((walltime - SECONDS - notice))" &>/dev/null & fi
    if has begin_chain; then begin_chain; fi
}
remind() {    # remind SECONDS: then sends USR1 to this script if it still runs
    local end=$((SECONDS + $1)) last=$SECONDS gap
    while ((SECONDS < end)) && kill -0 "$$" 2>/dev/null; do
        sleep 1; gap=$((SECONDS - last)) last=$SECONDS
        if ((gap >= 60)); then    # while a job is suspended, its walltime stands still
            end=$((end + gap)); echo "$(($(<"$attempt_dir/end") + gap))" >"$attempt_dir/end"
        fi
    done
    kill -USR1 "$$" 2>/dev/null
}
read_clock() { printf -v now '%(%s)T' -1; read -r run_end <"$attempt_dir/end" || :; }
mind_walltime() {    # unless something has failed already: then the job is about to end
    if grep -qs . "$attempt_dir"/{,start-of-*/}failed; then return 0; fi
    if [[ -z $warned ]]; then
        warned=$SECONDS && read_clock
        say "the walltime ends in $((run_end - now)) s: the program is asked to stop"
        : >"$run_dir/STOP"
        if has settle_chain; then queue_successor; fi
        remind "$((notice - last_call))" &>/dev/null &
    elif [[ -z $stop ]] && ((SECONDS - warned >= notice - last_call)); then
        stop="the end of the walltime" && end_job
    fi
}
note_signal() {    # reaching the walltime, also one made shorter by qalter, is not a cancellation
    read_clock
    if grep -qs -D skip '^=>> PBS: job killed: walltime' "/proc/$$/fd/2"; then run_end=$now; fi
    if has settle_chain && ((now >= run_end)); then early_outcome='continued 143'; fi
}
has_stopped() {    # by its own decision or as asked; not what is ended because another failed
    [[ -e $run_dir/STOPPED && ($status == 0 || -n $warned$stop || $reason == ": PREEMPTED"*) ]]
}
settle_walltime() {    # sets word and status if the walltime decides them
    if has settle_chain; then settle_chain; fi
    rm -f "$run_dir/STOP"
    if [[ -n $word || $stop == SIG* ]]; then return; fi
    if has_stopped; then
        stop='' status=0 word='done' && say "STOPPED as asked, before the run was done"
    elif [[ -n $stop ]]; then
        word=failed status=143 && say "ENDED by $stop"
    fi
}
