load_environment() {
    export PYTHONUNBUFFERED=1    # lines reach the logs as they are printed
    set +eu    # the scripts of modules, venvs and conda are not written for strict mode
    trap 'tell_setup "$?"' EXIT
    environment
    trap - EXIT
    set -eu
    command -v python3 >/dev/null || die "there is no python3 on $node"
    local torch name home recorder=TORCH_FR_BUFFER_SIZE dump=TORCH_FR_DUMP_TEMP_FILE
    torch=$(python3 -c 'from importlib.metadata import version; print(version("torch"))') ||
        die "there is no torch on $node for $(command -v python3)"
    say "torch $torch of $(command -v python3), OMP_NUM_THREADS=$OMP_NUM_THREADS"
    # What libraries compile is kept on the node's own disk, unless somebody has said where: a home
    # folder that all nodes share is slow, and its file locks fail.
    for name in TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR MIOPEN_USER_DB_PATH \
        MIOPEN_CUSTOM_CACHE_DIR; do
        home=${name/CACHE_DIR/HOME}
        if [[ -z ${!name-}${!home-} ]]; then export "$name=$tmp_dir/$name"; fi
    done
    # NCCL's flight recorder, by which a hang leaves a trace, has other names since torch 2.9.
    if [[ $torch =~ ^(0|1|2\.[0-8])\. ]]; then
        recorder=TORCH_NCCL_TRACE_BUFFER_SIZE dump=TORCH_NCCL_DEBUG_INFO_TEMP_FILE
    fi
    export TORCH_NCCL_DUMP_ON_TIMEOUT=${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}
    export "$recorder=${!recorder:-2000}" "$dump=${!dump:-$run_dir/errors/$node-flight-}"
}
tell_setup() {    # tell_setup STATUS
    if [[ -n ${doing-} ]]; then say "error: a command of the spec's $doing failed, exit code $1"; fi
}
