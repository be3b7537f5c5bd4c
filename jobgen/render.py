"""From a plan to the text of its script. The only module that knows Jinja2.

Every `{{ value }}` of a template comes out as one shell word, whatever is in it: the environment
autoescapes, and `finalize` has quoted each value before. A template's author asks for anything
else by name: `words` for several words, `verbatim` for text that is shell already.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from functools import cache

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from jobgen import header, schedulers
from jobgen.plan import Plan
from jobgen.program import ShellPath
from jobgen.start import LAUNCHERS

_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")


def render(plan: Plan) -> str:
    """The script of `plan`: the same text at every call, on every machine."""
    scheduler = schedulers.get(plan.scheduler)
    processes = plan.processes
    started = (
        processes if plan.start.numbers else (1,) * plan.nodes
    )  # by the launcher, on each node
    template = _environment().get_template(f"scheduler/{plan.scheduler}.sh.j2")
    text: str = template.render(
        plan=plan,
        header=header.lines(plan),
        directives=scheduler.directives(plan),
        processes=processes,
        uniform=_same(processes),
        started=started,
        started_uniform=_same(started),
        started_sum=sum(started),
        static=plan.rendezvous == "static",
        task_variables=plan.array.variables if plan.array else (),
        start=plan.start,
        flavor=plan.start.flavor or "",
        mpiexec={kind: plan.start.flavor in (None, kind) for kind in plan.start.bindings},
        launcher={name: plan.start.launcher == name for name in LAUNCHERS},
        slurm=plan.scheduler == "slurm",
        **scheduler.launch(plan),
    )
    return text


def _same(counts: tuple[int, ...]) -> int | None:
    """What all of them are; None where they differ."""
    return counts[0] if len(set(counts)) == 1 else None


def quote(value: object) -> Markup:
    """`value` as one shell word; text that was marked as shell stays as it is.

    Raises TypeError for what has no obvious word (None, True, a list): the template is wrong.
    """
    if isinstance(value, Markup):
        return value
    if isinstance(value, ShellPath):
        return Markup(_expandable(value))
    if isinstance(value, str):
        return Markup(_literal(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return Markup(value)
    if isinstance(value, StrictUndefined):
        str(value)  # raises jinja2's own error, which names it
    raise TypeError(f"no shell word for {value!r}")


def _literal(text: str) -> str:
    """A word in which nothing expands; double quotes show that a `$` is meant to stay one."""
    return f'"{_inside_quotes(text)}"' if re.search(r"[$`\\]", text) else shlex.quote(text)


def _expandable(path: str) -> str:
    """A word in which only $NAME, ${NAME} and a leading ~ are the shell's business."""
    if path == "~" or path.startswith("~/"):
        path = "$HOME" + path[1:]
    if not _VARIABLE.search(path):
        return _literal(path)
    parts, end = [], 0
    for match in _VARIABLE.finditer(path):
        parts += [_inside_quotes(path[end : match.start()]), f"${{{match[1] or match[2]}}}"]
        end = match.end()
    return '"' + "".join(parts) + _inside_quotes(path[end:]) + '"'


def _inside_quotes(text: str) -> str:
    return re.sub(r'(["$`\\])', r"\\\1", text)


def _words(values: Iterable[object]) -> Markup:
    """Several shell words."""
    return Markup(" ").join(quote(value) for value in values)


def template_folder() -> str:
    """`templates/`: inside an installed package, beside the package in a checkout."""
    package = os.path.dirname(os.path.abspath(__file__))
    inside = os.path.join(package, "templates")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "templates")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(template_folder()),
        bytecode_cache=_bytecode_cache(),
        auto_reload=False,
        autoescape=True,
        finalize=quote,
        undefined=StrictUndefined,
        comment_start_string="{%#",  # bash has its own use for {#
        comment_end_string="#%}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters = {"words": _words, "verbatim": Markup}
    return environment


def _bytecode_cache() -> FileSystemBytecodeCache | None:
    """Compiled templates beside the compiled modules, where there is such a folder to write to."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__pycache__")
    return FileSystemBytecodeCache(folder) if os.access(folder, os.W_OK) else None
