# All that an agent starts has a mark in its environment, by which it is found when it has outlived
# the agent. What a job submits is none of its processes.
mark_agent() { export JOBGEN_AGENT=$tmp_dir; }
leave_mark() { if [[ -n ${JOBGEN_AGENT-} ]]; then exec env -u JOBGEN_AGENT bash "$0" "$@"; fi; }
kill_marked() {    # kill_marked TMP_DIR: each process that has it as JOBGEN_AGENT
    for _ in 1 2 3; do
        grep -slzxF "JOBGEN_AGENT=$1" /proc/[0-9]*/environ | tr -dc '0-9\n' | xargs -r kill -KILL
        sleep 0.2
    done
}
