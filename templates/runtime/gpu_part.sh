# PBS without its cgroups hook confines no GPUs, and tells nobody which of a node's are whose: a
# part of them cannot be told from those of another job.
check_gpus() {    # check_gpus COUNT
    local seen
    if [[ -n ${CUDA_VISIBLE_DEVICES-} ]]; then return; fi
    seen=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || :
    ((seen <= $1)) || die "$node shows $seen GPUs, the job has $1 of them, and PBS does not say" \
        "which: ask for all, for resources.exclusive, or name yours as CUDA_VISIBLE_DEVICES" \
        "in the spec"
}
