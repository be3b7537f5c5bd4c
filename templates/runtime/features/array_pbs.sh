find_task() {    # this job is one task of an array
    [[ -n ${PBS_ARRAY_INDEX-} ]] || die "this is no array; submit this file with qsub"
    choose_task "$PBS_ARRAY_INDEX"
    say "task $PBS_ARRAY_INDEX: ${arguments[*]-}"
    # A task has no number of its own; these are far from those of the jobs that are submitted next.
    job_number=$((job_number + 7919 * PBS_ARRAY_INDEX))
}
