"""Rules on how programs start, and on how many of the job's nodes: launchers and exit codes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from jobgen.batchscript import reach
from jobgen.batchscript.bash import DECLARES, Command, Word
from jobgen.batchscript.expand import list_names
from jobgen.batchscript.launchers import Agent, LaunchCommand, Launcher, read_number, unwrap
from jobgen.batchscript.lint.rule import Fault, join_acting, mark, rule
from jobgen.batchscript.purposes import FORMS, HELPING, PRINTS, WHY, list_substituted, trains, works
from jobgen.batchscript.reader import Script
from jobgen.output import format_count
from jobgen.spec.launchers import read_names

# Hand on what they are told of the nodes, by variables and files, and start nothing.
_HANDS_ON = HELPING | {*DECLARES, "mapfile", "readarray", "read", ""}


def _reaches_others(script: Script) -> bool:
    """Whether a command starts something by a launcher, or gets the names of the other nodes."""
    known = r"NODEFILE|NODELIST|hostfile(?![= ]/dev/null)"
    for launch in script.launches:
        command = launch.command
        named = re.search(known, " ".join([*(x.raw for x in command.all_words), *command.bodies]))
        hands = launch.started.launchers or command.name in _HANDS_ON
        if _starts_elsewhere(script, launch) or (named and not hands):
            return True
        if named:
            known = "|".join([known, *_list_holders(command, known)])
    return False


def _starts_elsewhere(script: Script, launch: LaunchCommand) -> bool:
    """Whether a command starts more than some helper on a part of the nodes."""
    if launch.started.launchers:
        part = 0 < reach.find_reach(script, launch).nodes < (script.nodes or math.inf)
        return not part and works(launch.started)
    if launch.command.name in PRINTS and not launch.command.redirects:
        return False
    # What runs only for its output to be read starts nothing.
    words = [x.raw for x in launch.command.all_words if not any(list_substituted(x.raw))]
    files = [script.beside.get(text, "") for text in launch.command.texts]
    return FORMS["starts"].search(" ".join(words + launch.command.bodies + files)) is not None


def _list_holders(command: Command, known: str) -> list[str]:
    """List how variables and files are read that hold what a command knows of the nodes."""
    holding = [item for item in command.variables() if re.search(known, item[2])]
    names = [name for name, _, raw in holding if not FORMS["no-node"].search(raw)]
    read = [rf"\$\{{?!?{name}\b" for name in (*names, *command.list_changed())]
    written = [item.target.text for item in command.redirects if item.operator[-1] == ">"]
    return read + list(map(re.escape, written))


@rule("first-node-only")
def _find_first_node_only(script: Script) -> Iterator[Fault]:
    for launch in [] if script.nodes == 1 else _list_lone(script):
        agent, used = launch.started.agent, reach.find_reach(script, launch).nodes
        of = f"of {script.nodes or 'several'} nodes"
        on = f"{used} {of}" if used > 1 else f"the first {of} alone"
        lone = agent.name if agent and agent.is_alone else ""
        fix = vars(WHY).get("FEW" if launch.started.launchers and not agent else lone, "")
        yield mark(launch.place, f"{agent.name if agent else 'this'} starts on {on}", fix)


def _list_lone(script: Script) -> list[LaunchCommand]:
    """List the agents that leave others out, or else the first program that idles nodes."""
    launched = _reaches_others(script)
    own = [x for x in script.launches if not x.command.function]  # which others may start
    launches = [launch for launch in own if "<<" not in launch.command.openers]
    if launched:  # where another branch may be for several nodes
        alone = [x for x in launches if x.command.openers.isdisjoint(("if", "case"))]
        launches = [launch for launch in alone if not launch.started.launchers]
    if any(launch.started.agent for launch in script.launches):
        agents = [(launch, launch.started.agent) for launch in launches]
        return [x for x, agent in agents if agent and _is_lone(agent, script.nodes, launched)]
    few = [launch for launch in launches if _trains_on_few(script, launch)]
    return [] if launched else few[:1]


def _is_lone(agent: Agent, nodes: int, launched: bool) -> bool:
    """Whether an agent awaits others that nothing starts, or is for one of several nodes."""
    # Its own settings may name the others, but not where nothing reads this job's nodes.
    named = launched or not agent.is_set_elsewhere
    alone = nodes > 1 and (agent.is_alone or not named)
    return (agent.waits or alone) and not (agent.starts_others and named)


def _trains_on_few(script: Script, launch: LaunchCommand) -> bool:
    started, used = launch.started, reach.find_reach(script, launch).nodes
    program, _, words = " ".join(started.texts).partition(" ")
    by_python = started.name.startswith("python") and FORMS["program"].match(words)
    by_launcher = started.launchers and re.search("/|python", program)
    inside = started.wrapper and trains(started)  # where no launcher of the job is
    idle = 2 * max(1, used) <= script.nodes  # as some may be spare
    return idle and bool(by_python or by_launcher or inside)


@rule("other-nnodes")
def _find_other_nnodes(script: Script) -> Iterator[Fault]:
    for launch, agent, starts in reach.list_agents(script) if script.nodes else ():
        if wrong := _compare_nodes(agent, starts, script.nodes):
            others = f"tell {agent.name} the number of nodes, its own, and the first one's address"
            own = "" if agent.name == "torchrun" else others
            yield mark(agent.find("nodes") or launch.place, f"{agent.name} {wrong}", fix=own)


def _compare_nodes(agent: Agent, starts: reach.Reach, nodes: int) -> str:
    count = read_number(agent.nodes)
    if count == 1 and starts.nodes > 1:
        return f"knows of no other node, and {starts.nodes} start it"
    beside = count < nodes and not starts.nodes  # where others may have the rest
    if count < 2 or beside or count in (nodes, starts.nodes * max(1, starts.each)):
        return ""
    waits = "waits forever for the others" if count > nodes else "leaves nodes idle"
    return f"is for {count} nodes, the job has {nodes}: it {waits}"


@rule("same-node-rank")
def _find_same_rank(script: Script) -> Iterator[Fault]:
    for launch, agent, starts in reach.list_agents(script):
        meant = agent.nodes == str(starts.nodes) or "$" in agent.nodes
        if agent.is_first and meant and starts.each < 2 and starts.nodes > 1:
            yield mark(launch.place, f"each of {starts.nodes} nodes starts {agent.name} as node 0")


@rule("two-agents")
def _find_two_agents(script: Script) -> Iterator[Fault]:
    for launch in script.launches:
        launchers, agent = launch.started.launchers, launch.started.agent
        inner = [item.word for item in launchers[1:] if item.name in read_names("mpi")]
        if agent and agent.starts_others and not FORMS["own-node"].search(" ".join(agent.options)):
            inner.append(launch.place)
        times = math.prod(reach.count_reach(script, launchers[0])) if launchers else 1
        each = reach.find_reach(script, launch).each
        if inner and times > 1:
            message = f"{launchers[0].name} starts {inner[0].text} {times} times"
            yield mark(inner[0], message, fix="start the program by one of them alone")
        elif agent and each > 1:
            message = f"{launchers[0].name} starts {each} agents on each node, for the same GPUs"
            fix = WHY.OF_TASKS if "--gpus-per-task" in script.text else ""
            yield mark(launchers[0].word, message, fix)


@rule("idle-gpus")
def _find_idle_gpus(script: Script) -> Iterator[Fault]:
    counts = [reach.count_processes(script, launch) for launch in script.launches]
    most, gpus = max(counts, default=0), _count_gpus(script)
    if 0 < most < gpus and not FORMS["takes-gpus"].search(script.text):
        place = script.launches[counts.index(most)].place
        of = format_count(int(most), "process", "processes")
        yield mark(place, f"{of} on each node, which has {gpus} GPUs")
    named = FORMS["names-gpus"].match("\n".join([script.text, *script.beside.values()]))
    if named and (count := named[1].count(",") + 1) < gpus:
        yield Fault(named[0].count("\n") + 1, 1, f"{count} of {gpus} GPUs are named", WHY.NAMED)


@rule("few-gpus")
def _find_few_gpus(script: Script) -> Iterator[Fault]:
    has = format_count(gpus := _count_gpus(script), "GPU")
    for launch, agent, _ in reach.list_agents(script):
        if (count := agent.count_processes()) > gpus > 0:
            place = agent.find("processes") or launch.place
            yield mark(place, f"{count} processes on each node, which has {has}")
    for word, fix in _list_numbered(script) if gpus and script.nodes == 1 else ():
        named = FORMS["gpu-numbers"].fullmatch(word.text)
        if named and not {*map(int, named[2].split(","))} <= {*range(gpus)}:
            yield mark(word, f"{named[1]} names {named[2]}, and the job has {has}, from 0 on", fix)


def _list_numbered(script: Script) -> Iterator[tuple[Word, str]]:
    """Yield words that may number the GPUs of a program, each with what to write instead."""
    if not FORMS["step"].search(script.text):  # which numbers them anew, but not in a container
        yield from ((word, WHY.SETS) for _, word, _ in script.variables())
    yield from ((word, WHY.HANDS_ON) for x in script.launches for word in x.started.wrapper)


def _count_gpus(script: Script) -> int:
    """Return the GPUs of each node; 0 where that is open: those of PBS may be of all nodes."""
    return 0 if script.resource("ngpus") else script.request.gpus


def _list_sruns(
    script: Script, variable: str, *options: str, of: Callable[..., bool] = trains
) -> Iterator[tuple[Launcher, Agent | None]]:
    """Each srun that starts a program of a kind, without one of these options."""
    works = [item for item in reach.list_run(script) if of(item.started)]
    for srun, agent in [(srun, item.agent) for item in works for srun in item.started.launchers]:
        if srun.name == "srun" and not _is_told(script, srun, variable, options):
            yield srun, agent


def _is_told(script: Script, srun: Launcher, own: str, options: tuple[str, ...]) -> bool:
    """Whether srun gets one of these options by its `own` variable, or another may have it."""
    held = {re.sub(r"\[.*|\W", "", name) for name, _ in srun.options if name[0] == "$"}
    may_hold = held and (options[1] in join_acting(script) or not held <= script.own_names)
    return bool(may_hold) or own in script.own_names or srun.value(*options) not in (None, "0")


def _says_cpus(script: Script, srun: Launcher) -> bool:
    """Whether masks tell the CPUs of each task, or a step that has all of the job's binds none."""
    stated = [raw for name, _, raw in script.variables() if name == "SLURM_CPU_BIND"]
    says = srun.value("--cpu-bind", "--cpu_bind") or " ".join(stated)
    free = r"|\bno(ne)?\b" if srun.value("--exact") is None else ""
    return re.search(f"mask|map{free}", says, re.IGNORECASE) is not None


@rule("srun-cpus")
def _check_srun_cpus(script: Script) -> Iterator[Fault]:
    if (cpus := script.value("--cpus-per-task")) in (None, "1"):
        return
    of = works if FORMS["threads-of"].match(f"{cpus}\n{script.text}") else trains
    for srun, _ in _list_sruns(script, "SRUN_CPUS_PER_TASK", "-c", "--cpus-per-task", of=of):
        if not _says_cpus(script, srun):
            yield mark(srun.word, "srun is not told the CPUs of a task")


@rule("srun-kill")
def _check_srun_kill(script: Script) -> Iterator[Fault]:
    room = f"{script.value('--time')}\n{script.nodes} {script.slots}"
    if FORMS["waits-little"].match("\n".join([room, script.text, *script.beside.values()])):
        return
    options = ("-K", "--kill-on-bad-exit", "-W", "--wait", "-k", "--no-kill")
    for srun, agent in _list_sruns(script, "SLURM_KILL_BAD_EXIT", *options):
        on_one = srun.read_count("nodes", script.nodes) == 1 == reach.count_reach(script, srun).each
        lone = on_one or srun.value("-n", "--ntasks") == "1"
        if not lone and (agent is None or agent.nodes != "1"):  # which waits for no other
            yield mark(srun.word, "srun goes on when one of its tasks has failed")


@rule("early-expansion")
def _find_early(script: Script) -> Iterator[Fault]:
    launched = any(launch.started.launchers for launch in script.launches)
    agrees = re.search(r"--rdzv[-_]backend[= ]\"?c10d", script.text)  # on ranks, told or not
    if agrees or not launched or (script.nodes, script.request.tasks) == (1, 1):
        return
    for command in script.commands:
        words, fix = _list_early(script, command)
        for word in words:
            # Without the variables that the shell of the script does not expand.
            own = (re.sub(r"'[^']*'" if one.live else r"\$", "", one.text) for one in word.segments)
            if match := FORMS["of-task"].search("".join(own)):
                yield mark(word, f"${match[1]} expands here, and not in each task", fix)


def _list_early(script: Script, command: Command) -> tuple[list[Word], str]:
    """Return the words that the script's own shell expands, and a fix instead of the rule's."""
    if unwrap(command.words).launchers:
        own = script.own_names.difference(re.findall(r"\bexport\s+(\w+)", script.text))
        return list(command.words), WHY.NOT_EXPORTED if own & list_names(command.active) else ""
    read = set(re.findall(r"\$\{?(\w+)", script.text))
    words = [word for name, word, _ in command.variables() if command.name or name in read]
    return words, "set it inside what the launcher starts: bash -c 'NAME=$...'"
