activate_conda() {    # activate_conda NAME
    command -v conda >/dev/null || die "there is no conda command on $node"
    eval "$(conda shell.bash hook)"
    conda activate "$1" || die "conda activate failed on $node: $1"
}
