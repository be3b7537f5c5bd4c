"""The functions that the page calls: each takes text and returns data for JSON.

They run in the browser (in Pyodide) and in tests, without the user's files, processes or network.
The spec is `job.yaml` in the current folder, so that messages read as on a command line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jobgen.capabilities import list_capabilities
from jobgen.errors import JobgenError, SpecError
from jobgen.output import format_json, offer_line
from jobgen.sites.describe import GRADES
from jobgen.sites.profile import Node, SiteQueue
from jobgen.spec.units import format_duration

if TYPE_CHECKING:
    from jobgen.plan.plan import Plan
    from jobgen.rendering.explain import Explanation
    from jobgen.spec.load import LoadedSpec

SPEC = "job.yaml"
_MOST_LINES = 50  # of the table of nodes
# What `explain` calls its decisions, and the fields that can change them.
_DECIDED = {
    "scheduler": "scheduler",
    "mode": "launch.mode",
    "launcher": "launch.launcher",
    "rendezvous": "launch.rendezvous",
    "restarts": "launch.max_restarts",
    "modules": "environment.modules",
}


def compose(text: str) -> dict[str, Any]:
    """Render a spec's text: its values by path, problems, script, reasons, nodes and cost."""
    from jobgen.spec.load import load

    _write(SPEC, text)
    answer: dict[str, Any] = {"values": _read_values(text), "problems": [], "script": None}
    try:
        answer |= _render(load(SPEC))
    except SpecError as error:
        answer["problems"] = [
            _describe_error(one, one.path, one.where.line, one.where.column)
            for one in error.problems
        ]
        answer["notes"] = list(error.warnings)
    except JobgenError as error:
        answer["problems"] = [_describe_error(error)]
    return answer


def edit(text: str, path: str, value: str | None, scheduler: str = "") -> dict[str, Any]:
    """Write a form's value into the spec's text, and compose that.

    `value` is YAML, or None to leave the key out; the answer has the new `text` too. A known site
    decides the scheduler, so the spec's own is removed, and `scheduler`, the one that the spec had
    before, returns when the site is no longer a known one.
    """
    from jobgen.spec.edit import set_value

    try:
        edited = set_value(text, path, value)
        if path == "site":
            edited = _fit_scheduler(edited, scheduler)
    except JobgenError as error:
        return compose(text) | {"text": text, "problems": [_describe_error(error, path)]}
    return compose(edited) | {"text": edited}


def _fit_scheduler(text: str, scheduler: str) -> str:
    """Return the text without a scheduler if its site is known, else with one."""
    from jobgen.sites import search
    from jobgen.spec.edit import list_values, set_value

    values = list_values(text)
    if search.exists(values.get("site", "")):
        return set_value(text, "scheduler", None)
    if scheduler and "scheduler" not in values:
        return set_value(text, "scheduler", scheduler)
    return text


def edit_text(text: str, path: str, value: str, scheduler: str = "") -> dict[str, Any]:
    """Write a form's plain text into the spec's text, whatever characters it has."""
    from jobgen.spec.yaml_text import quote_text

    return edit(text, path, quote_text(value), scheduler)


def describe_site(name: str) -> dict[str, Any]:
    """Return a site's card: scheduler, node, grade, and queues with their limits."""
    from jobgen.sites import search

    profile = search.load(name)
    grade = GRADES[profile.verified] if profile.verified else ""
    queues = profile.queues
    longest = max((queue.longest or 0 for queue in queues.values()), default=0)
    return {
        "title": profile.title or name,
        "scheduler": profile.scheduler,
        "grade": ", ".join(filter(None, [grade, profile.as_of])),
        "node": _describe_gpus(profile.node),
        "queues": [_describe_queue(key, queue, longest) for key, queue in queues.items()],
        "notes": list(profile.notes),
    }


def _describe_queue(name: str, queue: SiteQueue, longest: int) -> dict[str, Any]:
    """Return a row of the card; `share` is of the site's longest walltime."""
    walltime = queue.longest or 0
    return {
        "name": name,
        "walltime": format_duration(walltime) if walltime else "",
        "share": walltime / longest if longest else 0,
        "nodes": _format_range(queue, "nodes"),
        "gpus": _format_range(queue, "gpus") or _describe_gpus(queue.node),
    }


def _format_range(queue: SiteQueue, key: str) -> str:
    """Return the smallest and largest number that a queue accepts, such as 1-24."""
    ends = list(filter(None, (getattr(limit, key) for limit in queue.limits)))
    if not ends:
        return ""
    least, most = min(end[0] for end in ends), max(end[-1] for end in ends)
    return str(least) if least == most else f"{least}-{most}"


def _describe_gpus(node: Node) -> str:
    return f"{node.gpus} x {node.gpu or 'GPU'} a node" if node.gpus else ""


def read_script(name: str, text: str) -> dict[str, Any]:
    """Lint a batch script, import it, and render the import for its scheduler and the other one."""
    from jobgen.batchscript.convert import import_script
    from jobgen.batchscript.lint import check
    from jobgen.batchscript.reader import Script

    script = Script(name, text)
    findings = [
        {
            "line": finding.line,
            "column": finding.column,
            "rule": finding.rule.id,
            "text": finding.message,
        }
        for finding in check(script)
    ]
    answer: dict[str, Any] = {"findings": findings, "text": None, "losses": [], "problems": []}
    try:
        imported = import_script(script)
    except JobgenError as error:
        return answer | {"problems": [_describe_error(error)]}
    answer["text"] = imported.yaml
    answer["losses"] = [str(left) for left in imported.left]
    answer["scripts"] = {
        can.name: _render_for(imported.yaml, can.name) for can in list_capabilities() if can.batch
    }
    return answer


def _render(loaded: LoadedSpec) -> dict[str, Any]:
    from jobgen import schedulers
    from jobgen.plan.resolve import resolve
    from jobgen.rendering import header
    from jobgen.rendering.explain import explain
    from jobgen.rendering.render import render
    from jobgen.rendering.runtime import split_script

    plan = resolve(loaded)
    script = render(plan)
    explanation = explain(loaded, plan)
    file = f"job{schedulers.SCHEDULERS[plan.scheduler].suffix}"
    return {
        "script": script,
        "title": header.format_title(plan),
        "notes": list(plan.notes),
        "reasons": list(_place_reasons(script, explanation)),
        "decided": _list_decided(plan, explanation),
        "decisions": [reason._asdict() for reason in explanation.decisions],
        "places": _format_places(explanation),
        "cost": str(explanation.cost),
        "part_2": split_script(script)[0].count("\n") + 1,
        "command": offer_line("jobgen", "render", SPEC, "-o", file),
        "file": file,
    }


def _format_places(explanation: Explanation) -> str:
    """Return who runs where as `explain` prints it; of many lines the first."""
    lines = explanation.list_places()[1:]
    more = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], *([f"and {more:,} more lines"] if more > 0 else [])])


def _list_decided(plan: Plan, explanation: Explanation) -> dict[str, dict[str, str]]:
    """Return what jobgen or the site decided, by the field that can change it."""
    decided = {}
    for reason in explanation.decisions:
        what, _, value = reason.what.partition(": ")
        if what in _DECIDED:
            why = "; ".join((reason.why, *reason.origin))
            decided[_DECIDED[what]] = {"value": value, "why": why}
    queue = plan.requests.queue
    for reason in explanation.directives:
        if queue and reason.what.endswith((f"={queue}", f" {queue}")):
            decided["queue"] = {"value": queue, "why": "; ".join((reason.why, *reason.origin))}
            break
    return decided


def _render_for(text: str, scheduler: str) -> str | None:
    """Return the script of a spec for a scheduler; None if it cannot be rendered."""
    from jobgen.plan.resolve import resolve
    from jobgen.rendering.render import render
    from jobgen.spec.load import load

    _write(SPEC, text)
    try:
        return render(resolve(load(SPEC), scheduler=scheduler))
    except JobgenError:
        return None


def _place_reasons(script: str, explanation: Explanation) -> Iterable[dict[str, Any]]:
    """Yield the reason for each directive and variable in the script, with its line."""
    lines = script.splitlines()
    for reason in (*explanation.directives, *explanation.variables):
        what = str(reason.what)
        name = what.partition("=")[0]
        for place, line in enumerate(lines, 1):
            if line == what or line.strip().startswith(f"export {name}="):
                yield {"line": place, "why": reason.why, "origin": list(reason.origin)}
                break


def _read_values(text: str) -> dict[str, str]:
    """Return each value of a spec's text by its path, as YAML; nothing if the text is not YAML."""
    from jobgen.spec.edit import list_values

    try:
        return list_values(text)
    except JobgenError:
        return {}


def _describe_error(text: object, path: str = "", line: int = 0, column: int = 0) -> dict[str, Any]:
    return {"path": path, "line": line, "column": column, "text": str(text)}


def _write(name: str, text: str) -> None:
    with open(name, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def answer(call: str, arguments: str) -> str:
    """Call one of the page's functions by its name; its arguments and its answer are JSON."""
    functions = {f.__name__: f for f in (compose, edit, edit_text, describe_site, read_script)}
    return format_json(functions[call](*json.loads(arguments)))
