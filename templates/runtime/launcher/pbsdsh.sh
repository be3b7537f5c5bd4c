# pbsdsh hands on nothing of the environment: a login shell has the user's. What its profile prints
# goes to the node's log.
log_in() {    # log_in NODE_RANK FUNCTION...
    find_node "$1"
    exec /bin/bash -l "$this_script" "${@:2}"
}
