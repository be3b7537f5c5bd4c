main() {
    if has "${1-}"; then "$@"; exit; fi    # this file is called again: for a node, or a process
    find_job
    make_run_folder
    find_nodes
    run_job
    exit "$status"
}
main "$@"
