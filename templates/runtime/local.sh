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
