#!/bin/bash
# portable: 2 nodes x 4 processes, for this machine alone
# rendered by jobgen from: portable.yaml
# to render it again: jobgen render portable.yaml --site local
# jobgen: {"name": "portable", "spec": "portable.yaml", "digest": "119332421e0b915e", "scheduler": "local", "site": "local", "groups": [{"nodes": 2, "processes": 4, "gpus": 4}], "walltime": 3600}
set -euo pipefail    # an unset variable or a failed command ends the job

JOB_NAME=portable    # logs and results are in runs/portable/<job id>
PROCESSES=(4 4)    # on each node
WALLTIME=3600    # seconds

environment() {    # of every process, set up on each node
    share_gpus "${PROCESSES[@]}"    # GPUs of each node
    export GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo    # names of this machine may lead anywhere
    local cpus=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-${NCPUS:-$(nproc)}}}
    export OMP_NUM_THREADS=$((cpus > 8 ? cpus / 8 : 1))
    # NCCL's flight recorder leaves a trace of a hang; what is compiled stays on the node's disk.
    export TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_BUFFER_SIZE=2000
    export TORCH_{FR_DUMP,NCCL_DEBUG_INFO}_TEMP_FILE="$run_dir/errors/$node-flight-"
    export TRITON_CACHE_DIR="$tmp_dir/cache" TORCHINDUCTOR_CACHE_DIR="$tmp_dir/cache"
    export MIOPEN_USER_DB_PATH="$tmp_dir/cache" MIOPEN_CUSTOM_CACHE_DIR="$tmp_dir/cache"
    # What the GPUs do, every 30 s: time, index, busy %, MiB used, MiB in all, W.
    nvidia-smi -l 30 --format=csv,noheader,nounits \
        --query-gpu=timestamp,index,utilization.gpu,memory.used,memory.total,power.draw \
        >>"$run_dir/usage/$node.csv" 2>/dev/null &
}

program() {    # what each process runs
    exec python3 -u -m jobgen.trainer --model gpt-small --steps 200
}

find_nodes() {    # on the first node: all of them, in the order of the allocation
    begin_walltime
    NODES=(node0 node1)    # names for the logs
    MASTER_ADDR=127.0.0.1
    MASTER_PORT=$((20000 + 10#$job_number % 10000))    # so that two jobs do not meet
}

agent() {    # torchrun's agent, one on each node, which starts the node's processes
    python3 -V && exec python3 -c "$TORCHRUN_LOOPBACK" \
        --nnodes=2 --node-rank="$node_rank" --nproc-per-node=4 \
        --max-restarts=0 --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" \
        --log-dir="$attempt_dir/torchrun" --no-python bash "$this_script" run_rank
}

launch() {    # launch NODE_RANK: the agent of a node, on this machine
    exec bash "$this_script" run_node "$1"
}

