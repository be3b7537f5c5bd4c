"""A shell script that a job runs as its program: what it starts in each process."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.launchers import find_agent
from jobgen.batchscript.reader import LaunchCommand, read
from jobgen.errors import JobgenError
from jobgen.programs.rules import JobSize, Remark, check_program

# What a script sets over the job's, in each process.
_SETS = re.compile(
    r"^\s*(?:export\s+)?(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|(?:LOCAL_)?RANK|CUDA_VISIBLE_DEVICES)"
    r"""=["']?([^\s"';$`]+)""",
    re.MULTILINE,
)
_MEETING = ("--node-rank", "--master-addr", "--rdzv-endpoint")


def check_wrapper(path: str, size: JobSize) -> list[Remark]:
    """Return what a shell script starts that the job has started already, by lint's own finder.

    The Python programs that it starts are looked into as if the spec named them.
    """
    try:
        wrapper = read(path)
    except (JobgenError, OSError):
        return []
    remarks: list[Remark] = []
    for launch in wrapper.launches:
        remarks += _find_own_launcher(path, launch, size)
        program = launch.started.program
        if len(program) > 1 and program[0].text.startswith("python"):
            script = next((word.text for word in program[1:] if not word.text.startswith("-")), "")
            if script.endswith(".py"):
                remarks += check_program(script, size)
    return remarks or list(_find_settings(path, wrapper.text, size))


def _find_settings(path: str, text: str, size: JobSize) -> Iterator[Remark]:
    for match in _SETS.finditer(text):
        name, value = match[1], match[2]
        if name == "CUDA_VISIBLE_DEVICES" and value.count(",") + 1 >= size.processes:
            continue
        message = f"it sets {name} to {value}, over what the job has set"
        rule = "visible-devices" if name.startswith("CUDA") else "own-rendezvous"
        line = text.count("\n", 0, match.start(1)) + 1
        hint = "leave it to jobgen and the scheduler, which set it for every process"
        if size.world_size > 1:
            yield Remark(path, line, rule, message, hint, True)


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
