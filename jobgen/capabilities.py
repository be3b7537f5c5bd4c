"""What each scheduler can do: other rooms ask this instead of comparing the scheduler's name.

The values are in the package of each scheduler, such as `jobgen/schedulers/slurm/capabilities.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from jobgen.records import NamedTuple
from jobgen.schedulers.registry import PACKAGES

# A job's id and its task: number, task as 12_3, task as 12[3]; the server follows.
JOB_ID = r"([0-9]+)(?:_([0-9]+)|\[([0-9]*)\])?"


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
    indented: bool = False  # blanks may stand before it
    short_options: Mapping[str, str] = MappingProxyType({})  # the long name of each letter
    long_options: frozenset[str] = frozenset()  # all of them, as it takes the beginning for one
    needs_shebang: bool = False  # a script without #! in line 1 is refused
    without_output: str = ""  # what happens to a job if the folder of its output is missing
    shell_option: str | None = None  # what names the shell in the place of #!
    queue_word: str = "queue"  # what users of the scheduler call a queue
    one_cpu: bool = False  # what a task gets that asks for none
    queue_list: bool = False  # a job may name several, and starts in the first that is free
    options: Mapping[str, str] = MappingProxyType({})  # of directives: the spec's key for each
    # Options and variables, and what to do instead.
    refused: Mapping[str, str] = MappingProxyType({})
    deletes_waiting: bool = False  # a job that waits for one which it does not know
    moves: tuple[str, ...] = ()  # options that start the job in another folder
    commands: tuple[str, ...] = ()  # that a job's life needs on a login node
    bare_walltime: str = ""  # the unit of a walltime that is a number alone
    comments: bool = False  # a directive may end in a comment
    task_index: str = ""  # a variable with the index of an array's task
    index_of_script: bool = False  # it is in a task's script, and not in its processes
    starts_at_home: bool = False  # a job starts in the home folder, not in that of its submission
    own_path: bool = False  # a job has the PATH of a login shell, and not that of its submission

    batch: bool = True  # jobs wait in a queue and run on other machines
    node_range: bool = False  # it may give fewer nodes than the most that are asked for
    components: bool = False  # unequal nodes are components of a job, each with its own resources
    enters_containers: bool = False  # its launcher does, with a task
    gpu_type: bool = False  # it has a directive for the type of GPU
    constraint: bool = False  # it has a directive for features of nodes
    chunks: bool = False  # each of its chunks names what a node must have
    disk: bool = False  # it has a directive for space on a node's disk
    exclusive: bool = False
    qos: bool = False
    reservation: bool = False
    reservation_queue: bool = False  # a reservation takes the place of the queue
    mail: bool = False
    mails_any_failure: bool = False  # also if the program fails
    requeue: bool = False  # a job may put itself back into the queue
    submits_from_job: bool = False  # a job may submit another
    notice: int | None = None  # seconds before the end that it can send a signal; None: never
    lists_accounts: bool = False


def name_options(text: str) -> dict[str, str]:
    """Read lines of a key and the options that say it; one with a blank has another after it."""
    rows = (line.split(maxsplit=1) for line in text.strip().splitlines())
    return {option: key for key, options in rows for option in options.split(", ")}


@cache
def get_capabilities(scheduler: str) -> Capabilities:
    """Return what the scheduler of this name can do; raise KeyError if there is none."""
    row: Capabilities = import_module(f"{PACKAGES[scheduler]}.capabilities").CAPABILITIES
    return row


def list_capabilities() -> list[Capabilities]:
    """Return what each of the schedulers can do."""
    return [get_capabilities(name) for name in PACKAGES]


def name_this_machine() -> str:
    """Return the scheduler whose jobs are processes of this machine."""
    return next(can.name for can in list_capabilities() if not can.batch)
