find_rank() { rank=$1 local_rank=${2-}; }
