"""The settings of a run, in which runs may differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jobgen.jobs.record import JobRecord
from jobgen.plan.plan import Plan
from jobgen.report.facts import Place
from jobgen.spec.secrets import mask_override, mask_words

_PATHS = {"out"}  # settings of the trainer in which all runs differ


def read_task(job: JobRecord, plan: Plan | None) -> dict[str, str]:
    """Return the values of an array's task, of `--lr 3e-3` or `SEED=1`; none for another job."""
    if plan is None or not job.array or not plan.array.tasks:
        return {}
    task = plan.array.tasks[int(job.run_dir.name.rpartition("_")[2])]
    variables = (f"{name}={value}" for name, value in task.variables.items())
    words = mask_words((*task.arguments, *variables))
    values: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if equals:
            values[name.lstrip("-")] = value
        elif word.startswith("--"):
            values[name.lstrip("-")] = "true" if following.startswith("--") else following
    return values


def read_overrides(overrides: Iterable[str]) -> dict[str, str]:
    """Return the values from `--set`, by path."""
    pairs = (mask_override(word).partition("=") for word in overrides)
    return {path: value for path, _, value in pairs}


def collect_settings(
    overrides: dict[str, str],
    task: dict[str, str],
    config: dict[str, Any],
    places: tuple[Place, ...],
) -> dict[str, str]:
    """Return overrides, a task's own values, the trainer's settings, and the nodes and ranks."""
    own = {key: str(value) for key, value in config.items() if key not in _PATHS}
    more = {name: value for name, value in task.items() if name.replace("-", "_") not in own}
    settings = overrides | more
    if places:
        settings["nodes"] = str(len(places))
        settings["ranks"] = str(sum(len(place.ranks) for place in places))
    return settings | own


def find_varied(overrides: dict[str, str], task: dict[str, str]) -> dict[str, str]:
    """Return a task's own values, or those of `--set` by the last word of each path."""
    return task or {path.rpartition(".")[2]: value for path, value in overrides.items()}
