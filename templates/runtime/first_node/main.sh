main() {
    # This same file is called again, with a function to begin with: for each node and each process.
    if declare -F "${1-}" >/dev/null; then "$@"; exit; fi
    optional leave_mark "$@"
    find_job "$@"
    make_run_folder
    find_nodes
    run_job
    exit "$status"
}
