# Roles: each runs as a job does, on its own nodes, in a folder below this job's. This script starts
# them, waits until they are ready, and ends them all when the last one ends, or another fails.
asked='' ADDRESSES=()
declare -A pid_of=() may_end=()
enter_role() {    # enter_role FILE: from here on this is the script of one role
    local part
    # shellcheck source=/dev/null
    . "$1"
    for part in container environment program agent launch; do
        if has "${part}_$role"; then eval "$part() { ${part}_$role \"\$@\"; }"; fi
    done
    if [[ $mode == torchrun ]]; then unset -f end_process find_killed; fi    # of single processes
    if has give_sign; then    # it is the script that looks for signs, and not the role's first node
        eval "role_$(declare -f start_guard)"
        start_guard() { MASTER_ADDR=$script_node role_start_guard; }
    fi
}
if [[ $0 == */attempts/*/script && -e ${0%/*}/role ]]; then enter_role "${0%/*}/role"; fi
deal_nodes() {    # deal_nodes ROLE FIRST COUNT MODE PROCESSES...: what all know of it, and itself
    local name=${1^^} nodes=("${ADDRESSES[@]:$2:$3}") port meets
    port=$((20000 + 10#$job_number % 250 * 40 + ${#may_end[@]} * 4))    # no two jobs' alike
    meets=$port last=$1 may_end[$1]=''
    if [[ $4 == torchrun || $4 == ray ]]; then meets=$((port + 1)); fi    # beside the program's
    printf 'export %s=%q\n' "${name}_ADDR" "${nodes[0]}" "${name}_PORT" "$port" \
        "${name}_HOSTS" "$(IFS=, && echo "${nodes[*]}")" >>"$attempt_dir/roles"
    echo "role=$1 mode=$4 job_id=${run_dir##*/} script_node=${ADDRESSES[0]}" \
        "MASTER_ADDR=${nodes[0]} MASTER_PORT=$meets NODES=(${NODES[*]:$2:$3})" \
        "PROCESSES=(${*:5})" >"$attempt_dir/role-$1"
    printf '%s\n' "${NODES[@]}" >"$attempt_dir/nodes"
    . "$attempt_dir/roles"
}
start_role() {    # start_role ROLE [alone] [notice]: it may end before the last; it hears of STOP
    say "$1 starts; its logs are in $run_dir/roles/$1"
    may_end[$1]=${2-}
    (
        above=$attempt_dir first_job=${run_dir##*/}/roles/$1
        unset -f settle_chain start_again    # the job's
        make_run_folder
        exec >>"$run_dir/job.out" 2>&1 </dev/null
        trap end_role TERM INT
        ln -s "../../roles/$1/attempts/$attempt" "$above/start-of-$1"
        if [[ ${!#} == notice ]]; then ln -s ../../STOP "$run_dir/STOP"; fi
        if [[ -e $above/from_shell ]]; then cp -p "$above/from_shell" "$attempt_dir"; fi
        cat "$above/roles" "$above/role-$1" >"$attempt_dir/role"
        enter_role "$attempt_dir/role"
        run_job
        exit "$status"
    ) &
    pid_of[$1]=$!
}
end_role() {    # Slurm says it to all that run here, as this script does, and again 8 s later
    asked=${asked:-$SECONDS}
    [[ -e $attempt_dir/failed ]] || stop=SIGTERM
    ((SECONDS - asked < 5)) || kill -TERM ${child:+"$child"} || kill -KILL "${launchers[@]}" || :
} 2>/dev/null
wait_for_role() {    # wait_for_role ROLE SECONDS TEST...
    local until=$((SECONDS + $2))
    until is_ready "$1" "${@:3}"; do
        watch_roles
        ((SECONDS < until)) || end_roles "$1" " was not ready within $2 s by its ${*:3}"
        sleep 1 || :
    done
    say "$1 is ready $SECONDS s after the start of the job"
}
is_ready() {    # is_ready ROLE TEST WHAT [PATH]
    local code
    case $2 in
        file) [[ -e $3 && $3 -nt $attempt_dir/roles ]] ;;    # and no older job has left it
        log) grep -qrsE --include='rank-*' -e "$3" "$run_dir/roles/$1/logs" ;;
        tcp) timeout 5 bash -c ": <>/dev/tcp/${3%:*}/${3##*:}" ;;
        http)    # whether a web server says that all is well
            read -r _ code _ < <(printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$4" "$3" |
                timeout 5 bash -c "exec 3<>/dev/tcp/${3%:*}/${3##*:} && cat >&3 && cat <&3")
            [[ $code == 2* ]] ;;
    esac
} 2>/dev/null
watch_roles() {    # whether the last role has ended, or another that may not yet
    local name code failed=''
    [[ -z $stop ]] || end_roles
    for name in "${!pid_of[@]}"; do
        if kill -0 "${pid_of[$name]}" 2>/dev/null; then continue; fi
        code=0
        wait "${pid_of[$name]}" || code=$?
        if [[ $name:$code == "$last:0" ]]; then end_roles; fi
        if ((code == 0)) && [[ ${may_end[$name]} == alone || -e $run_dir/STOP ]]; then
            unset "pid_of[$name]"
        else
            failed=$name
        fi
    done
    [[ -z $failed ]] || end_roles "$failed" " ended before $last did"
}
end_job() {    # a kill may follow soon, and scancel may wait while Slurm itself ends the job
    if [[ $stop == SIG* ]]; then echo "${early_outcome:-cancelled 143}" >"$attempt_dir/outcome"; fi
    if has start_launcher; then timeout 4 scancel --quiet --signal=TERM "$job_id" || :; fi
}
name_role() { sed -n '1s|.*/start-of-\(.*\)/failed$|\1|p'; }
end_roles() {    # end_roles [ROLE WHY]: all are asked to end, and then made to
    local patience how='' first
    first=$(find "$attempt_dir"/start-of-*/failed -exec ls -tr {} + 2>/dev/null | name_role) || :
    [[ -n $stop ]] || end_job    # else the signal has called it
    for patience in 8 4; do
        kill -TERM "${pid_of[@]}" || :
        while ((patience-- > 0)) && kill -0 "${pid_of[@]}"; do sleep 1 || :; done
    done 2>/dev/null
    [[ ! -e $run_dir/roles/$last/STOPPED ]] || : >"$run_dir/STOPPED"
    if [[ -n $stop ]]; then    # Slurm ends a job that has lost a node, which is not a scancel
        first=$(grep -ls '^lost' "$attempt_dir"/start-of-*/failed | name_role) || :
        set -- "$first" ''
    fi
    [[ -n ${1-} ]] || exit 0
    role=${first:-$1} why=$2 status=1 stop=''
    wait "${pid_of[$role]}" || :
    read -r how status <"$attempt_dir/start-of-$role/outcome" || :
    if [[ $how == failed ]]; then
        why=$(sed -n 's/^jobgen: FAILED//p' "$run_dir/roles/$role/job.out" | tail -n 1)
    else
        why+=": $(find "$run_dir/roles/$role/logs" -size +0 -name 'rank-*' -exec ls -t {} + |
            sed -nE '1s|.*/logs/(.*)/rank-([0-9]+).*|rank \2 on \1, by &|p')"
    fi
    cp -p "$attempt_dir/start-of-$role/failed" "$attempt_dir" 2>/dev/null || :
    lost=$(sed -n 's/^lost //p' "$attempt_dir/failed" 2>/dev/null) || :
    find_first_error() { reason=": role $role$why" file=${why##* by }; }    # it is known
    exit "${status/#0/1}"
}
take_gpus() {    # take_gpus FIRST COUNT: of those that the job has on this node
    local gpus
    IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES-$(seq -s , 0 "$(($1 + $2))")}"
    CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:$1:$2}")
    export CUDA_VISIBLE_DEVICES
}
