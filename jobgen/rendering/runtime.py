"""Part 2 of a script: plain bash from `templates/runtime/`, the same for all jobs of a kind.

Which files a job needs follows from its scheduler, its launcher, its mode and its features alone;
no value of a spec is in them.
"""

import hashlib
import os
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from jobgen import schedulers
from jobgen.plan.plan import Plan
from jobgen.rendering.view import ends_leftovers, hands_on, starts_alone

# Raised with each release that changes a file of the runtime.
NUMBER = 2
_TITLE_LINE = "# ---- Part 2: the jobgen runtime {}, digest {} "
_TITLE = re.compile(r"^# ---- Part 2: the jobgen runtime (\d+), digest ([0-9a-f]{12}) -*\n", re.M)
# The files, in the order of the script, each with the marks of the jobs that have it.
_FILES: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (file, frozenset(marks.split()))
    for file, marks in (
        ("core", ""),
        ("{scheduler}", ""),
        ("array", "array batch single"),
        ("together", "together"),
        ("queue", "array here"),
        ("after", "after"),
        ("modules", "modules"),
        ("stage", "stage"),
        ("container", "container"),
        ("from_shell", "from_shell"),
        ("addresses", "addresses"),
        ("gpu_part", "gpu_part"),
        ("gpu_order", "gpu_order"),
        ("numa_binding", "numa_binding"),
        ("preflight", "preflight"),
        ("notice", "notice"),
        ("chain", "chain"),
        ("requeue", "requeue"),
        ("resubmit", "resubmit"),
        ("held", "held"),
        ("walltime", "walltime"),
        ("alone", "alone"),
        ("body", "body"),
        ("nodes", "nodes"),
        ("torchrun", "torchrun"),
        ("c10d", "c10d"),
        ("loopback", "loopback"),
        ("direct", "direct"),
        ("processes", "processes"),
        ("step", "srun"),
        ("killed", "direct srun"),
        ("watch", "watched"),
        ("mpiexec", "mpiexec"),  # which finds its rank otherwise
        ("guard", "guarded"),
        ("main", ""),
    )
)


class Runtime(NamedTuple):
    """Part 2 as a script has it."""

    number: int
    digest: str  # as its first line says
    text: str  # below that line

    def as_text(self) -> str:
        """Part 2 with its first line."""
        return f"{_TITLE_LINE.format(self.number, self.digest):-<99}\n{self.text}"

    @property
    def edited(self) -> bool:
        """Whether its text does not have the digest that its first line states."""
        return digest_text(self.text) != self.digest


def digest_text(text: str) -> str:
    """Return the digest of Part 2 below its first line."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def assemble(plan: Plan, folder: str) -> str:
    """Return Part 2 of `plan`'s script, from the files in `folder`."""
    marks = frozenset(list_marks(plan))
    files = [name.format(scheduler=plan.scheduler) for name, needed in _FILES if needed <= marks]
    return _join_files(folder, tuple(files))


@cache
def _join_files(folder: str, files: tuple[str, ...]) -> str:
    kind = f"The same in each script of its kind: {', '.join(files[1:-1])}."
    texts = [_read(os.path.join(folder, f"{name}.sh")) for name in files]
    text = "".join([textwrap.indent(textwrap.fill(kind, 98), "# "), "\n", *texts])
    return Runtime(NUMBER, digest_text(text), text).as_text()


def split_script(script: str) -> tuple[str, Runtime | None]:
    """Return Part 1 of a script, and Part 2; None if it has none."""
    match = _TITLE.search(script)
    if match is None:
        return script, None
    runtime = Runtime(int(match[1]), match[2], script[match.end() :])
    return script[: match.start()], runtime


def list_marks(plan: Plan) -> Iterator[str]:
    """Yield what decides the files of a job: launcher, mode, and what it has that others lack."""
    launch, chain, environment = plan.launch, plan.walltime.chain, plan.environment
    pieces = schedulers.get_scheduler(plan.scheduler).launch(plan)
    alone, here = starts_alone(plan), pieces.ends_itself
    marks = {
        "alone": alone and not launch.body,
        "body": launch.body,
        "nodes": not alone,
        launch.launcher: True,
        "torchrun": launch.mode == "torchrun",
        "direct": launch.direct,
        "processes": launch.direct and not launch.numbers,
        "c10d": launch.rendezvous == "c10d",
        "loopback": here and launch.rendezvous == "static",
        "watched": not alone and launch.launcher != "srun",
        "guarded": ends_leftovers(plan),
        "batch": not here,
        "here": here,
        "array": bool(plan.array),
        "single": plan.nodes.together == 1,
        "together": plan.nodes.together > 1,
        "after": here and bool(plan.requests.after),
        "from_shell": hands_on(plan),
        "addresses": not (alone or here) and launch.own_address,
        "gpu_part": bool(pieces.gpu_parts) and not launch.body,
        "gpu_order": bool(launch.devices),
        "numa_binding": bool(launch.numa_binding),
        "preflight": plan.nodes.preflight is not None,
        "walltime": here and chain is None and bool(plan.walltime.seconds),
        "notice": chain is not None,
    }
    yield from (mark for mark, has in marks.items() if has)
    yield from (name for name in ("modules", "stage", "container") if getattr(environment, name))
    if chain and chain.goes_on:
        yield from ("chain", chain.then)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
