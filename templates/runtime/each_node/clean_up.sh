# Beside the agent, until the shell that waits for it has ended or was killed: then what the agent has
# left behind ends too. It has a mark in its environment.
clean_up() {    # clean_up PID TMP_DIR NODE_RANK LOCAL_RANK LOG
    set +e
    while grep -qs '^State:.[^ZX]' "/proc/$1/status"; do sleep 1; done
    for _ in 1 2 3; do
        grep -slzxF "JOBGEN_AGENT=$2" /proc/[0-9]*/environ | tr -dc '0-9\n' | xargs -r kill -KILL
        sleep 0.2
    done
    if [[ -d $2 ]]; then say "the shell around the agent was killed" >>"$5"; fi
    rm -rf "$2"
}
