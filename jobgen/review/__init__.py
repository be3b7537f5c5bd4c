"""What a spec says in the right form and hardly means: numbers, paths and characters.

`check` and `submit` ask for it; a render does not, which stays as fast as it is. Most of it are
rows of `review.txt`. A check is a function that finds what no regular expression shows: it yields
the name of its words there, the place, and the values in the words.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from string import Template
from typing import Any

from jobgen.errors import Position, Problem
from jobgen.plan.plan import Plan
from jobgen.review.facts import Facts, count_node, list_facts
from jobgen.review.files import (
    check_binds,
    check_files,
    check_module,
    check_start,
    check_venv,
)
from jobgen.review.roles import check_addresses
from jobgen.review.rows import list_rows
from jobgen.review.settings import list_numbers
from jobgen.review.subject import Found, Subject, is_below, list_subjects
from jobgen.review.texts import collect_texts
from jobgen.spec.load import LoadedSpec
from jobgen.spec.spelling import find_near


def review(loaded: LoadedSpec, plan: Plan, copied: Sequence[str] | None = None) -> list[Problem]:
    """Return what the spec can hardly mean, in the order of its lines.

    `copied` are the files and folders of its snapshot, by `list_copied`; None without one. What
    several roles share is said of the first.
    """
    words = {row[0]: row[1:] for row in list_rows("say")}
    problems: set[Problem] = set()
    for job in list_subjects(loaded, plan, copied):
        facts = Facts(list_facts(job), job.sources or "")
        for check in (_apply_table, _check_numbers, _check_sums):
            problems.update(check(job, facts))
        for name, path, values in itertools.chain(*(check(job) for check in _CHECKS)):
            message, hint = words[name]
            problems.add(_say(job, path, message, hint, values))
    several = {(one.message, one.hint): one for one in sorted(problems, reverse=True)}
    return sorted(several.values() if plan.roles.members else problems)


def _say(job: Subject, path: str, message: str, hint: str, values: Mapping[str, Any]) -> Problem:
    finding, write = (Template(one).safe_substitute(values) for one in (message, hint))
    file, _, line = path.rpartition(":")
    if file:
        return Problem(Position(file, int(line), 1), "", finding, write)
    return job.loaded.problem(path, finding, write)


def _apply_table(job: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield what `review.txt` has for the texts of a spec."""
    for source, places in collect_texts(job).items():
        for asked, form, message, hint in list_rows(source):
            named: list[str] = []  # what is wrong with a list is said of the list alone
            for path, text in places if facts.allow(asked) else ():
                place = re.sub(r"[.\[]", "/", path)
                if source != "variable" and is_below(place, named):
                    continue
                for match in re.finditer(form, text, re.MULTILINE):
                    named.append(place)
                    line = (text[: match.start()] + match[0].rstrip()).count("\n")
                    where = job.lines[line][0] if source == "setup" else path
                    yield _say(job, where, message, hint, facts | match.groupdict())


_RELATIONS: dict[str, Callable[[float, int], bool]] = {
    "=": operator.eq,
    "1=": lambda number, right: number in (1, right),
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    "times": lambda number, right: number % right == 0,
}


def _check_numbers(job: Subject, facts: Facts) -> Iterator[Problem]:
    for asked, names, relation, fact, message, hint in list_rows("number"):
        right, known = facts.allow(asked) and facts[fact], names.split()
        for name, option, number in list_numbers(job.settings) if right else ():
            if name in known and not _RELATIONS[relation](number, right):
                values = {"option": option.removeprefix("step"), "value": number, "has": right}
                yield _say(job, "run.args", message, hint, values)


def _check_sums(job: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield what the numbers of a node do not allow, for each kind of node."""
    for group in dict.fromkeys(job.plan.nodes.own):
        sums = Facts(facts | count_node(job, group), facts.source)
        for asked, compared, path, message, hint in list_rows("sum"):
            left, _, right = compared.partition(" > ")
            exceeds = sums[left] > int(sums.get(right, right))
            if exceeds and sums.allow(asked):
                yield _say(job, Template(path).substitute(sums), message, hint, sums)


def _check_variables(job: Subject) -> Found:
    """Yield variables that show other GPUs than the job asks for."""
    gpus = max(job.plan.nodes.gpus_of_each)
    for path, name, value in job.list_variables():
        if name.endswith("_VISIBLE_DEVICES") and re.fullmatch(r"(?!all$)[^$]*", value):
            shown = len(re.findall(r"[^,\s][^,]*", value))
            if shown != gpus > 0:
                yield "visible-devices", path, {"name": name, "gpus": gpus, "shown": shown}


def _check_spelling(job: Subject) -> Found:
    """Yield misspelt names of variables; one like none may be the site's own."""
    known = list_rows("known")[0][0].split()
    for name in job.spec.environment.named_variables.keys() - {*known}:
        if near := find_near(name, known, cutoff=0.85):
            yield "misspelt", f"environment.variables.{name}", {"name": name, "near": near}


# Keys that only some schedulers or sites have a use for.
_NO_USE = {"qos", "reservation", "filesystems", "resources.disk_per_node", "queue"}


def _check_no_use(job: Subject) -> Found:
    """Yield keys that lead to nothing, though the spec itself is for the scheduler."""
    plan, loaded = job.plan, job.loaded
    own = [key for key, where in loaded.positions.items() if where.file == loaded.file]
    if plan.provenance.states_scheduler:
        for key in _NO_USE.intersection(own, plan.left_out):
            kind = ".queue" if key == "queue" and job.spec.reservation else ""
            yield f"no-use{kind}", key, {"title": plan.can.title}


_CHECKS = (
    _check_variables,
    _check_spelling,
    check_binds,
    check_files,
    check_start,
    check_module,
    _check_no_use,
    check_venv,
    check_addresses,
)
