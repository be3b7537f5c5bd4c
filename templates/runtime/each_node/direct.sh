# A process, started by the launcher or by its node: its log, checks, the program, and how it ended.
run_process() {    # run_process [RANK LOCAL_RANK]
    local first
    find_rank "$@"
    export RANK=$rank LOCAL_RANK=$local_rank
    first=$((rank - local_rank)) node_rank=0
    while ((first > 0)); do
        first=$((first - $(processes_on "$node_rank")))
        node_rank=$((node_rank + 1))
    done
    if ((first < 0 || local_rank >= $(processes_on "$node_rank"))); then
        die "rank $rank is number $local_rank on $(uname -n), where this script has put another"
    fi
    find_node "$node_rank"
    say "rank $rank is process $local_rank of $node, node $node_rank of start $attempt;" \
        "the rendezvous is at $MASTER_ADDR:$MASTER_PORT"
    trap 'report_node "$?"' EXIT
    prepare_node
    check_rendezvous
    : >"$attempt_dir/node-$node_rank.started"
    attend start_agent
    if [[ -n $stop && -e $run_dir/STOPPED ]]; then status=0; fi
    exit "$status"
}
processes_on() { echo "${PROCESSES[$1]:-${PROCESSES[0]}}"; }    # processes_on NODE_RANK

run_rank() {    # the program, with log files of its own
    local logs=$JOBGEN_RUN_DIR/logs/$JOBGEN_NODE/rank-$RANK
    exec >>"$logs.out" 2>>"$logs.err"
    # Where a program whose main function has torch's @record leaves its exception.
    export TORCHELASTIC_ERROR_FILE=$JOBGEN_RUN_DIR/errors/$JOBGEN_NODE-$RANK.json
    program
}

# The first process to fail leaves a file of its own, and the end of what it said; the last one of a
# node closes the node's record.
report_node() {    # report_node STATUS
    local record=$attempt_dir/node-$node_rank error=$run_dir/errors/$node-$RANK
    trap '' TERM INT HUP    # of the commands below too: PBS sends a signal to the whole session
    if (($1)); then
        (set -o noclobber && echo "$node_rank $1 $RANK" >"$attempt_dir/failed") || :
        if [[ ! -s $error.json ]]; then
            echo "exit code $1" >"$error.txt" || :
            tail -n 50 "$run_dir/logs/$node/rank-$RANK.err" >>"$error.txt" || :
        fi
    fi
    rm -rf "${tmp_dir-}"
    echo "$RANK $1 $node" >>"$record.ranks" || :
    if (($(wc -l <"$record.ranks") == $(processes_on "$node_rank"))); then
        mv "$record.ranks" "$record.ended" || :
    fi
} 2>/dev/null
list_exit_codes() {    # list_exit_codes NODE: RANK CODE of each process that failed by itself
    cat "$attempt_dir"/node-*.{ranks,ended} 2>/dev/null |
        awk -v node="$1" '$3 == node && $2 && $2 != 143 { print $1, $2 }'
}
