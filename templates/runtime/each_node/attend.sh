attend() {    # attend COMMAND...: run it to its end, act on signals when they come; sets status
    "$@" &
    child=$! status=0
    while kill -0 "$child" 2>/dev/null; do
        if [[ -z ${each_turn-} ]]; then
            status=0
            wait "$child" || status=$?    # a signal ends this wait as well
        else
            "$each_turn"
            sleep 1 &
            wait "$!" || :
        fi
    done
    if [[ -n ${each_turn-} ]]; then wait "$child" || status=$?; fi
}
