load_environment() {
    local python=''
    export PYTHONUNBUFFERED=1    # lines reach the logs as they are printed
    set +eu    # the scripts of modules, venvs and conda are not written for strict mode
    trap 'tell_setup "$?"' EXIT
    environment
    trap - EXIT
    set -eu
    optional find_torch
    say "${python}OMP_NUM_THREADS=$OMP_NUM_THREADS"
}
tell_setup() {    # tell_setup STATUS
    if [[ -n ${doing-} ]]; then say "error: a command of the spec's $doing failed, exit code $1"; fi
}
