main() {
    # This same file is called again, with a function to begin with: for each node and each process.
    if declare -F "${1-}" >/dev/null; then "$@"; exit; fi
    # What another job submits is none of its processes.
    if [[ -n ${JOBGEN_AGENT-} ]]; then exec env -u JOBGEN_AGENT bash "$0" "$@"; fi
    find_job "$@"
    make_run_folder
    find_nodes
    run_job
    exit "$status"
}
