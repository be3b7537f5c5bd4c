start_launchers() {    # one for all nodes
    launch &
    launchers+=($!)
}
