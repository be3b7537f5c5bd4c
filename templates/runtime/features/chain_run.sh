find_run() {    # a job that goes on where another has ended works in the folder of the first
    run_id=${JOBGEN_CHAIN:-$job_id}
    unset JOBGEN_CHAIN
    [[ $run_id =~ ^[0-9]+$ ]] || die "JOBGEN_CHAIN is no id of a job: $run_id"
}
