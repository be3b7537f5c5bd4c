remind() {    # remind PID SECONDS: send USR1 to that process by then, if it is still there
    while ((SECONDS < $2)) && is_there "$1"; do sleep 1; done
    kill -USR1 "$1"
}
