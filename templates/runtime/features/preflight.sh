# Preflight: every node tells the first what it has, and reaches it and is reached; the first node
# compares, and ends the job where they differ, with a sentence for each difference.
compare_nodes() {    # compare_nodes GPUS ADDRESS INTERFACE
    JOBGEN_SECRET=${rendezvous_id-} python3 - "$node_rank" "$1" "$MASTER_PORT" "$MASTER_ADDR" \
        "$2" "$3" "$attempt_dir" "$run_dir" <<'PREFLIGHT' ||
@preflight@
PREFLIGHT
        die "preflight failed on $node; what each node has is in $run_dir/preflight"
}
