run_job() {    # sets status
    tell_nodes
    attend launch 0 >"$attempt_dir/launcher.log" 2>&1 </dev/null
    if [[ -e $attempt_dir/failed ]]; then status=1; fi    # what mpiexec returns is not trusted
}
