attend() {    # attend COMMAND...: run it to its end, act on signals when they come; sets status
    "$@" &
    child=$! status=0
    wait "$child" || status=$?
    while kill -0 "$child" 2>/dev/null; do    # it was a signal that ended the wait
        if wait "$child"; then status=0; else status=$?; fi
    done
}
