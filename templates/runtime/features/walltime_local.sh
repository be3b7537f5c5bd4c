begin_walltime() { each_turn=mind_walltime began=$SECONDS; }
mind_walltime() {    # the script ends itself at the walltime: no scheduler does
    if [[ -z $stop ]] && ((SECONDS - began >= WALLTIME)); then
        end_job "the walltime of $WALLTIME s"
    fi
}
