#!/bin/bash
# tutorial-multinode: 2 nodes x 2 processes, for this machine alone
# rendered by jobgen from: tutorial-multinode.yaml
# digest of what was rendered: 070804096b5dcc53
# to render it again: jobgen render tutorial-multinode.yaml --scheduler local
# left out, of no use here: resources.cpus_per_node

# Strict mode: an unset variable or a failed command ends the job; nothing goes on half done.
set -euo pipefail

say() { printf 'jobgen: %s\n' "$*"; }
die() { say "error: $*" >&2; exit 1; }

# The environment of every process, built on each node: some launchers hand on nothing.
load_environment() {
    # Threads: the processes of a node share its cores, and some schedulers say otherwise.
    export OMP_NUM_THREADS=$((cpus > local_world_size ? cpus / local_world_size : 1))
    # A store of its own for each restart: with a shared one, restarts of torchrun often hang.
    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    # Lines reach the logs as they are printed, also those of a process that is killed.
    export PYTHONUNBUFFERED=1
    # The scripts of modules, venvs and conda are not written for strict mode.
    set +eu
    set -e
    set -u
    # What libraries compile is kept on the node's own disk, unless somebody has said where: a home
    # folder that all nodes share is slow, and its file locks fail.
    local name
    for name in TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR MIOPEN_USER_DB_PATH MIOPEN_CUSTOM_CACHE_DIR; do
        if [[ -z ${!name-} ]]; then export "$name=$tmp_dir/$name"; fi
    done

    # What torch is there decides the names of NCCL's flight recorder, by which a hang leaves a
    # trace: new ones since 2.9, which warns of the old.
    command -v python3 >/dev/null || die "there is no python3 on $node"
    local torch recorder=TORCH_FR_BUFFER_SIZE dump=TORCH_FR_DUMP_TEMP_FILE
    torch=$(python3 -c 'from importlib.metadata import version; print(version("torch"))') ||
        die "there is no torch on $node for $(command -v python3)"
    if [[ $torch =~ ^(0|1|2\.[0-8])\. ]]; then
        recorder=TORCH_NCCL_TRACE_BUFFER_SIZE dump=TORCH_NCCL_DEBUG_INFO_TEMP_FILE
    fi
    export TORCH_NCCL_DUMP_ON_TIMEOUT=${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}
    export "$recorder=${!recorder:-2000}" "$dump=${!dump:-$run_dir/errors/$node-flight-}"
    say "torch $torch of $(command -v python3), OMP_NUM_THREADS=$OMP_NUM_THREADS"
}

# What this node gives the job: a share of this machine's cores, and of its GPUs where there is one
# for every process; else the processes run on the CPU.
claim_node() {
    local processes=(2 2) gpus=() listed first=0 count
    cpus=$(($(nproc) / 2))
    address=127.0.0.1
    # Names of this machine may lead anywhere; its loopback interface is enough.
    export GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo
    listed=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null) || return 0
    mapfile -t gpus <<<"$listed"
    if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
        IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
    fi
    for count in "${processes[@]:0:index}"; do first=$((first + count)); done
    if ((${#gpus[@]} >= 4)); then
        gpus=("${gpus[@]:first:local_world_size}")
        CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]}")
    else
        say "GPUs here: ${#gpus[@]}, processes: 4; so they run on the CPU"
        CUDA_VISIBLE_DEVICES=
    fi
    export CUDA_VISIBLE_DEVICES
}

# What each process runs, started by its node's agent: its own log files, then the program.
run_rank() {
    local logs=$JOBGEN_RUN_DIR/logs/$JOBGEN_NODE/rank-$RANK
    local error=$JOBGEN_RUN_DIR/errors/$JOBGEN_NODE-$RANK
    if ((TORCHELASTIC_RESTART_COUNT)); then error+=.restart-$TORCHELASTIC_RESTART_COUNT; fi
    exec >>"$logs.out" 2>>"$logs.err"
    # torch writes an exception into a folder of its own; keep it under node and rank instead.
    ln -sf "$error.json" "$TORCHELASTIC_ERROR_FILE"
    exec -- python3 -u examples/tutorial_multinode.py --epochs 10 --snapshot runs/tutorial-multinode.pt
}

# What each node runs: one agent, which starts the processes of the node and watches them.
run_node() {    # run_node INDEX WORKDIR HEAD PORT RENDEZVOUS_ID
    enter_node "$@"
    attend "$marker" python3 -m torch.distributed.run \
        --nnodes=2 --nproc-per-node="$local_world_size" --max-restarts=0 \
        --rdzv-backend=c10d --rdzv-conf="is_host=$((index == 0)),join_timeout=600,read_timeout=600" \
        --rdzv-endpoint="$head:$port" --rdzv-id="$rdzv_id" --local-addr="$address" \
        --log-dir="$attempt_dir/torchrun" --no-python bash "${BASH_SOURCE[0]}" rank
    exit "$status"
}

# What comes first on a node: logs, the environment, and checks that spare everybody a time-out.
enter_node() {    # enter_node INDEX WORKDIR HEAD PORT RENDEZVOUS_ID
    index=$1 head=$3 port=$4 rdzv_id=$5
    attempt_dir=${BASH_SOURCE[0]%/*}
    run_dir=${attempt_dir%/attempts/*}
    node=$(sed -n "$((index + 1))p" "$attempt_dir/nodes")
    mkdir -p "$run_dir/logs/$node"
    # Nothing interleaved: a log for what is said here, and two for each process.
    exec >>"$run_dir/logs/$node/agent.log" 2>&1 </dev/null
    # However it ends, its exit code is left where the first node looks for it.
    trap 'report_node "$index" "$?"' EXIT
    say "$node is node $index; the rendezvous is at $head:$port"

    # Nothing is taken over from where the job was submitted, but the folder and the user.
    cd "$2"
    export USER=${USER:-$(id -un)} LOGNAME=${LOGNAME:-$(id -un)}
    unset "${!PET_@}" "${!TORCHELASTIC_@}" "${!TORCH_ELASTIC_@}" OMP_NUM_THREADS
    # A folder on this node's own disk, gone when the node's part ends.
    if [[ ! -w ${TMPDIR:-/tmp} ]]; then
        say "$node cannot write to $TMPDIR, its TMPDIR; it takes /tmp"
        export TMPDIR=/tmp
    fi
    tmp_dir=$(mktemp -d "${TMPDIR:-/tmp}/jobgen-$rdzv_id.XXXXXX")
    marker=JOBGEN_AGENT=$rdzv_id-$index
    setsid bash "${BASH_SOURCE[0]}" watch "$index" "$$" "$marker" "$tmp_dir" &
    watch=$!
    disown "$watch"
    local_world_size=2
    claim_node
    load_environment
    export JOBGEN_RUN_DIR=$run_dir JOBGEN_NODE=$node
    export JOBGEN_JOB_ID=${run_dir##*/} JOBGEN_ATTEMPT=${attempt_dir##*/}
    # A name that does not resolve, or a port that is taken, is said at once and not after a time-out.
    getent ahosts "$head" >/dev/null || die "$node cannot resolve the name of the first node, $head"
    if ((index == 0)) && (: <>"/dev/tcp/$head/$port") 2>/dev/null; then
        die "port $port on $node is in use by another program"
    fi
    : >"$attempt_dir/node-$index.started"
}

# Run a command to its end, in the background, so that a signal is handled when it comes. The marker in
# its environment finds all that it started, also what outlived it.
attend() {    # attend MARKER COMMAND...: sets status
    stop_by=
    trap 'stop_by=${stop_by:-$((SECONDS + $(grace)))}; kill -TERM "${child-}" 2>/dev/null || :' TERM INT HUP
    env "$@" &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        if [[ -z $stop_by ]]; then
            status=0
            wait "$child" || status=$?
        elif ((SECONDS < stop_by)); then
            sleep 0.5
        else
            say "$node: the agent did not stop in time; it is killed"
            sweep "$1"
        fi
    done
    if [[ -n $stop_by ]]; then
        status=0
        wait "$child" || status=$?
        # torchrun calls every stop an error; the program says by a file that it stopped in order.
        if [[ -e $run_dir/STOPPED ]]; then status=0; fi
    fi
    sweep "$1"
}

# How long an agent may take to stop: where another node has failed there is nothing left to save.
grace() { if [[ -e $attempt_dir/failed ]]; then echo 10; else echo 30; fi; }

# End the processes that have MARKER in their environment.
sweep() {    # sweep MARKER
    local environ pid
    for _ in 1 2 3; do
        environ=$(grep -slzxF -e "$1" /proc/[0-9]*/environ || :)
        if [[ -z $environ ]]; then return; fi
        for pid in $environ; do
            pid=${pid#/proc/}
            kill -KILL "${pid%/environ}" 2>/dev/null || :
        done
        sleep 0.2
    done
}

# Runs beside each agent, in a session of its own: gives a sign of life every 20 s, by which the first
# node knows of this one, and cleans up if the shell around the agent is killed.
watch_node() {    # watch_node INDEX PID MARKER TMP_DIR
    local seconds=0
    tmp_dir=$4
    attempt_dir=${BASH_SOURCE[0]%/*}
    while kill -0 "$2" 2>/dev/null; do
        if ((seconds++ % 20 == 0)); then
            echo "$seconds" >"$attempt_dir/node-$1.alive" || :
        fi
        sleep 1
    done
    say "the shell around the agent was killed"
    sweep "$3"
    report_node "$1" 137
}

# The first node to fail leaves its number and code in `failed`; every node leaves its code.
report_node() {    # report_node INDEX STATUS
    trap '' TERM INT HUP
    kill "${watch-}" 2>/dev/null || :
    if (($2)); then (set -o noclobber && echo "$1 $2" >"$attempt_dir/failed") 2>/dev/null || :; fi
    rm -rf "${tmp_dir-}"
    echo "$2" >"$attempt_dir/node-$1.new"
    mv "$attempt_dir/node-$1.new" "$attempt_dir/node-$1.ended"
}

# This same file runs once more for each node.
case ${1-} in
    node) shift; run_node "$@" ;;
    rank) run_rank ;;
    watch) shift; watch_node "$@"; exit ;;
esac

# Submitted from inside another job: the marker by which that job finds what it has to end stays there.
if [[ -n ${JOBGEN_AGENT-} ]]; then exec env -u JOBGEN_AGENT bash "$0" "$@"; fi

# Where am I: on the one machine that plays every node, in the folder of submission.
job_id=${JOBGEN_SUBMIT_ID:-$(date +%Y%m%d-%H%M%S)-$$}
unset JOBGEN_SUBMIT_ID
job_number=${job_id##*-}

# The run folder, on the file system that all nodes share. Each start of this script is an attempt
# with a number of its own, so that a job that is run again overwrites nothing.
run_dir=$PWD/runs/tutorial-multinode/$job_id
mkdir -p "$run_dir"/{logs,errors,attempts} || die "cannot make the run folder $run_dir"
attempt=0
until mkdir "$run_dir/attempts/$attempt" 2>/dev/null; do
    [[ -d $run_dir/attempts/$attempt ]] || die "cannot write to $run_dir/attempts"
    attempt=$((attempt + 1))
done
attempt_dir=$run_dir/attempts/$attempt
# Whatever ends this script from here on, the outcome is on record.
trap 'conclude "$?"' EXIT
conclude() {    # conclude STATUS
    local outcome=failed
    if (($1 == 0)); then outcome='done'; elif [[ $stop == SIG* ]]; then outcome=cancelled; fi
    echo "$outcome $1" >"$attempt_dir/outcome.new"
    mv "$attempt_dir/outcome.new" "$attempt_dir/outcome"
}
# A signal is noted here and acted upon below.
stop=
trap 'stop=SIGTERM' TERM
trap 'stop=SIGINT' INT
rm -f "$run_dir"/{STOPPED,DONE}
# The nodes run this same file; the scheduler's own copy is on the first node alone.
cp "$0" "$attempt_dir/script"
[[ -f examples/tutorial_multinode.py ]] || die "no such file in $PWD:" examples/tutorial_multinode.py

# Nodes: names for the logs; all have the loopback address.
nodes=(node0 node1)
addresses=(127.0.0.1)

((${#nodes[@]} == 2)) || die "this script is for 2 nodes, the job has ${#nodes[@]}: ${nodes[*]}"
printf '%s\n' "${nodes[@]}" >"$attempt_dir/nodes"

# Rendezvous: on the first node, at a port that follows from the job's id, so that two jobs do not
# meet, below the range that the system hands out. Its id keeps out agents of an earlier attempt.
head=${addresses[0]}
port=$((20000 + 10#$job_number % 10000))
rdzv_id=$job_id-$attempt
say "2 nodes x 2 processes on ${nodes[*]}; logs are in $run_dir"

# Supervision. The launchers run in the background, so that a signal is noticed when it comes. The
# first node that fails ends the job. What the launchers return is not trusted, the nodes' records
# are; a shared file system may take up to 5 s to show one.
launchers=()
launchers_gone() {    # how many of them have ended
    local pid gone=0
    for pid in "${launchers[@]}"; do
        kill -0 "$pid" 2>/dev/null || gone=$((gone + 1))
    done
    echo "$gone"
}
nodes_with() {    # nodes_with started|ended: how many nodes have recorded it
    find "$attempt_dir" -maxdepth 1 -name "node-*.$1" | wc -l
}
nodes_without() {    # nodes_without started|ended: the names of those that have not
    local index names=()
    for index in "${!nodes[@]}"; do
        [[ -e $attempt_dir/node-$index.$1 ]] || names+=("${nodes[index]}")
    done
    echo "${names[*]}"
}
# A look at the records, every 20 s: a node is lost that gives no sign of life in 6 looks, or none
# at all in 15, or that has started no agent 15 looks after another has. Looks are counted and
# not seconds, as a file system that stands still for everybody is no node's fault.
looked=
look() {    # sets lost, to the names of those nodes, and why
    looked=$(
        {
            echo "$looked"
            find "$attempt_dir" -maxdepth 1 -name 'node-*' -printf 'now %f %T@\n' 2>/dev/null || :
        } | awk -v silent=6 -v missing=15 -v beat=20 '
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
lost='' why=''
supervise() {
    local begin=$SECONDS expected=${#nodes[@]} missing_since='' next_look=0 gone ended pid patience=5
    while [[ -z $stop && ! -e $attempt_dir/failed ]]; do
        gone=$(launchers_gone)
        ((gone < ${#launchers[@]})) || break
        # A launcher that is gone while its node has recorded nothing: the node is lost.
        # Only then is the shared folder read, not every second of a run.
        ended=0
        if ((gone)); then ended=$(nodes_with ended); fi
        if ((gone <= ended)); then
            missing_since=
        elif ((SECONDS > ${missing_since:=$SECONDS} + 5)); then
            lost=$(nodes_without ended) expected=$((ended + ${#launchers[@]} - gone))
            break
        fi
        if ((SECONDS >= next_look)); then
            look
            next_look=$((SECONDS + 20))
            if [[ -n $lost ]]; then
                expected=$((expected - $(wc -w <<<"$lost")))
                break
            fi
        fi
        # Nobody else ends a local job at its walltime.
        if ((SECONDS - begin >= 600)); then stop="the walltime of 600 s"; fi
        sleep 1
    done
    # The scheduler may leave no time for more than this.
    if [[ -n $stop ]]; then conclude 143; fi
    # Nothing is left to save where a node is gone: the others need not take long to stop.
    if [[ -n $lost ]]; then echo "lost $lost" >"$attempt_dir/failed"; fi
    if (($(launchers_gone) < ${#launchers[@]})); then
        kill -TERM "${launchers[@]}" 2>/dev/null || :
        patience=45
    else
        # A launcher that has failed is believed: then the records only tell the details.
        for pid in "${launchers[@]}"; do wait "$pid" || patience=15; done
    fi
    patience=$((SECONDS + patience))
    while (($(nodes_with ended) < expected && SECONDS < patience)); do sleep 0.5; done
    kill -KILL "${launchers[@]}" 2>/dev/null || :
    say "ended after $((SECONDS - begin)) s"
}

# Start one agent for every node.
for index in "${!nodes[@]}"; do
    bash "$attempt_dir/script" node "$index" "$PWD" "$head" "$port" "$rdzv_id" &
    launchers+=($!)
done
supervise

# The outcome: success only if every node says so; else the first error, and where it is.
secondary() {    # secondary ERROR_FILE: a process only says that it has lost another
    grep -qsE '(closed|reset) by peer|Broken pipe|ncclRemoteError' "$1"
}
culprit() {    # culprit NODE...: sets node, first_rank and cause; the first of NODE if all else fails
    local file name
    cause=
    for file in "$run_dir"/errors/*.json; do
        if [[ -s $file && $file -nt $attempt_dir/nodes ]] && ! secondary "$file"; then
            if [[ -z $cause || $file -ot $cause ]]; then cause=$file; fi
        fi
    done
    if [[ -n $cause ]]; then
        name=${cause##*/}
        name=${name%.json}
        name=${name%.restart-*}
        node=${name%-*} first_rank=${name##*-}
        return
    fi
    # A process that was killed, or left with a code, writes no error file; its agent lists it, among
    # those that it has ended itself.
    for node; do
        cause=$run_dir/logs/$node/agent.log
        while read -r first_rank; do
            if [[ ! -s $run_dir/errors/$node-$first_rank.json ]]; then return; fi
        done < <(awk '$1 == "rank" { rank = $3 } $1 == "exitcode" && $3 != -15 { print rank }' "$cause")
    done
    node=$1 cause=$run_dir/logs/$1/agent.log first_rank=
}
show() {    # show FILE LINES
    if [[ -s $1 ]]; then
        say "the end of $1:"
        tail -n "$2" "$1"
    fi
}
if [[ -n $stop ]]; then
    say "ENDED by $stop; logs are in $run_dir"
    exit 143
fi
if [[ -n $lost ]]; then
    if [[ -n $why ]]; then die "FAILED: $lost is lost: $why; logs are in $run_dir"; fi
    die "FAILED: nothing is heard from $lost; do all nodes share the folder $PWD?"
fi
if [[ -e $attempt_dir/failed ]]; then
    read -r index status <"$attempt_dir/failed"
    culprit "${nodes[index]}" "${nodes[@]}"
    say "FAILED with exit code $status: ${first_rank:+rank $first_rank on }$node, by $cause"
    if [[ $cause == *.log ]]; then show "$cause" 30; fi
    show "$run_dir/logs/$node/rank-$first_rank.err" 20
    exit "$status"
fi
if [[ -n $(nodes_without ended) ]]; then
    die "FAILED: nothing is heard from $(nodes_without ended); do all nodes share the folder $PWD?"
fi
if [[ -e $run_dir/STOPPED ]]; then
    say "STOPPED early, in order; logs are in $run_dir"
else
    : >"$run_dir/DONE"
    say "DONE: all nodes ended well; logs are in $run_dir"
fi
