export USER=${USER:-$(id -un)} LOGNAME=${LOGNAME:-$(id -un)}    # launchers may leave them out
find_job() {    # sets job_id, and job_number, from which the port follows
    job_id=${JOBGEN_SUBMIT_ID:-$(date +%Y%m%d-%H%M%S)-$$}
    job_number=${job_id##*-} script_pid=$$    # all nodes end with this script
    unset JOBGEN_SUBMIT_ID
    # A job that a job starts is none of its processes, which end with it.
    if [[ -n ${JOBGEN_AGENT-} ]]; then
        JOBGEN_SUBMIT_ID=$job_id exec env -u JOBGEN_AGENT bash "$0"
    fi
    if has find_task; then find_task; fi
}

# What a node has of this machine's GPUs: a share, if there is one for each process; else none.
share_gpus() {    # sets CUDA_VISIBLE_DEVICES
    local gpus=() listed first=0 count all=0
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
