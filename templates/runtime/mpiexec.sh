# Open MPI, PALS, MVAPICH and Hydra (MPICH, Intel MPI) each pass the rank in their own variables.
find_rank() {    # sets rank, local_rank and node_rank
    local first
    rank=${OMPI_COMM_WORLD_RANK-${PALS_RANKID-${PMI_RANK-${MV2_COMM_WORLD_RANK-}}}}
    local_rank=${MPI_LOCALRANKID-${PMI_LOCAL_RANK-${MV2_COMM_WORLD_LOCAL_RANK-}}}
    local_rank=${OMPI_COMM_WORLD_LOCAL_RANK-${PALS_LOCAL_RANKID-$local_rank}}
    [[ -n $rank && -n $local_rank ]] || die "mpiexec has not numbered its processes"
    node_rank=$rank first=$((rank - local_rank))
    if ! has end_process; then return; fi
    for ((node_rank = 0; first > 0; node_rank++)); do
        first=$((first - ${processes[node_rank]:-${processes[0]}}))
    done
    ((first == 0 && local_rank < ${processes[node_rank]:-${processes[0]}})) ||
        die "rank $rank is number $local_rank on $(uname -n), where this script has put another"
}
bring_launcher() {    # bring_launcher COMMAND: modules or the environment may provide it
    node=${names[0]} node_rank=0 local_rank=1 tmp_dir=$attempt_dir
    export JOBGEN_RUN_DIR=$run_dir JOBGEN_NODE=$node
    set +u
    environment
    set -u
    command -v "$1" >/dev/null || die "there is no $1 on $node"
}
