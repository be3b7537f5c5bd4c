run_job() {    # sets status; when a node fails, Slurm ends the job: not a cancellation
    tell_nodes
    run_child start_launcher; ((!status)) || (trap '' TERM && sleep 1) || :    # Slurm ends all here
    if [[ -e $attempt_dir/failed ]]; then read -r _ status _ <"$attempt_dir/failed"; fi
    lost='/revoked/d;s/^srun: error: (Node failure|Task launch.* failed) on (node )?([^ :]+).*/\3/p'
    trap '' TERM; if has find_killed; then find_killed; fi    # it would end what reads the log
    lost=$(sed -nE "$lost" "$attempt_dir/launcher.log" | sort -u | xargs)
    if [[ -n $lost ]]; then blame "$lost" " is lost: Slurm says that it has failed"; fi
    if ((status)) && [[ -z $stop$lost ]]; then find_unstarted; fi
}
find_unstarted() {    # whether Slurm's first message names a node that never recorded its start
    local first index log=$attempt_dir/launcher.log
    first=$(sed -nE '/^srun: error: /{s/^srun: error: (\S+): tasks? .*: Exited .*/\1/p;q}' "$log")
    index=$(grep -nxF -m 1 "${first:-/}" "$attempt_dir/nodes") || return 0
    [[ ! -e $attempt_dir/node-$((${index%%:*} - 1)).started ]] || return 0
    reason=$(grep -vE '^(srun|slurmstepd\S*): ' "$log" | tail -n 1)
    blame "$first" ": not started: ${reason//"$PWD/"/}"
}
blame() { reason=": $1$2" status=1 stop='' && echo "lost $1"$'\n'"$1$2" >"$attempt_dir/failed"; }
start_launcher() {    # without an outer job's options for srun; by the node with the fewest CPUs
    SLURM_CPUS_ON_NODE=$(tr , '\n' <<<"${SLURM_JOB_CPUS_PER_NODE-}" | sort -n | sed 's/(.*//;q')
    unset "${!SLURM_CPU_BIND@}" "${!SLURM_MEM_@}" "${!SLURM_GPU@}" "${!SLURM_NTASKS_PER_@}" \
        "${!SLURM_TRES_@}" SLURM_CPUS_PER_GPU
    SLURM_EXPORT_ENV=ALL SLURM_WAIT=0 launch >"$attempt_dir/launcher.log" 2>&1 </dev/null
}
end_job() {    # by scancel, as srun kills all at once
    timeout 4 scancel --quiet --signal=TERM "$job_id" || kill -TERM "$child" 2>/dev/null || :
}
find_rank() { node_rank=$SLURM_NODEID rank=$SLURM_PROCID local_rank=$SLURM_LOCALID; }
