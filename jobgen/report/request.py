"""What a run was asked to do: its plan, by the spec beside its script, its settings, its cost."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from jobgen.errors import JobgenError
from jobgen.jobs.record import JobRecord
from jobgen.jobs.recorded import resolve_recorded
from jobgen.jobs.table import read_given
from jobgen.plan.array import keep_own_args, list_tasks, make_rows
from jobgen.plan.cost import estimate_cost
from jobgen.plan.plan import Plan, TaskArray, TimeLimit
from jobgen.records import NamedTuple
from jobgen.rendering import header
from jobgen.rendering.header import Header
from jobgen.report.facts import Attempt, Charged, Place
from jobgen.spec.load import LoadedSpec, load
from jobgen.spec.secrets import mask_override, mask_words
from jobgen.spec.yaml_nodes import Scalar, Sequence, walk_leaves
from jobgen.spec.yaml_text import write_value

_PATHS = {"out"}  # settings of the trainer in which all runs differ
# An option, which is no number below 0, or NAME=VALUE; then what is joined to it.
_OPTION = re.compile(r"--?([A-Za-z][^=\s]*)(?:=(.*))?|([A-Za-z_][\w.@/-]*)=(.*)", re.DOTALL)
_NAMED = re.compile(r"(run\.args|environment\.variables)\.(?=.)")  # its keys name themselves
_OTHERWISE = re.compile(r"(array|name)\b")  # shown with the tasks, and as the title


class Asked(NamedTuple):
    """What the script and the spec tell; `problem` is why that is not all."""

    given: dict[str, str]  # by the spec and the command line; what an array is, its tasks tell
    site: str | None = None
    plan: Plan | None = None
    about: Header | None = None  # of the script
    metrics: str = ""  # the path of its metrics, if the spec names one
    own: str = ""  # of the one task of an array that the job is: what that alone is given
    problem: str = ""


@cache  # the tasks of an array share it
def read_asked(home: str, script: str, *, has_spec: bool) -> Asked:
    """Return what the text of a script and the spec in its folder tell."""
    about = header.read(script)
    if about is None:
        lacks = "the request is not known: the script has no header of jobgen's"
        return Asked({}, problem=lacks if script and has_spec else "")
    given = (mask_override(word).partition("=") for word in about.overrides)
    asked = Asked(_name_given((path, value) for path, _, value in given), about.site, about=about)
    path = os.path.relpath(os.path.join(home, "job.yaml"))
    return _add_plan(asked, about, path=path) if has_spec else asked


def _add_plan(asked: Asked, about: Header, *, path: str) -> Asked:
    """The same with what follows from the spec, if that can be resolved as it was then."""
    try:
        loaded = load(path, about.overrides, alone=True)
        plan = resolve_recorded(loaded, about)
    except JobgenError as error:
        first = str(error).splitlines()[0]
        problem = f"the request is not known: job.yaml cannot be resolved: {first}"
        return asked._replace(problem=problem)
    metrics = loaded.spec.report.metrics or ""
    own, site = _write_own(loaded, about.task), about.site or plan.site.title
    given = _name_given(_list_given(loaded))
    return asked._replace(given=given, site=site, plan=plan, metrics=metrics, own=own)


def _list_given(loaded: LoadedSpec) -> Iterator[tuple[str, str]]:
    """Yield what a spec gives all tasks, by path, overrides too, lists as words; no secrets."""
    varied = loaded.spec.run.keyed_args.keys() - keep_own_args(loaded).keys()
    for path, node in walk_leaves(loaded.tree):
        if path.removeprefix("run.args.") in varied:
            continue
        items = node.items if isinstance(node, Sequence) else [node]
        words = [one.text if isinstance(one, Scalar) else write_value(one) for one in items]
        text = shlex.join(mask_words(words)) if len(words) > 1 else "".join(words)
        yield path, mask_override(f"{path}={text}").partition("=")[2]


def _name_given(given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return values by what names them: options of the program, variables, or other paths."""
    values: dict[str, str] = {}
    for path, text in given:
        if path in ("run.args", "run.args+", "run.command"):
            values |= _name_words(text, path.rstrip("+"))
        elif _NAMED.match(path):
            values[_name_option(_NAMED.sub("", path, count=1))] = text
        elif not _OTHERWISE.match(path):
            values[path] = text
    return values


def _write_own(loaded: LoadedSpec, task: int | None) -> str:
    if task is None or not loaded.spec.array:
        return ""
    tasks = list_tasks(loaded)
    numbers = tuple(map(loaded.spec.array.number, range(len(tasks))))
    return str(make_rows(TaskArray(tasks, numbers))[task]).strip().partition(" ")[2]


def read_task(job: JobRecord, asked: Asked, script: str) -> dict[str, str]:
    """Return the values of an array's task, of `--lr 3e-3` or `SEED=1`; none for another job."""
    index = job.run_dir.name.rpartition("_")[2]
    return _name_words(read_given(script).get(index, "") if job.array else asked.own, "")


def _name_words(text: str, first: str) -> dict[str, str]:
    """Return the values of options in a command line, and as `first` what stands before them."""
    try:
        words = shlex.split(text)
    except ValueError:  # somebody has edited it
        return {}
    values: dict[str, list[str]] = {}
    name = first
    for word in words:
        if match := _OPTION.fullmatch(word):
            name, word = _name_option(match[1] or match[3]), match[2] or match[4] or ""
            values[name] = []
        values.setdefault(name, []).extend(filter(None, [word]))
    return {name: " ".join(own) or "true" for name, own in values.items()}


def _name_option(name: str) -> str:
    """Return an option's name as programs have it, and the trainer's settings."""
    return name.lstrip("-").replace("-", "_")


def collect_settings(
    given: dict[str, str],
    config: dict[str, Any],
    places: tuple[Place, ...],
    code: str,
) -> dict[str, str]:
    """Return what was given, the trainer's settings, which decide, nodes, ranks and the code."""
    own = {key: str(value) for key, value in config.items() if key not in _PATHS}
    settings = dict(given)
    if places:
        settings["nodes"] = str(len(places))
        settings["ranks"] = str(sum(len(place.ranks) for place in places))
    if code:
        settings["code"] = code
    return settings | own


def compute_charge(
    plan: Plan | None, attempts: tuple[Attempt, ...], ran: float | None
) -> Charged | None:
    """Compute the cost as the plan does, with the time that it ran as the walltime."""
    if plan is None:
        return None
    one = plan._replace(array=TaskArray())
    used = one._replace(walltime=TimeLimit(None if ran is None else round(ran)))
    cost = estimate_cost(_count_nodes(used, attempts))
    if ran is None and cost.amount is None and cost.unit:
        cost = cost._replace(how="how long it ran is not known")
    return Charged(cost, estimate_cost(one))


def _count_nodes(plan: Plan, attempts: tuple[Attempt, ...]) -> Plan:
    """Return the plan with as many nodes as the last start had, if it may have fewer."""
    nodes = next((len(one.nodes) for one in reversed(attempts) if one.nodes), None)
    if plan.nodes.fewest is None or nodes is None:
        return plan
    group = plan.nodes.groups[0]._replace(nodes=nodes)
    return plan._replace(nodes=plan.nodes._replace(groups=(group,)))
