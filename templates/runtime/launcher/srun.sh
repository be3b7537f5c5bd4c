find_rank() { rank=$SLURM_PROCID local_rank=$SLURM_LOCALID; }

# A shell that was killed has recorded nothing; srun tells of it, of the first to end first.
find_killed() {    # find_killed FIRST_ERROR; without one, sets node, first_rank and status
    local name rank
    if [[ -z $1 ]] && read -r name rank < <(
        sed -nE '/^srun: error: .*: task/{ s/^.*: (.*): task ([0-9]*): Killed.*/\1 \2/p; q }' \
            "$attempt_dir/launcher.log"
    ); then
        node=$name status=137
        if declare -F run_process >/dev/null; then first_rank=$rank; fi
    fi
}
