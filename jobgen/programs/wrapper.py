"""A shell script that a job runs as its program: what it starts in each process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from jobgen.batchscript.launchers import LaunchCommand
from jobgen.batchscript.lint import ABOUT_LAUNCH, check
from jobgen.batchscript.reader import Script, read
from jobgen.errors import JobgenError
from jobgen.programs.program import read_table
from jobgen.programs.rules import JobSize, Remark, check_program, make_remark
from jobgen.spec.launchers import read_names

# What loses the exit code of a program, so that the job counts as done.
_ABOUT_CODES = ("hidden-exit", "tee-status")
_MEETING = ("--node-rank", "--master-addr", "--rdzv-endpoint")


def check_body(path: str, directives: Iterable[str]) -> list[Remark]:
    """Return what lint finds of launch lines in a script that starts its own, as this job has it.

    `directives` are the lines that the job asks its scheduler by.
    """
    try:
        text = read(path).text
    except JobgenError:
        return []
    head = ["#!/bin/bash", *directives]
    remarks = _lint(path, text, head, (*ABOUT_LAUNCH, *_ABOUT_CODES))
    for line in read_table("scripts.txt"):
        name, form = line.split(" ", 1)
        if name == "no-wait":
            places = [match.start("at") for match in re.finditer(form, text, re.MULTILINE)]
            remarks += [make_remark(name, path, text.count("\n", 0, at) + 1) for at in places]
    return remarks


def _lint(path: str, text: str, head: list[str], rules: tuple[str, ...]) -> list[Remark]:
    """Return what some of lint's rules find in a script that stands below other lines."""
    return [
        Remark(path, one.line - len(head), one.rule.id, one.message, one.fix, certain=True)
        for one in check(Script(path, "\n".join([*head, text])))
        if one.rule.id in rules and (not one.note or one.rule.id in _ABOUT_CODES)
    ]


def check_wrapper(path: str, size: JobSize) -> list[Remark]:
    """Return what a shell script starts that the job has started already, by lint's own finder.

    The Python programs that it starts are looked into as if the spec named them.
    """
    try:
        wrapper = read(path)
    except JobgenError:
        return []
    remarks = _find_unread(path, wrapper, size)
    # Where another folder, or a container, has the files.
    moves = re.search(rf"\b(cd|pushd|{'|'.join(read_names('containers'))}) ", wrapper.text)
    for launch in wrapper.launches:
        remarks += _find_own_launcher(path, launch, size)
        remarks += _check_python(path, launch, size, here=not moves)
    lines = read_table("scripts.txt") if size.world_size > 1 else []
    if remarks:  # what a script with a launcher of its own sets may be for that
        lines = [line for line in lines if line[0] != "!"]
    remarks += _lint(path, wrapper.text, [], _ABOUT_CODES)
    for line in lines:
        remarks += _find_lines(path, wrapper.text, size, line)
    return remarks


def _find_unread(path: str, wrapper: Script, size: JobSize) -> list[Remark]:
    """Return that a script reads none of the arguments that it is given, if so."""
    started = [one.place.line for one in wrapper.launches if one.started.program]
    if not size.arguments or not started:
        return []
    if re.search(r"\$\{?[@*#\d]|\bshift\b|getopts", wrapper.text):
        return []
    count = len(size.arguments)
    return [make_remark("unread-argument.script", path, started[-1], count=count)]


def _check_python(path: str, launch: LaunchCommand, size: JobSize, *, here: bool) -> list[Remark]:
    """Look into a Python program that a shell script starts; it and its files may be `here`."""
    name, *words = [word.text for word in launch.started.program] or [""]
    script = next((word for word in words if not word.startswith("-")), "")
    if not name.startswith("python") or not script.endswith(".py"):
        return []
    arguments = words[words.index(script) + 1 :]
    if "$@" in arguments:
        at = arguments.index("$@")
        arguments[at : at + 1] = size.arguments or ()
    given = tuple(arguments) if here and size.arguments is not None else None
    remarks = check_program(script, size._replace(arguments=given))
    elsewhere = script.startswith("/") or "$" in script
    if here and not elsewhere and not os.path.exists(script):
        remarks.append(make_remark("not-here", path, launch.place.line, name=script))
    return remarks


def _find_lines(path: str, text: str, size: JobSize, rule: str) -> Iterator[Remark]:
    name, form = rule.strip("!").split(" ", 1)
    for match in re.finditer(form, text, re.MULTILINE):
        values = size._asdict() | match.groupdict()
        if name != "visible-devices" or match["value"].count(",") + 1 < size.processes:
            yield make_remark(name, path, text.count("\n", 0, match.start("at")) + 1, **values)


def _find_own_launcher(path: str, launch: LaunchCommand, size: JobSize) -> Iterator[Remark]:
    agent, torchrun = launch.started.agent, launch.started.torchrun
    names = [launcher.name for launcher in launch.started.launchers]
    if agent:
        names = [agent.words]
    meets = torchrun and torchrun.find("--nnodes") and torchrun.find(*_MEETING)
    if not names or (size.processes == 1 and (size.nodes == 1 or meets)):
        return
    kind = "processes" if size.processes > 1 else "nodes"
    direct = "; or write launch: {mode: direct, processes_per_node: 1}" if size.nodes == 1 else ""
    values = size._asdict() | {"name": names[0], "otherwise": direct}
    yield make_remark(f"own-launcher.{kind}", path, launch.place.line, **values)
