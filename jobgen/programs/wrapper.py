"""A shell script that a job runs as its program: what it starts in each process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from jobgen.batchscript.launchers import find_agent
from jobgen.batchscript.lint import ABOUT_LAUNCH, check
from jobgen.batchscript.reader import LaunchCommand, Script, read
from jobgen.errors import JobgenError
from jobgen.programs.reader import read_table
from jobgen.programs.rules import JobSize, Remark, check_program, make_remark
from jobgen.spec.launchers import CONTAINERS

_MEETING = ("--node-rank", "--master-addr", "--rdzv-endpoint")


def check_body(path: str, directives: Iterable[str]) -> list[Remark]:
    """Return what lint finds of launch lines in a script that starts its own, as this job has it.

    `directives` are the lines that the job asks its scheduler by.
    """
    try:
        text = read(path).text
    except (JobgenError, OSError):
        return []
    head = ["#!/bin/bash", *directives]
    return [
        Remark(path, one.line - len(head), one.rule.id, one.message, one.fix, certain=True)
        for one in check(Script(path, "\n".join([*head, text])))
        if one.rule.id in ABOUT_LAUNCH and not one.note
    ]


def check_wrapper(path: str, size: JobSize) -> list[Remark]:
    """Return what a shell script starts that the job has started already, by lint's own finder.

    The Python programs that it starts are looked into as if the spec named them.
    """
    try:
        wrapper = read(path)
    except (JobgenError, OSError):
        return []
    remarks: list[Remark] = []
    # Where another folder, or a container, has the files.
    moves = re.search(rf"\b(cd|pushd|{'|'.join(CONTAINERS)}) ", wrapper.text)
    for launch in wrapper.launches:
        remarks += _find_own_launcher(path, launch, size)
        name, *words = [word.text for word in launch.started.program] or [""]
        script = next((word for word in words if not word.startswith("-")), "")
        if name.startswith("python") and script.endswith(".py"):
            remarks += check_program(script, size)
            if not (script[0] == "/" or "$" in script or os.path.exists(script) or moves):
                remarks.append(make_remark("not-here", path, launch.place.line, name=script))
    lines = list(_find_lines(path, wrapper.text, size))
    # What it sets may be for a launcher of its own.
    kept = [one for one in lines if one.rule not in ("own-rendezvous", "visible-devices")]
    return remarks + kept or lines


def _find_lines(path: str, text: str, size: JobSize) -> Iterator[Remark]:
    for rule, form in (line.split(" ", 1) for line in read_table("scripts.txt")):
        for match in re.finditer(form, text, re.MULTILINE):
            count = match.groupdict().get("value", "").count(",") + 1
            values = size._asdict() | match.groupdict() | {"count": count}
            enough = rule == "visible-devices" and count >= size.processes
            if size.world_size > 1 and not enough:
                yield make_remark(rule, path, text.count("\n", 0, match.start("at")) + 1, **values)


def _find_own_launcher(path: str, launch: LaunchCommand, size: JobSize) -> Iterator[Remark]:
    torchrun, agent, meets = launch.torchrun, find_agent(launch.started.program), False
    if torchrun is not None:
        name = "torchrun"
        meets = bool(torchrun.value("--nnodes")) and any(map(torchrun.value, _MEETING))
    elif agent is not None:
        name = " ".join(agent[0].words)
    elif launch.started.launchers:
        name = launch.started.launchers[0].name
    else:
        return
    if size.processes > 1 or (size.nodes > 1 and not meets):
        kind = "processes" if size.processes > 1 else "nodes"
        direct = "; or write launch: {mode: direct, processes_per_node: 1}"
        values = size._asdict() | {"name": name, "otherwise": direct * (size.nodes == 1)}
        yield make_remark(f"own-launcher.{kind}", path, launch.place.line, **values)
