activate_venv() {    # activate_venv FOLDER
    [[ -r $1/bin/activate ]] || die "no virtual environment on $node: $1"
    # shellcheck source=/dev/null
    . "$1/bin/activate"
}
