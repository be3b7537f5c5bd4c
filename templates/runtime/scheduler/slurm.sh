find_job() {    # sets job_id, and job_number, from which the port follows
    [[ -n ${SLURM_JOB_ID-} ]] || die "this is no Slurm job; submit this file with sbatch"
    job_id=$SLURM_JOB_ID job_number=$SLURM_JOB_ID
    optional find_task
}
