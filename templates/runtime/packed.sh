# Each node unpacks the environment on its own disk: shared storage is slow when all nodes read
# thousands of small files at once.
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
    # A venv that was merely copied still points to where it was made.
    [[ $(command -v python3) == "$tmp_dir/env/"* ]] ||
        die "pack it with conda-pack or venv-pack, it leads to $(command -v python3): $1"
    if [[ -n $fresh && -x $tmp_dir/env/bin/conda-unpack ]]; then
        conda-unpack || die "conda-unpack failed on $node: $1"
    fi
}
# The agent and its processes run in the container; the shell that waits for the agent does not.
enter_container() {    # replaces the agent
    local path
    local -A shared=(["$PWD"]='' [/tmp]='' ["${TMPDIR:-/tmp}"]='')    # same paths inside
    shared_folders=("${!shared[@]}")
    unset BASH_ENV    # the host's file
    set +eu
    container bash "$this_script" run_inside "$node_rank" "$tmp_dir" "${rank-}" "${local_rank-}"
    exit
}
run_inside() {    # run_inside NODE_RANK TMP_DIR RANK LOCAL_RANK: called in the container
    node_rank=$1 tmp_dir=$2 rank=$3 local_rank=$4 node=$JOBGEN_NODE run_dir=$JOBGEN_RUN_DIR
    attempt=$JOBGEN_ATTEMPT attempt_dir=${0%/*} this_script=$0
    if [[ -e $attempt_dir/world ]]; then
        # shellcheck source=/dev/null
        . "$attempt_dir/world"
    fi
    unset -f container
    start_agent
}
bind_shared() {    # bind_shared OPTION: sets binds
    local path
    binds=()
    for path in "${shared_folders[@]}"; do binds+=("$1" "$path:$path"); done
}
show_gpus() {    # show_gpus NVIDIA_OPTION AMD_OPTION...: only the node shows which GPUs it has
    gpu_options=()
    if [[ -e /dev/nvidiactl ]]; then gpu_options+=("$1"); fi
    if [[ -e /dev/kfd ]]; then gpu_options+=("${@:2}"); fi
}
need_command() {    # need_command NAME
    command -v "$1" >/dev/null || die "there is no command on $node: $1"
}
