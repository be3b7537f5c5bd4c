# The table's last is the one torch blames; one that has only lost another may have been quicker.
find_cause() {    # sets first_rank, status and file
    local number code
    [[ -e ${log-} ]] || return
    while read -r number code; do
        first_rank=$number status=$code
        lost_another "$run_dir/logs/$node/rank-$number.err" || break
    done < <(list_exit_codes "$node")
    file=$run_dir/logs/$node/rank-$first_rank.err
    if [[ ! -s $file ]]; then file=$log; fi
}
