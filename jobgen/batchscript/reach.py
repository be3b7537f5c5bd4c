"""How many of its job's nodes a command starts on, how many processes on each, and which agents.

One table says how each launcher learns them; what only the job knows is None.
"""

from __future__ import annotations

import re

from jobgen.batchscript.launchers import Agent, LaunchCommand, Launcher, read_number
from jobgen.batchscript.reader import Script
from jobgen.records import NamedTuple


class Reach(NamedTuple):
    """The nodes that a command starts on, and the processes on each of them."""

    nodes: int | None
    each: int | None


# Processes of one world are told of Slurm's tasks so.
_RANKED = re.compile(r"^[^#\n]*\bWORLD_SIZE=.*(NTASKS|NPROCS)", re.MULTILINE)
_SPREADS = re.compile(r"--?(map-by|by|rr|pernode|bynode|grr|rank-by)\S*", re.ASCII)


def count_reach(script: Script, launcher: Launcher) -> Reach:
    """Return what one launcher starts of a job that has what the directives of `script` say."""
    if not launcher.row:
        return Reach(None, 1)
    if launcher.is_open:
        return Reach(None, None)
    nodes, each = _count(launcher, "nodes", script.nodes), _count(launcher, "each", None)
    stated = launcher.read("tasks") or launcher.row.get("unsaid")
    tasks = read_number(stated)
    if _is_placed(script, launcher) or (nodes or 0) < (script.nodes or 0):
        return Reach(None, 1 if tasks == 1 else each)
    if stated is None:
        return Reach(nodes, _count(launcher, "each", _count_slots(script)))
    if tasks == 0:
        return Reach(None, each)
    each = _count(launcher, "each", _share(script, launcher, tasks, nodes))
    wide = -(-tasks // each) if each else None
    return Reach(min(wide, nodes or wide) if wide else None, each)


def _count(launcher: Launcher, kind: str, unsaid: int | None) -> int | None:
    """Return the number that an option gives, or None where only the job knows it."""
    text = launcher.read(kind)
    return unsaid if text is None else read_number(text) or None


def _is_placed(script: Script, launcher: Launcher) -> bool:
    """Whether it names some of several nodes; the others are somebody else's."""
    place = launcher.read("places")
    return place is not None and "PBS_NODEFILE" not in place and script.nodes != 1


def _count_slots(script: Script) -> int | None:
    known = script.nodes or script.count("--ntasks-per-node")
    return script.request.tasks if known and script.directives else None


def _share(script: Script, launcher: Launcher, tasks: int, nodes: int | None) -> int | None:
    if tasks == 1:
        return 1
    spread = any(_SPREADS.fullmatch(option) for option, _ in launcher.options)
    if "spreads" not in launcher.row and not spread:
        return min(tasks, _count_slots(script) or 0) or None
    return -(-tasks // nodes) if nodes else None


def find_reach(script: Script, launch: LaunchCommand) -> Reach:
    """Return what a command of the script starts: without a launcher, it runs where that does."""
    nodes: int | None = 1
    each: int | None = 1
    for launcher in launch.started.launchers:
        reach = count_reach(script, launcher)
        nodes = reach.nodes if nodes == 1 else None
        each = (each or 0) * (reach.each or 0) or None
    beside = launch.command.end == "&" or launch.command.is_inner  # others may run beside it
    return Reach(None if beside else nodes, each)


def read_agent(launch: LaunchCommand) -> Agent | None:
    """Return the agent that a command is; None where it is none, or may start the others itself."""
    agent = launch.started.agent
    return None if agent is None or _starts_others(agent) else agent


def list_agents(script: Script) -> list[tuple[LaunchCommand, Agent, Reach]]:
    """Return the agents of a script, and how many of each start."""
    read = [(launch, read_agent(launch)) for launch in script.launches]
    return [(launch, agent, find_reach(script, launch)) for launch, agent in read if agent]


def _starts_others(agent: Agent) -> bool:
    """Whether an agent may start those of the other nodes, or be started by another program."""
    hosts = agent.tell("--hostfile", "-H")
    if agent.called == "deepspeed.launcher.launch" or hosts not in ("", "/dev/null"):
        return True
    configured = agent.options.keys() & {"--config-file", "--use-deepspeed"}  # may be for pdsh
    return bool(configured) and "--machine-rank" not in agent.options


def count_processes(script: Script, launch: LaunchCommand) -> int | None:
    """Return how many processes of one world a command starts on a node; 0 if it starts none.

    None where only the job knows, or where its program may start others itself.
    """
    reach, agent = find_reach(script, launch), read_agent(launch)
    if not launch.started.agent:
        ranked = launch.started.launchers and _RANKED.search(script.text)
        return reach.each if ranked else 0
    if agent is None or agent.is_open or launch.command.end == "&":
        return None
    return agent.count_processes() * (reach.each or 0) or None
