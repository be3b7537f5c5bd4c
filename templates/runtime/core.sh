say() { printf 'jobgen: %s\n' "$*" || :; }
die() { say "error: $*" >&2; exit 1; }
has() { declare -F -- "$1" >/dev/null; }    # whether this script includes the function
make_run_folder() {    # with a folder for each start, so that a requeue overwrites nothing
    run_dir=$PWD/runs/$job_name/${first_job:-$job_id} attempt=0 stop='' child='' word='' reason=''
    it=$(cat "$run_dir"/attempts/0/{job,script} 2>/dev/null) || it=''    # numbers are used again
    [[ ${SLURM_RESTART_COUNT-} ]] || ! grep -qs '^[df]' "$run_dir"/attempts/*/outcome || it=${it:+x}
    [[ -z $it || ${first_job-} || $it == "$(echo "${PBS_JOBID:-$job_id}" && cat "$0")" ]] ||
        die "an earlier job with this number has the folder: $run_dir; submit this one again"
    mkdir -p "$run_dir"/{logs,errors,usage,attempts} || die "cannot make the run folder $run_dir"
    until mkdir "$run_dir/attempts/$attempt" 2>/dev/null; do
        [[ -d $run_dir/attempts/$((attempt++)) ]] || die "cannot write to $run_dir/attempts"
    done
    attempt_dir=$run_dir/attempts/$attempt this_script=$run_dir/attempts/$attempt/script
    printf '%4096s' '' >"$attempt_dir/reserved"    # room for the outcome on a full disk
    cp "$0" "$this_script"
    sed -n 's/^# jobgen: {/{/p' "$0" >"$run_dir/plan.json"    # for jobgen status, report, ...
    echo "${PBS_JOBID:-$job_id}" >"$attempt_dir/job"
    trap 'conclude "$?"' EXIT; trap : USR1 USR2 PIPE    # untrapped, they end bash with code 0
    for it in TERM INT HUP XCPU; do trap 'stop=SIG'"$it && end_early" "$it"; done
    rm -f "$run_dir"/{STOP,STOPPED,DONE}
}
# At a signal: the scheduler may kill this script before conclude.
end_early() { echo "${early_outcome:-cancelled 143}" >"$attempt_dir/outcome" || :; end_job; }
run_agent() {    # on each node; drops variables of an outer job; sets status
    unset "${!PET_@}" "${!TORCHELASTIC_@}" "${!TORCH_ELASTIC_@}" OMP_NUM_THREADS
    if [[ ! -w ${TMPDIR:-/tmp} ]]; then export TMPDIR=/tmp; fi
    tmp_dir=$(mktemp -d "${TMPDIR:-/tmp}/jobgen-${run_dir##*/}.XXXXXX")    # on the node's own disk
    if has start_guard; then start_guard; fi    # before JOBGEN_AGENT marks this node's processes
    export JOBGEN_RUN_DIR=$run_dir JOBGEN_JOB_ID=${run_dir##*/} JOBGEN_ATTEMPT=$attempt
    export JOBGEN_NODE=$node JOBGEN_AGENT=$tmp_dir PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1
    run_child start_agent
    [[ -e $tmp_dir/reached ]] || say "the program never began on $node; exit code $status"
    [[ -e $tmp_dir/reached ]] || status=${status/#0/1}    # an exit in the setup is a failure
}
start_agent() {    # in a process that the agent replaces
    if has container; then enter_container; fi
    set +u; environment; set -u    # scripts of modules and environments use unset variables
    agent
}
run_child() {    # run_child COMMAND: in the background, as traps run only in wait; sets status
    tail --pid="$$" -f /dev/null &>/dev/null & witness=$! && disown
    "$@" & child=$!
    if [[ -n ${stop-} ]]; then kill -TERM "$child" || :; fi    # a signal came first
    while status=0; wait "$child" || status=$?; kill -0 "$child" 2>/dev/null; do :; done
}
# SIGTERM, unless the scheduler has sent it to all processes: the witness has then ended by it
end_child() { sleep 0.5 || :; ! kill -0 "${witness-}" || kill -TERM "$child" || :; } 2>/dev/null
has_lost_peer() {    # has_lost_peer LOG: whether its last error only says that a peer is gone
    grep -E '^(\{.*|\S* *\S*)(Error|Exception)\b|what\(\)|^F[0-9]|no (heartbeat|step) |times out'\
'|^Timeout \(|another rank' "$1" | tail -n 1 |
        grep -vE '^(BrokenPipe|Connection\w+)Error: \[Errno' | grep -qE 'by peer|Broken pipe'\
'|ncclRemote|Horovod|out .*waiting|timeout|s timed out|Barrier|preamble|another (rank|task)'\
'|no (heartbeat|step) |times out|^Timeout(Error: [^[]| \()|lost con|pleteRead|got 0 bytes'
}
find_first_error() {    # sets file and reason: the first failure that is not just a lost peer
    while read -r file && has_lost_peer "$file"; do peers+=(${names[1]:+"$file"}); done < <(
        awk -v start=" in start $((attempt + 1));" '/ in start [0-9]+;/ { own = index($0, start) }
            $1 == "rank" { name = FILENAME; sub("[^/]*$", "rank-" $3 ".err", name) }
            $1 == "exitcode" && own && $3 != -15 { print name }
            ' "$run_dir"/logs/*/agent.log | xargs -r -d '\n' ls -tr
        read -r index _ <"$attempt_dir/failed" && echo "$run_dir/logs/${names[index]}/agent.log"
        find "$attempt_dir/launcher.log" "$run_dir/logs/${names[0]}/agent.log" -size +0)
    of='s|.*/logs/([^/]+)/rank-([0-9]+).*|rank \2 on \1, |p; s|.*/logs/(.*)/agent.log|\1, |p'
    reason+=${file:+": $([[ ${peers-} && $file != *.err ]] || sed -nE "$of" <<<"$file")see $file"}
} 2>/dev/null
conclude() {    # conclude STATUS: on every exit, reports and records the outcome
    set +eu && trap '' TERM INT HUP XCPU USR1 && local status=$1 file='' it
    [[ -d $attempt_dir ]] || { say "FAILED: the run folder was removed: $run_dir" && exit 1; }
    for it in is_preempted start_again settle_walltime count_worlds; do ! has "$it" || "$it"; done
    case $word:$stop:$status in
        ::0) [[ -e $run_dir/STOPPED ]] || : >"$run_dir/DONE"
            word='done' && say "DONE: ${well:-all processes ended well}" ;;
        ::*) if [[ -z $reason ]]; then reason=" with exit code $status" && find_first_error; fi
            say "FAILED$reason" && tail -n 20 "${file:-/dev/null}" 2>/dev/null ;;
        :*) word=cancelled status=143 && say "ENDED by $stop$reason" ;;
    esac
    printf '%-80s\n' "${word:-failed} $status" 1<>"$attempt_dir/reserved"
    mv "$attempt_dir/reserved" "$attempt_dir/outcome"
    rm -rf "${tmp_dir-}" "$attempt_dir/from_shell"
    exit "$status"
}
main() {    # main [FUNCTION]: nodes and processes call this file with a function
    if (($#)); then has "$1" || die "takes no arguments: jobgen submit SPEC -- $*"; "$@"; exit; fi
    find_job; make_run_folder; find_nodes; run_job; exit "$status"
}
