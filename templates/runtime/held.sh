go_on() {
    say "the next job of the chain goes on; if none is queued, submit this script with"
    say "qsub -v JOBGEN_CHAIN=${run_dir##*/}; logs are in $run_dir"
}
