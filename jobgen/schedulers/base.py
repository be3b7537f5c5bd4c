"""What a scheduler is to the rest of jobgen: its syntax, in and out. None starts a process.

`Scheduler` says what each has to offer.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Protocol

from jobgen.capabilities import Capabilities, get_capabilities
from jobgen.plan.plan import NodeGroup, Plan, ShellPath
from jobgen.plan.requests import list_options
from jobgen.records import NamedTuple
from jobgen.schedulers.registry import PACKAGES
from jobgen.sites.profile import SiteProfile

if TYPE_CHECKING:
    from jobgen.schedulers.usage import UsageReader

# timeout: the walltime has ended it; node lost: the loss of a node has; stopping: it is being
# ended, or has ended and its nodes are not free yet; unknown: neither the scheduler nor the run
# folder shows it.
StateName = Literal[
    "queued",
    "running",
    "stopping",
    "done",
    "failed",
    "cancelled",
    "timeout",
    "node lost",
    "unknown",
]
ENDED: tuple[StateName, ...] = ("done", "failed", "cancelled", "timeout", "node lost")
# How the reason begins of a job that starts once others have come far enough.
DEPENDENT = "it waits for another job"
_HOPELESS = (
    r"DependencyNeverSatisfied|launch[ _]failed[ _]requeued[ _]held"  # Slurm
    r"|Can Never Run|too many failed attempts to run"  # PBS
)


class State(NamedTuple):
    """How a job stands, in jobgen's words, with the scheduler's own reason where it gives one.

    Times are in seconds since 1970, and None if they are not known.
    """

    name: StateName
    reason: str = ""
    start: float | None = None  # when it began; of a queued one, when that is expected
    limit: float | None = None  # when its walltime ends

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self.name in ENDED

    @property
    def hopeless(self) -> bool:
        """Whether the job is queued and will never start, by its scheduler's own words."""
        return self.name == "queued" and bool(re.search(_HOPELESS, self.reason))

    @property
    def described(self) -> str:
        """The state and its reason, in a sentence."""
        return f"{self.name} ({self.reason})" if self.reason else self.name


def _list_outputs(directive: str) -> Iterator[str]:
    """Where a directive, given without its `#PBS` or `#SBATCH`, sends output by -o and -e."""
    try:
        words = shlex.split(directive, comments=True)
    except ValueError:  # the scheduler will say so
        return
    for word, following in zip(words, [*words, ""][1:], strict=True):
        option, equals, value = word.partition("=")
        if option in ("--output", "--error"):
            yield value if equals else following
        elif word.startswith(("-o", "-e")):
            yield re.sub(r"^[\w.-]*:", "", word[2:] or following)  # the host, on PBS


class Directive(str):
    """One line for the scheduler, why it is there, and what decides it.

    `keys` are paths in the spec, or in the site's profile where they begin with `site.`; of those
    that are written, all have a part in it. Of `a|b` only the first that is written has.
    """

    reason: str
    keys: tuple[str, ...]

    def __new__(cls, text: str, reason: str, *keys: str) -> Directive:
        line = super().__new__(cls, text)
        line.reason = reason
        line.keys = keys
        return line


def write_option(sign: str, option: str, value: object, why: str, *keys: str) -> list[Directive]:
    """Return the directive of an option with its value, or alone if that is True; none without."""
    if value is None or value is False or value == "":
        return []
    return [Directive(f"{sign} {option}{'' if value is True else value}", why, *keys)]


# What the number of processes on a node follows from, and that of nodes.
PROCESSES = ("launch.processes_per_node", "resources.gpus_per_node")
NODES = ("resources.nodes", "resources.gpus_per_node", "launch.processes_per_node")


def count_tasks(group: NodeGroup, plan: Plan) -> int:
    """Return the tasks on each node: its processes, unless torchrun starts them."""
    return group.processes if plan.launch.numbers or plan.launch.body else 1


def cpu_keys(plan: Plan) -> tuple[str, ...]:
    """What the CPUs of a node follow from."""
    site = node_key(plan, "cpus_per_gpu")
    return (f"resources.cpus_per_node|resources.cpus_per_gpu|{site}",)


def memory_keys(plan: Plan) -> tuple[str, ...]:
    """What the memory of a node follows from."""
    return (f"resources.memory_per_node|{node_key(plan, 'memory_per_gpu')}",)


def explain_queue(plan: Plan) -> str:
    """Why the directive of the queue is there, and why it is this one."""
    return "; ".join(filter(None, ("the job waits and runs there", plan.defaults.why_queue)))


def queue_keys(plan: Plan) -> tuple[str, ...]:
    """What the queue follows from."""
    record = f"site.queues.{plan.requests.queue}"
    return (f"queue|{record}.choose|{record}.gpu_types",)


def node_key(plan: Plan, key: str) -> str:
    """Where the site says a fact of a node, the narrowest first."""
    places = (f"gpu_types.{plan.requests.gpu_type}", f"queues.{plan.requests.queue}.node", "node")
    return "|".join(f"site.{place}.{key}" for place in places)


def array_line(plan: Plan, option: str) -> Iterator[Directive]:
    """The array: sbatch and qsub alike write its range as `0-5%2`."""
    if plan.array.jobs > 1:  # PBS refuses an array of one
        why = "one job per line of the task table"
        if plan.nodes.together > 1:
            why = f"one job for {plan.nodes.together} lines of the task table each"
        why += "" if plan.array.at_once is None else f", {plan.array.at_once} at a time at most"
        yield Directive(option + plan.array.range, why, "array", "array.at_once")


def shell_line(plan: Plan, sign: str, option: str) -> list[Directive]:
    """The variables that the job takes from the shell that submits it."""
    names = ",".join(plan.environment.from_shell)
    why = "from the shell that submits; the script does not contain their values"
    return write_option(sign, option, names, why, "environment.from_shell")


def after_line(plan: Plan, option: str) -> Directive:
    """What the job waits for: sbatch and qsub alike read a comma as `and`."""
    text = option + ",".join(map(str, plan.requests.after))
    keys = [f"after.{dependency.kind}|after" for dependency in plan.requests.after]
    return Directive(text, "it starts once these jobs have reached that point", *keys)


def site_lines(plan: Plan, sign: str) -> Iterator[Directive]:
    """The site's own directives, with the `#PBS` or `#SBATCH` that they lack."""
    for text in plan.defaults.directives:
        if text in plan.site.directives:
            yield Directive(f"{sign} {text}", "for every job on this site", "site.directives")
        else:
            key = f"site.queues.{plan.requests.queue}.directives"
            yield Directive(f"{sign} {text}", "for every job in this queue", key)


# Runs a command and returns what it has printed, as `process.run`.
Ask = Callable[[Sequence[str]], str]
OwnJobs = list[tuple[str, str]]  # id, and the words or the script of the submission
CLOCKS = 3600  # seconds by which the clock of a scheduler may differ from the one here


def merge_directives(
    lines: Sequence[Directive], own: Sequence[str], keys: Mapping[str, str]
) -> list[str]:
    """Add the user's own directives; a line of jobgen's that says the same option is left out.

    `keys` are the keys of a spec by the option that says them. Where the plan lets the user say one
    of them again, in other words such as --gres, the user's words count. A switch that a site asks
    for in every job is written once.
    """
    merged: list[str] = []
    component = 0  # where the lines of the last one begin
    for line in lines:
        if line == "#SBATCH hetjob":
            component = len(merged)
        if line not in merged[component:]:
            merged.append(line)
    if not own:
        return merged
    theirs = {name for line in own for name in _name_options(line, keys)}
    merged = [line for line in merged if not theirs & {*_name_options(line, keys)}]
    return [*merged, *own]


def _name_options(line: str, keys: Mapping[str, str]) -> Iterator[str]:
    """Yield the options of a directive, and the keys of a spec that say the same."""
    for option in list_options(line.partition(" ")[2]):
        yield {"-o": "--output", "-e": "--error"}.get(option, option)
        if option in keys and option != "-l place":  # which does not say how many nodes there are
            yield keys[option]


class LaunchPieces(NamedTuple):
    """What a script says of nodes and launcher in the words of its scheduler; empty if it has none.

    A job is `watched` by its own script if the scheduler leaves a lost node for hours.
    """

    watched: bool
    node_file: bool = False  # the nodes are named in a file
    node_lists: tuple[ShellPath, ...] = ()  # or by variables
    node_names: tuple[str, ...] = ()  # or here
    steps: tuple[tuple[str, ...], ...] = ()  # srun's options, for each component
    share_cpus: bool = False  # its tasks share the CPUs of a node
    gpu_parts: tuple[int, ...] = ()  # GPUs of each node, if the scheduler does not tell which ones


class HeldNode(NamedTuple):
    """What one holds of a node, None where that is not told; memory in KiB."""

    name: str
    cpus: int | None = None
    gpus: int | None = None
    memory: int | None = None


class Allocation(NamedTuple):
    """Nodes that one holds in a shell, in their order."""

    id: str
    nodes: tuple[HeldNode, ...]


class Access(Protocol):
    """How to get to the nodes of a running job: the functions of a scheduler's `access` module."""

    def shell_argv(
        self, job_id: str, node: str, words: Sequence[str], ask: Ask, *, terminal: bool
    ) -> list[str]:
        """Return the command that runs `words` on a node, with or without its own terminal."""

    def find_allocation(self, environment: Mapping[str, str], ask: Ask) -> Allocation | None:
        """Return the allocation that a shell with this environment is in."""

    def start_argv(self, script: str, *, alone: bool, cpus: int | None) -> list[str]:
        """Return the command that starts a job script in it; one for a single node is `alone`."""


def add_state(states: dict[str, State], job_id: str, state: State) -> None:
    """Add what a line says. Of two lines about one job, that counts by which it has not ended."""
    if job_id not in states or states[job_id].ended:
        states[job_id] = state


class Queue(Protocol):
    """What a scheduler says of jobs: the functions of its `queue` module.

    Ids are as it gave them to the submission.
    """

    def make_environment(self, around: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that its commands are run with."""

    def make_query(self, ids: Sequence[str]) -> list[str]:
        """Return the command that lists these jobs, and the tasks of those that are arrays."""

    def knows_none(self, refusal: str) -> bool:
        """Return whether a command failed, with these words, only because it knows no such job."""

    def read_states(self, output: str) -> tuple[dict[str, State], str]:
        """Return the states in what that command printed, by the ids of jobs and tasks.

        Jobs that it does not know are left out. With them comes the first line that is about none,
        such as a site's notice; empty if there is none.
        """

    def is_plain(self, state: State) -> bool:
        """Return whether the reason of a failure only says that the script has failed."""

    def make_history_query(self, ids: Sequence[str]) -> list[str]:
        """Return the command that still knows jobs that `make_query`'s has forgotten."""

    def read_history(self, output: str) -> tuple[dict[str, State], str]:
        """Return the states in what that command printed, as `read_states` does."""

    def ask_more(self, job_id: str, state: State, ask: Ask) -> State:
        """Return a state with what another command knows of it, where its own words are few."""

    def list_own_jobs(self, ask: Ask, since: float) -> Iterator[OwnJobs]:
        """Yield a list of the user's jobs from each place that has one, the best first.

        Raises what `ask` raises, and RefusedError for what is not an answer.
        """


class ClusterFacts(NamedTuple):
    """What `jobgen doctor` asks of a cluster.

    `notes` are more facts for people, each with a title. `clock` is the scheduler's time in its own
    words, as `2030-01-31T12:00:00`.
    """

    name: str | None
    queues: dict[str, bool]  # whether each is the default
    notes: tuple[tuple[str, str], ...] = ()
    clock: str | None = None
    enforces_accounts: bool = False  # a job with the account of another user is refused


class Captured(NamedTuple):
    """The cluster's own name, and its profile."""

    name: str
    profile: SiteProfile


class Cluster(Protocol):
    """What a scheduler says of its cluster: the functions of its `cluster` module.

    `ask` runs a command and returns what it prints; all of them raise what it raises.
    """

    PROGRAMS: Sequence[str]  # that are installed if the scheduler is here
    PROBE: Sequence[str]  # the command that prints the scheduler's version

    def parse_version(self, output: str) -> str | None:
        """Return the version in what PROBE prints; None if it does not say it."""

    def ask_name(self, ask: Ask) -> str | None:
        """Return what the scheduler calls the cluster."""

    def ask_facts(self, ask: Ask) -> ClusterFacts:
        """Return its queues, and what else there is to know before a submission."""

    def list_accounts(self, ask: Ask) -> list[str]:
        """Return the accounts that the user may charge, the default first."""

    def capture(self, version: str, ask: Ask) -> Captured:
        """Return a profile of the cluster with what the scheduler says, and no more."""


class Advice(NamedTuple):
    """The scheduler's own words in the remedies of `jobgen diagnose`."""

    leave_out: str  # how to avoid a doubtful node
    release: str  # a held job
    go_on: str  # the `then` of a job that continues automatically
    output: str  # the option that says where output goes
    nodes: str  # the options that ask for nodes


class Scheduler:
    """One scheduler: `SCHEDULER` in the `scheduler` module of its package.

    Lists are commands for `process.run`, texts are what these have printed. A scheduler without a
    queue, which can not `batch`, has only what comes before `refuses`.
    """

    name: str
    suffix: str  # of its scripts
    advice: Advice
    submit_command: tuple[str, ...]  # that submits, or runs, the file of a script
    # What follows is of those with a queue.
    cancel_command: str
    placeholder = "%"  # begins what only the scheduler puts into a path
    too_long = ("\n", "")  # its words about an array that is too long, and what to do

    @property
    def can(self) -> Capabilities:
        """What jobs can ask of it."""
        return get_capabilities(self.name)

    def directives(self, plan: Plan) -> Sequence[str]:
        """Return the lines that ask for what `plan` needs: Directives, then the user's own."""
        raise NotImplementedError

    def launch(self, plan: Plan) -> LaunchPieces:
        """Return what a script says of nodes and launcher beside the plan."""
        raise NotImplementedError

    def submit_argv(self, script: str) -> list[str]:
        """Return the command that submits, or runs, the file `script`."""
        return [*self.submit_command, script]

    def test_argv(self, argv: Sequence[str]) -> list[str]:
        """Return the command that only says what would become of a submission; empty if none."""
        return []

    def read_test(self, words: str) -> str:
        """Return what that command says of a job that it would take, in the scheduler's words."""
        raise NotImplementedError

    def output_file(self, name: str, job_id: str) -> str:
        """Return where the output of the script itself goes, in the folder of submission."""
        raise NotImplementedError

    def output_folders(self, script: str) -> list[str]:
        """Return the folders that the directives in the text of a script send output to.

        One that only the scheduler knows is left out.
        """
        folders = []
        sign = rf"\s*{self.can.sign}" if self.can.indented else self.can.sign
        for directive in re.findall(rf"^{sign}\s+(.+)", script, re.MULTILINE):
            for path in _list_outputs(directive):
                folder = path if path.endswith("/") else os.path.dirname(path)
                if folder and self.placeholder not in folder:
                    folders.append(folder)
        return folders

    def refuses(self, words: str) -> bool:
        """Return whether the words of a failed submission are the scheduler's own refusal."""
        return f"{self.submit_command[0]}: " in words or "usage: " in words

    def after_argv(self, dependencies: str) -> list[str]:
        """Return the options of a submission that waits for these, and for nothing else."""
        raise NotImplementedError

    def dependencies(self, script: str) -> str:
        """Return what the directives in the text of a script wait for; empty if for nothing.

        A command's own replaces it.
        """
        return ""

    def hint(self, refusal: str) -> str:
        """Return what to do about a refusal of an array; empty if its size is not the reason."""
        words, hint = self.too_long
        return f"\n{hint}" if words in refusal else ""

    def parse_job_id(self, output: str) -> str | None:
        """Return the job's id in what the submission printed; None if it has none."""
        raise NotImplementedError

    def cancel_argv(self, ids: Sequence[str]) -> list[str]:
        """Return the command that ends jobs."""
        return [self.cancel_command, *ids]

    def interferes(self, script: str, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that change a submission from here, and what each of them does."""
        return {}

    def next_argv(self, script: str, *, text: str, after: str, first: str) -> list[str]:
        """Return the command that submits a job that goes on where job `after` will have ended.

        All work in the run folder of the job `first`. `text` is that of the file `script`. Only
        schedulers whose jobs cannot submit the next one need it.
        """
        raise NotImplementedError

    # What only some commands need: modules of its package.
    queue: Queue  # how to ask for the states of jobs
    usage: UsageReader  # how to ask what jobs have used
    access: Access  # how to get to the nodes of jobs
    cluster: Cluster  # how to ask what the cluster is

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> ModuleType:
            """Import one of these modules when it is first asked for."""
            if name not in ("queue", "usage", "access", "cluster"):
                raise AttributeError(f"{self.name} has no {name}")
            return import_module(f"{PACKAGES[self.name]}.{name}")
