"""Arrays and sweeps, as the user writes them: which tasks there are, and what each is given."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from jobgen.records import NamedTuple
from jobgen.spec.fields import Range, limit_keys
from jobgen.spec.tables import Conflict, refuse
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


@limit_keys("values", "zip", "list", "tasks", least=1, most=1)
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
    numbers: Annotated[
        tuple[Annotated[int, Range(0)], ...] | None,
        "The numbers of the tasks, JOBGEN_TASK, where they are not 0, 1, 2, ...; a rerun keeps "
        "those of the tasks that it takes.",
    ] = None
    at_once: Annotated[
        Count | None, "How many may run at a time; no bound if not said, on this machine 1."
    ] = None
    together: Annotated[
        Count | None,
        "How many share a node, each with its own GPUs: `resources` is what one task has.",
    ] = None

    def conflicts(self) -> Iterator[Conflict]:
        """There are tasks, not too many, what they are given arrives, and each has its number."""
        conflicts = [*self._check_contents()]
        yield from conflicts
        if self.numbers is not None and not conflicts:  # else there may be too many to count out
            yield from _check_numbers(self.numbers, sum(1 for _ in self.choices()))

    def _check_contents(self) -> Iterator[Conflict]:
        for kind, content in (("values", self.values), ("zip", self.zip), ("list", self.list)):
            if content is not None:
                yield from _check_content(kind, content)

    def number(self, index: int) -> int:
        """The number of a task, by its index."""
        return index if self.numbers is None else self.numbers[index]

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


def _check_numbers(numbers: tuple[int, ...], tasks: int) -> Iterator[Conflict]:
    rules = {"numbers_count": len(numbers) != tasks}
    yield from refuse(rules, given=len(numbers), tasks=tasks)
    for number, times in Counter(numbers).items():
        yield from refuse({"same_number": times > 1}, number=number)


def name_variable(key: str) -> str | None:
    """The variable that a key of a task names; None where it names an argument."""
    match = re.match(_VARIABLE, key)
    return key[match.end() :] if match else None


def name_argument(key: str) -> str:
    """The argument that a key of a task names, as a key of `run.args`."""
    return re.sub(f"^{_ARGUMENT}", "", key)


def _check_content(kind: str, content: Any) -> Iterator[Conflict]:
    if isinstance(content, tuple):
        sizes = [len(content)]
        for index, entry in enumerate(content):
            alone = {name: (value,) for name, value in entry.items()}
            yield from _check_entry(f"{kind}[{index}]", alone)
    else:
        sizes = list(map(len, content.values()))
        yield from _check_entry(kind, content)
        for name, values in content.items():
            yield from refuse({"no_values": not values}, kind=kind, name=name)
        lengths = ", ".join(f"{name} {len(values)}" for name, values in content.items())
        yield from refuse({"unlike_lists": kind == "zip" and len({*sizes}) > 1}, lengths=lengths)
    sizes = [max(sizes)] if kind == "zip" and sizes else sizes
    count, many = " x ".join(map(str, sizes)), math.prod(sizes) > MAX_TASKS
    rules = {"no_tasks": not content, "many_tasks": many}
    yield from refuse(rules, kind=kind, count=count, most=MAX_TASKS)


def _looks_like_several(value: Value, *, alone: bool) -> bool:
    """Whether text is numbers without commas, or, `alone` in its list, a range such as `1-3`."""
    number = r"[-+]?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?"
    several = rf"{number}(?:[;\s]+{number})+" + r"|[0-9]+(?:-|:|\.\.)[0-9]+" * alone
    return isinstance(value, str) and re.fullmatch(several, value) is not None


def _check_entry(path: str, entry: Mapping[str, tuple[Value, ...]]) -> Iterator[Conflict]:
    seen: dict[str, str] = {}
    for name, values in entry.items():
        where = f"{path}.{name}"
        fixed, variable = re.fullmatch(FIXED, name), name_variable(name)
        key = name if fixed else variable or make_option(name_argument(name))
        other = seen.setdefault(key, name)
        foreign = fixed and re.search(r"variables\.|\.[^.]*[^a-z_.]", name)  # no key of a spec
        rules: dict[str, object] = {"fixed_key": fixed and not foreign, "no_key": foreign}
        rules["same_key"] = other != name
        yield from refuse(rules, where=where, other=other, name=name)
        for value in () if fixed else values:
            several = "[" not in path and _looks_like_several(value, alone=len(values) == 1)
            words = value if isinstance(value, tuple) else ()
            option = any(word.startswith("-") for word in words)
            rules = {
                "one_value": several,
                "list_variable": variable and isinstance(value, tuple),
                "list_option": not variable and option,
            }
            yield from refuse(rules, where=where, value=value)
