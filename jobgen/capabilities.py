"""What each scheduler can do: the one table that other rooms ask instead of comparing its name.

A new scheduler is a row here, a folder in `schedulers/` and a template.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Capabilities(NamedTuple):
    """One scheduler. What is False, the plan refuses, leaves out or does in another way."""

    name: str
    title: str
    generic_site: str  # the profile that knows nothing but the scheduler
    launcher: str  # its own, which starts processes on the nodes
    job_id: str  # pattern: number, task as 12_3, task as 12[3], server
    job_id_example: str
    bracketed_tasks: bool = False  # a task is 12[3], and not 12_3
    sign: str | None = None  # what a directive begins with
    queue_word: str = "queue"  # what users of the scheduler call a queue
    options: Mapping[str, str] = MappingProxyType({})  # of directives: the spec's key for each
    commands: tuple[str, ...] = ()  # that a job's life needs on a login node
    bare_walltime: str = ""  # the unit of a walltime that is a number alone
    comments: bool = False  # a directive may end in a comment
    starts_at_home: bool = False  # a job starts in the home folder, not in that of its submission

    batch: bool = True  # jobs wait in a queue and run on other machines
    node_range: bool = False  # it may give fewer nodes than the most that are asked for
    components: bool = False  # unequal nodes are components of a job, each with its own resources
    enters_containers: bool = False  # its launcher does, with a task
    gpu_type: bool = False  # a directive of its own names the type of GPU
    constraint: bool = False  # a directive of its own names features of nodes
    chunks: bool = False  # each of its chunks names what a node must have
    disk: bool = False  # a directive of its own asks for space on a node's own disk
    exclusive: bool = False
    qos: bool = False
    reservation: bool = False
    reservation_queue: bool = False  # a reservation takes the place of the queue
    mail: bool = False
    mails_any_failure: bool = False  # also of a program that fails by itself
    requeue: bool = False  # a job may put itself back into the queue
    submits_from_job: bool = False  # a job may submit another
    notice: int | None = None  # seconds before the end that it can send a signal; None: never
    lists_accounts: bool = False


def _name_options(text: str) -> dict[str, str]:
    """Read lines of a key and the options that say it; one with a blank has another after it."""
    rows = (line.split(maxsplit=1) for line in text.strip().splitlines())
    return {option: key for key, options in rows for option in options.split(", ")}


_SLURM_OPTIONS = _name_options("""
    name                        -J, --job-name
    account                     -A, --account
    queue                       -p, --partition
    qos                         -q, --qos
    reservation                 --reservation
    resources.nodes             -N, --nodes
    launch.processes_per_node   --ntasks-per-node
    resources.gpus_per_node     -G, --gpus, --gpus-per-node, --gpus-per-task, --gres gpu
    resources.cpus_per_node     -c, --cpus-per-task
    resources.memory_per_node   --mem, --mem-per-cpu, --mem-per-gpu
    resources.constraint        -C, --constraint
    resources.exclusive         --exclusive
    resources.walltime          -t, --time
    on_walltime.notice          --signal
    environment.from_shell      --export
    array                       -a, --array
    after                       -d, --dependency
    notify.email                --mail-user
    notify.on                   --mail-type
""")
_PBS_OPTIONS = _name_options("""
    name                        -N
    account                     -A, -P, -W group_list
    queue                       -q
    resources.nodes             -l select, -l nodes, -l place
    resources.gpus_per_node     -l ngpus
    resources.cpus_per_node     -l ncpus
    resources.memory_per_node   -l mem
    resources.walltime          -l walltime
    environment.from_shell      -v
    array                       -J
    after                       -W depend
    notify.email                -M
    notify.on                   -m
""")
_ID = r"([0-9]+)(?:_([0-9]+)|\[([0-9]*)\])?"
SCHEDULERS = {
    row.name: row
    for row in (
        Capabilities(
            name="slurm",
            title="Slurm",
            generic_site="slurm-generic",
            launcher="srun",
            job_id=_ID + "()",
            job_id_example="12345 or 12345_7",
            sign="#SBATCH",
            options=_SLURM_OPTIONS,
            queue_word="partition",
            commands=("sbatch", "srun", "scontrol", "scancel"),
            bare_walltime="minutes",
            comments=True,
            node_range=True,
            components=True,
            enters_containers=True,
            gpu_type=True,
            constraint=True,
            disk=True,
            exclusive=True,
            qos=True,
            reservation=True,
            mail=True,
            mails_any_failure=True,
            requeue=True,
            submits_from_job=True,
            notice=65_535,  # sbatch(1), --signal
            lists_accounts=True,
        ),
        Capabilities(
            name="pbs",
            chunks=True,
            title="PBS",
            generic_site="pbs-generic",
            launcher="pbsdsh",
            job_id=_ID + r"(\.[A-Za-z0-9.-]+)?",
            job_id_example="12345.server or 12345[7].server",
            bracketed_tasks=True,
            sign="#PBS",
            options=_PBS_OPTIONS,
            commands=("qsub", "qstat", "qdel"),
            bare_walltime="seconds",
            starts_at_home=True,
            exclusive=True,
            reservation=True,
            reservation_queue=True,
            mail=True,
        ),
        Capabilities(
            name="local",
            title="this machine alone",
            generic_site="local",
            launcher="local",
            job_id=r"([0-9]{8}-[0-9]{6}-[0-9]+)(?:_([0-9]+))?()()",
            job_id_example="20300101-120000-42, as jobgen submit prints it",
            batch=False,
        ),
    )
}


def get_capabilities(scheduler: str) -> Capabilities:
    """Return the row of a scheduler by its name."""
    return SCHEDULERS[scheduler]
