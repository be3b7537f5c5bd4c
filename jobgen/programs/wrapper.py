"""A shell script that a job runs as its program: what it starts in each process."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.launchers import find_agent
from jobgen.batchscript.reader import LaunchCommand, read
from jobgen.errors import JobgenError
from jobgen.programs.rules import JobSize, Remark, check_program, make_remark

# What a script sets over the job's, in each process.
_SETS = re.compile(
    r"^\s*(?:export\s+)?(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|(?:LOCAL_)?RANK|CUDA_VISIBLE_DEVICES)"
    r"""=["']?([^\s"';$`]+)""",
    re.MULTILINE,
)
_SUBMITS = re.compile(r"^\s*(?:\w+=\$\()?(sbatch|qsub)\s", re.MULTILINE)
_CONTAINER = re.compile(
    r"^\s*(?:exec +|sudo +)?(docker|podman) run (?!.*(?:-e|--env\S*) )", re.MULTILINE
)
_BACKGROUND = re.compile(r"^[^#\n]*\bpython[\d.]* [^#\n]*[^&\s]\s*(&)\s*$", re.MULTILINE)
_FAULTS = (("own-launcher.jobs", _SUBMITS), ("container", _CONTAINER), ("no-wait", _BACKGROUND))
_MEETING = ("--node-rank", "--master-addr", "--rdzv-endpoint")


def check_wrapper(path: str, size: JobSize) -> list[Remark]:
    """Return what a shell script starts that the job has started already, by lint's own finder.

    The Python programs that it starts are looked into as if the spec named them.
    """
    try:
        wrapper = read(path)
    except (JobgenError, OSError):
        return []
    remarks = [
        make_remark(rule, path, wrapper.text.count("\n", 0, match.start(1)) + 1)
        for rule, form in _FAULTS
        for match in form.finditer(wrapper.text)
        if rule != "no-wait" or not re.search(r"\bwait\b", wrapper.text)
    ]
    for launch in wrapper.launches:
        remarks += _find_own_launcher(path, launch, size)
        program = launch.started.program
        if len(program) > 1 and program[0].text.startswith("python"):
            script = next((word.text for word in program[1:] if not word.text.startswith("-")), "")
            if script.endswith(".py"):
                remarks += check_program(script, size)
    return remarks or list(_find_settings(path, wrapper.text, size))


def _find_settings(path: str, text: str, size: JobSize) -> Iterator[Remark]:
    for match in _SETS.finditer(text) if size.world_size > 1 else ():
        name, value = match[1], match[2]
        line, count = text.count("\n", 0, match.start(1)) + 1, value.count(",") + 1
        values = size._asdict() | {"name": name, "value": value, "count": count}
        if not name.startswith("CUDA"):
            yield make_remark("own-rendezvous", path, line, **values)
        elif count < size.processes:
            yield make_remark("visible-devices", path, line, **values)


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
        line = launch.place.line
        yield make_remark(f"own-launcher.{kind}", path, line, **values)
