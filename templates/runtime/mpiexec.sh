export USER=${USER:-$(id -un)} LOGNAME=${LOGNAME:-$(id -un)}    # launchers may leave them out
# Open MPI, PALS, MVAPICH, and Hydra of MPICH and Intel MPI number what they start in their own
# variables.
find_rank() {    # sets rank, local_rank and node_rank
    local first
    rank=$(first_of OMPI_COMM_WORLD_RANK PALS_RANKID PMI_RANK MV2_COMM_WORLD_RANK)
    local_rank=$(first_of OMPI_COMM_WORLD_LOCAL_RANK PALS_LOCAL_RANKID MPI_LOCALRANKID \
        PMI_LOCAL_RANK MV2_COMM_WORLD_LOCAL_RANK)
    node_rank=$rank first=$((rank - local_rank))
    if ! has end_process; then return; fi
    for ((node_rank = 0; first > 0; node_rank++)); do
        first=$((first - ${PROCESSES[node_rank]:-${PROCESSES[0]}}))
    done
    ((first == 0 && local_rank < ${PROCESSES[node_rank]:-${PROCESSES[0]}})) ||
        die "rank $rank is number $local_rank on $(uname -n), where this script has put another"
}
first_of() {    # first_of VARIABLE...: the value of the first that has one
    local name
    for name; do
        if [[ -n ${!name-} ]]; then echo "${!name}" && return; fi
    done
    die "mpiexec has set none of $*"
}
find_mpiexec() {    # find_mpiexec [KIND]: sets mpi, which kind it is; the environment may bring it
    node=${NODES[0]} node_rank=0 local_rank=1 tmp_dir=$attempt_dir mpi=${1-}
    export JOBGEN_RUN_DIR=$run_dir JOBGEN_NODE=$node
    # It may go through srun, which would read as its options what a job around this one has left.
    unset "${!SLURM_CPU_BIND@}" "${!SLURM_MEM_@}" "${!SLURM_GPU@}" "${!SLURM_TRES_@}"
    export SLURM_EXPORT_ENV=ALL
    set +eu
    environment
    set -eu
    unset TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR MIOPEN_USER_DB_PATH MIOPEN_CUSTOM_CACHE_DIR
    if [[ $mpi == ibrun ]]; then
        command -v ibrun >/dev/null || die "there is no ibrun on $node"
        return
    fi
    command -v mpiexec >/dev/null || die "there is no mpiexec on $node"
    if [[ -n $mpi ]]; then return; fi
    case "$(mpiexec --version 2>&1) $(command -v mpiexec)" in
        *"Open MPI"* | *OpenRTE*) mpi=openmpi ;;
        *HYDRA* | *"Intel(R) MPI"*) mpi=hydra ;;
        *PALS* | */pals/*) mpi=pals ;;
        *) die "this mpiexec is none of Open MPI, Hydra and PALS: $(command -v mpiexec)" ;;
    esac
}
list_hosts() {    # list_hosts FORMAT COUNT...: a file of nodes, each with its number of processes
    local index counts=("${@:2}")
    for index in "${!NODES[@]}"; do
        # shellcheck disable=SC2059
        printf "$1\n" "${NODES[index]}" "${counts[index]:-${counts[0]}}"
    done >"$attempt_dir/hosts"
    echo "$attempt_dir/hosts"
}
list_part() {    # list_part FIRST COUNT: a file of these nodes
    printf '%s\n' "${NODES[@]:$1:$2}" >"$attempt_dir/hosts-$1"
    echo "$attempt_dir/hosts-$1"
}
