find_task() {    # this job is one task of an array; sets job_id and job_number
    local index=${PBS_ARRAY_INDEX:-${SLURM_ARRAY_TASK_ID:?this is not an array}}
    choose_task "$index"
    say "task $index${arguments[*]:+: ${arguments[*]}}"
    job_id=${SLURM_ARRAY_JOB_ID:-$job_number}_$index
    # A task of PBS lacks its own number; this is far from those of the jobs submitted next.
    if [[ -n ${PBS_ARRAY_INDEX-} ]]; then job_number=$((job_number + 7919 * index)); fi
}
