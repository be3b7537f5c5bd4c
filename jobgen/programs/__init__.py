"""What a training program does with processes and GPUs, read from its source before the queue.

Nothing is imported or run: `ast` reads the program and the modules of its project.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from jobgen.plan.plan import Plan
from jobgen.plan.review import review
from jobgen.programs.rules import SEVERAL, JobSize, Remark, check_program
from jobgen.spec.load import LoadedSpec

__all__ = ["SEVERAL", "JobSize", "Remark", "check_program", "list_doubts", "look_at"]


def list_doubts(loaded: LoadedSpec, plan: Plan) -> Iterator[str]:
    """Yield what a spec and its program can hardly mean, each with its place."""
    yield from (f"warning: {problem}" for problem in review(loaded, plan))
    yield from map(str, look_at(plan))


def look_at(plan: Plan) -> list[Remark]:
    """Return what a look into a plan's program finds, from the folder that jobs are submitted from.

    There is nothing to find in a program that is not here, or not in Python.
    """
    if plan.launch.body:
        return []
    processes = plan.nodes.processes
    size = JobSize(len(processes), max(processes), plan.nodes.world_size, not plan.launch.direct)
    if path := _find_wrapper(plan.program.command):
        from jobgen.programs.wrapper import check_wrapper

        return check_wrapper(path, size)
    path = _find_program(plan.program.command)
    return check_program(path, size) if path and not plan.launch.plain else []


def _find_wrapper(words: Sequence[str]) -> str | None:
    """Return the shell script that a command is, or that a shell is given."""
    named = [word for word in words[:3] if not word.startswith("-")]
    if named and os.path.basename(named[0]) in ("bash", "sh", "zsh"):
        named = named[1:]
    path = os.path.expandvars(os.path.expanduser(named[0])) if named else ""
    return path if path.endswith((".sh", ".bash")) and os.path.isfile(path) else None


def _find_program(words: Sequence[str]) -> str | None:
    """Return the file that Python is given, or that of a module of this folder."""
    if not words or not re.fullmatch(r"python[\d.]*", os.path.basename(words[0])):
        return None
    for index, word in enumerate(words[1:], 1):
        if word == "-m":
            base = words[index + 1].replace(".", "/")
            candidates = (f"{base}.py", f"{base}/__main__.py")
            return next((path for path in candidates if os.path.isfile(path)), None)
        if not word.startswith("-"):
            path = os.path.expandvars(os.path.expanduser(word))
            return path if path.endswith(".py") or os.path.isdir(path) else None
    return None
