find_torch() {    # sets python, to what is said of it
    local torch
    command -v python3 >/dev/null || die "there is no python3 on $node"
    torch=$(python3 -c 'from importlib.metadata import version; print(version("torch"))') ||
        die "there is no torch on $node for $(command -v python3)"
    python="torch $torch of $(command -v python3), "
    optional set_gpu_variables "$torch"
}
