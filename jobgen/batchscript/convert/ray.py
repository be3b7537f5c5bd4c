"""A script that starts a Ray on its nodes by hand, without the lines that do it.

What is left starts a program, which `launch.mode: ray` runs once Ray is up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import Command
from jobgen.batchscript.convert.straight import NotStraightError, group_commands
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.purposes import HEADS, PRINTS
from jobgen.batchscript.reader import Script

_RAY = {"start", "stop", "status", "health-check"}
# What stands around `ray start`: asking, waiting, and looking for addresses.
_AROUND = HEADS | PRINTS | {"", ":", "[", "[[", "export", "declare", "let", "read", "sleep", "wait"}
# Options whose values the program may want as well: they are no address.
_AMOUNTS = re.compile(r"--(num-cpus|num-gpus|memory|object-store-memory|resources)\b")
_SAID = re.compile(r"--(block|head|address|node-ip-address|port|redis-password|num-[cg]pus)\b")
_NAME = re.compile(r"\$(?:\{[#!]?)?([A-Za-z_]\w*)|\b([A-Za-z_]\w*)(?=\s*(?:[-+*/<]|\+\+|\)\)))")
_NO_ADDRESS = re.compile(r"(SLURM|PBS)_\w+|\w*(PATH|HOME|DIR|USER)", re.IGNORECASE)
_ONE_TASK = {
    *(("--nodes", "1"), ("-N", "1"), ("--ntasks", "1"), ("-n", "1"), ("--ntasks-per-node", "1")),
    *(("--overlap", ""), ("--exact", ""), ("-u", ""), ("--unbuffered", "")),
}


def drop_ray(script: Script, draft: Draft) -> Script | None:
    """Return the script without what starts Ray and looks for its address; None if nothing does.

    Raises NotStraightError where a program stands among these lines, or its own line wants what
    they have set.
    """
    groups = group_commands(script)
    starts = [group for group in groups if any(map(_is_ray, group))]
    own = [item.texts for group in starts for item in group if _is_ray(item)]
    heads = [texts for texts in own if "--head" in texts]
    workers = any(text.startswith("--address") for one in own for text in one)
    if len(heads) != 1 or (not workers and draft.values.get("resources.nodes", 1) != 1):
        return None
    _check_starts(starts, draft)
    dropped, names = _find_dropped(groups, starts)
    kept = [group for group in groups if group not in dropped]
    lines = list(script.lines)
    for group in dropped:
        first, last = group[0].place.line, max(item.last_line for item in group)
        lines[first - 1 : last] = [""] * (last - first + 1)
        exported = {name for item in group if item.name == "export" for name in _list_set(item)}
        for name in sorted(exported & names - {"RAY_ADDRESS"}):
            draft.check(first, f"${name}", "is set no more: ray.init() finds Ray by RAY_ADDRESS")
    for group in kept:
        used = {name for item in group for name in _list_used(item)} & names
        if used and not (len(group) == 1 and _run_here(group[0], lines)):
            reason = f"${min(used)} is of the lines that start Ray, and its address differs"
            raise NotStraightError(group[0].place.line, reason)
    return Script(script.path, "\n".join(lines))


def _is_ray(command: Command) -> bool:
    texts = [word.text for word in unwrap(command.words).program[:2]]
    return texts[:1] == ["ray"] and set(texts[1:]) <= _RAY and len(texts) == 2


def _check_starts(starts: list[list[Command]], draft: Draft) -> None:
    """Raise NotStraightError where these lines start more than Ray; note its other options."""
    for item in (item for group in starts for item in group):
        if not _is_ray(item):
            if item.name not in _AROUND:
                raise NotStraightError(item.place.line, f"'{item.name}' runs where Ray starts")
            continue
        started = unwrap(item.words)
        if started.wrapper or started.runner:
            raise NotStraightError(item.place.line, "a container or another command starts Ray")
        for word in (*item.assignments, *started.assignments):
            draft.check(word.line, word.raw, "is not set for Ray, which jobgen starts")
        words = started.program[2:]
        for word, value in zip(words, (*words[1:], *words[-1:]), strict=True):
            amount = re.match(r"--num-[cg]pus", word.text) and "SLURM_" not in word.raw + value.raw
            if amount:
                draft.check(word.line, word.raw, "Ray has the CPUs and GPUs of the job")
            elif word.text.startswith("--") and not _SAID.match(word.text):
                draft.check(word.line, word.raw, "is not said to Ray, which jobgen starts")


def _find_dropped(
    groups: list[list[Command]], starts: list[list[Command]]
) -> tuple[list[list[Command]], set[str]]:
    """Return the lines that are for Ray alone, and the variables that they set."""
    dropped = list(starts)
    names = {name for group in starts for item in group for name in _list_used(item)}
    sets = {name for group in starts for item in group for name in _list_set(item)}
    before = -1
    while before != len(dropped):
        before = len(dropped)
        for group in groups:
            own = {name for item in group for name in _list_set(item)}
            if group in dropped or not all(item.name in _AROUND for item in group):
                continue
            used = {name for item in group for name in _list_used(item)}
            idle = {item.name for item in group} <= {"sleep", "wait"}
            if own & names or used & sets or idle:
                dropped.append(group)
                sets |= own
                names |= used if own & names else set()
    return dropped, sets


def _list_set(command: Command) -> Iterator[str]:
    """Yield the variables that a command sets or exports."""
    yield from (name for name, _, _ in command.variables())
    yield from command.list_changed()
    if command.name in ("export", "declare", "for"):
        yield from (text for text in command.texts[1:2] if text.isidentifier())


def _list_used(command: Command) -> Iterator[str]:
    """Yield the variables that a command expands, but for amounts, folders and the scheduler's."""
    amount = False
    for word in command.all_words:
        if not (amount or (_is_ray(command) and _AMOUNTS.match(word.text))):
            text = word.raw if word.raw.startswith("((") or command.name == "((" else word.active
            for match in _NAME.finditer(text):
                name = match[1] or match[2]
                if not _NO_ADDRESS.fullmatch(name):
                    yield name
        amount = _is_ray(command) and bool(_AMOUNTS.fullmatch(word.text))


def _run_here(command: Command, lines: list[str]) -> bool:
    """Write the line of a program that srun starts on the head's node alone without srun."""
    started = unwrap(command.words)
    if [launcher.name for launcher in started.launchers] != ["srun"] or started.assignments:
        return False
    options = [one for one in started.launchers[0].options if one[0] not in ("-w", "--nodelist")]
    if set(options) - _ONE_TASK or started.wrappers or command.end not in ("\n", ";", ""):
        return False
    write_alone(command, lines)
    return True


def write_alone(command: Command, lines: list[str], *options: str) -> None:
    """Write the line of what srun starts with these words in place of srun and its options."""
    started = unwrap(command.words)
    words = (*started.wrapper, *started.runner, *started.program)
    raw = [*(word.raw for word in command.assignments), *options, *(word.raw for word in words)]
    raw += [item.operator + item.target.raw for item in command.redirects]
    first, last = command.place.line, command.last_line
    lines[first - 1 : last] = [" ".join(raw)] + [""] * (last - first)
