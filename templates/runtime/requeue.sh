go_on() {    # the same job once more; after the loss of a node Slurm may have seen to that itself
    say "the job goes back into the queue, for start $((attempt + 2)) of at most $AT_MOST"
    echo "continued 0" >"$attempt_dir/outcome"
    scontrol requeue "$job_id" || [[ -e $attempt_dir/lost ]] ||
        against="Slurm does not take the job back"
    [[ -z $against ]]
}
