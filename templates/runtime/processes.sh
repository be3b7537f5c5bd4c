# pbsdsh starts this on a node: it starts the node's processes, and ends them together.
run_processes() {    # run_processes NODE_RANK
    local first=0 number index code status=0 started=()
    for ((index = 0; index < $1; index++)); do
        first=$((first + ${PROCESSES[index]:-${PROCESSES[0]}}))
    done
    trap 'kill -TERM "${started[@]}" 2>/dev/null || :' TERM INT HUP
    for ((number = 0; number < ${PROCESSES[$1]:-${PROCESSES[0]}}; number++)); do
        bash "$0" run_node "$1" "$((first + number))" "$number" </dev/null &
        started+=($!)
    done
    while [[ -n $(jobs -rp) ]]; do
        code=0
        wait -n || code=$?
        if ((code)); then
            status=$code    # a process has left this file already, if its shell was not killed
            (set -o noclobber && echo "$1 $code" >"${0%/*}/failed") 2>/dev/null || :
            kill -TERM "${started[@]}" 2>/dev/null || :
        fi
    done
    exit "$status"
}
