find_killed() {    # whether Slurm's first message is that a process was killed
    local killed='/^srun: error: /{s/^srun: error: (\S+): task ([0-9]+): Killed$/\2 on \1/p;q}'
    killed=$(sed -nE "$killed" "$attempt_dir/launcher.log")
    if [[ -n $killed ]]; then
        reason=" with exit code 137: rank $killed, see $attempt_dir/launcher.log" status=137
    fi
}
