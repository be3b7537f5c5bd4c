#!/bin/bash
# quickstart: 2 nodes x 2 processes, for this machine alone
# rendered by jobgen from: quickstart.yaml
# to render it again: jobgen render quickstart.yaml
# left out, of no use here: resources.cpus_per_node
# jobgen: {"name": "quickstart", "spec": "quickstart.yaml", "digest": "7f96b5826045fbd3", "scheduler": "local", "groups": [{"nodes": 2, "processes": 2}], "walltime": 600}
set -euo pipefail    # an unset variable or a failed command ends the job

job_name=quickstart    # logs and results are in runs/quickstart/<job id>
processes=(2 2)    # on each node
walltime=600    # seconds

environment() {    # set up on each node, for every process
    share_gpus "${processes[@]}"    # GPUs of each node
    export GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo    # its name may resolve to anything
    local cpus=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-${NCPUS:-$(nproc)}}}
    export OMP_NUM_THREADS=$((cpus > 4 ? cpus / 4 : 1))
    # NCCL's flight recorder traces hangs. Compilers cache on the node's own disk.
    export TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_BUFFER_SIZE=2000
    export TORCH_{FR_DUMP,NCCL_DEBUG_INFO}_TEMP_FILE="$run_dir/errors/$node-flight-"
    export TRITON_CACHE_DIR="$tmp_dir/cache" TORCHINDUCTOR_CACHE_DIR="$tmp_dir/cache"
    export MIOPEN_USER_DB_PATH="$tmp_dir/cache" MIOPEN_CUSTOM_CACHE_DIR="$tmp_dir/cache"
    # Logs each GPU every 30 s: time, index, busy %, MiB used, MiB in all, W.
    nvidia-smi -l 30 --format=csv,noheader,nounits \
        --query-gpu=timestamp,index,utilization.gpu,memory.used,memory.total,power.draw \
        >>"$run_dir/usage/$node.csv" 2>/dev/null &
}

program() {    # what each process runs
    exec python3 -u -m jobgen.trainer --model gpt-tiny --steps 300
}

find_nodes() {    # called on the first node; lists all nodes in the order of the allocation
    begin_walltime
    names=(node0 node1)    # names for the logs
    MASTER_ADDR=127.0.0.1
    MASTER_PORT=$((20000 + 10#$job_number % 10000))    # from the job's id, so that ports differ
}

agent() {    # torchrun's agent: one on each node, which starts the node's processes
    python3 -V && exec python3 -c "$torchrun_loopback" \
        --nnodes=2 --node-rank="$node_rank" --nproc-per-node=2 \
        --max-restarts=0 --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" \
        --log-dir="$attempt_dir/torchrun" --no-python bash "$this_script" run_rank
}

launch() {    # launch NODE_RANK: the agent of a node, on this machine
    exec bash "$this_script" run_node "$1"
}

# ---- Part 2: the jobgen runtime 2, digest e3107db39e39 ------------------------------------------
# The same in each script of its kind: local, walltime, nodes, torchrun, watch, guard.
say() { printf 'jobgen: %s\n' "$*" || :; }
die() { say "error: $*" >&2; exit 1; }
has() { declare -F -- "$1" >/dev/null; }    # whether this script includes the function
make_run_folder() {    # with a folder for each start, so that a requeue overwrites nothing
    run_dir=$PWD/runs/$job_name/${first_job:-$job_id} attempt=0 stop='' child='' word='' reason=''
    it=$(cat "$run_dir"/attempts/0/{job,script} 2>/dev/null) || it=''    # numbers are used again
    [[ ${SLURM_RESTART_COUNT-} ]] || ! grep -qs '^[df]' "$run_dir"/attempts/*/outcome || it=${it:+x}
    [[ -z $it || ${first_job-} || $it == "$(echo "${PBS_JOBID:-$job_id}" && cat "$0")" ]] ||
        die "an earlier job with this number has the folder: $run_dir; submit this one again"
    mkdir -p "$run_dir"/{logs,errors,usage,attempts} || die "cannot make the run folder $run_dir"
    until mkdir "$run_dir/attempts/$attempt" 2>/dev/null; do
        [[ -d $run_dir/attempts/$((attempt++)) ]] || die "cannot write to $run_dir/attempts"
    done
    attempt_dir=$run_dir/attempts/$attempt this_script=$run_dir/attempts/$attempt/script
    printf '%4096s' '' >"$attempt_dir/reserved"    # room for the outcome on a full disk
    cp "$0" "$this_script"
    sed -n 's/^# jobgen: {/{/p' "$0" >"$run_dir/plan.json"    # for jobgen status, report, ...
    echo "${PBS_JOBID:-$job_id}" >"$attempt_dir/job"
    trap 'conclude "$?"' EXIT; trap : USR1 USR2 PIPE    # untrapped, they end bash with code 0
    for it in TERM INT HUP XCPU; do trap 'stop=SIG'"$it && end_early" "$it"; done
    rm -f "$run_dir"/{STOP,STOPPED,DONE}
}
# At a signal: the scheduler may kill this script before conclude.
end_early() { echo "${early_outcome:-cancelled 143}" >"$attempt_dir/outcome" || :; end_job; }
run_agent() {    # on each node; drops variables of an outer job; sets status
    unset "${!PET_@}" "${!TORCHELASTIC_@}" "${!TORCH_ELASTIC_@}" OMP_NUM_THREADS
    if [[ ! -w ${TMPDIR:-/tmp} ]]; then export TMPDIR=/tmp; fi
    tmp_dir=$(mktemp -d "${TMPDIR:-/tmp}/jobgen-${run_dir##*/}.XXXXXX")    # on the node's own disk
    if has start_guard; then start_guard; fi    # before JOBGEN_AGENT marks this node's processes
    export JOBGEN_RUN_DIR=$run_dir JOBGEN_JOB_ID=${run_dir##*/} JOBGEN_ATTEMPT=$attempt
    export JOBGEN_NODE=$node JOBGEN_AGENT=$tmp_dir PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1
    run_child start_agent
    [[ -e $tmp_dir/reached ]] || say "the program never began on $node; exit code $status"
    [[ -e $tmp_dir/reached ]] || status=${status/#0/1}    # an exit in the setup is a failure
}
start_agent() {    # in a process that the agent replaces
    if has container; then enter_container; fi
    set +u; environment; set -u    # scripts of modules and environments use unset variables
    agent
}
run_child() {    # run_child COMMAND: in the background, as traps run only in wait; sets status
    tail --pid="$$" -f /dev/null &>/dev/null & witness=$! && disown
    "$@" & child=$!
    if [[ -n ${stop-} ]]; then kill -TERM "$child" || :; fi    # a signal came first
    while status=0; wait "$child" || status=$?; kill -0 "$child" 2>/dev/null; do :; done
}
# SIGTERM, unless the scheduler has sent it to all processes: the witness has then ended by it
end_child() { sleep 0.5 || :; ! kill -0 "${witness-}" || kill -TERM "$child" || :; } 2>/dev/null
has_lost_peer() {    # has_lost_peer LOG: whether its last error only says that a peer is gone
    grep -E '^(\{.*|\S* *\S*)(Error|Exception)\b|what\(\)|^F[0-9]|no (heartbeat|step) |times out'\
'|^Timeout \(|another rank' "$1" | tail -n 1 |
        grep -vE '^(BrokenPipe|Connection\w+)Error: \[Errno' | grep -qE 'by peer|Broken pipe'\
'|ncclRemote|Horovod|out .*waiting|timeout|s timed out|Barrier|preamble|another (rank|task)'\
'|no (heartbeat|step) |times out|^Timeout(Error: [^[]| \()|lost con|pleteRead|got 0 bytes'
}
find_first_error() {    # sets file and reason: the first failure that is not just a lost peer
    while read -r file && has_lost_peer "$file"; do peers+=(${names[1]:+"$file"}); done < <(
        awk -v start=" in start $((attempt + 1));" '/ in start [0-9]+;/ { own = index($0, start) }
            $1 == "rank" { name = FILENAME; sub("[^/]*$", "rank-" $3 ".err", name) }
            $1 == "exitcode" && own && $3 != -15 { print name }
            ' "$run_dir"/logs/*/agent.log | xargs -r -d '\n' ls -tr
        read -r index _ <"$attempt_dir/failed" && echo "$run_dir/logs/${names[index]}/agent.log"
        find "$attempt_dir/launcher.log" "$run_dir/logs/${names[0]}/agent.log" -size +0)
    of='s|.*/logs/([^/]+)/rank-([0-9]+).*|rank \2 on \1, |p; s|.*/logs/(.*)/agent.log|\1, |p'
    reason+=${file:+": $([[ ${peers-} && $file != *.err ]] || sed -nE "$of" <<<"$file")see $file"}
} 2>/dev/null
conclude() {    # conclude STATUS: on every exit, reports and records the outcome
    set +eu && trap '' TERM INT HUP XCPU USR1 && local status=$1 file='' it
    [[ -d $attempt_dir ]] || { say "FAILED: the run folder was removed: $run_dir" && exit 1; }
    for it in is_preempted start_again settle_walltime count_worlds; do ! has "$it" || "$it"; done
    case $word:$stop:$status in
        ::0) [[ -e $run_dir/STOPPED ]] || : >"$run_dir/DONE"
            word='done' && say "DONE: ${well:-all processes ended well}" ;;
        ::*) if [[ -z $reason ]]; then reason=" with exit code $status" && find_first_error; fi
            say "FAILED$reason" && tail -n 20 "${file:-/dev/null}" 2>/dev/null ;;
        :*) word=cancelled status=143 && say "ENDED by $stop$reason" ;;
    esac
    printf '%-80s\n' "${word:-failed} $status" 1<>"$attempt_dir/reserved"
    mv "$attempt_dir/reserved" "$attempt_dir/outcome"
    rm -rf "${tmp_dir-}" "$attempt_dir/from_shell"
    exit "$status"
}
main() {    # main [FUNCTION]: nodes and processes call this file with a function
    if (($#)); then has "$1" || die "takes no arguments: jobgen submit SPEC -- $*"; "$@"; exit; fi
    find_job; make_run_folder; find_nodes; run_job; exit "$status"
}
export USER=${USER:-$(id -un)} LOGNAME=${LOGNAME:-$(id -un)}    # some launchers drop them
find_job() {    # sets job_id and job_number, which determines the port
    job_id=${JOBGEN_SUBMIT_ID:-$(date +%Y%m%d-%H%M%S)-$$}
    job_number=${job_id##*-} script_pid=$$    # nodes end when this script does
    unset JOBGEN_SUBMIT_ID
    # A job started within a job drops its mark, so that it survives the outer job.
    if [[ -n ${JOBGEN_AGENT-} ]]; then
        JOBGEN_SUBMIT_ID=$job_id exec env -u JOBGEN_AGENT bash "$0"
    fi
    if has find_task; then find_task; fi
}

find_lost() {    # sets lost and reason; a node whose shells were killed has no record
    local index
    for index in "${!names[@]}"; do
        if kill -0 "${launchers[index]}" 2>/dev/null; then continue; fi
        sleep 1    # the guard may be writing it
        [[ -e $attempt_dir/node-$index.ended ]] || lost=${names[index]}
    done
    reason=${lost:+": $lost is lost: its shell was killed"}
}
# Each node gets its share of this machine's GPUs, or none if there are too few for all nodes.
share_gpus() {    # share_gpus COUNT...: how many each node gets, in node order
    local gpus=() listed first=0 count all=0 shares=("$@")
    listed=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null) || return 0
    mapfile -t gpus <<<"$listed"
    if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
        IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
    fi
    for count in "${shares[@]}"; do all=$((all + count)); done
    for count in "${shares[@]:0:node_rank}"; do first=$((first + count)); done
    if ((${#gpus[@]} >= all)); then
        gpus=("${gpus[@]:first:shares[node_rank]}")
        CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]}")
    else
        say "GPUs here: ${#gpus[@]}, wanted: $all; so the processes run on the CPU"
        CUDA_VISIBLE_DEVICES=
    fi
    export CUDA_VISIBLE_DEVICES
}
# torchrun listens on every interface; nodes on this machine need only loopback.
torchrun_loopback='
import socket
from torch.distributed.elastic.rendezvous import static_tcp_rendezvous as rendezvous
from torch.distributed.run import main

open_store = rendezvous.TCPStore

def open_on_loopback(host, port, size, is_master, *more, **options):
    if is_master:
        options["master_listen_fd"] = socket.create_server((host, port)).detach()
    return open_store(host, port, size, is_master, *more, **options)

rendezvous.TCPStore = open_on_loopback
main()
'
begin_walltime() {    # no scheduler ends the job, so the script does
    trap '((SECONDS < walltime)) || { stop="the walltime of $walltime s" && end_job; }' USR1
    remind "$((walltime - SECONDS))" &>/dev/null &
}
remind() {    # remind SECONDS: then sends USR1 to this script if it still runs
    local end=$((SECONDS + $1))
    while ((SECONDS < end)) && kill -0 "$$" 2>/dev/null; do sleep 1; done
    kill -USR1 "$$" 2>/dev/null
}
settle_walltime() {    # sets word and status if the walltime decides them
    if [[ -n $stop && $stop != SIG* ]]; then
        word=failed status=143
        say "ENDED by $stop"
    fi
}
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
run_rank() {    # the agent calls this for each process, which gets its own log files
    local log=$JOBGEN_RUN_DIR/logs/$JOBGEN_NODE/rank-$RANK start="start $((JOBGEN_ATTEMPT + 1))"
    say "rank $RANK is process $BASHPID" && exec >>"$log.out" 2>>"$log.err"
    ((!JOBGEN_ATTEMPT)) || { say "$start" && say "$start" >&2; }
    export TORCHELASTIC_ERROR_FILE=$JOBGEN_RUN_DIR/errors/$JOBGEN_NODE-$RANK.json
    [[ -z ${SLURM_JOB_ID-} ]] || export SLURM_PROCID=$RANK SLURM_LOCALID=$LOCAL_RANK \
        SLURM_NTASKS=$WORLD_SIZE SLURM_NPROCS=$WORLD_SIZE    # libraries read these
    tee -a "$JOBGEN_AGENT/reached" "${0%/*}/reached-$JOBGEN_NODE" </dev/null
    program
}
find_rank() { node_rank=$1 rank=${2-$1} local_rank=${3-}; }
run_job() {    # sets status from the nodes' own records, since pbsdsh always returns 0
    local patience=45 index
    lost='' launchers=()
    tell_nodes
    for index in $(if has bring_launcher; then echo 0; else echo "${!names[@]}"; fi); do
        launch "$index" >>"$attempt_dir/launcher.log" 2>&1 </dev/null &
        launchers+=("$!")
    done
    until is_over || [[ -n $stop$lost || -e $attempt_dir/failed ]]; do
        find_lost
        sleep 1 || :
    done
    kill -TERM "${launchers[@]}" 2>/dev/null || :
    until is_over || ((patience-- == 0)); do sleep 1 || :; done
    kill -KILL "${launchers[@]}" 2>/dev/null || :
    status=$((${#lost} > 0))
    if [[ -z $lost && -e $attempt_dir/failed ]]; then read -r _ status _ <"$attempt_dir/failed"; fi
}
is_over() {    # whether every node is lost or has recorded its end
    local index
    for index in "${!names[@]}"; do
        [[ -e $attempt_dir/node-$index.ended || " $lost " == *" ${names[index]} "* ]] || return 1
    done
}
end_job() { :; }    # run_job ends the nodes
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
main "$@"
