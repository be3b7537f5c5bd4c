"""The array of a job, decided: its tasks in the order of their indices, and what each is given."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jobgen.errors import Problem, UsageError
from jobgen.fields import NAME, option_of
from jobgen.loaded import LoadedSpec
from jobgen.nodes import NodeGroup
from jobgen.program import command_of, words_of
from jobgen.sweep import Choice, argument, variable


class Task(NamedTuple):
    """What one task has for itself: words at the end of its program's, and variables."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]


class Array(NamedTuple):
    """The tasks, and how many run at a time; None where there is no bound."""

    tasks: tuple[Task, ...]
    at_once: int | None

    @property
    def last(self) -> int:
        """The last task's index."""
        return len(self.tasks) - 1

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that some task has."""
        return tuple(dict.fromkeys(name for task in self.tasks for name in task.variables))

    @property
    def range(self) -> str:
        """As sbatch and qsub -J write it, such as `0-5%2`."""
        throttle = "" if self.at_once is None else f"%{self.at_once}"
        return f"0-{self.last}{throttle}"


class TaskRow(NamedTuple):
    """What one task of an array has for itself."""

    task: int
    arguments: tuple[str, ...]
    variables: dict[str, str]

    def __str__(self) -> str:
        named = (f"{name}={shlex.quote(value)}" for name, value in self.variables.items())
        return " ".join([f"{self.task:4}", *named, shlex.join(self.arguments)]).rstrip()


class Sweep(NamedTuple):
    """What an array makes of a job: of the tasks together, or of one that is a job of its own."""

    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str]
    array: Array | None = None
    task: str | None = None  # the index of the one
    left_out: tuple[str, ...] = ()


def settle(loaded: LoadedSpec, task: int | None) -> Sweep:
    """The sweep of a spec that has an array, or one task of it, by its index.

    An array of one task is none: PBS refuses it. Raises UsageError where there is no such task.
    """
    spec = loaded.spec
    assert spec.array is not None
    choices = list(spec.array.choices())
    command = tuple(command_of(loaded, without=_varied(loaded, choices)))
    if task is not None and not 0 <= task < len(choices):
        raise UsageError(f"--task {task}: the tasks are 0 to {len(choices) - 1}")
    if task is None and len(choices) > 1:
        at_once = spec.array.at_once
        return Sweep(spec.name, command, {}, Array(tuple(_tasks(loaded, choices)), at_once))
    index, name = task or 0, spec.name
    if task is not None:
        name += f"-{task:0{len(str(len(choices) - 1))}}"
    alone = list(_tasks(loaded, choices))[index]
    left_out = () if spec.array.at_once is None else ("array.at_once",)
    return Sweep(
        name, (*command, *alone.arguments), alone.variables, task=str(index), left_out=left_out
    )


def task_rows(array: Array | None) -> tuple[TaskRow, ...]:
    """The table of an array's tasks."""
    tasks = enumerate(array.tasks if array else ())
    return tuple(TaskRow(index, task.arguments, dict(task.variables)) for index, task in tasks)


def variables_of(loaded: LoadedSpec) -> set[str]:
    """The variables that the tasks of a spec's array have for themselves."""
    array = loaded.spec.array
    keys = {key for choice in array.choices() for key in choice} if array else set()
    return {name for key in keys if (name := variable(key))}


def conflicts(
    loaded: LoadedSpec, scheduler: str, groups: tuple[NodeGroup, ...], sweep: Sweep
) -> Iterator[Problem]:
    """What cannot be an array, or has no name as one task of it."""
    if scheduler == "slurm" and sweep.array and len({group.shape for group in groups}) > 1:
        hint = "write a script for each task with jobgen render --expand"
        message = "Slurm has no arrays of jobs whose nodes are unequal"
        yield loaded.problem("array", message, hint)
    walltime = loaded.spec.walltime
    if sweep.array and walltime is not None and walltime.then == "resubmit":
        hint = "write requeue on Slurm, or a script for each task with jobgen render --expand"
        message = "jobs that go on one after the other cannot be tasks of an array"
        yield loaded.problem("walltime.then", message, hint)
    if not NAME.matches(sweep.name):
        yield loaded.problem("name", f"{sweep.name!r}, its task's, is too long for a name")


def _varied(loaded: LoadedSpec, choices: list[Choice]) -> frozenset[str]:
    """The keys of `run.args` that the tasks give themselves."""
    options = {option_of(argument(key)) for choice in choices for key in choice}
    own = loaded.spec.run.args
    keys = own if isinstance(own, dict) else {}
    return frozenset(key for key in keys if option_of(key) in options)


def _tasks(loaded: LoadedSpec, choices: list[Choice]) -> Iterator[Task]:
    own = loaded.spec.run.args
    written = own if isinstance(own, dict) else {}
    otherwise = {option_of(key): value for key, value in written.items()}
    arguments = [key for choice in choices for key in choice if not variable(key)]
    options = list(dict.fromkeys(option_of(argument(key)) for key in arguments))
    for choice in choices:
        values = {option_of(argument(key)): value for key, value in choice.items()}
        words: list[str] = []
        for option in options:  # a task without it keeps what run.args says
            words += words_of(option, values.get(option, otherwise.get(option, False)))
        named = {variable(key): value for key, value in choice.items()}
        yield Task(tuple(words), {name: _text(value) for name, value in named.items() if name})


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
