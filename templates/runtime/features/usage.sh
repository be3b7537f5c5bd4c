# Every half minute, and at first sooner: what the job's processes use on this node, as a line of
# JSON. After a day the lines come half as often, and so on, so that the file stays small.
watch_usage() {
    if ((${LOCAL_RANK:-0} == 0)); then beside note_usage "$run_dir" "$node" "$attempt"; fi
}
note_usage() {    # note_usage PID RUN_DIR NODE ATTEMPT: as long as the process PID is there
    set +e
    local second=0 next=2 lines=0 most=0 dirs cpu memory
    while is_there "$1"; do
        sleep 1
        ((++second < next)) && continue
        ((next += next < 30 ? next : 30 << lines / 2880))
        mapfile -t dirs < <(grep -slzxF "JOBGEN_RUN_DIR=$2" /proc/[0-9]*/environ |
            xargs -r grep -slzxF "JOBGEN_NODE=$3")
        ((${#dirs[@]})) || continue
        dirs=("${dirs[@]%/environ}")
        # CPU time of a process and of the children that it has waited for; memory of its own.
        read -r cpu memory < <(cat "${dirs[@]/%//stat}" "${dirs[@]/%//status}" |
            awk -v tick="$(getconf CLK_TCK)" '
                /^[0-9]+ \(/ { sub(/^.*\) /, ""); cpu += $12 + $13 + $14 + $15 }
                /^Rss(Anon|Shmem):/ { memory += $2 }
                END { printf "%.2f %.0f\n", cpu / tick, memory * 1024 }')
        ((most = memory > most ? memory : most, lines++))
        mkdir -p "$2/usage"
        printf '{"time": %(%s)T, "attempt": %d, "cpu_s": %s, "memory": %d, "most": %d, ' \
            -1 "$4" "$cpu" "$memory" "$most" >>"$2/usage/$3.jsonl"
        printf '"processes": %d, "gpus": "%s"}\n' "${#dirs[@]}" "$(list_gpus)" >>"$2/usage/$3.jsonl"
    done
} 2>/dev/null
list_gpus() {    # use, memory, total and power of those that the job sees, as their tool tells it
    if command -v nvidia-smi >/dev/null; then
        timeout 10 nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} \
            --query-gpu=utilization.gpu,memory.used,memory.total,power.draw \
            --format=csv,noheader,nounits
    elif command -v rocm-smi >/dev/null; then
        timeout 10 rocm-smi --showuse --showmeminfo vram --showpower --csv
    fi | tr -d '"' | tr '\n' ';'
}
