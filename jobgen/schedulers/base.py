"""What a scheduler is to the rest of jobgen: its syntax, in and out. None starts a process."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from jobgen.plan.plan import Plan, ShellPath
from jobgen.plan.requests import list_options

# timeout: the walltime has ended it; node lost: the loss of a node has; stopping: it is being
# ended, or has ended and its nodes are not free yet; unknown: nobody who was asked can tell.
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


class State(NamedTuple):
    """How a job stands, in jobgen's words, with the scheduler's own reason where it gives one.

    Times are in seconds since 1970, and None where nobody has told them.
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
    def described(self) -> str:
        """The state and its reason, in a sentence."""
        return f"{self.name} ({self.reason})" if self.reason else self.name


def folder_name(job_id: str) -> str:
    """The id without PBS's server name and brackets, a task's being `12_3`."""
    number, _, member = job_id.partition(".")[0].rstrip("]").partition("[")
    return f"{number}_{member}" if member else number


def output_paths(directives: Iterable[str]) -> Iterator[str]:
    """Where the directives, given without their `#PBS` or `#SBATCH`, send output by -o and -e."""
    for directive in directives:
        try:
            words = shlex.split(directive, comments=True)
        except ValueError:  # the scheduler will say so
            continue
        for word, following in zip(words, [*words, ""][1:], strict=True):
            option, equals, value = word.partition("=")
            if option in ("--output", "--error"):
                yield value if equals else following
            elif word.startswith(("-o", "-e")):
                yield word[2:] or following


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


# What the number of processes on a node follows from, and that of nodes.
PROCESSES = ("launch.processes_per_node", "resources.gpus_per_node")
NODES = ("resources.nodes", "resources.gpus_per_node", "launch.processes_per_node")


def cpu_keys(plan: Plan) -> tuple[str, ...]:
    """What the CPUs of a node follow from."""
    site = _node_key(plan, "cpus_per_gpu")
    return (f"resources.cpus_per_node|resources.cpus_per_gpu|{site}",)


def memory_keys(plan: Plan) -> tuple[str, ...]:
    """What the memory of a node follows from."""
    return (f"resources.memory_per_node|{_node_key(plan, 'memory_per_gpu')}",)


def explain_queue(plan: Plan) -> str:
    """Why the directive of the queue is there, and why it is this one."""
    return "; ".join(filter(None, ("where it waits and runs", plan.defaults.why_queue)))


def queue_keys(plan: Plan) -> tuple[str, ...]:
    """What the queue follows from."""
    record = f"site.queues.{plan.requests.queue}"
    return (f"queue|{record}.choose|{record}.gpu_types",)


def node_keys(plan: Plan, key: str) -> tuple[str, ...]:
    """What a fact of a node follows from that the site alone says."""
    return (_node_key(plan, key),)


def _node_key(plan: Plan, key: str) -> str:
    """Where the site says it of a node, the narrowest first."""
    places = (f"gpu_types.{plan.requests.gpu_type}", f"queues.{plan.requests.queue}.node", "node")
    return "|".join(f"site.{place}.{key}" for place in places)


def array_line(plan: Plan, option: str) -> Iterator[Directive]:
    """The array: sbatch and qsub alike write its range as `0-5%2`."""
    if plan.array:
        why = "one job for each line of the table of tasks"
        why += "" if plan.array.at_once is None else f", {plan.array.at_once} at a time at most"
        yield Directive(option + plan.array.range, why, "array", "array.at_once")


def shell_line(plan: Plan, option: str) -> Iterator[Directive]:
    """The variables that the job takes from the shell that submits it."""
    if names := plan.environment.from_shell:
        why = "from the shell that submits; the script has no value of them"
        yield Directive(option + ",".join(names), why, "environment.from_shell")


def after_line(plan: Plan, option: str) -> Directive:
    """What the job waits for: sbatch and qsub alike read a comma as `and`."""
    text = option + ",".join(map(str, plan.requests.after))
    keys = [f"after.{dependency.kind}|after" for dependency in plan.requests.after]
    return Directive(text, "it starts once these jobs have come that far", *keys)


def site_lines(plan: Plan, sign: str) -> Iterator[Directive]:
    """The site's own directives, with the `#PBS` or `#SBATCH` that they lack."""
    for text in plan.requests.site_directives:
        if text in plan.site.directives:
            yield Directive(f"{sign} {text}", "of every job on this site", "site.directives")
        else:
            key = f"site.queues.{plan.requests.queue}.directives"
            yield Directive(f"{sign} {text}", "of every job in this queue", key)


# Runs a command and returns what it has printed, as `process.run`.
Ask = Callable[[Sequence[str]], str]
OwnJobs = list[tuple[str, str]]  # id, and the words or the script of the submission
CLOCKS = 3600  # seconds by which the clock of a scheduler may differ from the one here


def merge_directives(lines: Sequence[Directive], own: Sequence[str]) -> list[str]:
    """Add the user's own directives; a line of jobgen's that says the same option is left out.

    The plan has refused the options that a key of the spec says; what is left are lines such as
    --output. A switch that a site asks for in every job is written once.
    """
    merged: list[str] = []
    for line in lines:
        if line == "#SBATCH hetjob" or line not in merged[_find_component(merged) :]:
            merged.append(line)
    if not own:
        return merged
    options = {_name_option(option) for line in own for option in _list_options(line)}
    merged = [line for line in merged if not options & {*map(_name_option, _list_options(line))}]
    return [*merged, *own]


def _find_component(lines: Sequence[str]) -> int:
    """The index of the last component's first line."""
    starts = [index for index, line in enumerate(lines) if line == "#SBATCH hetjob"]
    return starts[-1] if starts else 0


def _list_options(line: str) -> Iterator[str]:
    return list_options(line.partition(" ")[2])


def _name_option(option: str) -> str:
    return {"-o": "--output", "-e": "--error"}.get(option, option)


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
    ends_itself: bool = False  # the script ends itself at its walltime
    waits_itself: bool = False  # the script waits for the jobs that it comes after


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
    """How to get to the nodes of a job that runs."""

    def shell_argv(
        self, job_id: str, node: str, words: Sequence[str], ask: Ask, *, terminal: bool
    ) -> list[str]:
        """Return the command that runs `words` on a node, with a terminal of its own or not."""

    def find_allocation(self, environment: Mapping[str, str], ask: Ask) -> Allocation | None:
        """Return the allocation that a shell with this environment is in."""

    def start_argv(self, script: str, *, alone: bool, cpus: int | None) -> list[str]:
        """Return the command that starts a job script in it; one for a single node is `alone`."""


class Scheduler(Protocol):
    """What every scheduler has."""

    name: str
    suffix: str

    def directives(self, plan: Plan) -> Sequence[str]:
        """The lines that ask for what `plan` needs: each a Directive, then the user's own."""

    def launch(self, plan: Plan) -> LaunchPieces:
        """What a script says of nodes and launcher beside the plan."""

    def submit_argv(self, script: str) -> list[str]:
        """The command that submits, or runs, the file `script`."""

    def output_file(self, name: str, job_id: str) -> str:
        """Where the output of the script itself goes, in the folder of submission."""

    def output_folders(self, script: str) -> Sequence[str]:
        """Folders that the directives in the text of a script send output to."""


class BatchScheduler(Scheduler, Protocol):
    """One that is talked to by commands. Lists are for `process.run`, texts what it printed."""

    def after_argv(self, dependencies: str) -> list[str]:
        """The options of a submission that has to wait for these, in the place of its script's."""

    def dependencies(self, script: str) -> str:
        """What the directives in the text of a script wait for; empty where they do not."""

    def hint(self, refusal: str) -> str:
        """What to do about a refusal of an array; empty where its size is not the reason."""

    def parse_job_id(self, output: str) -> str | None:
        """The job's id in what the submission printed; None where there is none."""

    def cancel_argv(self, ids: Sequence[str]) -> list[str]:
        """The command that ends jobs."""

    def interferes(self, script: str, environment: Mapping[str, str]) -> dict[str, str]:
        """Variables of who submits that change a submission, by name, and what each does to it."""


class ChainScheduler(BatchScheduler, Protocol):
    """One whose jobs cannot submit the next: all jobs of a chain are submitted at once."""

    def next_argv(self, script: str, *, text: str, after: str, first: str) -> list[str]:
        """The command that submits a job that goes on where job `after` will have ended.

        All work in the run folder of the job `first`. `text` is that of the file `script`.
        """


class Queue(Protocol):
    """How the jobs of a scheduler stand. Ids are as it gave them to the submission."""

    def environment(self, around: Mapping[str, str]) -> dict[str, str]:
        """The variables that its commands are run with."""

    def argv(self, ids: Sequence[str]) -> list[str]:
        """The command that tells of all these jobs, and of the tasks of those that are arrays."""

    def knows_none(self, refusal: str) -> bool:
        """Whether a command that failed, with these words, has only not known some jobs."""

    def states(self, output: str) -> dict[str, State]:
        """By the name of the job's run folder: what `argv`'s command has printed.

        Jobs that are not known are left out. Raises ValueError where that was no answer.
        """

    def is_plain(self, state: State) -> bool:
        """Whether the reason of a failure says no more than that the script has failed."""

    def history_argv(self, ids: Sequence[str]) -> list[str]:
        """The command that tells of jobs that the other has forgotten; empty where none does."""

    def history(self, output: str) -> dict[str, State]:
        """What `history_argv`'s command has printed, as `states`."""
