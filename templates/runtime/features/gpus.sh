set_gpu_variables() {    # set_gpu_variables VERSION, of torch
    local name home recorder=TORCH_FR_BUFFER_SIZE dump=TORCH_FR_DUMP_TEMP_FILE
    # What libraries compile is kept on the node's own disk, unless somebody has said where: a home
    # folder that all nodes share is slow, and its file locks fail.
    for name in TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR MIOPEN_USER_DB_PATH \
        MIOPEN_CUSTOM_CACHE_DIR; do
        home=${name/CACHE_DIR/HOME}
        if [[ -z ${!name-}${!home-} ]]; then export "$name=$tmp_dir/$name"; fi
    done
    # NCCL's flight recorder, by which a hang leaves a trace, has other names since torch 2.9.
    if [[ $1 =~ ^(0|1|2\.[0-8])\. ]]; then
        recorder=TORCH_NCCL_TRACE_BUFFER_SIZE dump=TORCH_NCCL_DEBUG_INFO_TEMP_FILE
    fi
    export TORCH_NCCL_DUMP_ON_TIMEOUT=${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}
    export "$recorder=${!recorder:-2000}" "$dump=${!dump:-$run_dir/errors/$node-flight-}"
}
