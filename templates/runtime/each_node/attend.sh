attend() {    # attend COMMAND...: run it to its end, act on signals when they come; sets status
    "$@" &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        status=0
        wait "$child" || status=$?    # a signal ends this wait as well
    done
}
