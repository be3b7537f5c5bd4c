# A node: starts its processes, and ends them all once one has failed.
run_node() {    # run_node NODE_RANK
    local first=0 number index code status=0 started=()
    for ((index = 0; index < $1; index++)); do first=$((first + $(processes_on "$index"))); done
    trap 'kill -TERM "${started[@]}" 2>/dev/null || :' TERM INT HUP
    for ((number = 0; number < $(processes_on "$1"); number++)); do
        bash "${BASH_SOURCE[0]}" run_process "$((first + number))" "$number" </dev/null &
        started+=($!)
    done
    while [[ -n $(jobs -rp) ]]; do
        code=0
        wait -n || code=$?
        if ((code)); then
            status=$code
            kill -TERM "${started[@]}" 2>/dev/null || :
        fi
    done
    exit "$status"
}
