"""What a run was given: the settings in which runs may differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jobgen.plan.plan import Plan
from jobgen.rendering import header
from jobgen.report.facts import Place
from jobgen.spec.secrets import mask_override, mask_words

_PATHS = {"out"}  # settings of the trainer in which all runs differ


def list_task_words(plan: Plan | None, index: int | None) -> tuple[str, ...]:
    """Return the words of an array's task, `--lr 3e-3` or `SEED=1`; none for another job."""
    if plan is None or index is None or not plan.array.tasks:
        return ()
    task = plan.array.tasks[index]
    return (*task.arguments, *(f"{name}={value}" for name, value in task.variables.items()))


def collect_settings(
    script: str | None, task: Iterable[str], config: dict[str, Any], places: tuple[Place, ...]
) -> dict[str, str]:
    """Return overrides of the spec, a task's own words, the trainer's settings, nodes and ranks."""
    own = {key: str(value) for key, value in config.items() if key not in _PATHS}
    settings = _read_overrides(script)
    for name, value in _read_words(task).items():
        if name.replace("-", "_") not in own:
            settings[name] = value
    if places:
        settings["nodes"] = str(len(places))
        settings["ranks"] = str(sum(len(place.ranks) for place in places))
    return settings | own


def find_varied(script: str | None, task: Iterable[str]) -> dict[str, str]:
    """Return a task's own values, or those of `--set` by the last word of each path."""
    overrides = _read_overrides(script).items()
    return _read_words(task) or {path.rpartition(".")[2]: value for path, value in overrides}


def _read_overrides(script: str | None) -> dict[str, str]:
    about = header.read(script) if script else None
    pairs = [mask_override(word).partition("=") for word in (about.overrides if about else ())]
    return {path: value for path, _, value in pairs}


def _read_words(task: Iterable[str]) -> dict[str, str]:
    """Return a task's words as names and values."""
    values: dict[str, str] = {}
    words = mask_words(task)
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if equals:
            values[name.lstrip("-")] = value
        elif word.startswith("--"):
            values[name.lstrip("-")] = "true" if following.startswith("--") else following
    return values
