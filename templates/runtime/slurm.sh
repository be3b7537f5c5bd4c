find_job() {    # sets job_id and job_number; drops variables of an outer heterogeneous job
    job_id=${SLURM_JOB_ID:?not a Slurm job; submit this file with sbatch} job_number=$SLURM_JOB_ID
    [[ ${SLURM_JOB_ID_HET_GROUP_0-} == "$job_id" ]] ||
        unset SLURM_HET_SIZE SLURM_PACK_SIZE "${!SLURM_JOB_NODELIST_@}"
    if has find_task; then find_task; elif [[ ${SLURM_ARRAY_TASK_ID-} ]]; then    # maybe inherited
        job_id=$(squeue -hrj "$job_id" -o %A:%F_%K | grep -oP "^$job_id:\K.*\d$" || echo "$job_id")
    fi
}
is_preempted() {    # sets reason; does not ask Slurm about a program that ended by itself
    [[ $stop$status != 0 || -e $run_dir/STOPPED ]] && is_told PreemptTime='[0-9]' &&
        reason=": PREEMPTED: Slurm gives its nodes to another job"
}
is_gone() { is_told JobState='[CP]'; }    # whether Slurm has taken the nodes back
is_told() { scontrol -o show job "$SLURM_JOB_ID" 2>&- | grep -q "^JobId=$SLURM_JOB_ID .* $1"; }
