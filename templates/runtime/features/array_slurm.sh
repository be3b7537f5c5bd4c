find_task() {    # this job is one task of an array
    [[ -n ${SLURM_ARRAY_TASK_ID-} ]] || die "this is no array; submit this file with sbatch"
    choose_task "$SLURM_ARRAY_TASK_ID"
    say "task $SLURM_ARRAY_TASK_ID: ${arguments[*]-}"
    job_id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
}
