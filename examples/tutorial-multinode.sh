#!/bin/bash
# tutorial-multinode: 2 nodes x 2 processes, for this machine alone
# rendered by jobgen from: tutorial-multinode.yaml
# to render it again: jobgen render tutorial-multinode.yaml --scheduler local
# left out, of no use here: resources.cpus_per_node
# jobgen: {"name": "tutorial-multinode", "spec": "tutorial-multinode.yaml", "digest": "070804096b5dcc53", "scheduler": "local", "groups": [{"nodes": 2, "processes": 2}], "walltime": 600}
# shellcheck disable=SC2034,SC2154,SC2317,SC2329
set -euo pipefail    # an unset variable or a failed command ends the job

JOB_NAME=tutorial-multinode    # logs and results are in runs/tutorial-multinode/<job id>
PROCESSES=(2 2)    # on each node
WALLTIME=600    # seconds

environment() {    # of every process, set up on each node
    share_gpus
    OMP_NUM_THREADS=$(threads_for 4)
    export OMP_NUM_THREADS
    # With a store that is shared, restarts of torchrun often hang.
    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
}

program() {    # what each process runs
    exec python3 -u examples/tutorial_multinode.py --epochs 10 --snapshot runs/tutorial-multinode.pt
}

find_nodes() {    # on the first node: all of them, in the order of the allocation
    [[ -e examples/tutorial_multinode.py ]] ||
        die "no such file in $PWD:" examples/tutorial_multinode.py
    NODES=(node0 node1)    # names for the logs
    MASTER_ADDR=127.0.0.1
    MASTER_PORT=$((20000 + 10#$job_number % 10000))    # so that two jobs do not meet
}

agent() {    # what runs once on each node: torchrun's agent, which starts the node's processes
    local address
    address=127.0.0.1
    export PET_RDZV_ID=$rendezvous_id    # a secret, which no command line shows
    exec python3 -m torch.distributed.run \
        --nnodes=2 --nproc-per-node=2 --max-restarts=0 \
        --rdzv-backend=c10d \
        --rdzv-conf="is_host=$((node_rank == 0)),join_timeout=600,read_timeout=600" \
        --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --local-addr="$address" \
        --log-dir="$attempt_dir/torchrun" --no-python bash "$this_script" run_rank
}

launch() {    # launch NODE_RANK: the agent of a node, on this machine
    exec bash "$this_script" run_node "$1"
}

# ---- Part 2: the jobgen runtime 1, digest f4e56f609bd9 ------------------------------------------
# The same in every script of its kind; docs/concepts/the-script.md explains it.
# Its kind: local, local, torchrun, several nodes, threads, gpus, walltime local, remind, usage.

export USER=${USER:-$(id -un)} LOGNAME=${LOGNAME:-$(id -un)}    # some launchers leave them out
say() { printf 'jobgen: %s\n' "$*" || :; }
die() { say "error: $*" >&2; exit 1; }

beside() {    # beside FUNCTION...: told this shell's PID; its signals go to this shell alone
    local shell=$BASHPID
    setsid bash "$this_script" "$1" "$shell" "${@:2}" </dev/null >/dev/null 2>&1 &
    disown
}
is_there() { grep -qs '^State:.[^ZX]' "/proc/$1/status"; }    # is_there PID; a zombie is gone

find_job() {    # sets job_id, and job_number, from which the port follows
    job_id=${JOBGEN_SUBMIT_ID:-$(date +%Y%m%d-%H%M%S)-$$}
    unset JOBGEN_SUBMIT_ID
    job_number=${job_id##*-} script_pid=$$
}

# What a node has of this machine's GPUs: a share, if there is one for each process; else none.
share_gpus() {    # sets CUDA_VISIBLE_DEVICES
    local gpus=() listed first=0 count all=0
    # Names of this machine may lead anywhere; its loopback interface is enough.
    export GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo
    listed=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null) || return 0
    mapfile -t gpus <<<"$listed"
    if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
        IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
    fi
    for count in "${PROCESSES[@]}"; do all=$((all + count)); done
    for count in "${PROCESSES[@]:0:node_rank}"; do first=$((first + count)); done
    if ((${#gpus[@]} >= all)); then
        gpus=("${gpus[@]:first:PROCESSES[node_rank]}")
        CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]}")
    else
        say "GPUs here: ${#gpus[@]}, processes: $all; so they run on the CPU"
        CUDA_VISIBLE_DEVICES=
    fi
    export CUDA_VISIBLE_DEVICES
}

# The run folder, on a file system that all nodes share. Each start of this script is an attempt
# with a number of its own, so that a job that is started again overwrites nothing.
make_run_folder() {    # sets run_dir, attempt, attempt_dir and this_script
    run_dir=$PWD/runs/$JOB_NAME/${run_id:-$job_id} attempt=0
    stop='' child='' word='' reason='' lost='' why=''
    mkdir -p "$run_dir"/{logs,errors,attempts} || die "cannot make the run folder $run_dir"
    until mkdir "$run_dir/attempts/$attempt" 2>/dev/null; do
        [[ -d $run_dir/attempts/$attempt ]] || die "cannot write to $run_dir/attempts"
        attempt=$((attempt + 1))
    done
    attempt_dir=$run_dir/attempts/$attempt this_script=$run_dir/attempts/$attempt/script
    printf '%4096s' '' >"$attempt_dir/reserved"    # for the outcome, on a full disk
    cp "$0" "$this_script"
    echo "${PBS_JOBID:-$job_id}" >"$attempt_dir/job"
    [[ -e $run_dir/plan.json ]] || sed -n 's/^# jobgen: {/{/p' "$0" >"$run_dir/plan.json"
    trap 'conclude "$?"' EXIT
    trap 'end_job SIGTERM' TERM
    trap 'end_job SIGINT' INT
    begin_walltime
    rm -f "$run_dir"/{STOP,STOPPED,DONE}
}

threads_for() {    # threads_for PROCESSES: how many each has of the CPUs that they share
    local cpus=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-${NCPUS:-$(nproc)}}}
    echo "$((cpus > $1 ? cpus / $1 : 1))"
}

set_gpu_variables() {    # set_gpu_variables VERSION, of torch
    local name home recorder=TORCH_FR_BUFFER_SIZE dump=TORCH_FR_DUMP_TEMP_FILE
    # What libraries compile is kept on the node's own disk, unless somebody has said where: a home
    # folder that all nodes share is slow, and its file locks fail.
    for name in TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR MIOPEN_USER_DB_PATH \
        MIOPEN_CUSTOM_CACHE_DIR; do
        home=${name/CACHE_DIR/HOME}
        if [[ -z ${!name-}${!home-} ]]; then export "$name=$tmp_dir/$name"; fi
    done
    # NCCL's flight recorder, by which a hang leaves a trace, has other names since torch 2.9.
    if [[ $1 =~ ^(0|1|2\.[0-8])\. ]]; then
        recorder=TORCH_NCCL_TRACE_BUFFER_SIZE dump=TORCH_NCCL_DEBUG_INFO_TEMP_FILE
    fi
    export TORCH_NCCL_DUMP_ON_TIMEOUT=${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}
    export "$recorder=${!recorder:-2000}" "$dump=${!dump:-$run_dir/errors/$node-flight-}"
}

begin_walltime() {    # the script ends itself at the walltime: no scheduler does
    trap 'end_job "the walltime of $WALLTIME s"' USR1
    beside remind "$WALLTIME"
}

remind() {    # remind PID SECONDS: send USR1 to that process by then, if it is still there
    while ((SECONDS < $2)) && is_there "$1"; do sleep 1; done
    kill -USR1 "$1"
}

# Every half minute, and at first sooner: what the job's processes use on this node, as a line of
# JSON. After a day the lines come half as often, and so on, so that the file stays small.
watch_usage() {
    if ((${LOCAL_RANK:-0} == 0)); then beside note_usage "$run_dir" "$node" "$attempt"; fi
}
note_usage() {    # note_usage PID RUN_DIR NODE ATTEMPT: as long as the process PID is there
    set +e
    local second=0 next=2 lines=0 most=0 dirs cpu memory
    while is_there "$1"; do
        sleep 1
        ((++second < next)) && continue
        ((next += next < 30 ? next : 30 << lines / 2880))
        mapfile -t dirs < <(grep -slzxF "JOBGEN_RUN_DIR=$2" /proc/[0-9]*/environ |
            xargs -r grep -slzxF "JOBGEN_NODE=$3")
        ((${#dirs[@]})) || continue
        dirs=("${dirs[@]%/environ}")
        # CPU time of a process and of the children that it has waited for; memory of its own.
        read -r cpu memory < <(cat "${dirs[@]/%//stat}" "${dirs[@]/%//status}" |
            awk -v tick="$(getconf CLK_TCK)" '
                /^[0-9]+ \(/ { sub(/^.*\) /, ""); cpu += $12 + $13 + $14 + $15 }
                /^Rss(Anon|Shmem):/ { memory += $2 }
                END { printf "%.2f %.0f\n", cpu / tick, memory * 1024 }')
        ((most = memory > most ? memory : most, lines++))
        mkdir -p "$2/usage"
        printf '{"time": %(%s)T, "attempt": %d, "cpu_s": %s, "memory": %d, "most": %d, ' \
            -1 "$4" "$cpu" "$memory" "$most" >>"$2/usage/$3.jsonl"
        printf '"processes": %d, "gpus": "%s"}\n' "${#dirs[@]}" "$(list_gpus)" >>"$2/usage/$3.jsonl"
    done
} 2>/dev/null
list_gpus() {    # use, memory, total and power of those that the job sees, as their tool tells it
    if command -v nvidia-smi >/dev/null; then
        timeout 10 nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} \
            --query-gpu=utilization.gpu,memory.used,memory.total,power.draw \
            --format=csv,noheader,nounits
    elif command -v rocm-smi >/dev/null; then
        timeout 10 rocm-smi --showuse --showmeminfo vram --showpower --csv
    fi | tr -d '"' | tr '\n' ';'
}

find_rank() { rank=$1 local_rank=${2-}; }

tell_nodes() {    # what each node has to know; the rendezvous has a secret, for its owner alone
    local secret
    printf '%s\n' "${NODES[@]}" >"$attempt_dir/nodes"
    read -r secret </proc/sys/kernel/random/uuid
    (umask 077 && : >"$attempt_dir/world")
    printf '%s=%q\n' MASTER_ADDR "$MASTER_ADDR" MASTER_PORT "$MASTER_PORT" rendezvous_id "$secret" \
        work_dir "$PWD" run_end "${run_end-}" script_pid "${script_pid-}" >"$attempt_dir/world"
    say "job $job_id, start $attempt, on ${NODES[*]}; logs are in $run_dir"
}

find_node() {    # find_node NODE_RANK: what the first node has written for all, and the log
    node_rank=$1 stop='' child='' attempt_dir=${BASH_SOURCE[0]%/*} this_script=${BASH_SOURCE[0]}
    run_dir=${attempt_dir%/attempts/*} attempt=${attempt_dir##*/}
    node=$(sed -n "$((node_rank + 1))p" "$attempt_dir/nodes")
    # shellcheck source=/dev/null
    . "$attempt_dir/world"
    cd "$work_dir"
    mkdir -p "$run_dir/logs/$node"
    exec >>"$run_dir/logs/$node/agent.log" 2>&1 </dev/null
    trap 'stop=SIGTERM; kill -TERM "$child" 2>/dev/null || :' TERM INT HUP
}
check_rendezvous() {
    getent ahosts "$MASTER_ADDR" >/dev/null ||
        die "$node cannot resolve the name of the first node, $MASTER_ADDR"
    if ((${RANK:-$node_rank} == 0)) && (: <>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; then
        die "port $MASTER_PORT on $node is in use by another program"
    fi
}

# A node: its log, checks that spare the others a time-out, the agent, and how it ended.
run_node() {    # run_node [NODE_RANK]
    find_rank "$@"
    find_node "$rank"
    say "$node is node $node_rank of start $attempt; the rendezvous is at $MASTER_ADDR:$MASTER_PORT"
    trap 'report_node "$?"' EXIT
    prepare_node
    check_rendezvous
    : >"$attempt_dir/node-$node_rank.started"
    attend start_agent
    # torchrun calls every stop an error; the program says by a file that it stopped in order.
    if [[ -n $stop && -e $run_dir/STOPPED ]]; then status=0; fi
    exit "$status"
}
report_node() {    # report_node STATUS; the first node to fail leaves a file of its own
    trap '' TERM INT HUP
    if (($1)); then (set -o noclobber && echo "$node_rank $1" >"$attempt_dir/failed") || :; fi
    rm -rf "${tmp_dir-}"
    echo "$1" >"$attempt_dir/node-$node_rank.ended" || :
} 2>/dev/null

prepare_node() {    # nothing is taken over from around the job but the folder and the user
    unset "${!PET_@}" "${!TORCHELASTIC_@}" "${!TORCH_ELASTIC_@}" OMP_NUM_THREADS
    ulimit -S -c 0    # no core files, unless the spec's setup wants them
    # A folder on the node's own disk, gone when the node's part ends.
    if [[ ! -w ${TMPDIR:-/tmp} ]]; then export TMPDIR=/tmp; fi
    tmp_dir=$(mktemp -d "${TMPDIR:-/tmp}/jobgen-${run_dir##*/}.XXXXXX")
    guard_node
    watch_usage
}
start_agent() {    # in a process of its own, which the agent takes over
    export JOBGEN_RUN_DIR=$run_dir JOBGEN_JOB_ID=${run_dir##*/} JOBGEN_ATTEMPT=$attempt
    export JOBGEN_NODE=$node
    mark_agent
    load_environment
    agent
}

# All that an agent starts has a mark in its environment, by which it is found when it has outlived
# the agent. What a job submits is none of its processes.
mark_agent() { export JOBGEN_AGENT=$tmp_dir; }
leave_mark() { if [[ -n ${JOBGEN_AGENT-} ]]; then exec env -u JOBGEN_AGENT bash "$0" "$@"; fi; }
kill_marked() {    # kill_marked TMP_DIR: each process that has it as JOBGEN_AGENT
    for _ in 1 2 3; do
        grep -slzxF "JOBGEN_AGENT=$1" /proc/[0-9]*/environ | tr -dc '0-9\n' | xargs -r kill -KILL
        sleep 0.2
    done
}

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

load_environment() {
    local python=''
    export PYTHONUNBUFFERED=1    # lines reach the logs as they are printed
    set +eu    # the scripts of modules, venvs and conda are not written for strict mode
    trap 'tell_setup "$?"' EXIT
    environment
    trap - EXIT
    set -eu
    find_torch
    say "${python}OMP_NUM_THREADS=$OMP_NUM_THREADS"
}
tell_setup() {    # tell_setup STATUS
    if [[ -n ${doing-} ]]; then say "error: a command of the spec's $doing failed, exit code $1"; fi
}

find_torch() {    # sets python, to what is said of it
    local torch
    command -v python3 >/dev/null || die "there is no python3 on $node"
    torch=$(python3 -c 'from importlib.metadata import version; print(version("torch"))') ||
        die "there is no torch on $node for $(command -v python3)"
    python="torch $torch of $(command -v python3), "
    set_gpu_variables "$torch"
}

# What the agent starts for each process: its own log files, then the program.
run_rank() {
    local logs=$JOBGEN_RUN_DIR/logs/$JOBGEN_NODE/rank-$RANK
    local error=$JOBGEN_RUN_DIR/errors/$JOBGEN_NODE-$RANK
    if ((TORCHELASTIC_RESTART_COUNT)); then error+=.restart-$TORCHELASTIC_RESTART_COUNT; fi
    exec >>"$logs.out" 2>>"$logs.err"
    # torch writes an exception into a folder of its own; keep it under node and rank instead.
    ln -sf "$error.json" "$TORCHELASTIC_ERROR_FILE"
    program
}
list_exit_codes() {    # list_exit_codes NODE: a line RANK CODE for each, by the agent's table
    sed -n "/ of start $attempt;/,\$p" "$run_dir/logs/$1/agent.log" | awk '
        $1 == "rank" { rank = $3 }
        $1 == "exitcode" && $3 != -15 { print rank, $3 < 0 ? 128 - $3 : $3 }'
}

attend() {    # attend COMMAND...: run it to its end, act on signals when they come; sets status
    "$@" &
    child=$! status=0
    wait "$child" || status=$?
    while kill -0 "$child" 2>/dev/null; do    # it was a signal that ended the wait
        if wait "$child"; then status=0; else status=$?; fi
    done
}

start_launchers() {    # one for each node
    local index
    for index in "${!NODES[@]}"; do
        launch "$index" &
        launchers+=($!)
    done
}

# The first node that fails ends the job. What launchers return is not trusted, the nodes' records
# are; a shared file system may take a while to show one.
launchers=() LAG=${LAG:-90}
launchers_run() { kill -0 "${launchers[@]}" 2>/dev/null; }
list_silent() {    # the names of the nodes that have not recorded their end
    local index
    for index in "${!NODES[@]}"; do
        [[ -e $attempt_dir/node-$index.ended ]] || echo "${NODES[index]}"
    done
}
run_job() {    # sets status
    local next_look=0 patience=$LAG pid silent
    status=0
    tell_nodes
    start_launchers >"$attempt_dir/launcher.log" 2>&1 </dev/null
    while [[ -z $stop$lost && ! -e $attempt_dir/failed ]] && launchers_run; do
        if ((SECONDS >= next_look)); then
            look
            next_look=$((SECONDS + BEAT))
        fi
        sleep 1 &
        wait "$!" || :
    done
    # Nothing is left to save where a node is gone: the others need not take long to stop.
    if [[ -n $lost ]]; then echo "lost $lost" >"$attempt_dir/failed"; fi
    if launchers_run; then
        kill -TERM "${launchers[@]}" 2>/dev/null || :
        patience=45
    else
        # A launcher that has failed is believed: then the records only tell the details.
        for pid in "${launchers[@]}"; do wait "$pid" || status=$? patience=15; done
    fi
    patience=$((SECONDS + patience))
    while silent=$(list_silent | grep -vxF "${lost// /$'\n'}") && ((SECONDS < patience)); do
        sleep 0.5 || :
    done
    kill -KILL "${launchers[@]}" 2>/dev/null || :
    if [[ -n $stop ]]; then return; fi
    if [[ -n $lost ]]; then
        reason="$lost is lost: $why"
    elif [[ -n $silent && ! -e $attempt_dir/failed ]] && ((status == 0)); then
        lost=${silent//$'\n'/ }
        reason="nothing is heard from $lost; do all nodes share the folder $PWD?"
    fi
    if [[ -n $reason || -e $attempt_dir/failed ]]; then status=1; fi
}
end_job() {    # end_job REASON; the scheduler may leave no time for more than this
    stop=$1
    if [[ $stop == SIG* ]]; then record_outcome "${at_signal:-cancelled}" 143; fi
}

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
    file=$run_dir/logs/$node/rank-$first_rank.err
    if [[ ! -s $file ]]; then file=$run_dir/logs/$node/agent.log; fi
    if [[ ! -s $file ]]; then file=$attempt_dir/launcher.log; fi
}

# Whatever ends this script, there is a sentence on it, and the outcome is on record.
conclude() {    # conclude STATUS
    local status=$1 file='' first_rank=''
    set +eu
    trap '' TERM INT USR1    # what is decided now stays
    if [[ -n $word ]]; then
        :    # the chain has said what there is to say
    elif [[ -n $stop ]]; then
        if [[ $stop == SIG* ]]; then word=cancelled; fi
        status=143
        say "ENDED by $stop"
    elif ((status == 0)); then
        word='done'
        if [[ -e $run_dir/STOPPED ]]; then
            say "STOPPED early, in order"
        else
            say "DONE: all processes ended well"
            : >"$run_dir/DONE"
        fi
    elif [[ -n $reason ]]; then
        say "FAILED: $reason"
    else
        find_cause
        if [[ -n $file ]]; then reason=": ${first_rank:+rank $first_rank on }$node, by $file"; fi
        say "FAILED with exit code $status$reason"
        if [[ -n $file ]]; then tail -n 20 "$file"; fi
    fi
    record_outcome "${word:-failed}" "$status"
    rm -rf "${tmp_dir-}" "$attempt_dir/from_shell"
    exit "$status"
}
record_outcome() {    # record_outcome WORD STATUS
    printf '%-80s\n' "$*" 1<>"$attempt_dir/reserved" || :
    mv "$attempt_dir/reserved" "$attempt_dir/outcome" || :
}
lost_another() { grep -qsE '(closed|reset) by peer|Broken pipe|ncclRemoteError' "$1"; }

main() {
    # This same file is called again, with a function to begin with: for each node and each process.
    if declare -F "${1-}" >/dev/null; then "$@"; exit; fi
    leave_mark "$@"
    find_job "$@"
    make_run_folder
    find_nodes
    run_job
    exit "$status"
}

main "$@"
