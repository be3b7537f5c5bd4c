"""The variables that the templates export, each with its reason; a test holds the two together."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen import schedulers
from jobgen.plan.plan import Plan
from jobgen.rendering.view import uses_gpus
from jobgen.schedulers.base import PROCESSES, cpu_keys

_TOLD = {
    "RANK": "0, 1, ...",
    "LOCAL_RANK": "0, 1, ...",
    "WORLD_SIZE": "processes",
    "LOCAL_WORLD_SIZE": "processes of the node",
    "MASTER_ADDR": "the first node",
    "MASTER_PORT": "20000 + ...",
}

_RAY = (
    ("RAY_ADDRESS", "ADDRESS:PORT", "for the program, which runs beside the head: where that is"),
    ("RAY_AUTH_MODE", "token", "who has not the job's token cannot use its Ray (2.52 or newer)"),
    ("RAY_AUTH_TOKEN_PATH", "attempts/N/ray.token", "the file that has it"),
    ("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "0", "Ray ends at once when the program has"),
)


def list_own_variables(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Name, value, reason and deciding keys of what the templates export."""
    launcher, pieces = plan.launch.launcher, schedulers.SCHEDULERS[plan.scheduler].launch(plan)
    in_slurm = bool(pieces.node_lists)
    if launcher == "srun" or (launcher == "mpiexec" and in_slurm):
        why = "srun hands on the environment also if it was submitted with --export=NONE"
        yield "SLURM_EXPORT_ENV", "ALL", why
    if launcher == "mpiexec":
        if in_slurm:
            why = "where mpiexec goes through srun, which gives one CPU to what it starts"
            yield "SRUN_CPUS_PER_TASK", "all of the node", why
            yield "SLURM_CPU_BIND", "none", why
        if plan.launch.flavor in (None, "openmpi"):
            why = "processes that Open MPI ends get time to save"
            yield "OMPI_MCA_odls_base_sigkill_timeout", "40", why
    if not in_slurm:
        for name in ("USER", "LOGNAME"):
            yield name, "the user", "not every launcher hands it on"
    if not plan.launch.body:
        yield from _list_of_processes(plan)
    yield "JOBGEN_RUN_DIR", f"runs/{plan.name}/JOB", "for the program: the run folder, absolute"
    yield "JOBGEN_NODE", "NODE", "for the program: the node's name"
    yield "JOBGEN_JOB_ID", "JOB", "for the program: the job's id"
    if plan.array or plan.program.task:
        index = plan.program.task or "0, 1, ..."
        yield "JOBGEN_TASK", index, "for the program: the task's index in the array", "array"
    yield "JOBGEN_ATTEMPT", "0, 1, ...", "for the program: how often the job was started before"
    if plan.walltime.chain:
        why = "for the program: when the walltime ends, in seconds since 1970"
        yield "JOBGEN_END", "a time", why, "resources.walltime"


def _list_of_processes(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Yield the variables of the processes that jobgen starts."""
    yield from _list_for_network(plan)
    among = "the node / its processes" if plan.can.batch else "the machine / all processes"
    parts = {f"{one.name}: ": one.plan for one in plan.roles.members} if plan.roles else {"": plan}
    threads = ", ".join(f"{k}{p.nodes.threads or f'CPUs of {among}'}" for k, p in parts.items())
    if plan.launch.ray:
        yield from _RAY
    else:
        why = "the processes of a node share its cores"
        yield "OMP_NUM_THREADS", threads, why, *cpu_keys(plan), *PROCESSES
    if plan.launch.direct and not plan.launch.ray:
        for name, what in _TOLD.items():
            yield name, what, "what torchrun would tell the process"
    elif plan.launch.rendezvous in ("c10d", "file"):
        yield "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", "with a shared store, restarts often hang"
    if plan.launch.mode == "torchrun":
        why = "the process's own, and not the agent's: some libraries read them"
        for name, what in (("PROCID", "RANK"), ("LOCALID", "LOCAL_RANK"), ("NTASKS", "WORLD_SIZE")):
            yield f"SLURM_{name}", what, f"{why}; in jobs of Slurm alone"
    why = "where a process whose main function has @record leaves its exception"
    yield "TORCHELASTIC_ERROR_FILE", "errors/NODE-RANK.json", why
    if plan.launch.devices:
        order = ",".join(map(str, plan.launch.devices))
        why = "the node's GPUs in the order in which its processes take them"
        yield "CUDA_VISIBLE_DEVICES", order, why, "site.launch.devices"
    yield "PYTHONUNBUFFERED", "1", "lines reach the logs as they are printed"
    yield "PYTHONFAULTHANDLER", "1", "a crash in compiled code leaves the stack of Python"
    yield "TMPDIR", "/tmp", "only where the node cannot write to the one it is given"
    if uses_gpus(plan):
        yield from _list_for_gpus(plan)
    yield "JOBGEN_AGENT", "TMPDIR/jobgen-JOB", "by it is found what outlives the job"


def _list_for_network(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Yield by what the processes reach each other, and on this machine which GPUs they have."""
    if not plan.can.batch:
        why = "this machine's processes talk over loopback"
        yield "GLOO_SOCKET_IFNAME", "lo", why
        yield "NCCL_SOCKET_IFNAME", "lo", why
        why = "this node's share of the GPUs; none if there are fewer GPUs than processes"
        yield "CUDA_VISIBLE_DEVICES", "by node", why
    elif plan.launch.interface:
        why = "the interface that the nodes talk over"
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            yield name, plan.launch.interface, why, "launch.interface|site.interface"
    elif not plan.launch.alone:
        why = "only where a node's own name leads to its loopback address: what leads to the others"
        yield "GLOO_SOCKET_IFNAME", "an interface", why


def _list_for_gpus(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Yield where what is compiled is kept, and where a hang leaves its trace."""
    why = "what is compiled is kept on the node's own disk, and goes with the job"
    for name in plan.environment.caches:
        yield name, f"TMPDIR/jobgen-JOB/{name}", why
    why = "NCCL's flight recorder, which leaves a trace of a hang"
    yield "TORCH_NCCL_DUMP_ON_TIMEOUT", "1", why
    yield "TORCH_FR_BUFFER_SIZE", "2000", why
    yield "TORCH_FR_DUMP_TEMP_FILE", "errors/NODE-flight-", "where that trace goes"
    why = "its name before torch 2.9"
    yield "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "errors/NODE-flight-", why
