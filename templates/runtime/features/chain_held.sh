go_on() {
    say "the next job of the chain goes on; where none is queued, submit this script with"
    say "qsub -v JOBGEN_CHAIN=$run_id; logs are in $run_dir"
}
