# The next job waits for the end of this one. What describes this allocation is not for the next.
queue_successor() {
    successor=$run_dir/attempts/after-$job_id
    if [[ -e $successor ]] || out_of_starts; then return; fi
    if (
        for variable in "${!SLURM_@}"; do [[ $variable == SLURM_CONF ]] || unset "$variable"; done
        sbatch --parsable --dependency="afterany:$job_id" \
            --export="ALL,JOBGEN_CHAIN=${run_dir##*/}" ${lost:+--exclude="${lost// /,}"} \
            "$this_script" >"$successor.new"
    ); then
        mv "$successor.new" "$successor"
    else
        say "the next job could not be submitted"
    fi
}
settle_successor() {
    successor=$run_dir/attempts/after-$job_id
    if [[ -n $goes_on && -z $against ]]; then queue_successor; fi
    if [[ -e $successor && -n $against ]]; then scancel "$(<"$successor")" || :; fi
}
go_on() {
    if [[ ! -e $successor ]]; then against="there is no next job"; fi
    [[ -z $against ]] && say "job $(<"$successor") goes on; logs are in $run_dir"
}
