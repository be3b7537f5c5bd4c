"""A Ray on all nodes that a script starts before its program, in the form that Ray's manual has."""

from __future__ import annotations

import re

from jobgen.batchscript.bash import Command
from jobgen.batchscript.convert.straight import NotStraightError, group_commands
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.expand import list_names
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.purposes import HEADS, PRINTS
from jobgen.batchscript.reader import Script

# What stands around such programs: asking, waiting, and looking for addresses.
_AROUND = (
    HEADS
    | PRINTS
    | {"", "export", "declare", "let", "read", "mapfile", "wait", "curl", "kill", "grep"}
)


def drop_ray(script: Script, draft: Draft) -> Script | None:
    """Return the script without the lines that start Ray and look for its address, if it has them.

    Raises NotStraightError where its program wants what these lines have set.
    """
    groups = group_commands(script)
    dropped = [group for group in groups if any(map(_is_ray, group))]
    around = [group for group in groups if all(item.name in _AROUND for item in group)]
    text = "\n".join(_show(group) for group in dropped)
    if text.count("--head") != 1 or "--address" not in text:
        return None
    for item in (item for group in dropped for item in group):
        if item.name not in _AROUND and not _is_ray(item):
            raise NotStraightError(item.place.line, "more than Ray starts where Ray does")
        if "--head" in item.texts:
            draft.check(item.place.line, _show([item]), "here Ray has all CPUs and GPUs of the job")
    used, needed = list_names(text), list[list[Command]]()
    for group in reversed(around):  # what Ray's lines need
        if _list_set(group) & used:
            needed.insert(0, group)
            used |= list_names(_show(group))
    sets = set[str]()
    for group in needed:
        if not _is_plain(group) or list_names(_show(group)) & sets:  # an address, and its like
            dropped.append(group)
            sets |= _list_set(group)
            if group[0].name == "export":
                reason = "is set no more: ray.init() finds Ray by RAY_ADDRESS"
                draft.check(group[0].place.line, _show(group), reason)
    dropped += [x for x in around if list_names(_show(x)) & sets or x[0].name in ("sleep", "wait")]
    lines = list(script.lines)
    for group in groups:
        if group in dropped:
            first, last = group[0].place.line, max(item.last_line for item in group)
            lines[first - 1 : last] = [""] * (last - first + 1)
        elif seen := list_names(_show(group)) & sets:
            reason = f"${min(seen)} is of the lines that start Ray, and its address differs"
            raise NotStraightError(group[0].place.line, reason)
    return Script(script.path, "\n".join(lines))


def _is_plain(group: list[Command]) -> bool:
    """Whether these commands set variables to plain values."""
    sets = all(item.name in ("", "export") for item in group)
    return sets and not re.search(r"\$\(|`|=\(", _show(group))


def _is_ray(command: Command) -> bool:
    started = unwrap(command.words)
    texts = [word.text for word in started.program[:2]]
    plain = not started.wrapper and not started.runner and not started.assignments
    return plain and texts in (["ray", "start"], ["ray", "stop"], ["ray", "status"])


def _show(group: list[Command]) -> str:
    words = [word.raw for item in group for word in item.all_words]
    return " ".join(words + [x.operator + x.target.raw for item in group for x in item.redirects])


def _list_set(group: list[Command]) -> set[str]:
    names = {name for item in group for name, _, _ in item.variables()}
    declares = [item.texts[1] for item in group if item.name in ("export", "for")]
    return names.union(declares, *(item.list_changed() for item in group))
