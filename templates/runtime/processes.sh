# pbsdsh calls this on each node. It starts the node's processes, and if one fails, ends them all.
run_processes() {    # run_processes NODE_RANK
    local first=0 number index code status=0 started=() left
    for ((index = 0; index < $1; index++)); do
        first=$((first + ${processes[index]:-${processes[0]}}))
    done
    trap 'kill -TERM "${started[@]}" 2>/dev/null || :' TERM INT HUP
    for ((number = 0; number < ${processes[$1]:-${processes[0]}}; number++)); do
        bash "$0" run_node "$1" "$((first + number))" "$number" </dev/null &
        started+=($!)
    done
    left=("${started[@]}")
    while ((${#left[@]})); do
        wait -n || :    # its code may be a signal's, or 127 if the last process just ended
        for index in "${!left[@]}"; do
            if kill -0 "${left[index]}" 2>/dev/null; then continue; fi
            code=0
            wait "${left[index]}" || code=$?
            unset "left[index]"
            if ((!code)); then continue; fi
            status=$code    # the file exists already unless the process's shell was killed
            (set -o noclobber && echo "$1 $code" >"${0%/*}/failed") 2>/dev/null || :
            kill -TERM "${started[@]}" 2>/dev/null || :
        done
    done
    exit "$status"
}
