prepare_node() {    # nothing is taken over from around the job but the folder and the user
    unset "${!PET_@}" "${!TORCHELASTIC_@}" "${!TORCH_ELASTIC_@}" OMP_NUM_THREADS
    ulimit -S -c 0    # no core files, unless the spec's setup wants them
    # A folder on the node's own disk, gone when the node's part ends.
    if [[ ! -w ${TMPDIR:-/tmp} ]]; then export TMPDIR=/tmp; fi
    tmp_dir=$(mktemp -d "${TMPDIR:-/tmp}/jobgen-${run_dir##*/}.XXXXXX")
    optional guard_node
    optional watch_usage
}
start_agent() {    # in a process of its own, which the agent takes over
    export JOBGEN_RUN_DIR=$run_dir JOBGEN_JOB_ID=${run_dir##*/} JOBGEN_ATTEMPT=$attempt
    export JOBGEN_NODE=$node
    optional mark_agent
    optional tell_end
    optional enter_container
    load_environment
    optional preflight
    agent
}
