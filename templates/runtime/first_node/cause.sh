# The first error, and where it is: of a process that has not only lost another; else of one that
# was killed or left with a code, which writes no error file.
find_cause() {    # sets node, first_rank, status and file
    local name rank='' code index=0 first='' nodes
    [[ -e $attempt_dir/nodes ]] || return
    for file in "$run_dir"/errors/*.json; do
        [[ -s $file && $file -nt $attempt_dir/nodes ]] || continue
        if [[ -z $first || $file -ot $first ]] && ! lost_another "$file"; then first=$file; fi
    done
    if read -r index code rank <"$attempt_dir/failed"; then status=$code; fi 2>/dev/null
    nodes=("${NODES[index]}" "${NODES[@]}")
    if [[ -n $first ]]; then
        name=${first##*/}
        name=${name%.json}
        name=${name%.restart-*}
        nodes=("${name%-*}") first_rank=${name##*-}
    fi
    node=${nodes[0]}
    for name in "${nodes[@]}"; do
        while read -r rank code; do
            [[ $rank == "${first_rank:-$rank}" ]] || continue
            if [[ -n $first ]] || ! lost_another "$run_dir/logs/$name/rank-$rank.err"; then
                node=$name first_rank=$rank status=$code first=yes
                break 2
            fi
        done < <(list_exit_codes "$name")
    done
    optional find_killed "$first"
    file=$run_dir/logs/$node/rank-$first_rank.err
    if [[ ! -s $file ]]; then file=$run_dir/logs/$node/agent.log; fi
    if [[ ! -s $file ]]; then file=$attempt_dir/launcher.log; fi
}
