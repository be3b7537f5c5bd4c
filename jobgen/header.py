"""The comment lines at the head of a script: what it is, and what it was rendered from.

They tie a committed script to its spec; `read` gets out of them what `lines` put in.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from jobgen.fields import NAME
from jobgen.plan import Plan

_TITLES = {"slurm": "Slurm", "pbs": "PBS", "local": "this machine alone"}
_TASKS = " tasks, each of "
_SOURCE = "rendered by jobgen from: "
_DIGEST = "digest of what was rendered: "
_NO_LIMITS = "--no-limits"
_COMMAND = "to render it again: "
_CHAIN = "jobs that jobgen submit queues, each to go on where the one before has ended: "


class Header(NamedTuple):
    """What a script says of itself. `source` is a file name without a folder."""

    name: str
    source: str
    digest: str
    scheduler: str
    site: str | None
    overrides: tuple[str, ...]
    limits: bool
    jobs: int  # that are submitted together
    task: int | None  # which one of the spec's array it is alone
    tasks: int  # how many the script is for; 0 where it is no array


def title(plan: Plan) -> str:
    """What the job is, in a line."""
    tasks = f"{len(plan.array.tasks)}{_TASKS}" if plan.array else ""
    return f"{plan.name}: {tasks}{plan.topology}, for {_TITLES[plan.scheduler]}"


def lines(plan: Plan) -> list[str]:
    """The header of `plan`'s script, without comment signs."""
    found = [
        title(plan),
        _SOURCE + plan.source,
        _DIGEST + plan.digest,
        _COMMAND + shlex.join(_command(plan)),
    ]
    if not plan.limits:
        found.append("limits of the site: not checked, by --no-limits")
    if plan.chain and plan.chain.held:
        found.append(f"{_CHAIN}{plan.chain.at_most}")
    if plan.left_out:
        found.append(f"left out, of no use here: {', '.join(plan.left_out)}")
    return found


def read(script: str) -> Header | None:
    """The header of a script; None where jobgen did not render it."""
    title, values = "", {}
    for line in script.splitlines()[1:]:
        if not line.startswith("# "):
            break
        title = title or line[2:]
        for key in (_SOURCE, _DIGEST, _COMMAND, _CHAIN):
            if line[2:].startswith(key):
                values[key] = line[2 + len(key) :]
    if not values.keys() >= {_SOURCE, _DIGEST, _COMMAND}:
        return None
    try:
        jobs = int(values.get(_CHAIN, 1))
        words = shlex.split(values[_COMMAND])
        limits = _NO_LIMITS not in words
        words = [word for word in words if word != _NO_LIMITS]
        options = list(zip(words[3::2], words[4::2], strict=True))
        scheduler = dict(options)["--scheduler"]
        given = dict(options).get("--task")
        task = None if given is None else int(given)
    except (ValueError, KeyError):  # somebody has edited it
        return None
    if scheduler not in _TITLES:
        return None
    name = title.partition(":")[0]
    if not NAME.matches(name):  # it becomes a folder's
        return None
    return Header(
        name=name,
        source=values[_SOURCE],
        digest=values[_DIGEST],
        scheduler=scheduler,
        site=dict(options).get("--site"),
        limits=limits,
        jobs=jobs,
        task=task,
        tasks=int(match[1]) if (match := re.match(rf"[^ ]+ (\d+){_TASKS}", title)) else 0,
        overrides=tuple(value for option, value in options if option == "--set"),
    )


def _command(plan: Plan) -> list[str]:
    words = ["jobgen", "render", plan.source, "--scheduler", plan.scheduler]
    if plan.site_given:
        words += ["--site", plan.site_given]
    if not plan.limits:
        words.append(_NO_LIMITS)
    if plan.task_given:
        words += ["--task", str(plan.task)]
    for override in plan.overrides:
        words += ["--set", override]
    return words
