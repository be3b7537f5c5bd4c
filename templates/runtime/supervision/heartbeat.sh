# Each node gives signs of life every BEAT seconds, as long as it reaches the first one; what is
# alive a minute after the job has ended was not told so. When the shell that waits for the agent
# has ended or was killed, what the agent has left behind ends too.
BEAT=${BEAT:-20} SILENT=${SILENT:-6} MISSING=${MISSING:-15}
guard_node() { beside clean_up "$tmp_dir" "$node_rank" "${LOCAL_RANK:-0}"; }
clean_up() {    # clean_up PID TMP_DIR NODE_RANK LOCAL_RANK
    local turn=0 over=0
    set +e
    find_node "$3"
    while is_there "$1" && is_there "${script_pid:-$1}"; do
        if ((turn++ % BEAT == 0)); then
            if [[ -e $attempt_dir/outcome ]] && ((++over > 3)); then kill -TERM "$1"; fi
            if (($4 == 0)) && { ((node_rank == 0)) || ! cut_off; }; then
                echo "$turn" >"$attempt_dir/node-$node_rank.alive"
            fi
        fi
        sleep 1
    done
    kill -KILL "$1" 2>/dev/null
    kill_marked "$2"
    # The shell takes this folder away itself, if it has the time to say how the node ended.
    if [[ -d $2 ]]; then
        say "the shell around the agent was killed"
        tmp_dir=$2
        report_node 137
    fi
}
# Whether this node reaches the first one no more. An answer that nobody listens there is an answer.
cut_off() {
    local words
    if words=$(LC_ALL=C timeout 5 bash -c ": <>/dev/tcp/$MASTER_ADDR/$MASTER_PORT" 2>&1) ||
        [[ $words == *refused* ]]; then
        reached=yes
        return 1
    fi
    [[ -n ${reached-} ]]    # a firewall may let nobody through where no program listens yet
}

# The first node looks at these signs: a node is lost that gives none in SILENT looks, or none at
# all in MISSING, or that has started no agent MISSING looks after another has. Looks are counted
# and not seconds, as a file system that stands still for everybody is no node's fault.
since=0 sign=() same=()
look() {    # sets lost, to the names of those nodes, and why
    local index now most record
    if compgen -G "$attempt_dir/node-*.started" >/dev/null; then since=$((since + 1)); fi
    for index in "${!NODES[@]}"; do
        record=$attempt_dir/node-$index now='' most=$MISSING
        if [[ -e $record.ended ]]; then continue; fi
        if [[ -e $record.alive ]]; then
            read -r now <"$record.alive" || :
            most=$SILENT
        fi
        kill -0 "${launchers[index]:-${launchers[0]}}" 2>/dev/null || most=$((LAG / BEAT))
        same[index]=$((${same[index]:--1} + 1))
        if [[ $now != "${sign[index]-}" ]]; then same[index]=0 sign[index]=$now; fi
        if ((same[index] >= most)); then
            why=${why:-no sign of life for $((same[index] * BEAT)) s}
        elif ((since >= MISSING)) && [[ ! -e $record.started ]]; then
            why=${why:-not ready $((since * BEAT)) s after another node}
        else
            continue
        fi
        lost+=${lost:+ }${NODES[index]}
    done
}
