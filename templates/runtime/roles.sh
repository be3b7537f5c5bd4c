# Each role runs like a job, in a folder below this job's. All end with the last, or if one fails.
declare -A pid_of=() may_end=() && known=()
enter_role() { . "$1"; }    # enter_role FILE [FUNCTION]: makes this shell the script of one role
if [[ $0 == */attempts/*/script && -e ${0%/*}/role ]]; then enter_role "${0%/*}/role" "$@"; fi
deal_nodes() {    # deal_nodes ROLE FIRST COUNT: exports its addresses to all roles
    local name=${1^^} nodes=("${addresses[@]:$2:$3}")
    last=$1 known+=("${name}_ADDR=${nodes[0]}" "${name}_HOSTS=$(IFS=, && echo "${nodes[*]}")"
        "${name}_PORT=$((20000 + 10#$job_number % 250 * 40 + ${#known[@]} * 4 / 3))")    # unique
    export "${known[@]}"
    printf '%s\n' "${names[@]}" >"$attempt_dir/nodes"
}
start_role() {    # start_role ROLE [alone] [notice]: alone may end first; notice gets STOP
    say "$1 starts; its logs are in $run_dir/roles/$1"
    (
        above=$attempt_dir first_job=${run_dir##*/}/roles/$1
        unset -f settle_chain start_again    # only the job decides these
        make_run_folder
        exec >>"$attempt_dir/job.out" 2>&1 </dev/null
        trap '[[ -e $attempt_dir/failed ]] || stop=SIGTERM' TERM INT
        trap '{ kill -TERM "$child" || patience=0; } 2>/dev/null' USR2    # 8 s after TERM
        ln -s "../../roles/$1/attempts/$attempt" "$above/start-of-$1"
        if [[ ${!#} == notice ]]; then ln -s ../../STOP "$run_dir/STOP"; fi
        echo "export ${known[*]}; job_id=${first_job%%/*} above=${above@Q} role=$1" \
            "script_node=${addresses[0]} names=(${names[*]}); as_$1 \${2-}" >"$attempt_dir/role"
        enter_role "$attempt_dir/role"; run_job; exit "$status"
    ) &
    pid_of[$1]=$! may_end[$1]=${2-}
}
wait_for_role() {    # wait_for_role ROLE SECONDS TEST...
    local until=$((SECONDS + $2)) what own=$attempt_dir/start-of-$1
    until is_ready "$1" "${@:3}"; do
        [[ ! -e $own/taken ]] || end_roles "$1" " was not ready: $(<"$own/taken")"
        ((SECONDS < until)) || end_roles "$1" " was not ready within $2 s: $what"
        watch_roles
    done
    say "$1 is ready $SECONDS s after the start of the job"
}
is_ready() {    # is_ready ROLE TEST WHAT [PATH]: or sets what
    what="no $2 $3"
    case $2 in
        file) [[ ! -e $3 ]] || what="$3 is older than this job"; [[ $3 -nt $this_script ]] ;;
        log) grep -qrsE --include='rank-*' -e "$3" "$run_dir/roles/$1/logs" ;;
        tcp) [[ -e $own/listens ]] && timeout 5 bash -c ": <>/dev/tcp/${3%:*}/${3##*:}" ;;
        http) what=$(printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$4" "$3" | timeout 5 bash -c \
            "exec 3<>/dev/tcp/${3%:*}/${3##*:} && cat >&3 && head -n 1 <&3" | tr -dc '[:print:]' |
            grep . || echo no answer) || :
            [[ -e $own/listens && $what == HTTP/?.?' 2'* ]] || ! what+=" at http://$3$4" ;;
    esac
} 2>/dev/null
watch_roles() {    # each second: ends the job if the last role, or one that may not, has ended
    local name code failed=''
    [[ -z $stop ]] || end_roles
    for name in "${!pid_of[@]}"; do
        if kill -0 "${pid_of[$name]}" 2>/dev/null; then continue; fi
        if wait "${pid_of[$name]}"; then code=0; else code=$?; fi
        [[ $name:$code != "$last:0" ]] || end_roles "$(cd "$attempt_dir" && find start-of-*/failed \
            ! -newer "start-of-$last/node-0.ended" 2>&- | sed 's|start-of-||;s|/.*||;q')"
        if ((code)) || [[ ${may_end[$name]} != alone && ! -e $run_dir/STOP ]]; then failed=$name; fi
        unset "pid_of[$name]"
    done
    [[ -z $failed ]] || end_roles "$failed" " ended before $last did"
    sleep 1 || :
}
find_role() {    # find_role PATTERN [ELSE]: the role with the oldest match, or that ended too early
    (set +e; grep -le "$1" "$attempt_dir"/start-of-*/failed; for it in "${!may_end[@]}"; do
        [[ $1${may_end[$it]} != ^ || $it == "$last" || -e $run_dir/STOP ]] ||
            ! cd "$attempt_dir/start-of-$it" ||
            printf '%s\n' "$PWD"/*.ended | xargs -d '\n' ls -tr | sed "$(wc -l <nodes)!d" || :
    done) | xargs -rd '\n' ls -tr | sed -n '1s|.*start-of-\(.*\)/.*|\1|p' | grep . || echo "${2-}"
} 2>/dev/null
end_roles() {    # end_roles [ROLE WHY]: asks all roles to end, and 8 s later makes them
    role=${1:+$(find_role ^ "$1")} status=1    # another may have failed first
    [[ -n $stop ]] || end_job    # a signal has already called it
    for call in TERM USR2; do
        kill -s "$call" "${pid_of[@]}" || :
        for _ in {1..8}; do if kill -0 "${pid_of[@]}"; then sleep 1 || :; fi; done
    done 2>/dev/null
    [[ ! -e $run_dir/roles/$last/STOPPED ]] || : >"$run_dir/STOPPED"
    [[ -z $stop ]] || role=$(find_role ^lost)    # Slurm ends the job when a node is lost
    [[ -n $role ]] || { unset "pid_of[$last]" && well="$last ended well" &&
        well+=${pid_of[*]:+"; stopped with it: ${!pid_of[*]}"} && exit 0; }
    own=$attempt_dir/start-of-$role && why=$(sed '/^jobgen: FAILED/!d;s///;q' "$own/job.out")
    [[ $role${2-} == "${1-} was"* ]] || read -r _ status <"$own/outcome" || :    # its own failure
    why=${why:-"${2-}$(find "$run_dir/roles/$role/logs" -size +0 -name 'rank-*' -exec ls -t {} + |
        sed -nE '1s|.*/logs/(.*)/rank-([0-9]+).*|: rank \2 on \1, see &|p')"}
    ! cp -p "$own/failed" "$attempt_dir" 2>&- || lost=$(sed -n 's/^lost //p' "$own/failed")
    find_first_error() { reason=": role $role$why" file=${why##* see }; }    # already known
    stop='' && exit "${status/#0/1}"
}
