show_gpus() {    # show_gpus NVIDIA_OPTION AMD_OPTION...: only the node knows who made its GPUs
    gpu_options=()
    if [[ -e /dev/nvidiactl ]]; then gpu_options+=("$1"); fi
    if [[ -e /dev/kfd ]]; then gpu_options+=("${@:2}"); fi
}
