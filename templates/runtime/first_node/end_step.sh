end_job() {    # end_job REASON; the scheduler may leave no time for more than this
    stop=$1
    optional note_signal
    if [[ $stop == SIG* ]]; then record_outcome "${at_signal:-cancelled}" 143; fi
    # srun, once told to end, kills all processes at once; Slurm lets them stop in order.
    scancel --quiet --signal=TERM "$job_id" || kill -TERM "$child" 2>/dev/null || :
}
