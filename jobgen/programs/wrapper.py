"""A shell script that a job runs as its program: what it starts in each process."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import chain

from jobgen.batchscript.bash import Word
from jobgen.batchscript.launchers import LaunchCommand, unwrap
from jobgen.batchscript.lint import ABOUT_LAUNCH, check
from jobgen.batchscript.reach import find_reach
from jobgen.batchscript.reader import Script, read
from jobgen.errors import JobgenError
from jobgen.programs.look import check_program
from jobgen.programs.remark import SEVERAL, JobSize, Remark, make_remark, read_rules
from jobgen.programs.source import list_started
from jobgen.programs.text import read_form
from jobgen.spec.launchers import read_names

# What loses the exit code of a program, so that the job counts as done.
_ABOUT_CODES = ("hidden-exit", "tee-status")
_MEETING = ("--node-rank", "--master-addr", "--rdzv-endpoint")


def check_body(path: str, directives: Sequence[str]) -> list[Remark]:
    """Return what lint finds of launch lines in a script that starts its own, as this job has it.

    `directives` are the lines that the job asks its scheduler by.
    """
    try:
        text = read(path).text
    except JobgenError:
        return []
    head = "".join(f"{line}\n" for line in ("#!/bin/bash", *directives))
    remarks = _lint(path, text, head, (*ABOUT_LAUNCH, *_ABOUT_CODES))
    return [*remarks, *_find_lines(path, text, SEVERAL, "no-wait|unread-directive")]


def _lint(path: str, text: str, head: str, rules: tuple[str, ...]) -> list[Remark]:
    """Return what some of lint's rules find in a script that stands below other lines."""
    above = head.count("\n")
    remarks = []
    for one in check(Script(path, head + text)):
        if one.rule.id in rules:
            message = re.sub(r"(?<=in line )\d+", lambda at: str(int(at[0]) - above), one.message)
            remarks.append(Remark(path, one.line - above, one.rule.id, message, one.fix, True))
    return remarks


def take_launcher(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the launcher that a command begins with, and what it starts."""
    started = unwrap(tuple(Word(shlex.quote(word), 1, 1) for word in words))
    return started.launchers[-1].name, started.texts


def check_started(job: Script) -> list[Remark]:
    """Return that Python programs of a job script train alone, or leave GPUs idle, by its launches.

    A program is looked for in this folder and beside the script, or where the script moves to.
    """
    folders = _list_folders(job)
    remarks = chain(*(_check_launch(job, launch, folders) for launch in job.launches))
    return list(dict.fromkeys(remarks))


def _list_folders(job: Script) -> list[str]:
    moves = read_form("moves-away").findall(job.text)
    if not moves:
        return ["", os.path.dirname(job.path)]
    folder = os.path.expandvars(os.path.expanduser(moves[0]))
    return [folder] if len(moves) == 1 and os.path.isabs(folder) else []


def _check_launch(job: Script, launch: LaunchCommand, folders: Sequence[str]) -> list[Remark]:
    size, agent = _measure_launch(job, launch), launch.started.agent
    program = agent.program if agent else launch.started.program
    file = [*list_started([word.text for word in program]), ""][0]
    paths = [path for folder in folders if os.path.isfile(path := os.path.join(folder, file))]
    return _find_alone(paths[0], size) if paths and file.endswith(".py") else []


def _measure_launch(job: Script, launch: LaunchCommand) -> JobSize:
    """Return how often a launch starts its program: a world of 0 where one process has all GPUs."""
    agent, gpus = launch.started.agent, job.request.gpus
    nodes, each = find_reach(job, launch)
    each *= agent.count_processes() if agent else 1
    world = nodes * each
    steps = "" if agent else "".join(one.name for one in launch.started.launchers[-1:])
    world = 0 if world == 1 < gpus else world
    return JobSize(nodes, each, world, agent is not None, gpus, stepped=steps, setup=job.text)


def _find_alone(path: str, size: JobSize) -> list[Remark]:
    several = size._replace(world_size=size.world_size or size.gpus)
    sure = [one for one in check_program(path, several) if one.certain]
    remarks = [one for one in sure if one.rule in ("no-process-group", "untold-rank")]
    if size.world_size or not remarks:
        return remarks if size.world_size else _find_idle(path, size)
    drives = read_form("several-gpus").search(read(path).text)
    return [] if drives else [make_remark("idle-gpus.alone", path, gpus=size.gpus)]


def _find_idle(path: str, size: JobSize) -> list[Remark]:
    """Return that each process of a program drives one GPU, where one process has several."""
    idle = [x for x in check_program(path, size._replace(world_size=1)) if x.rule == "idle-gpus"]
    return [make_remark("idle-gpus.one", *one[:2], gpus=size.gpus) for one in idle]


def check_wrapper(path: str, size: JobSize) -> list[Remark]:
    """Return what a shell script starts that the job has started already, by lint's own finder.

    The Python programs that it starts are looked into as if the spec named them.
    """
    try:
        wrapper = read(path)
    except JobgenError:
        return []
    # Where another folder, or a container, has the files.
    moves = re.search(rf"\b(cd|pushd|{'|'.join(read_names('containers'))}) ", wrapper.text)
    remarks = [*_find_unread(path, wrapper, size)]
    for launch in wrapper.launches:
        remarks += _find_own_launcher(path, launch, size)
        remarks += _check_python(path, launch, size, here=not moves)
    # What a script with a launcher of its own sets may be for that.
    rules = "(?!own-rendezvous|visible-devices)" if remarks else ""
    remarks += _lint(path, wrapper.text, "", _ABOUT_CODES)
    return [*remarks, *_find_lines(path, wrapper.text, size, rules)]


def _find_unread(path: str, wrapper: Script, size: JobSize) -> Iterator[Remark]:
    """Yield that a script does not read its arguments."""
    started = [one.place.line for one in wrapper.launches if one.started.program]
    given = [*(size.arguments or ()), *size.swept[0]]
    if started and given and not read_form("reads-words").search(wrapper.text):
        yield make_remark("unread-argument.script", path, started[-1], count=len(given))


def _check_python(
    path: str, launch: LaunchCommand, size: JobSize, *, here: bool
) -> Iterator[Remark]:
    """Look into a Python program that a shell script starts; it and its files may be `here`."""
    words = [word.text for word in launch.started.program]
    file, *arguments = list_started(words) or [""]
    if not (file.endswith(".py") and words[0].startswith("python")):
        return
    given = _put_arguments(arguments, size.arguments) if here else None
    yield from check_program(file, size._replace(arguments=given))
    if here and not re.match(r"/|.*\$", file) and not os.path.exists(file):
        yield make_remark("not-here", path, launch.place.line, name=file)


def _put_arguments(words: Sequence[str], given: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return a program's words with those that its script is given; None if these are unknown."""
    if given is None:
        return None
    return (*chain.from_iterable(given if word == "$@" else (word,) for word in words),)


def _find_lines(path: str, text: str, size: JobSize, rules: str) -> Iterator[Remark]:
    """Yield what the lines of a script have, by rules with such a name."""
    own = {name: rule["script"] for name, rule in read_rules().items() if "script" in rule}
    for name in filter(re.compile(rules).match, own) if size.world_size > 1 else ():
        form = own[name].replace("<<few>>", str(size.processes - 2))
        for match in re.finditer(form, text, re.MULTILINE):
            values = size._asdict() | match.groupdict()
            yield make_remark(name, path, text.count("\n", 0, match.start("at")) + 1, **values)


def _find_own_launcher(path: str, launch: LaunchCommand, size: JobSize) -> Iterator[Remark]:
    agent, torchrun = launch.started.agent, launch.started.torchrun
    names = [agent.words] if agent else [one.name for one in launch.started.launchers]
    meets = torchrun and torchrun.find("--nnodes") and torchrun.find(*_MEETING)
    one, several = size.nodes == 1, size.processes > 1
    kind = "processes" if several else "nodes"
    direct = "; or write launch: {mode: direct, processes_per_node: 1}" if one else ""
    if names and (several or not (one or meets)):
        values = size._asdict() | {"name": names[0], "otherwise": direct}
        yield make_remark(f"own-launcher.{kind}", path, launch.place.line, **values)
