find_cause() {    # sets first_rank, status and file, by the agent's own table
    local found
    [[ -e ${log-} ]] || return
    found=$(sed -n "/ of start $attempt;/,\$p" "$log" | sed -n '/^Root Cause/,/exitcode/p' | awk '
        $1 == "rank" { printf "%s ", $3 } $1 == "exitcode" { print $3 < 0 ? 128 - $3 : $3 }')
    if [[ -n $found ]]; then read -r first_rank status <<<"$found"; fi
    file=$run_dir/logs/$node/rank-$first_rank.err
    if [[ ! -s $file ]]; then file=$log; fi
}
