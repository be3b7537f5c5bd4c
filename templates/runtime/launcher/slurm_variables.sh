# srun hands on the environment also after sbatch --export=NONE. What a job around the submission
# has left in it would be read as srun's options.
clear_variables() {
    export SLURM_EXPORT_ENV=ALL
    unset "${!SLURM_CPU_BIND@}" "${!SLURM_MEM_@}" "${!SLURM_GPU@}" "${!SLURM_NTASKS_PER_@}" \
        "${!SLURM_TRES_@}" SLURM_CPUS_PER_GPU
    if [[ ${SLURM_JOB_ID_HET_GROUP_0-} != "$SLURM_JOB_ID" ]]; then
        unset SLURM_HET_SIZE SLURM_PACK_SIZE "${!SLURM_JOB_NODELIST_@}"
    fi
}
