"""Rules on how programs start, and on how many of the job's nodes: launchers and exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import DECLARES
from jobgen.batchscript.directives import count_nodes_of_totals
from jobgen.batchscript.launchers import LaunchCommand, Launcher, find_agent, list_inner, unwrap
from jobgen.batchscript.lint.rule import SRUN, TORCHRUN, TRAINS, Fault, rule
from jobgen.batchscript.purposes import FILTERS, HARMLESS
from jobgen.batchscript.reader import Script, read_number

_STARTS = re.compile(r"\b(pdsh|ssh|sshlogin|slf|ray|dask|srun|mpirun|mpiexec|aprun)\b")
# Hand on what they are told of the nodes, by variables and files, and start nothing.
_HANDS_ON = FILTERS | HARMLESS | {*DECLARES, "mapfile", "readarray", "read", ""}


def _reaches_others(script: Script) -> bool:
    """Whether a command starts something by a launcher, or gets the names of the other nodes."""
    known = "NODEFILE|NODELIST|hostfile"
    for launch in script.launches:
        command = launch.command
        texts = [word.raw for word in command.all_words]
        text = " ".join(texts + [doc.body for doc in command.heredocs])
        started = _STARTS.search(text) and command.name not in ("echo", "printf")
        started = started or bool(launch.started.launchers)
        if started and not _starts_one(script, launch):
            return True
        if not re.search(known, text):
            continue
        if command.name not in _HANDS_ON:
            return True
        names = {name for name, _, raw in command.variables() if re.search(known, raw)}
        names |= command.list_changed() | set(texts[1:2] if command.name == "for" else ())
        files = {item.target.text for item in command.redirects if item.operator[-1] == ">"}
        patterns = [*(rf"\b{name}\b" for name in names), *map(re.escape, files - {"/dev/null"})]
        known = "|".join([known, *patterns])
    return False


def _starts_one(script: Script, launch: LaunchCommand) -> bool:
    """Whether all that its launchers start is one process, wherever the first node is."""
    launchers = launch.started.launchers
    names = {option for item in launchers for option, _ in item.options}
    placed = names & {"-N", "--nodes", "-w", "--nodelist", "-r", "--relative", "-H", "--host"}
    if placed or launch.command.inside or launch.command.end == "&":
        return False
    return {_count_tasks(script, item)[1] for item in launchers} == {1}


def _is_inner(launch: LaunchCommand) -> bool:
    """Whether it stands where another command may start it on every node."""
    return bool({"function", "heredoc"} & set(launch.command.inside))


@rule("first-node-only", "A program on the first of several nodes", TORCHRUN)
def _find_first_node_only(script: Script) -> Iterator[Fault]:
    """The script itself runs on one node. What no launcher starts on the others leaves them idle,
    and a torchrun with their --nnodes waits until it times out, while all GPUs are paid for.

    Fix: start it on every node, by srun, pbsdsh or mpiexec
    """
    nodes = script.nodes or count_nodes_of_totals(script)
    asked = script.count("--nodes") or 0
    for item in script.directives if asked > nodes else ():
        if item.option == "--ntasks" and item.read:
            message = f"Slurm gives {nodes} of the {asked} nodes, no more than there are tasks"
            yield Fault(item.line, item.column, message, fix="ask for --ntasks-per-node=1 instead")
    launched = _reaches_others(script)
    for launch in script.launches if script.nodes != 1 or not script.scheduler else ():
        agent, program = launch.torchrun, launch.started.program
        if (launch.started.launchers and launched) or _is_inner(launch):
            continue
        count = (agent.value("--nnodes") or "") if agent else ""
        several = re.fullmatch(r"(\d{2,}|[2-9])(:\d+)?", count) or "$" in count
        python = launch.started.name.startswith("python") and not find_agent(program)
        names = [word.text for word in program if word.text.endswith(".py")]
        python = python and not launched and names not in ([], ["setup.py"])
        if several or (not count and nodes > 1 and (agent or python)):
            of = count if count.isdigit() else nodes if nodes > 1 else "several"
            message = f"{'torchrun' if agent else 'this'} starts on the first of {of} nodes alone"
            yield Fault(launch.place.line, launch.place.column, message)
            if not agent:
                return


@rule("other-nnodes", "--nnodes that is not the job's", TORCHRUN)
def _find_other_nnodes(script: Script) -> Iterator[Fault]:
    """An agent waits until as many nodes have joined as --nnodes says, and takes no more. Without
    --nnodes it is for one node: every node trains the same model alone.

    Fix: write --nnodes=$SLURM_NNODES, and the first node's address by --rdzv-endpoint
    """
    nodes = script.nodes or 0
    exported = re.search(r"^[^#\n]*(\bnnodes\b|\bPET_NNODES\b)", script.text, re.MULTILINE)
    for launch in script.launches:
        agent, launchers = launch.torchrun, launch.started.launchers
        if not agent or not nodes:
            continue
        word = agent.options.get("--nnodes")
        count = int(word.text) if word and re.fullmatch(r"\d{1,5}", word.text, re.ASCII) else 1
        # One of several jobs that meet has a rank of its own.
        ranked = re.fullmatch(r"[1-9]\d*", agent.value("--node-rank") or "")
        open_ = agent.program[:1] and agent.program[0].text[:1] in ("$", "@", "{")
        counts = [_count_tasks(script, item) for item in launchers]
        each = all(taken == nodes and tasks != 1 for taken, tasks in counts)
        if word and count not in (1, nodes) and not ranked and not _is_inner(launch):
            waits = "waits forever for the others" if count > nodes else "leaves nodes idle"
            message = f"--nnodes is {count}, the job has {nodes} nodes: it {waits}"
            yield Fault(word.line, word.column, message)
        elif nodes > 1 and launchers and each and not exported and not open_:
            message = f"torchrun is not told of the {nodes} nodes, and takes each for the only one"
            yield Fault(launch.place.line, launch.place.column, message)


@rule("two-agents", "Several torchrun agents a node", TORCHRUN)
def _find_two_agents(script: Script) -> Iterator[Fault]:
    """Each agent starts processes for all GPUs of its node, so several share each GPU, and the
    world is larger than --nnodes says.

    Fix: start one agent a node: srun --ntasks-per-node=1
    """
    for launch in script.launches:
        launchers = launch.started.launchers
        if launch.torchrun and [item.name for item in launchers] == ["srun"]:
            nodes, tasks = _count_tasks(script, launchers[0])
            if nodes and tasks and tasks // nodes > 1:
                each = tasks // nodes
                message = f"srun starts {each} torchrun agents on each node, for the same GPUs"
                yield Fault(launchers[0].word.line, launchers[0].word.column, message)


def _count_tasks(script: Script, srun: Launcher) -> tuple[int | None, int | None]:
    """How many nodes srun takes, and how many tasks it starts on all; None where that is open."""
    if any(option[0] == "$" for option, _ in srun.options):
        return None, None
    asked = srun.value("-N", "--nodes")
    nodes = read_number(asked) or None if asked else script.nodes
    tasks = srun.value("-n", "--ntasks", "-np", "--np")
    each = srun.value("--ntasks-per-node")
    if tasks is None and each is None and script.directives:
        tasks, each = script.value("--ntasks"), script.value("--ntasks-per-node")
    if tasks is None and nodes and (script.directives or each):
        return nodes, nodes * read_number(each or "1") or None
    return nodes, read_number(tasks) or None


def _list_sruns(script: Script) -> Iterator[Launcher]:
    """Each srun that starts a program of the kind that trains."""
    seen = set()
    for launch in script.launches:
        for launcher in launch.started.launchers:
            key = (launcher.word.line, launcher.word.column)
            if launcher.name == "srun" and key not in seen:
                seen.add(key)
                inner = list_inner(launch.started, launch.command)
                programs = [unwrap(item.words).name for item in inner] or [launch.started.name]
                open_ = any(option[0] == "$" for option, _ in launcher.options)
                ends = [word.text for word in launch.started.program[:2]] == ["ray", "stop"]
                if any(map(TRAINS.fullmatch, programs)) and not open_ and not ends:
                    yield launcher


def _sets(script: Script, name: str) -> bool:
    return any(name == set_ for command in script.commands for set_, _, _ in command.variables())


@rule("srun-cpus", "srun without CPUs", SRUN)
def _check_srun_cpus(script: Script) -> Iterator[Fault]:
    """srun gives a task one CPU unless told; between 22.05 and 23.02 it does not take the number
    from sbatch, and all processes share one core.

    Fix: add --cpus-per-task to srun itself
    """
    if _sets(script, "SRUN_CPUS_PER_TASK"):
        return
    for srun in _list_sruns(script):
        stated = srun.value("-c", "--cpus-per-task", "--cpus-per-gpu") or script.value(
            "--cpus-per-gpu"
        )
        asked = script.value("--cpus-per-task")
        if stated is None and asked not in (None, "1"):
            whole = script.value("--exclusive") is not None
            message = "srun is not told the CPUs of a task"
            yield Fault(srun.word.line, srun.word.column, message, whole)


@rule("srun-kill", "srun without --kill-on-bad-exit", SRUN)
def _check_srun_kill(script: Script) -> Iterator[Fault]:
    """By default the other tasks go on when one fails, and wait for it for minutes or hours.

    Fix: add --kill-on-bad-exit=1 to srun
    """
    if _sets(script, "SLURM_KILL_BAD_EXIT"):
        return
    for srun in _list_sruns(script):
        flag = srun.value("-K", "--kill-on-bad-exit")
        if flag in (None, "0") and _count_tasks(script, srun)[1] != 1:
            message = "srun goes on when one of its tasks has failed"
            yield Fault(srun.word.line, srun.word.column, message)


@rule("early-expansion", "A task's own variable, expanded too early", SRUN)
def _find_early(script: Script) -> Iterator[Fault]:
    """The shell of the script expands the line before srun starts a task, so every task gets the
    first one's number.

    Fix: put the command in single quotes: srun ... bash -c '...'
    """
    pattern = re.compile(r"\$\{?(SLURM_(?:PROCID|NODEID|LOCALID))\b")
    if script.directives and script.nodes == 1 and script.request.tasks == 1:
        return
    agents = [launch.torchrun for launch in script.launches]
    under_c10d = any(agent.value("--rdzv-backend") == "c10d" for agent in agents if agent)
    for command in script.commands:
        if {"function", "heredoc"} & set(command.inside):
            continue
        launched = any(launcher.name == "srun" for launcher in unwrap(command.words).launchers)
        words = command.words if launched else tuple(word for _, word, _ in command.variables())
        for word in words:
            match = pattern.search(re.sub(r"'[^']*'", "", word.active))
            if match and not (under_c10d and "rank" in word.raw.lower()):
                message = f"${match[1]} expands here, on the first node, where it is 0"
                fix = "" if launched else "set it inside what srun starts: srun bash -c 'NAME=$...'"
                yield Fault(word.line, word.column, message, fix=fix)
