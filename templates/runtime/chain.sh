# The run has at most $at_most starts, and ends after one that has saved nothing.
# Saving means: files in checkpoints/, a file PROGRESS, or the trainer's status.json changed.
hash_progress() {    # of what the program, or a role, has saved
    {
        find "$run_dir"/{,roles/*/}{checkpoints,PROGRESS} -name '.*' -prune \
            -o -type f -printf '%p %s %T@\n' || :
        grep -o '"step": *[0-9]*' "$run_dir"/{,roles/*/}status.json || :
    } 2>/dev/null | sort | cksum
}
# Each job of a chain works in the run folder of the first.
first_job=${JOBGEN_CHAIN-}
unset JOBGEN_CHAIN
[[ $first_job =~ ^[0-9_]*$ ]] || die "JOBGEN_CHAIN is not the id of a job: $first_job"

# `jobgen rerun --continue` writes counted-from, so that earlier starts do not count.
count_starts() { echo $((attempt + 1 - $(cat "$run_dir/counted-from" 2>/dev/null || echo 0))); }
out_of_starts() { (($(count_starts) >= at_most)); }

# A start ends at once if the run is done or must not continue.
begin_chain() {
    local before=$run_dir/attempts/$((attempt - 1)) how='' code=''
    hash_progress >"$attempt_dir/progress"
    if (($(count_starts) == 1)); then return; fi
    if [[ -e $before/outcome ]]; then read -r how code <"$before/outcome"; fi
    if [[ $how == 'done' ]]; then
        word='done' && : >"$run_dir/DONE"
        say "DONE already: there is nothing left to do; logs are in $run_dir"
        exit 0
    fi
    # Only a different job continues the chain; somebody requeued the same job on purpose.
    if [[ $(<"$before/job") != "$(<"$attempt_dir/job")" ]]; then
        if [[ $how == failed || $how == cancelled ]]; then
            word=$how
            say "the chain ends: the job before this one, $(<"$before/job"), ${how/#c/was c}"
            exit "$code"
        fi
        [[ -e $before/lost || $(<"$before/progress") != "$(<"$attempt_dir/progress")" ]] ||
            end_chain "the job before this one, $(<"$before/job"), has saved nothing"
    fi
    (($(count_starts) <= at_most)) || end_chain "it has had its $at_most starts"
}
end_chain() {    # end_chain REASON
    word=failed && say "error: the chain ends: $1" >&2
    exit 1
}

# Decides whether the run continues: not if it is done, has failed, was cancelled or makes no
# progress. The exit code alone does not tell, since torchrun reports every stop as an error.
settle_chain() {    # sets word and status if the chain decides them
    local index words against='' goes_on='' spared='' killed='' lost_nodes=${lost// /,}
    if [[ -n $word || ! -e $attempt_dir/nodes ]]; then return; fi
    printf -v now '%(%s)T' -1
    # After a stop or a lost node, healthy nodes may lack a record too.
    for index in "${!names[@]}"; do
        [[ -z $stop$lost && -e $attempt_dir/node-$index.started ]] || continue
        [[ -e $attempt_dir/node-$index.ended ]] || lost_nodes+=${lost_nodes:+,}${names[index]}
    done
    # This script's own node lives: its processes were killed, and maybe those of the others.
    if [[ -z $lost && ,$lost_nodes, == *",${SLURMD_NODENAME:-/},"* ]] &&
        echo "$lost_nodes" >"$attempt_dir/killed"; then killed=$lost_nodes lost_nodes=''; fi
    if [[ -n $lost_nodes ]] && ! echo "$lost_nodes" >"$attempt_dir/lost"; then
        against="nothing can be written to $run_dir any more" lost_nodes=''    # nor can nodes
        reason=": $against"
    elif [[ $stop == SIG* ]] && ((now < run_end)); then
        against="it was cancelled"
    elif [[ $chain$reason == "requeue: PREEMPTED"* && -z $stop$lost_nodes ]]; then
        goes_on="another job has preempted this one" spared=yes
    elif has_stopped; then
        goes_on="the program has stopped in order"
    elif [[ -n $stop ]]; then
        goes_on="the walltime has ended"
    elif [[ -n $lost_nodes ]]; then
        goes_on="the run goes on without $lost_nodes"
        [[ $chain != held ]] || goes_on="the run goes on; PBS may assign $lost_nodes again"
    elif [[ -n $killed && ! -e $attempt_dir/failed ]]; then
        goes_on="the processes on $killed were killed"
    elif [[ -n $warned && ! -e $attempt_dir/failed ]] && ((status)); then
        goes_on="the program has ended before the walltime"
    else
        against="it has ended by itself"
    fi
    if [[ -n $goes_on ]]; then
        if out_of_starts; then
            against="it has had its $at_most starts"
        elif [[ -z $lost_nodes$spared && $(hash_progress) == "$(<"$attempt_dir/progress")" ]]; then
            against="this start has saved nothing in checkpoints/ of $run_dir, nor PROGRESS"
        fi
    fi
    if [[ $chain == resubmit ]]; then settle_successor; fi
    if [[ -z $goes_on ]]; then return; fi
    say "$goes_on"
    if [[ -z $against ]] && go_on; then
        word=continued status=0
    else
        word=failed status=1
        say "error: the chain ends without DONE: $against" >&2
    fi
}
go_on() {    # sets against if it cannot continue
    case $chain in
        requeue)    # the same job; Slurm may already requeue it after losing a node
            say "the job is queued again, for start $(($(count_starts) + 1)) of at most $at_most"
            echo "continued 0" >"$attempt_dir/outcome"
            words=$(scontrol requeue "$job_id" 2>&1) || [[ -e $attempt_dir/lost ]] ||
                against="Slurm does not take the job back: $words"
            if [[ -n $lost_nodes ]]; then exclude_lost; fi ;;
        resubmit)
            if [[ -e $successor ]]; then
                say "job $(<"$successor") goes on; logs are in $run_dir"
            else
                against="there is no next job"
            fi ;;
        held)
            say "the next job of the chain goes on, if one is queued; logs are in $run_dir" ;;
    esac
    [[ -z $against ]]
}
exclude_lost() {
    lost_nodes=$(list_excluded)
    for _ in {1..15}; do    # Slurm accepts this only once the job is back in the queue
        if words=$(scontrol update JobId="$job_id" ExcNodeList="$lost_nodes" 2>&1); then
            say "$lost_nodes is excluded from now on; to allow it again:" \
                "scontrol update JobId=$job_id ExcNodeList= && scontrol release $job_id"
            return
        fi
        sleep 1
    done
    say "Slurm does not exclude $lost_nodes: $words"
}
# The next job waits for this one to end. It must not inherit variables of this allocation.
queue_successor() {
    successor=$run_dir/attempts/after-$job_id
    # In a trap, a bare return would return the status of the interrupted command.
    if [[ $chain != resubmit || -e $successor ]] || out_of_starts; then return 0; fi
    if (
        for variable in "${!SLURM_@}"; do [[ $variable == SLURM_CONF ]] || unset "$variable"; done
        sbatch --parsable --dependency="afterany:$job_id" \
            --export="ALL,JOBGEN_CHAIN=${run_dir##*/}" --exclude="$(list_excluded)" \
            "$this_script" | grep -oP '^\d+(?=;|$)' >"$successor.new"    # maybe with a cluster
    ); then
        mv "$successor.new" "$successor"
    else
        say "the next job could not be submitted"
    fi
}
list_excluded() {    # with what the job excludes already, since a new list replaces that
    {
        scontrol show job "$job_id" 2>&- | grep -oP 'ExcNodeList=\K\w\S*'
        grep -ohs '[^, ]*' "$attempt_dir/lost" "$run_dir/avoid"
    } | sort -u | paste -sd ,
}
settle_successor() {
    successor=$run_dir/attempts/after-$job_id
    if [[ -n $goes_on && -z $against ]]; then queue_successor; fi
    if [[ -e $successor && -n $against ]]; then scancel "$(<"$successor")" || :; fi
}
