start_guard() {    # watches this node's shell from another session
    ulimit -S -c 0    # no core files unless the setup raises the limit
    setsid env -u JOBGEN_AGENT rank="${rank-}" node="$node" bash "$this_script" guard_node "$$" \
        "$tmp_dir" "$node_rank" "${script_node:-${MASTER_ADDR-}}/${MASTER_PORT-}" \
        "${script_pid:-$$}" 2>/dev/null &
}
guard_node() {    # gives signs of life; when the shell ends, kills its leftovers
    local attempt_dir=${0%/*} node_rank=$3 own=${0%/*}/node-$3
    set +e
    while is_there "$1" && is_there "$5"; do
        if has give_sign; then give_sign "$4"; elif ((SECONDS % 20 == 0)); then : >"$own.alive"; fi
        sleep 1
    done
    kill -KILL "$1"
    for _ in 1 2 3; do    # JOBGEN_AGENT marks what the agent started
        grep -slzxF "JOBGEN_AGENT=$2" /proc/[0-9]*/environ | tr -dc '0-9\n' | xargs -r kill -KILL
        sleep 0.2
    done
    if [[ -d $2 ]]; then    # a shell that ends in order removes it
        say "the shell around the agent was killed"
        rm -rf "$2"
        if has end_node; then end_node 137; else echo 137 >"$own.ended"; fi
    fi
}
is_there() { grep -qs '^State:.[^ZX]' "/proc/$1/status"; }    # is_there PID: alive, and no zombie
