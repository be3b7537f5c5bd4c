"""The interface of a scheduler: how to write its syntax and read its answers, without processes.

`Scheduler` says what each must provide.
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
    r"DependencyNeverSatisfied|BadConstraints|requeued[ _]held|JobHoldMaxRequeue"  # Slurm
    r"|Can Never Run|too many failed attempts to run"  # PBS
    r"|, so it never starts"  # jobgen's own
)
# What the number of processes on a node follows from, and that of nodes.
PROCESSES = ("launch.processes_per_node", "resources.gpus_per_node")
NODES = ("resources.nodes", "resources.gpus_per_node", "launch.processes_per_node")
# Runs a command and returns what it has printed, as `process.run`.
Ask = Callable[[Sequence[str]], str]
OwnJobs = list[tuple[str, str]]  # id, and the words or the script of the submission
CLOCKS = 3600  # seconds by which the clock of a scheduler may differ from the one here


class State(NamedTuple):
    """The state of a job, in jobgen's words, with the scheduler's own reason if it gives one.

    Times are in seconds since 1970, and None if unknown.
    """

    name: StateName
    reason: str = ""
    start: float | None = None  # when it began; of a queued one, when that is expected
    limit: float | None = None  # when its walltime ends

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.name in ENDED

    @property
    def hopeless(self) -> bool:
        """Whether the job has not started and never will, according to its scheduler."""
        return self.name in ("queued", "failed") and bool(re.search(_HOPELESS, self.reason))

    @property
    def described(self) -> str:
        """The state and its reason, in a sentence."""
        return f"{self.name} ({self.reason})" if self.reason else self.name


# Of a task that has ended, its scheduler does not say how.
PAST = State("unknown", "it has ended")


def _list_outputs(directive: str) -> Iterator[tuple[str, str]]:
    """Yield -o or -e, and where a directive, without its `#PBS` or `#SBATCH`, sends that output."""
    try:
        words = shlex.split(directive, comments=True)
    except ValueError:  # the scheduler will say so
        return
    for word, following in zip(words, [*words, ""][1:], strict=True):
        option, equals, value = word.partition("=")
        if option in ("--output", "--error"):
            yield option[1:3], value if equals else following
        elif word.startswith(("-o", "-e")):
            yield word[:2], re.sub(r"^[\w.-]*:", "", word[2:] or following)  # the host, on PBS


class Directive(str):
    """One line for the scheduler, with its reason and the keys that decide it.

    `keys` are paths in the spec, or in the site's profile if they begin with `site.`. All keys
    that are set decide it together; of `a|b`, only the first that is set counts.
    """

    reason: str
    keys: tuple[str, ...]

    def __new__(cls, text: str, reason: str, *keys: str) -> Directive:
        line = super().__new__(cls, text)
        line.reason = reason
        line.keys = keys
        return line


def write_option(sign: str, option: str, value: object, why: str, *keys: str) -> list[Directive]:
    """Return an option's directive with its value, or bare if that is True; none without one."""
    if value is None or value is False or value == "":
        return []
    return [Directive(f"{sign} {option}{'' if value is True else value}", why, *keys)]


def count_tasks(group: NodeGroup, plan: Plan) -> int:
    """Return the tasks on each node: its processes, unless torchrun starts them."""
    return group.processes if plan.launch.numbers or plan.launch.body else 1


def cpu_keys(plan: Plan) -> tuple[str, ...]:
    """Return the keys that decide the CPUs of a node."""
    site = node_key(plan, "cpus_per_gpu")
    return (f"resources.cpus_per_node|resources.cpus_per_gpu|{site}",)


def memory_keys(plan: Plan) -> tuple[str, ...]:
    """Return the keys that decide the memory of a node."""
    return (f"resources.memory_per_node|{node_key(plan, 'memory_per_gpu')}",)


def explain_queue(plan: Plan) -> str:
    """Explain the directive of the queue, and the choice of the queue."""
    return "; ".join(filter(None, ("the job waits and runs there", plan.defaults.why_queue)))


def queue_keys(plan: Plan) -> tuple[str, ...]:
    """Return the keys that decide the queue."""
    record = f"site.queues.{plan.requests.queue}"
    return (f"queue|{record}.choose|{record}.gpu_types",)


def node_key(plan: Plan, key: str) -> str:
    """Return the site's keys for a fact about a node, the narrowest first."""
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


def after_line(plan: Plan, sign: str, option: str) -> list[Directive]:
    """What the job waits for: sbatch and qsub alike read a comma as `and`."""
    others = ",".join(map(str, plan.requests.after))
    keys = [f"after.{dependency.kind}|after" for dependency in plan.requests.after]
    why = "it starts once these jobs have reached that point"
    return write_option(sign, option, others, why, *keys)


def site_lines(plan: Plan, sign: str) -> Iterator[Directive]:
    """The site's own directives, with the `#PBS` or `#SBATCH` that they lack."""
    for text in plan.defaults.directives:
        if text in plan.site.directives:
            yield Directive(f"{sign} {text}", "for every job on this site", "site.directives")
        else:
            key = f"site.queues.{plan.requests.queue}.directives"
            yield Directive(f"{sign} {text}", "for every job in this queue", key)


def merge_directives(
    lines: Sequence[Directive], own: Sequence[str], keys: Mapping[str, str]
) -> list[str]:
    """Add the user's own directives; they replace jobgen's lines with the same options.

    `keys` maps options to the keys of a spec that they express. If the plan lets the user express a
    key with another option, such as --gres, the user's option counts. A switch that a site requires
    in every job is written once.
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
    """Yield the options of a directive, and the keys of a spec that they express."""
    for option in list_options(line.partition(" ")[2]):
        yield {"-o": "--output", "-e": "--error"}.get(option, option)
        if option in keys and option != "-l place":  # which does not say how many nodes there are
            yield keys[option]


class LaunchPieces(NamedTuple):
    """A script's scheduler-specific pieces about nodes and launcher; empty if it has none.

    A job's own script watches it (`watched`) if the scheduler takes hours to notice a lost node.
    """

    watched: bool
    node_file: bool = False  # the nodes are named in a file
    node_lists: tuple[ShellPath, ...] = ()  # or by variables
    node_names: tuple[str, ...] = ()  # or here
    steps: tuple[tuple[str, ...], ...] = ()  # srun's options, for each component
    share_cpus: bool = False  # its tasks share the CPUs of a node
    gpu_parts: tuple[int, ...] = ()  # GPUs of each node, if the scheduler does not tell which ones


class HeldNode(NamedTuple):
    """The user's part of a node in an allocation, None if unknown; memory in KiB."""

    name: str
    cpus: int | None = None
    gpus: int | None = None
    memory: int | None = None


class Allocation(NamedTuple):
    """The nodes that a shell holds, in order."""

    id: str
    nodes: tuple[HeldNode, ...]


class Access(Protocol):
    """How to reach the nodes of a running job: the functions of a scheduler's `access` module."""

    def shell_argv(
        self, job_id: str, node: str, words: Sequence[str], ask: Ask, *, terminal: bool
    ) -> list[str]:
        """Return the command that runs `words` on a node, with or without its own terminal."""

    def find_allocation(self, environment: Mapping[str, str], ask: Ask) -> Allocation | None:
        """Return the allocation that a shell with this environment is in."""

    def start_argv(self, script: str, *, alone: bool, cpus: int | None) -> list[str]:
        """Return the command that starts a job script in it; one for a single node is `alone`."""


def add_state(states: dict[str, State], job_id: str, state: State) -> None:
    """Add a line's state. Of two lines about a job, the one that shows it not ended counts."""
    if job_id not in states or states[job_id].ended:
        states[job_id] = state


class Queue(Protocol):
    """How to ask a scheduler about jobs: the functions of its `queue` module.

    IDs have the form that the submission printed.
    """

    def make_environment(self, around: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for its commands."""

    def make_query(self, ids: Sequence[str]) -> list[str]:
        """Return the command that lists these jobs, and the tasks of arrays among them."""

    def knows_none(self, refusal: str) -> bool:
        """Return whether a command failed, with these words, only because it knows no such job."""

    def read_states(self, output: str) -> tuple[dict[str, State], str]:
        """Return the states in that command's output, by the IDs of jobs and tasks.

        Unknown jobs are left out. Also returns the first line that is not about a job, such as a
        site's notice, or an empty text.
        """

    def is_plain(self, state: State) -> bool:
        """Return whether the reason of a failure only says that the script has failed."""

    def make_history_query(self, ids: Sequence[str]) -> list[str]:
        """Return the command that lists jobs which `make_query`'s has forgotten."""

    def read_history(self, output: str) -> tuple[dict[str, State], str]:
        """Return the states in that command's output, as `read_states` does."""

    def ask_more(self, job_id: str, state: State, ask: Ask) -> State:
        """Return the state with details from another command, if its own reason says little."""

    def list_own_jobs(self, ask: Ask, since: float) -> Iterator[OwnJobs]:
        """Yield a list of the user's jobs from each source that has one, the best first.

        Raises what `ask` raises, and RefusedError if the output is not an answer.
        """


class ClusterFacts(NamedTuple):
    """The facts about a cluster that `jobgen doctor` checks.

    `notes` are more facts for people, each with a title. `clock` is the scheduler's time as it
    prints it, such as `2030-01-31T12:00:00`.
    """

    name: str | None
    queues: dict[str, bool]  # whether each is the default
    notes: tuple[tuple[str, str], ...] = ()
    clock: str | None = None
    enforces_accounts: bool = False  # a job with the account of another user is refused
    closed: Mapping[str, str] = {}  # why a queue takes or starts no jobs now


class Cluster(Protocol):
    """How to ask a scheduler about its cluster: the functions of its `cluster` module.

    `ask` runs a command and returns its output; the functions raise what it raises.
    """

    PROGRAMS: Sequence[str]  # that are installed if the scheduler is here
    PROBE: Sequence[str]  # the command that prints the scheduler's version

    def parse_version(self, output: str) -> str | None:
        """Return the version in PROBE's output; None if it has none."""

    def ask_name(self, ask: Ask) -> str | None:
        """Return the scheduler's name for the cluster."""

    def ask_facts(self, ask: Ask) -> ClusterFacts:
        """Return its queues, and other facts to know before a submission."""

    def list_accounts(self, ask: Ask) -> list[str]:
        """Return the accounts that the user may charge, the default first."""

    def capture(self, version: str, ask: Ask) -> SiteProfile:
        """Return a profile of the cluster with only the facts that the scheduler reports."""


class Advice(NamedTuple):
    """The scheduler's own terms in the remedies of `jobgen diagnose`."""

    leave_out: str  # how to avoid a doubtful node
    release: str  # a held job
    go_on: str  # the `then` of a batch job that continues automatically
    output: str  # the option that says where output goes
    nodes: str  # the options that ask for nodes


class Scheduler:
    """One scheduler: `SCHEDULER` in the `scheduler` module of its package.

    Lists are commands for `process.run`; texts are their output. A scheduler without a queue
    (`can.batch` is false) has only the members before `refuses`.
    """

    name: str
    suffix: str  # of its scripts
    advice: Advice
    submit_command: tuple[str, ...]  # that submits, or runs, the file of a script
    # What follows is of those with a queue.
    cancel_command: str
    placeholder = "%"  # begins what only the scheduler puts into a path
    too_long = ("\0", "")  # its words about an array that is too long, and what to do
    unknown_queue = unknown_account = "\0"  # its words about one that it does not have

    @property
    def can(self) -> Capabilities:
        """What jobs can request from it."""
        return get_capabilities(self.name)

    def directives(self, plan: Plan) -> Sequence[str]:
        """Return the lines that request what `plan` needs: Directives, then the user's own."""
        raise NotImplementedError

    def launch(self, plan: Plan) -> LaunchPieces:
        """Return a script's pieces about nodes and launcher that the plan does not have."""
        raise NotImplementedError

    def submit_argv(self, script: str) -> list[str]:
        """Return the command that submits, or runs, the file `script`."""
        return [*self.submit_command, script]

    def test_argv(self, argv: Sequence[str]) -> list[str]:
        """Return the command that tests a submission without submitting; empty if none."""
        return []

    def read_test(self, words: str) -> str:
        """Return that command's remark on a job that it would accept, in the scheduler's words."""
        raise NotImplementedError

    def output_file(self, name: str, job_id: str) -> str:
        """Return the file for the script's own output, in the folder of submission."""
        raise NotImplementedError

    def name_parts(self, name: str, job_id: str) -> dict[str, str]:
        """Return what the scheduler puts in the place of its words for a job in a path."""
        return {}

    def find_output(self, name: str, job_id: str, script: str) -> str:
        """Return the same by the directives in a script's text, as far as they tell."""
        given = [path for option, path in self._list_outputs(script) if option == "-o"]
        path = "".join(given[-1:])
        for word, value in self.name_parts(name, job_id).items():
            path = path.replace(word, value)
        unknown = path.endswith("/") or "$" in path or self.placeholder in path
        return self.output_file(name, job_id) if unknown or not path else path

    def output_folders(self, script: str) -> list[str]:
        """Return the folders to which the directives in a script's text send output.

        Folders that only the scheduler knows are left out.
        """
        folders = []
        for _, path in self._list_outputs(script):
            folder = path if path.endswith("/") else os.path.dirname(path)
            if folder and self.placeholder not in folder:
                folders.append(folder)
        return folders

    def _list_outputs(self, script: str) -> Iterator[tuple[str, str]]:
        sign = rf"\s*{self.can.sign}" if self.can.indented else self.can.sign
        for directive in re.findall(rf"^{sign}\s+(.+)", script, re.MULTILINE):
            yield from _list_outputs(directive)

    def refuses(self, words: str) -> bool:
        """Return whether the message of a failed submission is the scheduler's own refusal."""
        return f"{self.submit_command[0]}: " in words or "usage: " in words

    def after_argv(self, dependencies: str) -> list[str]:
        """Return the options for a submission that waits only for these."""
        raise NotImplementedError

    def dependencies(self, script: str) -> str:
        """Return the dependencies in the directives of a script's text; empty without any.

        Those on a command line replace them.
        """
        return ""

    def hint(self, refusal: str) -> str:
        """Return what to do about a refusal of an array; empty if its size is not the reason."""
        words, hint = self.too_long
        return f"\n{hint}" if words in refusal else ""

    def parse_job_id(self, output: str) -> str | None:
        """Return the job ID in the submission's output; None if it has none."""
        raise NotImplementedError

    def cancel_argv(self, ids: Sequence[str]) -> list[str]:
        """Return the command that cancels jobs."""
        return [self.cancel_command, *ids]

    def interferes(self, script: str, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that change a submission from here, with the effect of each."""
        return {}

    def next_argv(self, script: str, *, text: str, after: str, first: str) -> list[str]:
        """Return the command that submits a job to continue in the run folder of job `first`.

        It starts after job `after` has ended, or at once if that is empty. `text` is the text of
        the file `script`.
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
