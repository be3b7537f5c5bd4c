threads_for() {    # threads_for PROCESSES: how many each has of the CPUs that they share
    local cpus=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-${NCPUS:-$(nproc)}}}
    echo "$((cpus > $1 ? cpus / $1 : 1))"
}
