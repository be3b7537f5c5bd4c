# Roles: each runs as a job does, on its own nodes, in a folder below this job's. This script starts
# them, waits until they are ready, and ends them all when the last one ends, or another fails.
role='' lost='' script_node='' ROLES=() ADDRESSES=()
declare -A place_of=() pid_of=() may_end=()
enter_role() {    # where this file is called for one role
    # shellcheck source=/dev/null
    . "$1/role"
    export JOBGEN_ROLE=$role
    if [[ $mode == torchrun ]]; then unset -f end_process find_killed; fi    # of single processes
    if has give_sign; then    # it is the script that looks for signs, and not the role's first node
        eval "role_$(declare -f start_guard)"
        start_guard() { MASTER_ADDR=$script_node role_start_guard; }
    fi
    if has "container_$role"; then eval "container() { container_$role \"\$@\"; }"; fi
}
environment() { export JOBGEN_JOB_ID=$role_job; "environment_$role"; }
program() { "program_$role"; }
agent() { "agent_$role"; }
launch() { eval '"launch_$role" "$@"'; }
if [[ $0 == */roles/*/attempts/* && -e ${0%/*}/role ]]; then enter_role "${0%/*}"; fi
deal_nodes() {    # deal_nodes ROLE FIRST COUNT MODE PROCESSES...: what all roles know of it
    local name=${1^^} hosts=("${ADDRESSES[@]:$2:$3}") port
    port=$((20000 + 10#$job_number % 250 * 40 + ${#ROLES[@]} * 4))    # no two jobs' alike
    last=$1 ROLES+=("$1") place_of[$1]="$2 $3 $port $4 ${*:5}"
    printf '%s\n' "${NODES[@]}" >"$attempt_dir/nodes"
    printf 'export %s=%q\n' "${name}_ADDR" "${hosts[0]}" "${name}_PORT" "$port" \
        "${name}_HOSTS" "$(IFS=, && echo "${hosts[*]}")" >>"$attempt_dir/roles"
    . "$attempt_dir/roles"
}
start_role() {    # start_role ROLE [alone] [notice]: it may end before; it hears of the end
    mkdir -p "$run_dir/roles/$1"
    say "$1 starts; its logs are in $run_dir/roles/$1"
    may_end[$1]="${*:2}"
    run_role "$1" >>"$run_dir/roles/$1/job.out" 2>&1 </dev/null &
    pid_of[$1]=$!
}
run_role() {    # run_role ROLE: in its own shell, as if it were a job
    local first count port mode processes above=$attempt_dir
    trap - EXIT USR1
    unset -f settle_chain start_again
    read -r first count port mode processes <<<"${place_of[$1]}"
    NODES=("${NODES[@]:first:count}") MASTER_ADDR=${ADDRESSES[first]} MASTER_PORT=$((port + 1))
    if [[ $mode != torchrun && $mode != ray ]]; then MASTER_PORT=$port; fi    # has to be free
    role_job=${first_job:-$job_id} job_id=$role_job/roles/$1 first_job=''
    make_run_folder
    trap 'if [[ -n $stop ]]; then make_end; fi; stop=SIGTERM' TERM INT
    if [[ -e $above/from_shell ]]; then cp -p "$above/from_shell" "$attempt_dir"; fi
    cat "$above/roles" - >"$attempt_dir/role" <<<"role=$1 role_job=$role_job mode=$mode \
first=$first script_node=${ADDRESSES[0]} PROCESSES=($processes)"
    enter_role "$attempt_dir"
    run_job
    exit "$status"
}
make_end() { kill -TERM ${child:+"$child"} || kill -KILL "${launchers[@]}"; } 2>/dev/null
wait_for_role() {    # wait_for_role ROLE SECONDS TEST...
    local until=$((SECONDS + $2)) addr=${1^^}_ADDR port=${1^^}_PORT at
    at=${!addr}
    if [[ $3 == *t*p ]]; then at+=:${!port}; fi    # http, tcp
    until is_ready "$1" "$3" "${4-}" "${!addr}" "${!port}"; do
        watch_roles
        ((SECONDS < until)) ||
            end_roles "$1" " was not ready within $2 s, by its ${*:3}, on $at"
        sleep 1 || :
    done
    say "$1 is ready $SECONDS s after the start of the job"
}
is_ready() {    # is_ready ROLE KIND WHAT ADDR PORT
    case $2 in
        file) [[ -e $3 && $3 -nt $attempt_dir/roles ]] ;;    # and no older job has left it
        log) grep -qrsE --include='rank-*' -e "$3" "$run_dir/roles/$1/logs" ;;
        tcp) (timeout 5 bash -c ": <>/dev/tcp/$4/$5") 2>/dev/null ;;
        http)    # whether a web server says that all is well
            # shellcheck disable=SC2016
            timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1" &&
                printf "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" "$2" "$0" >&3 &&
                read -r _ code _ <&3 && { timeout 2 cat <&3 >/dev/null; [[ $code == 2* ]]; }' \
                "$4" "$5" "$3" 2>/dev/null
            ;;
    esac
}
watch_roles() {    # whether a role has ended, and which one was the first to fail
    local name code found='' first
    [[ -z $stop ]] || end_roles '' ''
    for name in "${!pid_of[@]}"; do
        if [[ -e $run_dir/STOP && ${may_end[$name]} == *notice ]]; then
            may_end[$name]='alone notice'    # for it stops in order
            : >"$run_dir/roles/$name/STOP"
        fi
        if kill -0 "${pid_of[$name]}" 2>/dev/null; then continue; fi
        code=0
        wait "${pid_of[$name]}" || code=$?
        if [[ $name:$code == "$last:0" ]]; then end_roles '' ''; fi
        if [[ ${may_end[$name]}:$code != alone*:0 ]]; then found=$name; fi
        [[ -n $found ]] || unset "pid_of[$name]"
    done
    if [[ -z $found ]]; then return; fi
    first=$(find "$run_dir"/roles/*/attempts -name failed -newer "$attempt_dir/roles" \
        -printf '%T@ %h\n' | sort -n | sed -n '1s|.*/roles/\([^/]*\)/.*|\1|p')
    end_roles "${first:-$found}" " ended before $last did"
}
end_job() {    # end_roles does it; a kill may follow soon
    if [[ $stop == SIG* ]]; then echo "${early_outcome:-cancelled 143}" >"$attempt_dir/outcome"; fi
}
end_roles() {    # end_roles ROLE WHY: all are asked to end, and then made to
    local patience name asked=()
    # Slurm lets all processes stop in order, where srun would kill them.
    if has start_launcher; then timeout 4 scancel --quiet --signal=TERM "$job_id" || :; fi
    for name in "${!pid_of[@]}"; do    # but one that fails, which has its own end to tell
        [[ $name == "${first-}" ]] || asked+=("${pid_of[$name]}")
    done
    for patience in 8 4; do
        kill -TERM "${asked[@]}" 2>/dev/null || :
        while ((patience-- > 0)) && kill -0 "${pid_of[@]}" 2>/dev/null; do sleep 1 || :; done
        asked=("${pid_of[@]}")
    done
    [[ ! -e $run_dir/roles/$last/STOPPED ]] || : >"$run_dir/STOPPED"
    if [[ $stop == SIG* ]]; then    # Slurm ends a job that has lost a node: not a cancellation
        read -r name lost < <(find "$run_dir"/roles/*/attempts -name launcher.log \
            -newer "$attempt_dir/roles" -exec grep -H '^srun: error: Node failure on' {} + |
            sed 's|.*/roles/\([^/]*\)/.* |\1 |') || :
        if [[ -n $lost ]]; then
            reason=": role $name: $lost is lost: Slurm says that it has failed" stop=''
            echo "lost $lost" >"$attempt_dir/failed"
            exit 1
        fi
    fi
    [[ -n $1 ]] || exit 0
    role=$1 why=$2 status=0
    wait "${pid_of[$1]}" || status=$?
    find "$run_dir/roles/$1/attempts" -name failed -newer "$attempt_dir/roles" \
        -exec cp -p {} "$attempt_dir" \;
    lost=$(sed -n 's/^lost //p' "$attempt_dir/failed" 2>/dev/null) || :
    find_first_error() {    # the role has said it, but for what it does not know
        reason=$(sed -n 's/^jobgen: FAILED//p' "$run_dir/roles/$role/job.out" | tail -n 1)
        file=${reason##* by }
        if [[ -z $reason ]]; then
            file=$(find "$run_dir/roles/$role/logs" -type f -size +0 -printf '%T@ %p\n' |
                sort -n | sed -n '$s/^[^ ]* //p')
            reason="$why, by $file"
        fi
        reason=": role $role$reason"
    }
    exit "${status/#0/1}"
}
take_gpus() {    # take_gpus FIRST COUNT ALL: of each node; on this machine each node has its own
    local gpus from=$1 listed
    listed=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null) || return 0
    IFS=$'\n,' read -rd '' -a gpus <<<"${CUDA_VISIBLE_DEVICES-$listed}" || :
    if has share_gpus; then from=$(((first + node_rank) * $3 + from)); fi
    gpus=("${gpus[@]:from:$2}")
    if ((${#gpus[@]} != $2)); then
        say "GPUs here: ${#gpus[@]} of $2, so $role runs on the CPU"
        gpus=()
    fi
    CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]}")
    export CUDA_VISIBLE_DEVICES
}
