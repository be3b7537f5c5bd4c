# Beside the agent, every half minute and at first sooner: what the job's processes use on this node,
# as a line of JSON. After a day the lines come half as often, and so on, so that the file stays small.
note_usage() {    # note_usage PID RUN_DIR NODE ATTEMPT: as long as the process PID is there
    set +e
    local second=0 next=2 lines=0 most=0 dirs cpu memory now
    mkdir -p "$2/usage"
    while grep -qs '^State:.[^ZX]' "/proc/$1/status"; do    # a zombie is gone
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
        printf -v now '%(%s)T' -1
        printf '{"time": %d, "attempt": %d, "cpu_s": %s, "memory": %d, "most": %d, "processes": %d, "gpus": [%s]}\n' \
            "$now" "$4" "$cpu" "$memory" "$most" "${#dirs[@]}" "$(list_gpus)" >>"$2/usage/$3.jsonl"
    done
} 2>/dev/null
list_gpus() {    # those that the job sees, as objects of JSON
    if command -v nvidia-smi >/dev/null; then
        timeout 10 nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} \
            --query-gpu=utilization.gpu,memory.used,memory.total,power.draw --format=csv,noheader,nounits
    elif command -v rocm-smi >/dev/null; then
        timeout 10 rocm-smi --showuse --showmeminfo vram --showpower --csv
    fi | awk -F', *' '
        function number(text, by) { return text ~ /^[0-9.]+$/ ? sprintf("%.0f", text * by) : "null" }
        function put(use, held, total, power, by) {
            printf "%s{\"use\": %s, \"memory\": %s, \"total\": %s, \"power\": %s}", count++ ? ", " : "",
                number(use, 1), number(held, by), number(total, by), number(power, 1)
        }
        /^device,/ {
            for (at = 1; at <= NF; at++) {
                if ($at ~ /GPU use/) use = at
                if ($at ~ /Total Used Memory/) held = at; else if ($at ~ /Total Memory/) total = at
                if ($at ~ /Power/) power = at
            }
            next
        }
        use && /^card/ { put($use, $held, $total, $power, 1) }
        !use && NF == 4 { put($1, $2, $3, $4, 1048576) }'
}
