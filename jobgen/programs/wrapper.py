"""A shell script that a job runs as its program: what it starts in each process."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.batchscript.launchers import find_agent
from jobgen.batchscript.reader import LaunchCommand, read
from jobgen.errors import JobgenError
from jobgen.programs.rules import JobSize, Remark, check_program

_MEETING = ("--node-rank", "--master-addr", "--rdzv-endpoint")


def check_wrapper(path: str, size: JobSize) -> list[Remark]:
    """Return what a shell script starts that the job has started already, by lint's own finder.

    The Python programs that it starts are looked into as if the spec named them.
    """
    try:
        launches = read(path).launches
    except (JobgenError, OSError):
        return []
    remarks: list[Remark] = []
    for launch in launches:
        remarks += _find_own_launcher(path, launch, size)
        program = launch.started.program
        if len(program) > 1 and program[0].text.startswith("python"):
            script = next((word.text for word in program[1:] if not word.text.startswith("-")), "")
            if script.endswith(".py"):
                remarks += check_program(script, size)
    return remarks


def _find_own_launcher(path: str, launch: LaunchCommand, size: JobSize) -> Iterator[Remark]:
    torchrun, agent = launch.torchrun, find_agent(launch.started.program)
    if torchrun is not None:
        name = "torchrun"
        meets = torchrun.value("--nnodes") and any(torchrun.value(option) for option in _MEETING)
    elif agent is not None:
        name, meets = " ".join(agent[0].words), False
    elif launch.started.launchers:
        name, meets = launch.started.launchers[0].name, False
    else:
        return
    if size.processes == 1 and (size.nodes == 1 or meets):
        return
    message = f"{name} starts its own processes in each of the job's {size.world_size} processes"
    if size.processes == 1:
        message = f"{name} starts on each of {size.nodes} nodes, and each trains alone"
    hint = "name the program that it starts in run.script, and let jobgen start it"
    if size.nodes == 1:
        hint += "; or write launch: {mode: direct, processes_per_node: 1}"
    yield Remark(path, launch.place.line, "own-launcher", message, hint, True)
