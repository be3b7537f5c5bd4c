"""Part 2 of a script: plain bash from `templates/runtime/`, the same for all jobs of a kind.

Which files a job needs follows from its scheduler, its launcher, its mode and its features alone;
no value of a spec is in them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from functools import cache

from jobgen.records import NamedTuple
from jobgen.rendering.view import ScriptView

# Raised with each release that changes a file of the runtime.
NUMBER = 2
_TITLE_LINE = "# ---- Part 2: the jobgen runtime {}, digest {} "
_TITLE = r"(?m)^# ---- Part 2: the jobgen runtime (\d+), digest ([0-9a-f]{12}) -*\n"


class Runtime(NamedTuple):
    """Part 2 of a script."""

    number: int
    digest: str  # as its first line says
    text: str  # below that line

    def as_text(self) -> str:
        """Return Part 2 with its first line."""
        return f"{_TITLE_LINE.format(self.number, self.digest):-<99}\n{self.text}"

    @property
    def edited(self) -> bool:
        """Whether its text differs from the digest in its first line."""
        return digest_text(self.text) != self.digest


def digest_text(text: str) -> str:
    """Return the digest of Part 2 below its first line."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def assemble(view: ScriptView, folder: str) -> str:
    """Return Part 2 of a script, from the files in `folder`."""
    kinds, scheduler = frozenset(_list_kinds(view)), view.plan.scheduler
    files = [file for file, needed in _list_files(folder, scheduler) if needed <= kinds]
    return _join_files(folder, tuple(files))


@cache
def _list_files(folder: str, scheduler: str) -> list[tuple[str, frozenset[str]]]:
    lines = read_text(os.path.join(folder, "kinds.txt")).splitlines()
    rows = (line.partition(":") for line in lines if line[0] != "#")
    return [(file.format(scheduler=scheduler), frozenset(kinds.split())) for file, _, kinds in rows]


@cache
def _join_files(folder: str, files: tuple[str, ...]) -> str:
    kind = f"The same in each script of its kind: {', '.join(files[1:])}."
    if len(kind) > 98:  # seldom; textwrap compiles its patterns at import
        from textwrap import fill

        kind = fill(kind, 98).replace("\n", "\n# ")
    texts = [read_text(os.path.join(folder, f"{name}.sh")) for name in files]
    text = "".join(["# ", kind, "\n", *texts, 'main "$@"\n'])
    return Runtime(NUMBER, digest_text(text), text).as_text()


def split_script(script: str) -> tuple[str, Runtime | None]:
    """Return Part 1 of a script, and Part 2; None if it has none."""
    match = re.search(_TITLE, script)
    if match is None:
        return script, None
    runtime = Runtime(int(match[1]), match[2], script[match.end() :])
    return script[: match.start()], runtime


def _list_kinds(view: ScriptView) -> Iterator[str]:
    plan, here, several = view.plan, view.local, not view.plan.launch.alone
    launch, chain, environment = plan.launch, plan.walltime.chain, plan.environment
    kinds = {
        launch.launcher: True,
        launch.mode: True,
        "here": here,
        "batch": not here,
        "alone": not several and not launch.body,
        "nodes": several,
        "direct": launch.direct,
        "worlds": view.worlds,
        "meeting": view.meeting,
        "processes": launch.direct and not launch.numbers,
        "watched": several and launch.launcher != "srun",
        "guarded": view.guarded,
        "asked": view.asked,
        "c10d": launch.rendezvous == "c10d",
        "addresses": several and not here and bool(view.own_address),
        "array": bool(plan.array.tasks),
        "single": plan.nodes.together == 1,
        "together": view.together,
        "queue": bool(plan.array.tasks or plan.requests.after),
        "modules": bool(environment.modules),
        "packed": bool(environment.stage or environment.container),
        "numa_binding": bool(launch.numa_binding),
        "preflight": plan.nodes.preflight is not None,
        "walltime": here and not chain.then and bool(plan.walltime.seconds),
        "notice": bool(chain.then),
        "chain": chain.goes_on,
        "restart": plan.walltime.restarts > 0,
    }
    yield from (kind for kind, has in kinds.items() if has)
    for part, _ in view.parts:
        yield from _list_kinds(part)


def read_text(path: str) -> str:
    """Return the text of a file of the templates."""
    with open(path, encoding="utf-8") as file:
        return file.read()
