# A look at the records: a node is lost that gives no sign of life in SILENT looks, or none at all in
# MISSING, or that has started no agent MISSING looks after another has. Looks are counted and not
# seconds, as a file system that stands still for everybody is no node's fault.
BEAT=${BEAT:-20} SILENT=${SILENT:-6} MISSING=${MISSING:-15} looked=''
look() {    # sets lost, to the names of those nodes, and why
    looked=$(
        {
            echo "$looked"
            find "$attempt_dir" -maxdepth 1 -name 'node-*' -printf 'now %f %T@\n' 2>/dev/null || :
        } | awk -v silent="$SILENT" -v missing="$MISSING" -v beat="$BEAT" '
            NR == FNR { name[nodes++] = $1 }
            $1 == "since" { since = $2 }
            $1 == "was" { was[$2] = $3; same[$2] = $4 }
            $1 == "now" { split($2, word, /[-.]/); now[word[2], word[3]] = $3 }
            $1 == "now" && word[3] == "started" { ready = 1 }
            END {
                if (ready) print "since", ++since
                for (node = 0; node < nodes; node++) {
                    if ((node, "ended") in now) continue
                    sign = (node, "alive") in now ? now[node, "alive"] : "none"
                    same[node] = sign == was[node] ? same[node] + 1 : 0
                    print "was", node, sign, same[node]
                    if (same[node] >= (sign == "none" ? missing : silent))
                        print "lost", name[node], "no sign of life for", same[node] * beat, "s"
                    else if (since >= missing && !((node, "started") in now))
                        print "lost", name[node], "not ready", since * beat, "s after another node"
                }
            }' "$attempt_dir/nodes" -
    )
    lost=$(awk '$1 == "lost" { printf "%s%s", sign, $2; sign = " " }' <<<"$looked")
    why=$(sed -n '/^lost /{s/^lost [^ ]* //p;q}' <<<"$looked")
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
# Beside the agent, until the shell that waits for it has ended or was killed: then what the agent has
# left behind ends too. It has a mark in its environment. Meanwhile the node gives signs of life, as
# long as it reaches the first one; what is alive a minute after the job has ended was not told so.
clean_up() {    # clean_up PID TMP_DIR NODE_RANK LOCAL_RANK LOG
    local turn=0 over=0
    set +e
    node_rank=$3 attempt_dir=${BASH_SOURCE[0]%/*}
    run_dir=${attempt_dir%/attempts/*} node=$(sed -n "$((node_rank + 1))p" "$attempt_dir/nodes")
    # shellcheck source=/dev/null
    . "$attempt_dir/world"
    while grep -qs '^State:.[^ZX]' "/proc/$1/status" && kill -0 "${script_pid:-$1}"; do
        if ((turn++ % BEAT == 0)); then
            if [[ -e $attempt_dir/outcome ]] && ((++over > 3)); then kill -TERM "$1"; fi
            if (($4 == 0)) && { ((node_rank == 0)) || ! cut_off; }; then
                echo "$turn" >"$attempt_dir/node-$node_rank.alive"
            fi
        fi
        sleep 1
    done
    kill -KILL "$1"
    for _ in 1 2 3; do
        grep -slzxF "JOBGEN_AGENT=$2" /proc/[0-9]*/environ | tr -dc '0-9\n' | xargs -r kill -KILL
        sleep 0.2
    done
    # The shell takes this folder away itself, if it has the time to say how the node ended.
    if [[ -d $2 ]]; then
        say "the shell around the agent was killed" >>"$5"
        tmp_dir=$2
        report_node 137
    fi
}
