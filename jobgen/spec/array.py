"""Arrays and sweeps, as the user writes them: which tasks there are, and what each is given."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from jobgen.records import NamedTuple
from jobgen.spec.fields import Range, limit_keys
from jobgen.spec.value_types import TAKEN, Count, Option, Word, make_option

# What PBS takes in one array by default (max_array_size); Slurm's default is a tenth of it.
MAX_TASKS = 10_000
Value = bool | Word | tuple[Word, ...]
Choice = dict[str, bool | str | tuple[str, ...]]
# Paths in the spec, and not names of arguments with a dot in them.
_PATH = r"(resources|run|environment|launch|on_walltime|array|notify|after)\."
_ARGUMENT = r"run\.args\.(?=.)"
_VARIABLE = r"environment\.variables\.(?=[A-Za-z_][A-Za-z0-9_]*$)"
# Keys that no task can have for itself, as ECMA 262 reads it too.
FIXED = rf"(?!{_ARGUMENT}|{_VARIABLE}){_PATH}.*|environment\.variables\.({TAKEN})"

KINDS = ("values", "zip", "list", "tasks")


@limit_keys(*KINDS, least=1, most=1)
class Array(NamedTuple):
    """Tasks that differ in what their program is given: values of arguments, by name.

    `environment.variables.NAME` is a variable and no argument.
    """

    values: Annotated[
        dict[Option, tuple[Value, ...]] | None,
        "Arguments, each with its values: a task for every combination; the last varies fastest.",
    ] = None
    zip: Annotated[
        dict[Option, tuple[Value, ...]] | None,
        "Arguments, each with its values: the first of all are a task, the second of all, ...",
    ] = None
    list: Annotated[
        tuple[dict[Option, Value], ...] | None, "Tasks, each with its own arguments and values."
    ] = None
    tasks: Annotated[
        Annotated[int, Range(1, MAX_TASKS)] | None,
        "How many tasks, where they differ by the variable JOBGEN_TASK alone.",
    ] = None
    at_once: Annotated[
        Count | None, "How many may run at a time; no bound if not said, on this machine 1."
    ] = None
    together: Annotated[
        Count | None,
        "How many share a node, each with its own GPUs: `resources` is what one task has.",
    ] = None

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """There are tasks, not too many, and what they are given arrives."""
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) == 1 and self.tasks is None:  # else the binder tells
            yield from _check_content(given[0], getattr(self, given[0]))

    def choices(self) -> Iterator[Choice]:
        """What each task is given, by the key as it is written."""
        if self.values is not None:
            for combination in itertools.product(*self.values.values()):
                yield dict(zip(self.values, combination, strict=True))
        elif self.zip is not None:
            for row in zip(*self.zip.values(), strict=True):
                yield dict(zip(self.zip, row, strict=True))
        elif self.list is not None:
            yield from self.list
        else:
            yield from ({} for _ in range(self.tasks or 0))


def name_variable(key: str) -> str | None:
    """The variable that a key of a task names; None where it names an argument."""
    match = re.match(_VARIABLE, key)
    return key[match.end() :] if match else None


def name_argument(key: str) -> str:
    """The argument that a key of a task names, as a key of `run.args`."""
    return re.sub(f"^{_ARGUMENT}", "", key)


def _check_content(kind: str, content: Any) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with tasks, or with the values of each of their arguments."""
    if not content:
        yield kind, "is empty", "name at least one task"
        return
    if isinstance(content, tuple):
        sizes = [len(content)]
        for index, entry in enumerate(content):
            alone = {name: (value,) for name, value in entry.items()}
            yield from _check_entry(f"{kind}[{index}]", alone)
    else:
        sizes = [len(values) for values in content.values()]
        yield from _check_entry(kind, content)
        yield from _check_lists(kind, content)
    if kind == "zip":
        sizes = [max(sizes)]
    if math.prod(sizes) > MAX_TASKS:
        count = " x ".join(map(str, sizes))
        yield kind, f"makes {count} tasks, more than {MAX_TASKS}", "split the sweep"


def _check_lists(
    kind: str, content: dict[str, tuple[Value, ...]]
) -> Iterator[tuple[str, str, str]]:
    """Yield which lists of values are empty, or do not go together."""
    for name, values in content.items():
        if not values:
            yield f"{kind}.{name}", "is an empty list", "give it values"
    if kind == "zip" and len(set(map(len, content.values()))) > 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in content.items())
        yield "zip", f"has lists of different length: {lengths}", "for combinations, say values"


def _looks_like_several(value: Value, *, alone: bool) -> bool:
    """Whether text is numbers without commas, or, `alone` in its list, a range such as `1-3`."""
    number = r"[-+]?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?"
    several = rf"{number}(?:[;\s]+{number})+"
    if alone:
        several += r"|[0-9]+(?:-|:|\.\.)[0-9]+"
    return isinstance(value, str) and re.fullmatch(several, value) is not None


def _check_entry(
    path: str, entry: Mapping[str, tuple[Value, ...]]
) -> Iterator[tuple[str, str, str]]:
    seen: dict[str, str] = {}
    for name, values in entry.items():
        where = f"{path}.{name}"
        if re.fullmatch(FIXED, name):
            message = "cannot differ between the tasks of an array"
            yield where, message, "arguments of the program and environment.variables.NAME can"
            continue
        key = name_variable(name) or make_option(name_argument(name))
        if key in seen:
            yield where, f"names the same as {seen[key]}", ""
        seen[key] = name
        for value in values:
            if "[" not in path and _looks_like_several(value, alone=len(values) == 1):
                yield where, f"{value!r} is one value", "write each by itself, as in [1, 2, 3]"
            if isinstance(value, tuple):
                yield from _check_list(where, value, of_variable=bool(name_variable(name)))


def _check_list(
    where: str, words: tuple[str, ...], *, of_variable: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield why one task cannot be given several words."""
    if of_variable:
        yield where, "is a variable, whose value cannot be a list", "write it as text"
    elif any(word.startswith("-") for word in words):
        message = "a value in this list begins with '-' and would be read as an option"
        yield where, message, "join it to one text, or leave the dash out"
