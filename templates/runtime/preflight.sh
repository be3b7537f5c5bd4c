# Preflight: every node tells the first what it has, and reaches it and is reached; the first node
# compares, and ends the job where they differ, with a sentence for each difference. The program is
# templates/runtime/preflight.py of jobgen, compressed; to read it: bash THIS_FILE print_preflight
print_preflight() { base64 -d <<<"$PREFLIGHT" | gzip -d; }
make_secret() {    # by which the nodes know one another
    (umask 077 && head -c 32 /dev/urandom | base64 >"$attempt_dir/secret")
}
compare_nodes() {    # compare_nodes GPUS ADDRESS INTERFACE
    if ((${LOCAL_RANK:-0} == 0)); then
        JOBGEN_SECRET=$(<"$attempt_dir/secret") python3 <(print_preflight) "$node_rank" "$1" \
            "$MASTER_PORT" "$MASTER_ADDR" "$2" "$3" "$attempt_dir" "$run_dir" ||
            die "preflight failed on $node; what each node has is in $run_dir/preflight"
        : >"$attempt_dir/node-$node_rank.compared"
    fi
    until [[ -e $attempt_dir/node-$node_rank.compared ]]; do sleep 0.5; done
}
PREFLIGHT=@preflight@
