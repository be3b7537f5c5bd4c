"""Rules on how programs start, and on how many of the job's nodes: launchers and exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import DECLARES
from jobgen.batchscript.directives import count_nodes_of_totals
from jobgen.batchscript.launchers import (
    LAUNCHER_OPTIONS,
    LaunchCommand,
    Launcher,
    find_agent,
    list_inner,
    unwrap,
)
from jobgen.batchscript.lint.rule import SRUN, TORCHRUN, TRAINS, Fault, rule
from jobgen.batchscript.purposes import FILTERS, HARMLESS, PRINTS, is_pure, list_substituted
from jobgen.batchscript.reach import count_processes, count_reach, find_reach, read_agent
from jobgen.batchscript.reader import Script, read_number

_STARTS = re.compile(r"\b(pdsh|ssh|sshlogin|slf|ray|dask|srun|mpirun|mpiexec|aprun)\b")
# Hand on what they are told of the nodes, by variables and files, and start nothing.
_HANDS_ON = FILTERS | HARMLESS | {*DECLARES, "mapfile", "readarray", "read", ""}
# What is no name of another node: how many there are, or the first of them.
_COUNTS = re.compile(r"\bwc\b|grep -c|\$\(\(|\bhead (-n *|--lines=|-)1\b|\[0\]")
# Tell of the node that they run on, or copy to it.
_HELPS = PRINTS | FILTERS | {"cp", "mkdir", "rm", "rsync", "tar", "unzip"}
_NO_HOSTS = re.compile(r"--hostfile[= ]/dev/null")
_TOOLS = re.compile(
    r"-m (pip|venv|ensurepip|virtualenv|torch\.utils|http|json|zipfile|ipykernel)\b"
)


def _reaches_others(script: Script) -> bool:
    """Whether a command starts something by a launcher, or gets the names of the other nodes."""
    known = "NODEFILE|NODELIST|hostfile"
    for launch in script.launches:
        command, launchers = launch.command, launch.started.launchers
        words = launch.started.program if launchers else command.all_words
        texts = [word.raw for word in words] + [doc.body for doc in command.heredocs]
        text = _NO_HOSTS.sub("", " ".join(texts))
        if launchers:
            wide = find_reach(script, launch).nodes
            started: object = not wide or not script.nodes or wide >= script.nodes
            started = started and launch.started.name not in _HELPS
        else:
            starts = text
            for inner in [inner for word in words for inner in list_substituted(word.raw)]:
                starts = starts.replace(inner, "") if is_pure(f"$({inner})") else starts
            started = _STARTS.search(starts) and command.name not in ("echo", "printf")
        if started:
            return True
        if not re.search(known, text):
            continue
        if command.name not in _HANDS_ON:
            return True
        own = [(name, raw) for name, _, raw in command.variables() if re.search(known, raw)]
        names = {name for name, raw in own if not _COUNTS.search(raw)}
        if command.name not in ("let", "(("):
            names |= command.list_changed() | set(texts[1:2] if command.name == "for" else ())
        files = {item.target.text for item in command.redirects if item.operator[-1] == ">"}
        patterns = [rf"\$\{{?!?{name}\b" for name in names]
        known = "|".join([known, *patterns, *map(re.escape, files - {"/dev/null"})])
    return False


def _is_inner(launch: LaunchCommand) -> bool:
    """Whether it stands where another command may start it on every node."""
    return bool({"function", "heredoc"} & set(launch.command.inside))


def _is_python(launch: LaunchCommand) -> bool:
    """Whether Python runs a program of the job."""
    program = launch.started.program
    names = [word.text for word in program if word.text.endswith(".py")]
    text = " ".join(word.text for word in program[1:3])
    runs = text.startswith("-m ") and not _TOOLS.match(text)
    python = launch.started.name.startswith("python") and not find_agent(program)
    return python and (runs or names not in ([], ["setup.py"]))


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
    agents = any(launch.started.is_agent for launch in script.launches)
    for launch in script.launches if script.nodes != 1 or not script.scheduler else ():
        agent, launchers = read_agent(launch), launch.started.launchers
        if (launchers and launched) or _is_inner(launch):
            continue
        count = agent.nodes if agent else ""
        several = re.fullmatch(r"(\d{2,}|[2-9])(:\d+)?", count) or "$" in count
        unsaid = agent is not None and not agent.stated and count == "1"
        alone = unsaid and bool(launch.torchrun or not launched)
        alone = alone or (agent is not None and agent.name == "accelerate" and not launched)
        used = find_reach(script, launch).nodes or 1
        trains = bool(launchers and TRAINS.fullmatch(launch.started.name)) or _is_python(launch)
        trains = trains and not (launched or agents) and 2 * used <= nodes  # a few may be spare
        if several or (nodes > 1 and (alone or trains)):
            of = count if count.isdigit() and several else nodes if nodes > 1 else "several"
            where = f"the first of {of} nodes alone" if used == 1 else f"{used} of {of} nodes"
            message = f"{agent.name if agent else 'this'} starts on {where}"
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
    for launch in script.launches if nodes else ():
        agent = read_agent(launch)
        if not agent or _is_inner(launch) or re.fullmatch(r"[1-9]\d*", agent.rank or ""):
            continue  # one of several jobs that meet has a number of its own
        started = find_reach(script, launch)
        count, reach = read_number(agent.nodes), started.nodes or 0
        place = agent.stated or launch.place
        if count > 1 and count not in (nodes, reach * (started.each or 1)):
            waits = "waits forever for the others" if count > nodes else "leaves nodes idle"
            message = f"{agent.name} is for {count} nodes, the job has {nodes}: it {waits}"
            yield Fault(place.line, place.column, message)
        elif (
            count == 1 and reach > 1 and (agent.stated or agent.name != "torchrun" or not exported)
        ):
            message = f"{agent.name} is not told of {reach} nodes, and takes each for the only one"
            yield Fault(place.line, place.column, message)
        elif count == 1 and nodes > 1 and "$" in (agent.rank or ""):
            message = f"{agent.name} has a number among several nodes, and counts one"
            yield Fault(place.line, place.column, message)


@rule("same-node-rank", "Agents that are all the first", TORCHRUN)
def _find_same_rank(script: Script) -> Iterator[Fault]:
    """Without a rendezvous by c10d, an agent knows its node by --node-rank alone, which is 0 where
    nothing says it: all of them wait at the first node's place for one another.

    Fix: write --node-rank=$SLURM_NODEID inside what srun starts, or --rdzv-backend=c10d
    """
    for launch in script.launches if "PET_NODE_RANK" not in script.text else ():
        agent, reach = read_agent(launch), find_reach(script, launch)
        if not agent or not agent.static or agent.rank not in (None, "0"):
            continue
        other = agent.nodes.isdigit() and agent.nodes != str(reach.nodes)
        if reach.nodes and reach.nodes > 1 and reach.each == 1 and agent.nodes and not other:
            message = f"each of the {reach.nodes} nodes starts {agent.name} as node 0"
            yield Fault(launch.place.line, launch.place.column, message)


@rule("two-agents", "Several torchrun agents a node", TORCHRUN)
def _find_two_agents(script: Script) -> Iterator[Fault]:
    """Each agent starts processes for all GPUs of its node, so several share each GPU, and the
    world is larger than --nnodes says.

    Fix: start one agent a node: srun --ntasks-per-node=1, mpiexec --ppn 1, or mpiprocs=1 for pbsdsh
    """
    for launch in script.launches:
        launchers = launch.started.launchers
        if not launchers or not launch.started.is_agent:
            continue
        agent, reach = read_agent(launch), find_reach(script, launch)
        each, own = reach.each or 0, agent.processes if agent else ""
        row = LAUNCHER_OPTIONS.get(launchers[0].name)
        names = (row.tasks, row.each) if row else ()
        stated = [value for some in names if (value := launchers[0].value(*some))]
        if not stated and launchers[0].name == "srun":
            stated = [script.value("--ntasks-per-node") or ""]
        alike = own[:1] == "$" and own.strip("${}") in (text.strip("${}") for text in stated)
        if (each > 1 or alike) and own != "1":
            message = f"{launchers[0].name} starts {each if each > 1 else own} agents on each node"
            word = launchers[0].word
            yield Fault(word.line, word.column, f"{message}, for the same GPUs")


@rule("idle-gpus", "Fewer processes than GPUs", TORCHRUN)
def _find_idle_gpus(script: Script) -> Iterator[Fault]:
    """A process of such a world trains on one GPU, so the others of its node idle, and are paid
    for.

    Fix: start one process for each GPU of a node, as torchrun --nproc-per-node=gpu does
    """
    gpus, starts = script.request.gpus, list[tuple[int, LaunchCommand]]()
    unknown = script.resource("ngpus") or "CUDA_VISIBLE_DEVICES" in script.text  # of all nodes
    for launch in script.launches if gpus > 1 and script.directives and not unknown else ():
        processes = count_processes(script, launch)
        if processes is None and (launch.started.is_agent or launch.started.launchers):
            return
        if processes:
            starts.append((processes, launch))
    most = max((count for count, _ in starts), default=gpus)
    if most < gpus:
        place = next(launch.place for count, launch in starts if count == most)
        of = "1 process" if most == 1 else f"{most} processes"
        yield Fault(place.line, place.column, f"{of} on each node, which has {gpus} GPUs")


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
        one = count_reach(script, srun) == (1, 1) or srun.value("-n", "--ntasks") == "1"
        if flag in (None, "0") and not one:
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
