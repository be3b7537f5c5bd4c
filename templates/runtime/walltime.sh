begin_walltime() {    # the script ends itself at the walltime: no scheduler does
    trap '((SECONDS < WALLTIME)) || { stop="the walltime of $WALLTIME s" && end_job; }' USR1
    remind "$((WALLTIME - SECONDS))" &>/dev/null &
}
remind() {    # remind SECONDS: send this script USR1 by then, if it still runs
    local end=$((SECONDS + $1))
    while ((SECONDS < end)) && kill -0 "$$" 2>/dev/null; do sleep 1; done
    kill -USR1 "$$" 2>/dev/null
}
settle_walltime() {    # may set word and status, and says why
    if [[ -n $stop && $stop != SIG* ]]; then
        word=failed status=143
        say "ENDED by $stop"
    fi
}
