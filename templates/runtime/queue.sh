# The array on this machine: a copy of this script for each task. One that fails stops no other.
find_task() {
    if [[ -z ${JOBGEN_ARRAY-} ]]; then return; fi
    job_id=${JOBGEN_ARRAY}_$JOBGEN_TASK job_number=$((${JOBGEN_ARRAY##*-} + 7919 * JOBGEN_TASK))
    unset JOBGEN_ARRAY
    choose_task "$JOBGEN_TASK"
    say "task $JOBGEN_TASK: ${arguments[*]-}"
}
run_tasks() {    # run_tasks COUNT AT_ONCE
    if [[ $job_id == *_* ]]; then return; fi
    local next=0 failed=0 index pid
    local -A running=()
    while ((next < $1 || ${#running[@]})); do
        while [[ -z $stop ]] && ((next < $1 && ${#running[@]} < $2)); do
            mkdir -p "${run_dir}_$next"
            JOBGEN_ARRAY=$job_id JOBGEN_TASK=$next \
                bash "$this_script" >"${run_dir}_$next/job.out" 2>&1 &
            running[$!]=$next
            next=$((next + 1))
        done
        sleep 0.5 || :
        for pid in "${!running[@]}"; do
            if [[ -n $stop ]]; then kill -TERM "$pid" 2>/dev/null || :; fi
            if kill -0 "$pid" 2>/dev/null; then continue; fi
            index=${running[$pid]}
            unset "running[$pid]"
            if wait "$pid"; then
                say "task $index ended well"
            else
                failed=$((failed + 1))
                say "task $index FAILED, see ${run_dir}_$index/job.out"
            fi
        done
        if [[ -n $stop ]] && ((${#running[@]} == 0)); then break; fi
    done
    if ((failed)); then
        reason=": $failed of $1 tasks"
        exit 1
    fi
    exit 0
}
