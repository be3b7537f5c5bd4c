run_rank() {    # runs the program with its own log files
    local log=$JOBGEN_RUN_DIR/logs/$JOBGEN_NODE/rank-$RANK start="start $((JOBGEN_ATTEMPT + 1))"
    say "rank $RANK is process $BASHPID" && exec >>"$log.out" 2>>"$log.err"
    ((!JOBGEN_ATTEMPT)) || { say "$start" && say "$start" >&2; }
    # torch's @record writes a program's exception to this file.
    export TORCHELASTIC_ERROR_FILE=$JOBGEN_RUN_DIR/errors/$JOBGEN_NODE-$RANK.json
    : >"$JOBGEN_AGENT/reached"
    program
}
end_process() {    # end_process STATUS: adds a line; the last process closes the node's record
    local record=$attempt_dir/node-$node_rank count=${processes[node_rank]:-${processes[0]}}
    if (($1)) && has_lost_peer "${attempt_dir%/attempts/*}/logs/$node/rank-$rank.err"; then
        sleep 2    # let the peer that failed first write the file
    fi
    if (($1)); then (set -o noclobber && echo "$node_rank $1 $rank" >"$attempt_dir/failed") || :; fi
    if (($1 && $1 != 143)); then    # like torchrun, -9 for 137
        printf '%s : %s\n' rank "$rank" exitcode "$(($1 > 128 && $1 < 160 ? 128 - $1 : $1))"
    fi
    echo "$rank $1 $node" >>"$record.ranks"
    if [[ $(wc -l 2>/dev/null <"$record.ranks") == "$count" ]]; then
        mv "$record.ranks" "$record.ended" 2>/dev/null || :    # two may end at once
    fi
}
