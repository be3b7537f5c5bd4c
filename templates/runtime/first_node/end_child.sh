end_job() {    # end_job REASON; the scheduler may leave no time for more than this
    stop=$1
    optional note_signal
    if [[ $stop == SIG* ]]; then record_outcome "${at_signal:-cancelled}" 143; fi
    kill -TERM "$child" 2>/dev/null || :
}
