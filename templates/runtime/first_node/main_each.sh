main() {
    # The nodes call this same file again, with a function to begin with.
    if declare -F "${1-}" >/dev/null; then "$@"; exit; fi
    # What another job submits is none of its processes.
    if [[ -n ${JOBGEN_AGENT-} ]]; then exec env -u JOBGEN_AGENT bash "$0" "$@"; fi
    find_job "$@"
    make_run_folder
    find_nodes
    tell_nodes
    start_launchers >"$attempt_dir/launcher.log" 2>&1 </dev/null
    supervise
    exit "$status"
}
