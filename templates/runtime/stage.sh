# A packed environment is unpacked on the node's own disk: thousands of small files are slow to read
# for all nodes at once.
unpack_environment() {    # unpack_environment ARCHIVE
    local fresh='' room
    [[ -r $1 ]] || die "no packed environment on $node: $1"
    if mkdir "$tmp_dir/env" 2>/dev/null; then fresh=yes; fi
    if [[ -n $fresh ]] && ! tar -xf "$1" -C "$tmp_dir/env"; then
        room=$(df -h --output=avail "$tmp_dir" | tail -n 1)
        die "cannot unpack on $node, with $room left for $tmp_dir: $1"
    fi
    [[ -r $tmp_dir/env/bin/activate ]] || die "no bin/activate is at the top of $1"
    # shellcheck source=/dev/null
    . "$tmp_dir/env/bin/activate"
    # A venv that was moved by other means leads to where it was made.
    [[ $(command -v python3) == "$tmp_dir/env/"* ]] ||
        die "pack it with conda-pack or venv-pack, it leads to $(command -v python3): $1"
    if [[ -n $fresh && -x $tmp_dir/env/bin/conda-unpack ]]; then
        conda-unpack || die "conda-unpack failed on $node: $1"
    fi
}
