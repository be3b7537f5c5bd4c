find_rank() { rank=$SLURM_PROCID local_rank=$SLURM_LOCALID; }
