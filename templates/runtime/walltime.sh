begin_walltime() {    # no scheduler ends the job, so the script does
    trap '((SECONDS < walltime)) || { stop="the walltime of $walltime s" && end_job; }' USR1
    remind "$((walltime - SECONDS))" &>/dev/null &
}
remind() {    # remind SECONDS: then sends USR1 to this script if it still runs
    local end=$((SECONDS + $1))
    while ((SECONDS < end)) && kill -0 "$$" 2>/dev/null; do sleep 1; done
    kill -USR1 "$$" 2>/dev/null
}
settle_walltime() {    # sets word and status if the walltime decides them
    if [[ -n $stop && $stop != SIG* ]]; then
        word=failed status=143
        say "ENDED by $stop"
    fi
}
