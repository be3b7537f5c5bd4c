#!/bin/bash
# portable: 2 nodes x 4 processes, for this machine alone
# rendered by jobgen from: portable.yaml
# to render it again: jobgen render portable.yaml --scheduler local --site local
# jobgen: {"name": "portable", "spec": "portable.yaml", "digest": "119332421e0b915e", "scheduler": "local", "site": "local", "groups": [{"nodes": 2, "processes": 4, "gpus": 4}], "walltime": 3600}
# shellcheck disable=SC2034,SC2154,SC2317,SC2329
set -euo pipefail    # an unset variable or a failed command ends the job

JOB_NAME=portable    # logs and results are in runs/portable/<job id>
PROCESSES=(4 4)    # on each node
WALLTIME=3600    # seconds

environment() {    # of every process, set up on each node
    share_gpus
    OMP_NUM_THREADS=$(threads_for 8)
    export OMP_NUM_THREADS
    # With a store that is shared, restarts of torchrun often hang.
    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
}

program() {    # what each process runs
    exec python3 -u -m jobgen.trainer --model gpt-small --steps 200
}

find_nodes() {    # on the first node: all of them, in the order of the allocation
    NODES=(node0 node1)    # names for the logs
    MASTER_ADDR=127.0.0.1
    MASTER_PORT=$((20000 + 10#$job_number % 10000))    # so that two jobs do not meet
}

agent() {    # what runs once on each node: torchrun's agent, which starts the node's processes
    local address
    address=127.0.0.1
    export PET_RDZV_ID=$rendezvous_id    # a secret, which no command line shows
    exec python3 -m torch.distributed.run \
        --nnodes=2 --nproc-per-node=4 --max-restarts=0 \
        --rdzv-backend=c10d \
        --rdzv-conf="is_host=$((node_rank == 0)),join_timeout=600,read_timeout=600" \
        --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --local-addr="$address" \
        --log-dir="$attempt_dir/torchrun" --no-python bash "$this_script" run_rank
}

launch() {    # launch NODE_RANK: the agent of a node, on this machine
    exec bash "$this_script" run_node "$1"
}

