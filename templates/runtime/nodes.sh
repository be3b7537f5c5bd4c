tell_nodes() {    # writes what each node needs
    printf '%s\n' "${names[@]}" >"$attempt_dir/nodes"
    printf '%s=%q\n' MASTER_ADDR "$MASTER_ADDR" MASTER_PORT "$MASTER_PORT" work_dir "$PWD" \
        run_end "${run_end-}" script_pid "${script_pid-}" file_mask "$(umask)" >"$attempt_dir/world"
    say "job $job_id, start $((attempt + 1)), on ${names[*]}; logs are in $run_dir"
}
run_node() {    # the launcher calls this once per node; in direct mode, per process
    attempt_dir=${0%/*} this_script=$0 stop='' child=''
    run_dir=${attempt_dir%/attempts/*} attempt=${attempt_dir##*/} start=$((attempt + 1))
    . "$attempt_dir/world" && cd "$work_dir" && umask "$file_mask"
    find_rank "$@"
    node=$(sed -n "$((node_rank + 1))p" "$attempt_dir/nodes")
    mkdir -p "$run_dir/logs/$node"
    exec >>"$run_dir/logs/$node/agent.log" 2>&1 </dev/null
    trap 'end_node "$?"' EXIT; trap : USR1 USR2    # for the program alone
    trap '[[ -n $stop ]] || { stop=SIGTERM && end_child; }' TERM INT HUP    # Slurm may repeat it
    : >"$attempt_dir/node-$node_rank.started"    # from here on, it records its end
    say "$node is node $node_rank in start $start; the rendezvous is at $MASTER_ADDR:$MASTER_PORT"
    getent ahosts "$MASTER_ADDR" >/dev/null || die "$node cannot resolve the name of the first node"
    ((rank)) || ! (: <>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null ||
        die "port $MASTER_PORT on $node is in use by another program"
    if [[ $(getent ahosts "$node") =~ ^(127\.|::1) ]]; then    # gloo must not use loopback
        peer=$(grep -vxF -m 1 "$node" "$attempt_dir/nodes" | xargs -r getent ahosts | head -n1) || :
        peer=$(ip -o route get "${peer%% *}" | sed -E 's/.* dev (\S+) .*/\1/') || :
        export GLOO_SOCKET_IFNAME=$peer
    fi
    run_agent
    if [[ -n $stop && -e $run_dir/STOPPED ]]; then status=0; fi    # to torchrun, an error
    exit "$status"
}
end_node() {    # end_node STATUS: the first node to fail writes the file failed
    trap '' TERM INT HUP
    rm -rf "${tmp_dir-}"
    if has end_process; then end_process "$1"; return; fi
    if (($1)); then (set -o noclobber && echo "$node_rank $1" >"$attempt_dir/failed") || :; fi
    echo "$1" >"$attempt_dir/node-$node_rank.ended"
} 2>/dev/null
