kill_marked() {    # kill_marked TMP_DIR: each process that has it as JOBGEN_AGENT
    for _ in 1 2 3; do
        grep -slzxF "JOBGEN_AGENT=$1" /proc/[0-9]*/environ | tr -dc '0-9\n' | xargs -r kill -KILL
        sleep 0.2
    done
}
