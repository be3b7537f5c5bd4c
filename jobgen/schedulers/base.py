"""What a scheduler is to the rest of jobgen: its syntax, in and out. None starts a process."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from jobgen.plan import Plan

# Seconds until a file that one node has made is seen by another: by default an NFS client may
# believe for 60 s what it knows of a folder (nfs(5), acdirmax).
SHARED_FILES_LAG = 90

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
    def said(self) -> str:
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


def queue_keys(plan: Plan) -> tuple[str, ...]:
    """What the queue follows from."""
    return (f"queue|site.queues.{plan.queue}.choose",)


def _node_key(plan: Plan, key: str) -> str:
    """Where the site says it of a node, the narrowest first."""
    places = (f"gpu_types.{plan.gpu_type}", f"queues.{plan.queue}.node", "node")
    return "|".join(f"site.{place}.{key}" for place in places)


def array_line(plan: Plan, option: str) -> Iterator[Directive]:
    """The array: sbatch and qsub alike write its range as `0-5%2`."""
    if plan.array:
        why = "one job for each line of the table of tasks"
        why += "" if plan.array.at_once is None else f", {plan.array.at_once} at a time at most"
        yield Directive(option + plan.array.range, why, "array", "array.at_once")


def after_line(plan: Plan, option: str) -> Directive:
    """What the job waits for: sbatch and qsub alike read a comma as `and`."""
    text = option + ",".join(map(str, plan.after))
    keys = [f"after.{dependency.kind}|after" for dependency in plan.after]
    return Directive(text, "it starts once these jobs have come that far", *keys)


def site_lines(plan: Plan, sign: str) -> Iterator[Directive]:
    """The site's own directives, with the `#PBS` or `#SBATCH` that they lack."""
    for text in plan.site_directives:
        if text in plan.site.directives:
            yield Directive(f"{sign} {text}", "of every job on this site", "site.directives")
        else:
            key = f"site.queues.{plan.queue}.directives"
            yield Directive(f"{sign} {text}", "of every job in this queue", key)


class Scheduler(Protocol):
    """What every scheduler has."""

    name: str
    suffix: str

    def directives(self, plan: Plan) -> Sequence[str]:
        """The lines that ask for what `plan` needs: each a Directive, then the user's own."""

    def launch(self, plan: Plan) -> dict[str, Any]:
        """What the launch template needs beside the plan, such as the launcher's options."""

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

    def overriding(self, script: str, environment: Mapping[str, str]) -> dict[str, str]:
        """Variables of who submits that win over a directive in the text of a script, by name."""


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

    def history_argv(self, ids: Sequence[str]) -> list[str]:
        """The command that tells of jobs that the other has forgotten; empty where none does."""

    def history(self, output: str) -> dict[str, State]:
        """What `history_argv`'s command has printed, as `states`."""
