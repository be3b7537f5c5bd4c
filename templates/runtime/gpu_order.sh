order_gpus() {    # order_gpus DEVICE...: in which the processes of a node take its GPUs
    local given gpus='' device
    IFS=, read -ra given <<<"${CUDA_VISIBLE_DEVICES-}"
    for device; do gpus+=,${given[device]:-$device}; done
    export CUDA_VISIBLE_DEVICES=${gpus#,}
}
