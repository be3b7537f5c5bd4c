begin_walltime() {    # the script ends itself at the walltime: no scheduler does
    trap 'end_job "the walltime of $WALLTIME s"' USR1
    beside remind "$WALLTIME"
}
