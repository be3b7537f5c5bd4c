# The process that failed first, by the agent's table, whose last is the one that torch blames: a
# process that has only lost another may have been quicker to say so.
find_cause() {    # sets first_rank, status and file
    local number code
    [[ -e ${log-} ]] || return
    file=$log
    while read -r number code; do
        first_rank=$number status=$code
        lost_another "$run_dir/logs/$node/rank-$number.err" || break
    done < <(sed -n "/ of start $attempt;/,\$p" "$log" | awk '
        $1 == "rank" { rank = $3 }
        $1 == "exitcode" && $3 != -15 { print rank, $3 < 0 ? 128 - $3 : $3 }')
    if [[ -s $run_dir/logs/$node/rank-$first_rank.err ]]; then
        file=$run_dir/logs/$node/rank-$first_rank.err
    fi
}
lost_another() { grep -qsE '(closed|reset) by peer|Broken pipe|ncclRemoteError' "$1"; }
