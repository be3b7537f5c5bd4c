"""How many of its job's nodes a command starts on, how many processes on each, and which agents.

One table says how each launcher learns them; what only the job knows is 0.
"""

from __future__ import annotations

import math
import re

from jobgen.batchscript.launchers import Agent, LaunchCommand, Launcher, read_number
from jobgen.batchscript.reader import Script
from jobgen.records import NamedTuple


class Reach(NamedTuple):
    """The nodes that a command starts on, and the processes on each of them; 0 where not known."""

    nodes: int = 0
    each: int = 0


class AgentStart(NamedTuple):
    """An agent of a script, and how many of it start."""

    launch: LaunchCommand
    agent: Agent
    reach: Reach


# Processes of one world are told of Slurm's tasks so.
_RANKED = re.compile(r"^[^#\n]*\bWORLD_SIZE=.*(NTASKS|NPROCS)", re.MULTILINE)
_SPREADS = re.compile(r"--?(map-by|by|rr|pernode|bynode|grr|rank-by)\S*", re.ASCII)


class _Asked:
    """What a launcher is asked to start, in a job that has what the directives of `script` say."""

    def __init__(self, script: Script, launcher: Launcher) -> None:
        self.script, self.launcher = script, launcher
        self.stated = launcher.read("tasks") or launcher.row.get("unsaid")
        self.tasks = read_number(self.stated)
        self.nodes = self._read("nodes", script.nodes)

    def _read(self, kind: str, unsaid: int) -> int:
        """Return the number that an option gives; 0 where only the job knows it."""
        text = self.launcher.read(kind)
        return unsaid if text is None else read_number(text)

    @property
    def is_part(self) -> bool:
        """Whether it is for some of several nodes; the others are somebody else's."""
        place = self.launcher.read("places") or "PBS_NODEFILE"  # which has all of them
        named = "PBS_NODEFILE" not in place and self.script.nodes != 1
        return named or self.nodes < self.script.nodes

    @property
    def spreads(self) -> bool:
        """Whether its tasks go to one node after the other, and fill none."""
        spread = any(_SPREADS.fullmatch(option) for option, _ in self.launcher.options)
        return spread or "spreads" in self.launcher.row

    @property
    def slots(self) -> int:
        """How many tasks the job has room for on each node."""
        script = self.script
        known = script.nodes or script.count("--ntasks-per-node")
        return script.request.tasks if known and script.directives else 0

    @property
    def share(self) -> int:
        """How many of its tasks a node gets, where no option says it."""
        if self.tasks == 1:
            return 1
        if not self.spreads:
            return min(self.tasks, self.slots)
        return -(-self.tasks // self.nodes) if self.nodes else 0

    def count(self) -> Reach:
        if self.is_part:
            return Reach(each=1 if self.tasks == 1 else self._read("each", 0))
        if self.stated is None:
            return Reach(self.nodes, self._read("each", self.slots))
        if self.tasks == 0:
            return Reach(each=self._read("each", 0))
        each = self._read("each", self.share)
        if each == 0:
            return Reach()
        wide = -(-self.tasks // each)
        return Reach(min(wide, self.nodes or wide), each)


def count_reach(script: Script, launcher: Launcher) -> Reach:
    """Return what one launcher starts of a job that has what the directives of `script` say."""
    if not launcher.row:
        return Reach(each=1)
    return Reach() if launcher.is_open else _Asked(script, launcher).count()


def find_reach(script: Script, launch: LaunchCommand) -> Reach:
    """Return what a command of the script starts: without a launcher, it runs where that does."""
    nodes = each = 1
    for launcher in launch.started.launchers:
        reach = count_reach(script, launcher)
        nodes = reach.nodes if nodes == 1 else 0
        each *= reach.each
    return Reach(0 if launch.has_others_beside else nodes, each)


def list_agents(script: Script) -> list[AgentStart]:
    """Return the agents of a script, and how many of each start."""
    read = [(launch, launch.agent) for launch in script.launches]
    return [
        AgentStart(launch, agent, find_reach(script, launch)) for launch, agent in read if agent
    ]


def count_processes(script: Script, launch: LaunchCommand) -> float:
    """Return how many processes of one world a command starts on a node; 0 if it starts none.

    Infinite where only the job knows, or where its program may start others itself.
    """
    ranked = launch.started.launchers and _RANKED.search(script.text)
    if not launch.started.agent and not ranked:
        return 0
    return _count_known(launch, find_reach(script, launch).each) or math.inf


def _count_known(launch: LaunchCommand, each: int) -> int:
    agent = launch.agent
    if not launch.started.agent:
        return each
    if agent is None or agent.is_open or launch.command.end == "&":
        return 0
    return agent.count_processes() * each
