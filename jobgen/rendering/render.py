"""From a plan to the text of its script. The only module that knows Jinja2.

Every `{{ value }}` of a template comes out as one shell word, whatever is in it: `finalize` quotes
each. A template's author asks for anything else by name: `words` for several words, `verbatim` for
text that is shell already.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FunctionLoader, StrictUndefined

from jobgen.plan.plan import NeededPath, Plan, ShellPath
from jobgen.rendering.runtime import assemble, read_text
from jobgen.rendering.view import describe_script

_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
# What jobgen and launchers set, some of it for processes alone.
_OF_PROCESSES = r"JOBGEN_(?!TASK)\w+|(?:OMPI|PMIX?|PALS|MV2|MPI)_\w+"


class ShellText(str):
    """Text of a script, with every word quoted."""


def render(plan: Plan) -> str:
    """Return the script of `plan`: the same text at every call, on every machine."""
    view = describe_script(plan)
    part_1 = _make_environment().get_template("job/script.sh.j2").render(view=view, plan=plan)
    return part_1 + assemble(view, os.path.join(find_template_folder(), "runtime"))


def quote(value: object) -> ShellText:
    """`value` as one shell word; text that was marked as shell stays as it is.

    Raises TypeError for what has no obvious word (None, True, a list): the template is wrong.
    """
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, StrictUndefined):
        str(value)  # raises jinja2's own error, which names it
    raise TypeError(f"no shell word for {value!r}")


@lru_cache(1000)  # scripts of one kind share most of their words
def _quote_literal(text: str) -> ShellText:
    """A word in which nothing expands; double quotes show that a `$` is meant to stay one."""
    odd = re.search(r"[$`\\]", text)
    return ShellText(f'"{_escape_quoted(text)}"' if odd else shlex.quote(text))


@lru_cache(1000)
def _quote_expandable(path: str, unset: str | None = None) -> ShellText:
    """A word in which only $NAME, ${NAME} and a leading ~ are the shell's business.

    With `unset`, it ends the shell where a variable is not set whose name has another form.
    """
    if path == "~" or path.startswith("~/"):
        path = "$HOME" + path[1:]
    if not _VARIABLE.search(path):
        return _quote_literal(path)
    parts, end = [], 0
    for match in _VARIABLE.finditer(path):
        name = match[1] or match[2]
        must = "" if unset is None or re.fullmatch(unset, name) else "?"
        parts += [_escape_quoted(path[end : match.start()]), f"${{{name}{must}}}"]
        end = match.end()
    return ShellText('"' + "".join(parts) + _escape_quoted(path[end:]) + '"')


def _escape_quoted(text: str) -> str:
    return re.sub(r'(["$`\\])', r"\\\1", text)


# How each type of value becomes a word.
_WRITERS: dict[type, Callable[[Any], ShellText]] = {
    str: _quote_literal,
    ShellPath: _quote_expandable,
    NeededPath: lambda path: _quote_expandable(path, f"{_OF_PROCESSES}|{path.adds_to}"),
    int: ShellText,
    ShellText: ShellText,
}


def _quote_words(values: Iterable[object]) -> ShellText:
    return ShellText(" ".join(map(quote, values)))


@cache
def find_template_folder() -> str:
    """Return `templates/`: inside an installed package, or beside the package in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "templates")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "templates")


def _read_template(name: str, *outer: str) -> str:
    """Return a template with those that it includes in its text, but for one within itself."""
    within = (name, *outer)

    def put(line: re.Match[str]) -> str:
        return line[0] if line[1] in within else _read_template(line[1], *within)

    text = read_text(os.path.join(find_template_folder(), name))
    return re.sub(r'{% include "(.+)" %}\n', put, text)


@cache
def _make_environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_read_template),
        bytecode_cache=_find_bytecode_cache(),
        auto_reload=False,
        cache_size=-1,
        finalize=quote,
        undefined=StrictUndefined,
        comment_start_string="{%#",  # bash has its own use for {#
        comment_end_string="#%}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters = {"words": _quote_words, "verbatim": ShellText}
    environment.getattr = getattr  # type: ignore[assignment,method-assign]  # no keys of mappings
    return environment


def _find_bytecode_cache() -> FileSystemBytecodeCache | None:
    """Compiled templates in the user's own cache folder; as they are programs, only the user's."""
    if not hasattr(os, "geteuid"):  # in a browser there are no users, and nothing is kept
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(home, "jobgen", "scripts")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        about = os.stat(folder)
    except OSError:
        return None
    own = about.st_uid == os.geteuid() and not about.st_mode & 0o022
    return FileSystemBytecodeCache(folder) if own and os.access(folder, os.W_OK) else None
