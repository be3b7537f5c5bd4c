"""Stands in for the programs of a job: which one is told by the name that it is called by.

A test starts many of them, and each imports what Python has loaded already: not `re`, which takes
as long as all else that it does.
"""

import os
import sys

NAME, ARGS = os.path.basename(sys.argv[0]), sys.argv[1:]
# What jobgen and Slurm set, or what is another in every process.
OWN_BEGIN = """
JOBGEN_ SLURM PBS BASH TORCH PET_ MASTER_ GLOO TRITON MIOPEN GROUP_ ROLE_ SRUN_ ROCR LC_
"""
OWN = """
ORACLE_RECORD ORACLE_CODE _ SHLVL PWD OLDPWD PATH TMPDIR OMP_NUM_THREADS PYTHONUNBUFFERED
PYTHONFAULTHANDLER PYTHON_EXEC NCCL_SOCKET_IFNAME LOGNAME LOCAL_WORLD_SIZE RANK LOCAL_RANK
WORLD_SIZE
"""
# Options without a value, and those with two; what they are to srun, mpirun and torchrun.
FLAGS = """
-l -K -O -s -E -Z -k -X -Q -q --unbuffered --label --overlap --exclusive --pty --overcommit
--kill-on-bad-exit --no-kill --quiet --verbose --exact --oversubscribe --preserve-env
--container-writable --no-container-mount-home --container-mount-home --allow-run-as-root
--tag-output --report-bindings -v -tag-output -report-bindings --bind-to-core --display-map
--use-hwthread-cpus --standalone --no-python -m --module --use-env --multi-gpu
"""
PAIRS = ("--mca", "-mca", "-genv", "--genv", "-env")
MOST = 64  # processes of a job


def take(args):
    """Return options as a dictionary, and the rest."""
    options, index = {}, 0
    while index < len(args) and args[index].startswith("-"):
        name, equals, value = args[index].partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        index += 1
        if name == "--":
            break
        if equals:
            options[name] = value
        elif name in FLAGS.split() or (name[1:] and not name[1:].strip("uvlQK")):
            options[name] = ""
        elif NAME == "srun" and name[2:3].isdigit() and name[1] in "nNcw":
            options[name[:2]] = name[2:]
        else:
            count = 2 if name in PAIRS else 1
            options[name] = " ".join(args[index : index + count])
            index += count
    return options, args[index:]


def read_count(text, usual):
    text = str(text)
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits or usual)


def start(words, **variables):
    own = {**os.environ, **{k: str(v) for k, v in variables.items()}}
    try:
        return os.posix_spawnp(words[0], words, own)
    except OSError:  # a program that nothing stands in for
        child = os.fork()
        if not child:
            os.environ.update(own)
            record(words)
        return child


def wait(children):
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(next((code for code in codes if code), 0))


def record(words):
    own, begin = OWN.split(), tuple(OWN_BEGIN.split())
    names = {k: v for k, v in os.environ.items() if k not in own and not k.startswith(begin)}
    rank = os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0"))
    argv = [word for word in words if word != "-u"]
    line = {"rank": read_count(rank, 0), "argv": argv, "cwd": os.getcwd(), "env": names}
    with open(os.environ["ORACLE_RECORD"], "a") as file:
        file.write(f"{line!r}\n")
    sys.exit(int(os.environ.get("ORACLE_CODE", "0")))


def agent(args):
    options, rest = take(args)
    gpus = read_count(os.environ.get("SLURM_GPUS_ON_NODE"), 1)
    each = min(MOST, read_count(options.get("--nproc-per-node", "1"), gpus))
    node = read_count(options.get("--node-rank", os.environ.get("SLURM_NODEID")), 0)
    world = each * read_count(options.get("--nnodes"), 1)
    module = ["-m"] if {"-m", "--module"} & options.keys() else []
    words = rest if "--no-python" in options else ["python", *module, *rest]
    ranks = range(node * each, node * each + each)
    same = {"WORLD_SIZE": world, "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_ERROR_FILE": "e"}
    wait([start(words, RANK=r, LOCAL_RANK=r - node * each, **same) for r in ranks])


def srun(args):
    options, rest = take(args)
    usual = read_count(os.environ.get("SLURM_NNODES"), 1)
    nodes = read_count(options.get("-N", options.get("--nodes")), usual)
    each = options.get("--ntasks-per-node", os.environ.get("SLURM_NTASKS_PER_NODE"))
    tasks = options.get("-n", options.get("--ntasks"))
    if tasks is None:
        tasks = nodes * int(each) if each else os.environ.get("SLURM_NTASKS")
    tasks = min(MOST, read_count(tasks, nodes))
    per = max(1, tasks // nodes)
    wait(
        [
            start(rest, SLURM_PROCID=r, SLURM_LOCALID=r % per, SLURM_NODEID=r // per)
            for r in range(tasks)
        ]
    )


def mpirun(args):
    options, rest = take(args)
    count = options.get("-n", options.get("-np", options.get("--np")))
    tasks = min(MOST, read_count(count, 1))
    per = max(1, tasks // read_count(os.environ.get("SLURM_NNODES"), 1))
    # Under Slurm it starts its daemons by srun, whose variables its processes have.
    wait([start(rest, RANK=r, SLURM_NODEID=r // per) for r in range(tasks)])


def python(args):
    if args[:1] == ["-u"]:
        args = args[1:]
    if args[:1] == ["-c"]:
        os.execv(sys.executable, [sys.executable, *args])
    if args[:2] in (["-m", "torch.distributed.run"], ["-m", "torch.distributed.launch"]):
        agent(args[2:])
    record(["python", *args])


if NAME.startswith("python"):
    python(ARGS)
elif NAME == "torchrun":
    agent(ARGS)
elif NAME == "srun":
    srun(ARGS)
elif NAME in ("mpirun", "mpiexec"):
    mpirun(ARGS)
elif NAME == "pbsdsh":
    options, rest = take(ARGS)
    wait([start(rest, PBS_VNODENUM=options.get("-n", "0"))])
elif NAME == "accelerate":
    options, rest = take(ARGS[1:])
    count = read_count(options.get("--num-processes"), 1)
    wait([start(["python", *rest], RANK=r) for r in range(count)])
elif NAME == "scontrol":
    last = os.environ.get("SLURM_JOB_NODELIST", "n[1-1]").strip("n[]").rpartition("-")[2]
    print("\n".join(f"n{n + 1}" for n in range(int(last))))
elif NAME == "getent":
    print("127.0.0.1       STREAM n1")
elif NAME == "conda":
    print(":")
elif NAME == "nvidia-smi":
    sys.exit(1)
elif NAME == "stand_in.py":
    record(ARGS)
else:
    record([NAME, *ARGS])
