# Ray's head is on the first node, which runs the program once all other nodes have joined. Ray ends
# with the job on each node, and only clients with the job's token can use it.
join_ray='
import ray, sys, time
ray.init(log_to_driver=False, logging_level="ERROR")
end, nodes = time.time() + 600, set(open(sys.argv[1]).read().split())
while missing := nodes - {node["NodeName"] for node in ray.nodes() if node["Alive"]}:
    if time.time() > end:
        sys.exit("jobgen: error: Ray has waited 600 s for " + ", ".join(sorted(missing)))
    time.sleep(0.5)'
ask_head() { LC_ALL=C timeout 5 bash -c ": <>/dev/tcp/$head/$MASTER_PORT" 2>&1 || :; }
start_ray() {    # start_ray OPTIONS...: Ray on this node, and on the first one the program
    local head short ray child='' code=0 log=$run_dir/logs/$node options=("$@") RANK=$rank
    export -n RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT    # not Ray's
    export RAY_AUTH_MODE=${RAY_AUTH_MODE-token} RAY_AUTH_TOKEN_PATH=$attempt_dir/ray.token
    # By default, a slow node or a cold file system has only 30 s to start Ray.
    export RAY_raylet_start_wait_time_s=${RAY_raylet_start_wait_time_s-180}
    trap 'stop=SIGTERM; kill -TERM "$child" || :' TERM
    head=$(getent ahostsv4 "$MASTER_ADDR" | awk '!/^127\./ && !seen++ { print $1 }') || :
    head=${head:-127.0.0.1}
    if ((node_rank)); then
        options+=(--address="$head:$MASTER_PORT")
        until [[ -z $(ask_head) ]]; do sleep 1; done
        (until [[ $(ask_head) == *refused* ]]; do sleep 1; done) &
    else
        (umask 077 && od -An -vtx1 -N32 /dev/urandom | tr -d ' \n' >"$RAY_AUTH_TOKEN_PATH")
        options+=(--head --node-ip-address="$head" --port="$MASTER_PORT" --include-dashboard=false)
        ! python3 -c 'import grpc' 2>/dev/null ||    # Ray Client needs grpc
            options+=(--ray-client-server-port="$((MASTER_PORT + 10000))")
        (
            export RAY_ADDRESS=$head:$MASTER_PORT
            python3 -c "$join_ray" "$attempt_dir/nodes" 2>>"$log/rank-$rank.err"
            run_rank
        ) &
    fi
    child=$!
    short=$(mktemp -u /tmp/ray-XXXXXX)    # a socket's path is limited to 107 bytes
    mkdir "$JOBGEN_AGENT/ray" && ln -s "$JOBGEN_AGENT/ray" "$short" && : >"$JOBGEN_AGENT/reached"
    RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0 setsid ray start --block "${options[@]}" \
        --node-name="$node" --temp-dir="$short" --dashboard-agent-listen-port=0 \
        --min-worker-port=0 --max-worker-port=0 --disable-usage-stats >>"$log/ray.log" 2>&1 &
    ray=$!    # other ports are free ones, as another job here may run Ray too
    while kill -0 "$ray" && kill -0 "$child"; do sleep 1 || :; done 2>/dev/null
    if kill -0 "$ray" 2>/dev/null; then
        wait "$child" || code=$?
        ((code == 0)) || [[ -n $stop ]] || sleep 3 || :    # let the node that it lost end first
    elif [[ $node_rank == 0 || $(ask_head) != *refused* ]]; then
        code=1
        tail -n 12 "$log/ray.log" "$short"/session_latest/logs/{raylet,gcs_server}.{out,err} \
            >>"$log/rank-$rank.err" 2>/dev/null || :
        say "Ray has ended on $node" >>"$log/rank-$rank.err"
    fi
    kill -TERM "$ray" "$child" 2>/dev/null || :
    timeout 8 tail --pid="$ray" -f /dev/null || :
    kill -KILL -- "-$ray" 2>/dev/null || :    # whatever Ray left running
    rm -f "$short"
    exit "$code"
}
