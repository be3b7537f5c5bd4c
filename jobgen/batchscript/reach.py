"""How many of its job's nodes a command starts on, how many processes on each, and which agents."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from jobgen.batchscript.bash import Command
from jobgen.batchscript.expand import PlainVariables
from jobgen.batchscript.launchers import Agent, LaunchCommand, Launcher, read_number, unwrap_nested
from jobgen.batchscript.purposes import FORMS
from jobgen.batchscript.reader import Script
from jobgen.records import NamedTuple


class Reach(NamedTuple):
    """The nodes that a command starts on, and the processes on each of them; 0 where not known."""

    nodes: int = 0
    each: int = 0


def count_reach(script: Script, launcher: Launcher) -> Reach:
    """Return what one launcher starts of a job that has what the directives of `script` say."""
    if launcher.is_open or not launcher.row:
        return Reach(each=int(not launcher.row))
    stated = launcher.read("tasks") or launcher.row.get("unsaid")
    tasks, nodes = read_number(stated), launcher.read_count("nodes", script.nodes)
    place = launcher.read("places") or "PBS_NODEFILE"  # which has all of them
    # For some of several nodes, of which the others are somebody else's.
    if nodes < script.nodes or ("PBS_NODEFILE" not in place and script.nodes != 1):
        alone = (launcher.read("one") or "$")[:1].isalnum()  # a variable may be each in turn
        return Reach(int(alone), 1 if tasks == 1 else launcher.read_count("each", 0))
    if stated is None:
        return Reach(nodes, launcher.read_count("each", script.slots))
    return _share_out(script, launcher, tasks, nodes)


def _share_out(script: Script, launcher: Launcher, tasks: int, nodes: int) -> Reach:
    fill = script.slots  # of a node, before the next one gets any
    # Whether each node gets a task before one gets more than another.
    asked = any(map(FORMS["spreads"].fullmatch, dict(launcher.options)))
    if spreads := asked or "spreads" in launcher.row:
        fill = -(-tasks // nodes) if nodes else 0
    each = launcher.read_count("each", min(tasks, max(fill, int(tasks == 1))))
    each = min(each, (spreads and fill) or each)  # what it is told of each node is the most
    wide = -(-tasks // each) if each else 0
    return Reach(min(wide, nodes or wide), each)


def find_reach(script: Script, launch: LaunchCommand) -> Reach:
    """Return what a command of the script starts: without a launcher, it runs where that does."""
    nodes = each = 1
    for launcher in launch.started.launchers:
        reach = count_reach(script, launcher)
        nodes = reach.nodes if nodes == 1 else 0
        each *= reach.each
    return Reach(0 if launch.command.end == "&" else nodes, each)  # it may have others beside it


def list_run(script: Script) -> Iterator[LaunchCommand]:
    """Yield the commands that bash comes to, taken apart, and for a shell those that it runs."""
    before = ""
    for command in script.expanded:
        yield from _list_inside(command)
        sure = not command.blocks and before not in ("&&", "||")
        if sure and re.match("exit|exec .", " ".join(command.texts)):  # nothing runs behind it
            return
        before = command.end


def _list_inside(command: Command) -> list[LaunchCommand]:
    outer, *inner = unwrap_nested(command, PlainVariables({}, {}))
    text = " ".join(command.texts)
    shell = outer.started.name in ("bash", "sh", "") or FORMS["evaluates"].match(text)
    if not (shell and inner):
        return [outer]
    started, last = inner[-1]
    end = last.end if command.end in ("\n", ";") else command.end
    return [*inner[:-1], LaunchCommand(started, last._replace(end=end))]


def list_agents(script: Script) -> Iterator[tuple[LaunchCommand, Agent, Reach]]:
    """Yield the agents of a script, and how many of each start."""
    for launch in script.launches:
        if agent := launch.agent:
            yield launch, agent, find_reach(script, launch)


def count_processes(script: Script, launch: LaunchCommand) -> float:
    """Return an agent's processes on a node: 0 for no agent, infinite where they are not known."""
    if not (agent := launch.started.agent):
        return 0
    known = launch.agent and not agent.is_open and launch.command.end != "&"
    each = find_reach(script, launch).each * (agent.count_processes() if known else 0)
    return each or math.inf
