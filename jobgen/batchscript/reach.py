"""How many of its job's nodes a command starts on, how many processes on each, and which agents.

One table says how each launcher learns them; what only the job knows is None.
"""

from __future__ import annotations

import re

from jobgen.batchscript.bash import Word
from jobgen.batchscript.launchers import (
    LAUNCHER_OPTIONS,
    TORCHRUN_AGENT,
    LaunchCommand,
    Launcher,
    find_agent,
    read_options,
    read_torchrun,
)
from jobgen.batchscript.reader import Script, read_number
from jobgen.records import NamedTuple


class Reach(NamedTuple):
    """The nodes that a command starts on, and the processes on each of them."""

    nodes: int | None
    each: int | None


_SPREADS = re.compile(r"--?(map-by|by|rr|pernode|bynode|grr|rank-by)\S*", re.ASCII)


def count_reach(script: Script, launcher: Launcher) -> Reach:
    """Return what one launcher starts of a job that has what the directives of `script` say."""
    options = LAUNCHER_OPTIONS.get(launcher.name)
    if options is None or any(option[0] == "$" for option, _ in launcher.options):
        return Reach(None, 1 if options is None else None)
    request, known = script.request, bool(script.directives)
    slots = request.tasks if known and (script.nodes or script.count("--ntasks-per-node")) else None
    texts = [launcher.value(*names) for names in (options.tasks, options.each, options.nodes)]
    tasks, each, asked = (read_number(text) or None for text in texts)
    nodes = asked if texts[2] else script.nodes
    place = launcher.value(*options.places)
    part = asked and script.nodes and asked < script.nodes  # the others are somebody else's
    elsewhere = place is not None and "PBS_NODEFILE" not in place and script.nodes != 1
    if part or elsewhere:
        return Reach(None, each if texts[1] or tasks != 1 else 1)
    if texts[0] is None:
        tasks = 1 if options.one else None
    if tasks is None:
        of_node = each if texts[1] else slots if texts[0] is None else None
        return Reach(nodes if texts[0] is None else None, of_node)
    if not texts[1] and options.fills and not _is_spread(launcher):
        each = min(tasks, slots) if slots else 1 if tasks == 1 else None
    elif not texts[1]:
        each = -(-tasks // nodes) if nodes else 1 if tasks == 1 else None
    wide = -(-tasks // each) if each else None
    return Reach(min(wide, nodes) if wide and nodes else wide, each)


def _is_spread(launcher: Launcher) -> bool:
    return any(_SPREADS.fullmatch(option) for option, _ in launcher.options)


def find_reach(script: Script, launch: LaunchCommand) -> Reach:
    """Return what a command of the script starts: without a launcher, it runs where that does."""
    nodes: int | None = 1
    each: int | None = 1
    for launcher in launch.started.launchers:
        reach = count_reach(script, launcher)
        nodes = reach.nodes if nodes == 1 else None
        each = each * reach.each if each and reach.each else None
    if launch.command.end == "&" or {"function", "heredoc"} & set(launch.command.inside):
        nodes = None  # others may run beside it
    return Reach(nodes, each)


class Agent(NamedTuple):
    """A program that starts the processes of its node, and what it knows of the others.

    `nodes` says how many agents it waits for: "1" where it is alone, empty where no option says it.
    `stated` is that option's value. A `static` agent needs its own number, `rank`: it is 0 without.
    """

    name: str
    nodes: str
    processes: str
    rank: str | None
    static: bool
    stated: Word | None
    open: bool  # whether a variable may hold more of its options
    total: bool  # whether `processes` counts those of all nodes


def _dash(option: str) -> str:
    return option.replace("_", "-")


def read_agent(launch: LaunchCommand) -> Agent | None:
    """Return the agent that a command is; None where it is none, or may start the others itself."""
    program = launch.started.program
    torchrun, agent = read_torchrun(program), find_agent(program)
    if torchrun:
        row, options, rest = TORCHRUN_AGENT, torchrun.options, torchrun.program
    elif agent:
        row = agent[0]
        options, rest = read_options(program[agent[1] :])
    else:
        return None
    name = row.words[0]
    stated, processes, rank = (
        next((options[one] for one in map(_dash, names) if one in options), None)
        for names in (row.nodes, row.processes, row.rank)
    )
    hosts = options.get("--hostfile") or options.get("-H")
    itself = {"--config-file", "--use-deepspeed"} & options.keys()  # may be for pdsh
    if (itself and "--machine-rank" not in options) or (hosts and hosts.text != "/dev/null"):
        return None
    if any(word.text == "deepspeed.launcher.launch" for word in program):
        return None
    open_ = any(one[:1] == "$" for one in options) or not rest or rest[0].text[:1] in " $@{"
    stated = None if name == "deepspeed" else stated  # of which it finds no other
    unsaid = "" if open_ or name == "accelerate" else "1"
    met = any("rdzv" in one and one not in ("--rdzv-id", "--rdzv-endpoint") for one in options)
    static = name in ("torchrun", "accelerate") and not open_ and not met
    return Agent(
        name,
        stated.text if stated else unsaid,
        processes.text if processes else "",
        rank.text if rank else None,
        static,
        stated,
        open_,
        row.total,
    )


def count_processes(script: Script, launch: LaunchCommand) -> int | None:
    """Return how many processes of one world a command starts on a node; 0 if it starts none.

    None where only the job knows, or where its program may start others itself.
    """
    agent, reach = read_agent(launch), find_reach(script, launch)
    if launch.started.is_agent:
        if agent is None or agent.open or reach.each is None or launch.command.end == "&":
            return None
        own = agent.processes or ("1" if agent.name == "torchrun" else "")
        count, nodes = read_number(own), read_number(agent.nodes)
        return (count // (nodes or 1) if agent.total else count) * reach.each or None
    commands = (*script.commands, launch.command)
    sizes = [raw for item in commands for name, _, raw in item.variables() if name == "WORLD_SIZE"]
    of_tasks = any(re.search("NTASKS|NPROCS", raw) for raw in sizes)
    return reach.each if of_tasks and launch.started.launchers else 0
