"""Rules on where programs run: on how many of the job's nodes, and how many agents on each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.launchers import Launcher, find_agent
from jobgen.batchscript.lint.rule import TORCHRUN, Fault, rule
from jobgen.batchscript.reader import LaunchCommand, Script

_OTHER_WAYS = re.compile(r"NODEFILE|NODELIST|hostfile|\b(pdsh|ssh|parallel|ray|dask)\b")


def _is_inner(launch: LaunchCommand) -> bool:
    """Whether it stands where another command may start it on every node."""
    return bool({"function", "heredoc"} & set(launch.command.inside))


@rule("first-node-only", "A program on the first of several nodes", TORCHRUN)
def _find_first_node_only(script: Script) -> Iterator[Fault]:
    """The script itself runs on one node. What no launcher starts on the others leaves them idle,
    and a torchrun with their --nnodes waits until it times out, while all GPUs are paid for.

    Fix: start it on every node, by srun, pbsdsh or mpiexec
    """
    nodes = script.nodes or 1
    launched = any(item.started.launchers for item in script.launches)
    launched = launched or bool(_OTHER_WAYS.search(script.text))
    for launch in script.launches:
        agent, program = launch.torchrun, launch.started.program
        if (
            launch.started.launchers
            or _is_inner(launch)
            or (script.scheduler and script.nodes == 1)
        ):
            continue
        count = script.expand(agent.value("--nnodes") or "") if agent else ""
        several = re.fullmatch(r"(\d{2,}|[2-9])(:\d+)?", count) or "$" in count
        python = launch.started.name.startswith("python") and not find_agent(program)
        python = python and not launched and any(word.text.endswith(".py") for word in program)
        if several or (not count and nodes > 1 and (agent or python)):
            of = count if count.isdigit() else nodes if nodes > 1 else "several"
            message = f"{'torchrun' if agent else 'this'} starts on the first of {of} nodes alone"
            yield Fault(launch.place.line, launch.place.column, message)
            if not agent:
                return


@rule("missing-nnodes", "torchrun on several nodes without --nnodes", TORCHRUN)
def _find_each_alone(script: Script) -> Iterator[Fault]:
    """Without --nnodes an agent is for one node: every node trains the same model alone, or all
    but one agent fail to join the first.

    Fix: add --nnodes, and the first node's address by --rdzv-endpoint
    """
    nodes = script.nodes
    names_them = re.search(r"^[^#\n]*(\bnnodes\b|\bPET_NNODES\b)", script.text, re.MULTILINE)
    if nodes in (None, 0, 1) or names_them:
        return
    for launch in script.launches:
        agent, launchers = launch.torchrun, launch.started.launchers
        if agent is None or not launchers:
            continue
        open_ = agent.program[:1] and agent.program[0].text[:1] in ("$", "@", "{")
        chosen = [launcher.value("-N", "--nodes", "-w", "--nodelist") for launcher in launchers]
        unknown = any(option[0] == "$" for launcher in launchers for option, _ in launcher.options)
        one = any(value is not None and value != str(nodes) for value in chosen)
        if not (open_ or unknown or one or any(count_tasks(script, x)[1] == 1 for x in launchers)):
            message = f"torchrun is not told of the {nodes} nodes, and takes each for the only one"
            yield Fault(launch.place.line, launch.place.column, message)


@rule("other-nnodes", "--nnodes that is not the job's", TORCHRUN)
def _find_other_nnodes(script: Script) -> Iterator[Fault]:
    """An agent waits until as many nodes have joined as --nnodes says, and takes no more.

    Fix: write --nnodes=$SLURM_NNODES, or the number of the directives
    """
    nodes = script.nodes
    for launch in script.launches:
        agent = launch.torchrun
        word = agent.options.get("--nnodes") if agent else None
        count = script.expand(word.text) if word else ""
        # One of several jobs that meet has a rank of its own; 1 is told by missing-nnodes.
        ranked = agent and re.fullmatch(r"[1-9]\d*", agent.value("--node-rank") or "")
        if ranked or _is_inner(launch) or not nodes or not word:
            continue
        if re.fullmatch(r"\d{1,5}", count, re.ASCII) and int(count) not in (1, nodes):
            waits = "waits forever for the others" if int(count) > nodes else "leaves nodes idle"
            message = f"--nnodes is {count}, the job has {nodes} nodes: it {waits}"
            yield Fault(word.line, word.column, message)


@rule("two-agents", "Several torchrun agents a node", TORCHRUN)
def _find_two_agents(script: Script) -> Iterator[Fault]:
    """Each agent starts processes for all GPUs of its node, so several share each GPU, and the
    world is larger than --nnodes says.

    Fix: start one agent a node: srun --ntasks-per-node=1
    """
    for launch in script.launches:
        launchers = launch.started.launchers
        if launch.torchrun and [item.name for item in launchers] == ["srun"]:
            nodes, tasks = count_tasks(script, launchers[0])
            if nodes and tasks and tasks // nodes > 1:
                each = tasks // nodes
                message = f"srun starts {each} torchrun agents on each node, for the same GPUs"
                yield Fault(launchers[0].word.line, launchers[0].word.column, message)


def count_tasks(script: Script, srun: Launcher) -> tuple[int | None, int | None]:
    """How many nodes srun takes, and how many tasks it starts on all; None where that is open."""

    def number(text: str | None) -> int | None:
        text = script.expand(text or "")
        return int(text) if re.fullmatch(r"[1-9]\d{0,5}", text, re.ASCII) else None

    if any(option[0] == "$" for option, _ in srun.options):
        return None, None
    nodes = number(srun.value("-N", "--nodes") or str(script.nodes or ""))
    tasks, each = srun.value("-n", "--ntasks"), srun.value("--ntasks-per-node")
    if tasks is None and each is None and script.directives:
        tasks, each = script.value("--ntasks"), script.value("--ntasks-per-node")
    if tasks is None and nodes and (script.directives or each):
        return nodes, nodes * (number(each or "1") or 0) or None
    return nodes, number(tasks)
