find_task() {    # sets job_id and job_number; this job is one task of an array
    local index=${PBS_ARRAY_INDEX:-${SLURM_ARRAY_TASK_ID:?this is not an array}}
    choose_task "$index"
    say "task $index${arguments[*]:+: ${arguments[*]}}"
    job_id=${SLURM_ARRAY_JOB_ID:-${job_id%_*}}_$index
}
