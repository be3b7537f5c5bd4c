"""What a run was asked to do: its plan, by the spec beside its script, its settings, its cost."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

from jobgen.errors import JobgenError
from jobgen.jobs.record import JobRecord
from jobgen.jobs.recorded import resolve_recorded
from jobgen.jobs.table import read_given
from jobgen.plan.array import list_tasks, make_rows
from jobgen.plan.cost import estimate_cost
from jobgen.plan.plan import Plan, TaskArray, TimeLimit
from jobgen.records import NamedTuple
from jobgen.rendering import header
from jobgen.rendering.header import Header
from jobgen.report.facts import Attempt, Charged, Place
from jobgen.spec.load import LoadedSpec, load
from jobgen.spec.secrets import mask_override

_PATHS = {"out"}  # settings of the trainer in which all runs differ
_OPTION = re.compile("--?[A-Za-z]")  # and no number below 0


class Asked(NamedTuple):
    """What the script and the spec tell; `problem` is why that is not all."""

    overrides: dict[str, str]  # by their paths; what an array is, its tasks tell
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
    kept = {path: value for path, _, value in given if not re.match(r"array\b", path)}
    asked = Asked(kept, about.site, about=about)
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
    return asked._replace(site=site, plan=plan, metrics=metrics, own=own)


def _write_own(loaded: LoadedSpec, task: int | None) -> str:
    if task is None or not loaded.spec.array:
        return ""
    tasks = list_tasks(loaded)
    numbers = tuple(map(loaded.spec.array.number, range(len(tasks))))
    return str(make_rows(TaskArray(tasks, numbers))[task]).strip().partition(" ")[2]


def read_task(job: JobRecord, asked: Asked, script: str) -> dict[str, str]:
    """Return the values of an array's task, of `--lr 3e-3` or `SEED=1`; none for another job."""
    index = job.run_dir.name.rpartition("_")[2]
    given = read_given(script).get(index, "") if job.array else asked.own
    try:
        return _name_values(shlex.split(given))
    except ValueError:  # somebody has edited it
        return {}


def _name_values(words: Iterable[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for word, following in pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if equals:
            values[name.lstrip("-")] = value
        elif _OPTION.match(word):
            values[name.lstrip("-")] = "true" if _OPTION.match(following) else following
    return values


def collect_settings(
    overrides: dict[str, str],
    task: dict[str, str],
    config: dict[str, Any],
    places: tuple[Place, ...],
    code: str,
) -> dict[str, str]:
    """Return overrides, a task's own values, the trainer's settings, nodes, ranks and the code."""
    own = {key: str(value) for key, value in config.items() if key not in _PATHS}
    more = {name: value for name, value in task.items() if name.replace("-", "_") not in own}
    settings = overrides | more
    if places:
        settings["nodes"] = str(len(places))
        settings["ranks"] = str(sum(len(place.ranks) for place in places))
    if code:
        settings["code"] = code
    return settings | own


def find_varied(overrides: dict[str, str], task: dict[str, str]) -> dict[str, str]:
    """Return a task's own values, or those of `--set` by the last word of each path."""
    return task or {path.rpartition(".")[2]: value for path, value in overrides.items()}


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
