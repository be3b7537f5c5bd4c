"""Stands in for the programs of a job: which one is told by the name that it is called by.

A test starts many of them, and each imports what Python has loaded already.
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


def take(args, flags):
    """Return options as a dictionary, and the rest."""
    options, index = {}, 0
    while index < len(args) and args[index].startswith("-"):
        word = args[index].replace("_", "-") if args[index].startswith("--") else args[index]
        index += 1
        name, equals, _ = word.partition("=")
        if word == "--":
            break
        if equals:
            options[name] = args[index - 1].partition("=")[2]
        elif name in flags:
            options[name] = ""
        else:
            options[name] = args[index]
            index += 1
    return options, args[index:]


def start(words, **variables):
    own = {**os.environ, **{k: str(v) for k, v in variables.items()}}
    return os.posix_spawnp(words[0], words, own)


def wait(children):
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(next((code for code in codes if code), 0))


def record():
    program = [word for word in ARGS if word != "-u"]
    own, begin = OWN.split(), tuple(OWN_BEGIN.split())
    names = {k: v for k, v in os.environ.items() if k not in own and not k.startswith(begin)}
    rank = os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0"))
    line = {"rank": int(rank), "argv": ["python", *program], "cwd": os.getcwd(), "env": names}
    with open(os.environ["ORACLE_RECORD"], "a") as file:
        file.write(f"{line!r}\n")
    sys.exit(int(os.environ.get("ORACLE_CODE", "0")))


def agent(args):
    options, rest = take(args, {"--standalone", "--no-python", "-m", "--module"})
    each = int(options.get("--nproc-per-node", "1"))
    node = int(options.get("--node-rank", os.environ.get("SLURM_NODEID", "0")))
    world = each * int(options.get("--nnodes", "1"))
    words = (
        rest
        if "--no-python" in options
        else ["python", *(["-m"] if "-m" in options else []), *rest]
    )
    ranks = range(node * each, node * each + each)
    same = {"WORLD_SIZE": world, "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_ERROR_FILE": "e"}
    wait([start(words, RANK=r, LOCAL_RANK=r - node * each, **same) for r in ranks])


def srun(args):
    flags = {"-u", "-l", "-K", "--unbuffered", "--label", "--overlap", "--exclusive"}
    options, rest = take(args, flags)
    nodes = int(options.get("-N", options.get("--nodes", os.environ.get("SLURM_NNODES", "1"))))
    each = options.get("--ntasks-per-node", os.environ.get("SLURM_NTASKS_PER_NODE"))
    tasks = options.get("-n", options.get("--ntasks"))
    if tasks is None:
        tasks = nodes * int(each) if each else os.environ.get("SLURM_NTASKS", nodes)
    tasks = int(tasks)
    per = max(1, tasks // nodes)
    wait(
        [
            start(rest, SLURM_PROCID=r, SLURM_LOCALID=r % per, SLURM_NODEID=r // per)
            for r in range(tasks)
        ]
    )


if NAME.startswith("python"):
    if ARGS[:1] == ["-c"]:
        os.execv(sys.executable, [sys.executable, *ARGS])
    if ARGS[:2] in (["-m", "torch.distributed.run"], ["-m", "torch.distributed.launch"]):
        agent(ARGS[2:])
    record()
elif NAME == "torchrun":
    agent(ARGS)
elif NAME == "srun":
    srun(ARGS)
elif NAME in ("mpirun", "mpiexec"):
    options, rest = take(ARGS, {"--oversubscribe"})
    count = int(options.get("-n", options.get("-np", "1")))
    wait([start(rest, RANK=r) for r in range(count)])
elif NAME == "accelerate":
    options, rest = take(ARGS[1:], {"--multi_gpu", "--multi-gpu"})
    count = int(options.get("--num-processes", "1"))
    wait([start(["python", *rest], RANK=r) for r in range(count)])
elif NAME == "scontrol":
    last = os.environ.get("SLURM_JOB_NODELIST", "n[1-1]").strip("n[]").rpartition("-")[2]
    print("\n".join(f"n{n + 1}" for n in range(int(last))))
elif NAME == "getent":
    print("127.0.0.1       STREAM n1")
elif NAME == "conda":
    print(":")
else:
    sys.exit(1)
