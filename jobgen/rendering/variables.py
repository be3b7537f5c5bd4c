"""The variables that the templates export, each with its reason; a test holds the two together."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen import schedulers
from jobgen.plan.plan import Plan
from jobgen.rendering.view import ends_leftovers, starts_alone, uses_gpus
from jobgen.schedulers.base import PROCESSES, cpu_keys

_RECORDER = "NCCL's flight recorder, which leaves a trace of a hang"
_TOLD = {
    "RANK": "0, 1, ...",
    "LOCAL_RANK": "0, 1, ...",
    "WORLD_SIZE": "processes",
    "LOCAL_WORLD_SIZE": "processes of the node",
    "MASTER_ADDR": "the first node",
    "MASTER_PORT": "20000 + ...",
}


def list_own_variables(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Name, value, reason and deciding keys of what the templates export."""
    in_slurm = bool(schedulers.get_scheduler(plan.scheduler).launch(plan).node_lists)
    if in_slurm and plan.launch.launcher != "local":
        why = "srun hands on the environment also where it was submitted with --export=NONE"
        yield "SLURM_EXPORT_ENV", "ALL", why
    if plan.launch.launcher == "mpiexec":
        if in_slurm:
            why = "where mpiexec goes through srun, which gives one CPU to what it starts"
            yield "SRUN_CPUS_PER_TASK", "all of the node", why
            yield "SLURM_CPU_BIND", "none", why
        if plan.launch.flavor in (None, "openmpi"):
            why = "processes that Open MPI ends get time to save"
            yield "OMPI_MCA_odls_base_sigkill_timeout", "40", why
    for name in ("USER", "LOGNAME"):
        yield name, "the user", "not every launcher hands it on"
    local = schedulers.is_local(plan.scheduler)
    if local:
        why = "this machine's processes talk over loopback"
        yield "GLOO_SOCKET_IFNAME", "lo", why
        yield "NCCL_SOCKET_IFNAME", "lo", why
        why = "this node's share of the GPUs; none where there are fewer than processes"
        yield "CUDA_VISIBLE_DEVICES", "by node", why
    elif plan.launch.interface:
        why = "the interface that the nodes talk over"
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            yield name, plan.launch.interface, why, "launch.interface|site.interface"
    elif plan.nodes.total > 1:
        why = "only where a node's own name leads to its loopback address: what leads to the others"
        yield "GLOO_SOCKET_IFNAME", "an interface", why
    among = "the machine / all processes" if local else "the node / its processes"
    threads = str(plan.nodes.threads or f"CPUs of {among}")
    why = "the processes of a node share its cores"
    keys = (*cpu_keys(plan), *PROCESSES)
    yield "OMP_NUM_THREADS", threads, why, *keys
    if plan.launch.direct:
        for name, what in _TOLD.items():
            yield name, what, "what torchrun would tell the process"
        why = "where a process whose main function has @record leaves its exception"
        yield "TORCHELASTIC_ERROR_FILE", "errors/NODE-RANK.json", why
    else:
        why = (
            "a store of its own for each restart: with a shared one, restarts of torchrun often"
            " hang"
        )
        yield "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", why
        if not starts_alone(plan) or plan.launch.rendezvous == "static":
            yield "PET_RDZV_ID", "a secret", "torchrun's --rdzv-id, which others could see"
    if plan.launch.devices:
        order = ",".join(map(str, plan.launch.devices))
        why = "the node's GPUs in the order in which its processes take them"
        yield "CUDA_VISIBLE_DEVICES", order, why, "site.launch.devices"
    yield "PYTHONUNBUFFERED", "1", "lines reach the logs as they are printed"
    yield "TMPDIR", "/tmp", "only where the node cannot write to the one it is given"
    if uses_gpus(plan):
        why = "what is compiled is kept on the node's own disk, and goes with the job"
        for name in plan.environment.caches:
            yield name, f"TMPDIR/jobgen-JOB/{name}", why
        yield "TORCH_NCCL_DUMP_ON_TIMEOUT", "1", _RECORDER
        yield (
            "TORCH_FR_BUFFER_SIZE",
            "2000",
            f"{_RECORDER}; torch before 2.9 has another name for it",
        )
        yield "TORCH_FR_DUMP_TEMP_FILE", "errors/NODE-flight-", "where that trace goes; likewise"
    if ends_leftovers(plan):
        yield "JOBGEN_AGENT", "TMPDIR/jobgen-JOB", "by it is found what outlives the job"
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
