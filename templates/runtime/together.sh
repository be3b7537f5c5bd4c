# Each job of the array runs $node_tasks tasks at once. Each has a copy of this script, its GPUs
# and its run folder. A failed task stops no other.
find_task() {    # sets job_id and job_number
    job_id=${SLURM_ARRAY_JOB_ID:-${job_id%_*}}
    if [[ ${JOBGEN_SHARED-} != "$$" ]]; then run_together; fi
    unset JOBGEN_SHARED
    local index=$JOBGEN_TASK    # choose_task replaces it by the task's number
    choose_task "$index"
    say "task $index${arguments[*]:+: ${arguments[*]}}"
    job_id+=_$index job_number=$((job_number + 7919 * index))
}
run_together() {    # exits with 0 only if all tasks do
    local first index folder code worst=0 devices=() own=() started=()
    first=$((${PBS_ARRAY_INDEX:-${SLURM_ARRAY_TASK_ID:-0}} * node_tasks))
    node=$(uname -n)
    if has check_gpus; then check_gpus "$((node_tasks * task_gpus))"; fi
    mapfile -t devices < <(seq 0 "$((node_tasks * task_gpus - 1))")
    if [[ -n ${CUDA_VISIBLE_DEVICES-} ]]; then IFS=, read -ra devices <<<"$CUDA_VISIBLE_DEVICES"; fi
    trap 'kill -TERM "${started[@]}" 2>/dev/null || :' TERM INT
    trap 'kill -USR1 "${started[@]}" 2>/dev/null || :' USR1
    for ((index = first; index < task_count && index < first + node_tasks; index++)); do
        folder=runs/$job_name/${job_id}_$index
        if [[ -n ${SLURM_RESTART_COUNT-} && -e $folder/DONE ]]; then continue; fi
        mkdir -p "$folder"
        own=("${devices[@]:(index - first) * task_gpus:task_gpus}")
        if ((task_gpus)); then CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${own[*]}"); fi
        if ((task_gpus)); then export CUDA_VISIBLE_DEVICES; fi
        JOBGEN_TASK=$index start_copy "$0" >>"$folder/job.out" 2>&1 &
        started[index]=$!
    done
    for index in "${!started[@]}"; do
        while :; do
            code=0
            wait "${started[index]}" || code=$?
            kill -0 "${started[index]}" 2>/dev/null || break    # a signal interrupts wait only
        done
        if ((code)); then worst=$code; fi
        say "task $index ended with exit code $code, see runs/$job_name/${job_id}_$index"
    done
    exit "$worst"
}
start_copy() { JOBGEN_SHARED=$BASHPID exec bash "$1"; }    # tells a copy by its own PID
