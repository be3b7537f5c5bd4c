# Each process runs this before the program. It compares software and clocks, and tries all GPUs
# and the network. If anything is wrong on a node, every process says so and the job ends.
preflight() {
    mkdir -p "$JOBGEN_RUN_DIR/preflight"
    TORCH_CPP_LOG_LEVEL=ERROR python3 - "${gpus[${GROUP_RANK:-node_rank}]:-${gpus[0]}}" <<'END' ||
import contextlib, datetime, json, os, sys, time, timeit, torch, torch.distributed as dist
from statistics import median, mode
env, gpus, plan, began = os.environ, torch.cuda.device_count(), int(sys.argv[1]), time.time()
rank, world, local = int(env["RANK"]), int(env["WORLD_SIZE"]), int(env["LOCAL_RANK"])
node, folder = env["JOBGEN_NODE"], env["JOBGEN_RUN_DIR"] + "/preflight"
own = env.get("TORCHELASTIC_USE_AGENT_STORE") != "True"    # else the agent has opened the store
store = dist.TCPStore(env["MASTER_ADDR"], int(env["MASTER_PORT"]), None, own and rank == 0)
store = dist.PrefixStore("preflight" + env.get("TORCHELASTIC_RESTART_COUNT", ""), store)

def share(name, mine, combine):    # rank 0 combines everybody's values
    store.set(f"{name}{rank}", json.dumps(mine))
    if rank == 0:
        told = [json.loads(store.get(f"{name}{other}")) for other in range(world)]
        store.set(name, json.dumps(combine(told)))
    return json.loads(store.get(name))

def least(run, clock=time.perf_counter):    # the best of five runs, in seconds
    wait = torch.cuda.synchronize if cuda else int
    return min(timeit.repeat(lambda: (run(), wait()), timer=clock, number=1, repeat=6)[1:])

paths = filter(os.path.isdir, reversed(sys.path))
listed = [name[:-10] for path in paths for name in os.listdir(path) if name.endswith(".dist-info")]
has = dict(name.partition("-")[::2] for name in listed)
has.update(torch=torch.__version__, cuda=torch.version.cuda or torch.version.hip)
driver = os.popen("cat /proc/driver/nvidia/version /sys/module/amdgpu/version 2>&-").read()
has["driver"] = next((word for word in driver.split() if word[0].isdigit()), None)
has["python"] = sys.version.split()[0]
most = share("has", has, lambda told: {key: mode(one.get(key) for one in told)
                                       for key in sorted(set().union(*told))})
wrong = [f"{key} {has.get(key)}, others {most[key]}" for key in most if has.get(key) != most[key]]
before, theirs, after = time.time(), share("time", None, lambda told: time.time()), time.time()
ahead = median([before - theirs, 0, after - theirs])    # more than the wait explains
wrong += [f"clock {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}"] * (abs(ahead) > 2)
wrong += [f"sees {gpus} GPUs, plan says {plan}"] * (gpus < plan)
found = {"node": node, "clock_s": round(ahead, 3), **has}
if gpus:
    torch.cuda.set_device(local % gpus)
    free, size = (round(count / 1e9, 1) for count in torch.cuda.mem_get_info())
    found["devices"] = [{"name": torch.cuda.get_device_name(i), "gb": size} for i in range(gpus)]
    wrong += [f"GPU {local % gpus} has {free} of {size} GB free"] * (free < size / 2)
cuda = share("cuda", int(env["LOCAL_WORLD_SIZE"]) <= gpus, all)    # each has a GPU
wrong = share("wrong", [f"{node}: {text}" for text in wrong], lambda told: sum(told, []))
if not wrong:
    env.update({} if rank else {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"{folder}/nccl"})
    kind, minute = "nccl" if cuda else "gloo", datetime.timedelta(minutes=1)
    dist.init_process_group(kind, store=store, rank=rank, world_size=world, timeout=minute)
    # Older GPUs lack bf16, and fp16 is as fast; on CPUs only this process's own time counts.
    square = torch.randn(8192, 8192, device="cuda").half() if cuda else torch.randn(512, 512)
    clock = time.perf_counter if cuda else time.process_time
    torch.set_num_threads(1)    # threads would count the time they wait for each other
    found["tflops"] = speed = 2e-12 * len(square) ** 3 / least(lambda: square @ square, clock)
    for size in (2**20, 2**24, 2**28) if cuda else (2**16, 2**19, 2**22):    # bytes
        data = torch.zeros(size // 4, device=square.device)
        rate = size * 2e-9 * (world - 1) / world / least(lambda: dist.all_reduce(data))
        found[f"allreduce_{size}"] = found["allreduce_gb_s"] = round(rate, 3)    # bus bandwidth
    dist.destroy_process_group()
    usual = share("speed", speed, median)
    slow = [f"{node}: process {local} multiplies at {speed:.3g} TFLOP/s, others {usual:.3g}"]
    wrong = share("slow", slow * (speed < usual / (2 if cuda else 4)), lambda told: sum(told, []))
    if rank == 0 and not wrong:
        print(f"jobgen: preflight: {world} processes agree; all-reduce {rate:.3g} GB/s; it took",
              f"{time.time() - began:.1f} s", file=sys.stderr)
if local == 0:
    open(f"{folder}/{node}.json", "w").write(json.dumps(found, indent=1))
for text in dict.fromkeys(wrong):
    print(f"jobgen: preflight: {text}", file=sys.stderr)
store.set(f"heard{rank}", "")
with contextlib.suppress(RuntimeError):    # rank 0 closes its store after all have read
    store.wait(["gone"] if own and rank else [f"heard{other}" for other in range(world)])
sys.exit(len(wrong) > 0)
END
        die "preflight failed on $JOBGEN_NODE; what each node has is in $JOBGEN_RUN_DIR/preflight"
}
