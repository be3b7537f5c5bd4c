run_job() {    # sets status
    tell_nodes
    attend log_launch
    if [[ -e $attempt_dir/failed ]]; then status=1; fi    # what mpiexec returns is not trusted
}
