beside() {    # beside FUNCTION...: told this shell's PID; its signals go to this shell alone
    local shell=$BASHPID
    setsid bash "$this_script" "$1" "$shell" "${@:2}" </dev/null >/dev/null 2>&1 &
    disown
}
is_there() { grep -qs '^State:.[^ZX]' "/proc/$1/status"; }    # is_there PID; a zombie is gone
