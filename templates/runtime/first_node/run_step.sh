run_job() {    # sets status
    tell_nodes
    attend log_launch
    lost=$(sed -n 's/^srun: error: Node failure on //p' "$attempt_dir/launcher.log" | sort -u)
    lost=${lost//$'\n'/ }
    if [[ -n $lost ]]; then
        echo "lost $lost" >"$attempt_dir/failed"
        why="Slurm says that the node has failed" stop='' status=1
        reason="$lost is lost: $why"
    fi
}
