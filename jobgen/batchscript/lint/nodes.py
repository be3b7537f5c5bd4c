"""Rules on where programs run: on how many of the job's nodes, and how many agents on each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.launchers import find_agent, unwrap
from jobgen.batchscript.lint.rule import SRUN, TORCHRUN, Fault, rule
from jobgen.batchscript.reader import Script


@rule("other-nnodes", "--nnodes that is not the job's", TORCHRUN)
def _find_other_nnodes(script: Script) -> Iterator[Fault]:
    """An agent waits until as many nodes have joined as --nnodes says, and takes no more.

    Fix: write --nnodes=$SLURM_NNODES, or the number of the directives
    """
    nodes = script.nodes
    for launch in script.launches:
        agent = launch.torchrun
        count = script.expand(agent.value("--nnodes") or "") if agent else ""
        if agent and re.fullmatch(r"[1-9]\d*", agent.value("--node-rank") or ""):
            continue  # one of several jobs that meet, each with a rank of its own
        if nodes and re.fullmatch(r"\d{1,5}", count, re.ASCII) and int(count) != nodes:
            if int(count) == 1 or {"function", "heredoc"} & set(launch.command.inside):
                continue  # an agent for its node alone, of which missing-nnodes tells
            waits = "waits forever for the others" if int(count) > nodes else "leaves nodes idle"
            message = f"--nnodes is {count}, the job has {nodes} nodes: it {waits}"
            word = agent.options["--nnodes"] if agent else None
            yield Fault(*((word.line, word.column) if word else (launch.place.line, 1)), message)


@rule("part-of-nodes", "A program on one of several nodes", SRUN)
def _find_part_of_nodes(script: Script) -> Iterator[Fault]:
    """The script itself runs on the first node. What no launcher starts elsewhere runs there
    alone, and all nodes are paid for.

    Fix: ask for one node, or start the program by srun, pbsdsh or mpiexec
    """
    nodes = script.nodes
    if nodes is None or nodes < 2:
        return
    if any(launch.started.launchers for launch in script.launches):
        return
    if re.search(r"NODEFILE|NODELIST|hostfile|\b(pdsh|ssh|parallel|ray|dask)\b", script.text):
        return
    for launch in script.launches:
        name, program = launch.started.name, launch.started.program
        python = name.startswith("python") and any(word.text.endswith(".py") for word in program)
        if python and not launch.torchrun and not find_agent(program):
            if {"function", "heredoc"} & set(launch.command.inside):
                continue
            message = f"this runs on the first of {nodes} nodes alone; the others stay idle"
            yield Fault(launch.place.line, launch.place.column, message)
            return


@rule("two-agents", "Several torchrun agents a node", TORCHRUN)
def _find_two_agents(script: Script) -> Iterator[Fault]:
    """Each agent starts processes for all GPUs of its node, so several share each GPU, and the
    world is larger than --nnodes says.

    Fix: start one agent a node: srun --ntasks-per-node=1
    """
    for launch in script.launches:
        if not launch.torchrun or [item.name for item in launch.started.launchers] != ["srun"]:
            continue
        srun = launch.started.launchers[0]
        if any(option[0] == "$" for option, _ in srun.options):
            continue
        each = srun.value("--ntasks-per-node")
        tasks, nodes = srun.value("-n", "--ntasks"), srun.value("-N", "--nodes")
        if each is None and tasks is None:
            each = script.value("--ntasks-per-node")
        count = script.expand(each or "")
        if each is None and tasks is not None and (nodes or script.nodes):
            total = script.expand(tasks)
            of = script.expand(nodes or str(script.nodes))
            if total.isdigit() and of.isdigit() and int(of):
                count = str(int(total) // int(of))
        if re.fullmatch(r"\d{1,4}", count, re.ASCII) and int(count) > 1:
            message = f"srun starts {count} torchrun agents on each node, for the same GPUs"
            yield Fault(srun.word.line, srun.word.column, message)


@rule("serial-agents", "Agents one after the other", TORCHRUN)
def _find_serial_agents(script: Script) -> Iterator[Fault]:
    """A loop goes on when a command has ended, and an agent ends when all nodes have met.

    Fix: end the line with &, and wait after the loop
    """
    for command in script.commands:
        started = unwrap(command.words)
        loops = any(block.opener in ("for", "while") for block in command.blocks)
        names = {launcher.name for launcher in started.launchers}
        if not loops or command.end == "&" or not names & {"ssh", "pbs_tmrsh", "srun"}:
            continue
        text = " ".join(word.text for word in started.program)
        one = any(item.value("-w", "--nodelist") for item in started.launchers) or "ssh" in names
        agent = re.search(r"torchrun|torch\.distributed|--node[_-]rank", text)
        if one and agent and not re.search(r"&\s*[\"']?$", text):
            message = "the loop waits for this node's agent, which waits for the others"
            yield Fault(command.place.line, command.place.column, message)
