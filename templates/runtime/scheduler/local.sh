find_job() {    # sets job_id, and job_number, from which the port follows
    job_id=${JOBGEN_SUBMIT_ID:-$(date +%Y%m%d-%H%M%S)-$$}
    unset JOBGEN_SUBMIT_ID
    job_number=${job_id##*-} script_pid=$$
    optional find_task "$@"
}

# What a node has of this machine's GPUs: a share, if there is one for each process; else none.
share_gpus() {    # sets CUDA_VISIBLE_DEVICES
    local gpus=() listed first=0 count all=0
    # Names of this machine may lead anywhere; its loopback interface is enough.
    export GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo
    listed=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null) || return 0
    mapfile -t gpus <<<"$listed"
    if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
        IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
    fi
    for count in "${PROCESSES[@]}"; do all=$((all + count)); done
    for count in "${PROCESSES[@]:0:node_rank}"; do first=$((first + count)); done
    if ((${#gpus[@]} >= all)); then
        gpus=("${gpus[@]:first:PROCESSES[node_rank]}")
        CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]}")
    else
        say "GPUs here: ${#gpus[@]}, processes: $all; so they run on the CPU"
        CUDA_VISIBLE_DEVICES=
    fi
    export CUDA_VISIBLE_DEVICES
}
