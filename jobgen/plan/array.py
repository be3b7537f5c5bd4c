"""The array of a job: its tasks in the order of their indices, and what each is given."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from jobgen.errors import Problem
from jobgen.plan.decision import Context, Decision
from jobgen.plan.launch import VISIBLE
from jobgen.plan.plan import ArrayTask, Plan, TaskArray
from jobgen.records import NamedTuple
from jobgen.spec.array import Choice, name_argument, name_variable
from jobgen.spec.load import LoadedSpec
from jobgen.spec.secrets import mask, mask_words
from jobgen.spec.value_types import make_option, make_words

_SWITCHES: dict[object, str] = {True: "true", False: "false"}


class TaskRow(NamedTuple):
    """What one task of an array has for itself."""

    task: int
    arguments: tuple[str, ...]
    variables: dict[str, str]

    def __str__(self) -> str:
        named = (f"{name}={shlex.quote(value)}" for name, value in self.variables.items())
        return " ".join([f"{self.task:4}", *named, shlex.join(self.arguments)]).rstrip()


def decide(context: Context, plan: Plan) -> Decision[TaskArray]:
    """Decide the array; one task alone becomes a plain job, as PBS refuses arrays of one."""
    asked = context.spec.array
    tasks = list_tasks(context.loaded) if asked and context.task is None else ()
    if asked is None or len(tasks) < 2:
        return Decision(TaskArray())
    numbers = tuple(map(asked.number, range(len(tasks))))
    array = TaskArray(tasks, numbers, asked.at_once, plan.nodes.together)
    conflicts = _find_conflicts(context, plan, asked.at_once or array.together)
    return Decision(array, problems=conflicts)


def list_tasks(loaded: LoadedSpec) -> tuple[ArrayTask, ...]:
    """Return the tasks of the spec's array, in the order of their indices."""
    choices = [*map(_split, loaded.spec.choices())]
    otherwise = {make_option(key): value for key, value in loaded.spec.run.keyed_args.items()}
    options = dict.fromkeys(option for given, _ in choices for option in given)
    tasks = []
    for given, variables in choices:
        words: list[str] = []
        for option in options:  # a task without it keeps what run.args says
            words += make_words(option, (otherwise | given).get(option, False))
        tasks.append(ArrayTask(tuple(words), variables))
    return tuple(tasks)


def _split(choice: Choice) -> tuple[Choice, dict[str, str]]:
    """Return what a task is given, by option of its program and by variable."""
    names = {key: name_variable(key) for key in choice}
    given = {make_option(name_argument(key)): choice[key] for key in names if not names[key]}
    texts = {key: _SWITCHES.get(value, str(value)) for key, value in choice.items()}
    variables = {name: texts[key] for key, name in names.items() if name}
    return given, variables


def keep_own_args(loaded: LoadedSpec) -> Choice:
    """Return the keys of `run.args` that no task gives itself, with their values."""
    options = {option for given, _ in map(_split, loaded.spec.choices()) for option in given}
    keyed = loaded.spec.run.keyed_args
    if not options:
        return keyed
    return {key: value for key, value in keyed.items() if make_option(key) not in options}


def list_variables(loaded: LoadedSpec) -> frozenset[str]:
    """Return the variables that the tasks of the spec's array have for themselves."""
    return frozenset(name for _, own in map(_split, loaded.spec.choices()) for name in own)


def make_rows(array: TaskArray) -> tuple[TaskRow, ...]:
    """Return the table of an array's tasks, without secrets."""
    rows = []
    for index, task in enumerate(array.tasks):
        variables = {"JOBGEN_TASK": str(array.numbers[index])} if array.numbered else {}
        variables |= {name: mask(name, value) for name, value in task.variables.items()}
        rows.append(TaskRow(index, mask_words(task.arguments), variables))
    return tuple(rows)


def _find_conflicts(context: Context, plan: Plan, at_once: int) -> Iterator[Problem]:
    walltime, together = context.spec.on_walltime, plan.nodes.together
    then, shared = walltime.then if walltime else None, together > 1
    rules = {
        "array_unequal": plan.can.components and plan.nodes.unequal,
        "array_resubmit": then == "resubmit",
        "array_requeue": shared and then == "requeue",
        "array_few": at_once < together,
    }
    yield from context.refuse(rules, together=together)
    for name in VISIBLE & context.spec.environment.named_variables.keys():
        yield from context.refuse({"array_devices": shared}, name=name)
