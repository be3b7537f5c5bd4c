# On this machine, each task of the array is a copy of this script. A failed task stops no other.
find_task() {
    if [[ -z ${JOBGEN_ARRAY-} ]]; then return; fi
    local index=$JOBGEN_TASK    # choose_task replaces it by the task's number
    job_id=${JOBGEN_ARRAY}_$index job_number=$((${JOBGEN_ARRAY##*-} + 7919 * index))
    unset JOBGEN_ARRAY
    choose_task "$index"
    say "task $index${arguments[*]:+: ${arguments[*]}}"
}
run_tasks() {    # run_tasks COUNT AT_ONCE
    if [[ $job_id == *_* ]]; then return; fi
    local next=0 failed=0 index pid
    local -A running=()
    while ((next < $1 || ${#running[@]})); do
        while [[ -z $stop ]] && ((next < $1 && ${#running[@]} < $2)); do
            mkdir -p "${run_dir}_$next"
            JOBGEN_ARRAY=$job_id JOBGEN_TASK=$next \
                bash "$this_script" >"${run_dir}_$next/job.out" 2>&1 &
            running[$!]=$next
            next=$((next + 1))
        done
        sleep 0.5 || :
        for pid in "${!running[@]}"; do
            if [[ -n $stop ]]; then kill -TERM "$pid" 2>/dev/null || :; fi
            if kill -0 "$pid" 2>/dev/null; then continue; fi
            index=${running[$pid]}
            unset "running[$pid]"
            if wait "$pid"; then
                say "task $index ended well"
            else
                failed=$((failed + 1))
                say "task $index FAILED, see ${run_dir}_$index/job.out"
            fi
        done
        if [[ -n $stop ]] && ((${#running[@]} == 0)); then break; fi
    done
    if ((failed)); then
        reason=": $failed of $1 tasks"
        exit 1
    fi
    exit 0
}
# No scheduler waits for the jobs that this one depends on, so the script does.
has_begun() { compgen -G "runs/*/$1/attempts/*" >/dev/null; }    # has_begun JOB
has_ended() {    # has_ended JOB: by its record or its process; sets how
    local files=(runs/*/"$1"/attempts/*/outcome) record pid started stat
    how='failed 1'
    if [[ -e ${files[0]} ]]; then read -r how <"${files[-1]}"; fi
    for record in runs/*/"$1"/job.json runs/*/"${1%_*}"/job.json; do
        [[ -e $record ]] || continue
        pid=$(sed -n 's/^ "pid": \([0-9]*\),$/\1/p' "$record")
        started=$(sed -n 's/^ "started": \([0-9]*\),$/\1/p' "$record")
        read -r -a stat 2>/dev/null <"/proc/$pid/stat" || stat=()
        if [[ ${stat[21]-} == "$started" && ${stat[2]} != Z && ! -e ${files[0]} ]]; then
            return 1
        fi
        # It may have ended after the check above.
        files=(runs/*/"$1"/attempts/*/outcome)
        if [[ -e ${files[0]} ]]; then read -r how <"${files[-1]}"; fi
        return 0
    done
    [[ -e ${files[0]} ]]
}
wait_for() {    # wait_for KIND JOB
    local how=
    compgen -G "runs/*/${2%_*}" >/dev/null || die "there is no job $2 below $PWD/runs to wait for"
    say "waiting for job $2 ($1)"
    : >"$run_dir/waits"
    until if [[ $1 == after ]]; then has_begun "$2"; else has_ended "$2"; fi; do
        if [[ -n $stop ]]; then exit 143; fi
        sleep 1 || :
    done
    rm -f "$run_dir/waits"
    case $1 in
        afterok) [[ $how == 'done 0' ]] ||
            die "job $2 has not ended well, so this one does not run" ;;
        afternotok) [[ $how != 'done 0' ]] ||
            die "job $2 has ended well, so this one does not run" ;;
    esac
}
