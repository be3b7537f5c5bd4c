start_launchers() {    # one for each node
    local index
    for index in "${!NODES[@]}"; do
        launch "$index" &
        launchers+=($!)
    done
}
