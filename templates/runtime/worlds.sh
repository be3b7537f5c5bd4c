find_worlds() {    # beside the program: looks for rank 0 of each world that it starts itself
    local tick=0 found most=0
    set +e
    while sleep 1 && [[ -d $tmp_dir ]]; do
        ((tick++ < 60 || tick % 30 == 0)) || continue
        if has find_meeting && ((${local_rank:-0} == 0)); then find_meeting; fi
        found=$(grep -slzxF "JOBGEN_AGENT=$tmp_dir" /proc/[0-9]*/environ |
            xargs -r grep -LszF "TORCHELASTIC_ERROR_FILE=$run_dir/" | xargs -r grep -lszx RANK=0 |
            xargs -r grep -hszE '^(TORCHELASTIC_ERROR_FILE|WORLD_SIZE)=' | sort -zu | tr '\0' '\n')
        ((${#found} > most)) || continue
        most=${#found}
        echo "$found" >"$attempt_dir/worlds-${rank-}"
    done
}
count_worlds() {    # sets status and reason
    local number size
    number=$(cat "$attempt_dir"/worlds-* | grep -c ^T)
    ((status == 0 && number > 1)) || return 0
    size=$(sed -n 's/^WORLD_SIZE=//p' "$attempt_dir"/worlds-* | sort -n | tail -n 1)
    status=1 reason=": $number worlds of $size, and not one of $((number * size)) processes"
} 2>/dev/null
