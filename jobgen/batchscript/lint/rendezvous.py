"""Rules on how nodes and programs find each other: addresses, ports, steps, servers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import Command, Word
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.lint.rule import Fault, mark, rule
from jobgen.batchscript.purposes import FORMS
from jobgen.batchscript.reach import list_agents
from jobgen.batchscript.reader import Script

_SHARES = re.compile(r"--(exact|exclusive|overlap)(=.*)?")
_PLACED = re.compile(r"-[wrx].*|--(nodelist|relative|het-group|exclude)(=.*)?")
_PART = re.compile(rf"{_SHARES.pattern}|{_PLACED.pattern}|-[nN].*|--(ntasks|nodes)(=.*)?")
_RANK = re.compile(r"--(node|machine)[-_]rank\b.*", re.DOTALL)
_ADDRESS_NAMES = {"MASTER_ADDR", "MAIN_PROCESS_IP", "HEAD_NODE", "RDZV_HOST"}
_MEETING = ("--master-addr", "--rdzv-endpoint")
_PORT_NAMES = {"MASTER_PORT", "RDZV_PORT", "MAIN_PROCESS_PORT"}
# A number, also behind an address, or as the default of a variable.
_PORT = re.compile(r"(?:^|:|^\$\{\w+:?[-=])(\d+)\}?$")
_PORT_OF = re.compile(
    rf"(?:(?:{FORMS['server'].pattern}).*?--|--(?:main[-_]process|main|master)[-_])port[= ](\d+)\b"
)
_READS_PORT = re.compile(r"^(?!\s*(#|echo\b|printf\b)).*\$\{?\w*PORT", re.MULTILINE)
_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)(:(\d+|\$\{?\w+\}?))?")


def _list_values(script: Script, names: set[str], options: tuple[str, ...]) -> list[Word]:
    """What is asked by these variables and torchrun options, in the script and inside quotes."""
    last: dict[str, Word] = {}  # value of each variable
    asked: list[Word] = []
    for launch in script.launches:
        read = launch.command.name or _READS_PORT.search(script.text)  # or exported
        for name, word, raw in launch.command.variables() if read else ():
            last[name] = Word(raw, word.line, word.column)
        torchrun = launch.started.torchrun
        asked += filter(None, map(torchrun.options.get, options)) if torchrun else ()
    return [word for name, word in last.items() if name in names] + asked


@rule("fixed-port")
def _find_fixed_port(script: Script) -> Iterator[Fault]:
    names = _PORT_NAMES if _reads_port(script) else set[str]()
    words = _list_values(script, names, ("--master-port", "--rdzv-endpoint"))
    seen = {"0"}
    for word in [] if _has_whole_nodes(script) else words + list(_list_ports(script)):
        match = _PORT.search(word.text)
        if match and match[1] not in seen:
            seen.add(match[1])
            yield mark(word, f"port {match[1]} is the same for every job")


def _reads_port(script: Script) -> bool:
    """Whether a variable may tell a program its port.

    A torchrun has options for it, and takes a free one where it is alone.
    """
    agents = [launch.started.torchrun for launch in script.launches if launch.started.torchrun]
    alone = all("--standalone" in agent.options for agent in agents)
    return not agents or (not alone and _READS_PORT.search(script.text) is not None)


def _has_whole_nodes(script: Script) -> bool:
    """Whether no other job can be on its nodes: whoever takes so many GPUs has them for himself."""
    request = script.request
    wide = request.gpus >= (4 if request.nodes > 1 else 8)
    # A site where a chunk needs no numbers gives whole nodes.
    plain = script.resource("select") and request.cpus + request.gpus == 0
    shared = script.value("--exclusive") is None and "excl" not in script.resource("place")
    return wide or bool(plain) or not shared


def _list_ports(script: Script) -> Iterator[Word]:
    for launch in script.launches:
        started, place = launch.started, launch.place
        match = _PORT_OF.search(" ".join(started.texts))
        if match and not started.torchrun:
            yield Word(match[1], place.line, place.column)


@rule("login-node-address")
def _find_login_node(script: Script) -> Iterator[Fault]:
    for word in _list_values(script, _ADDRESS_NAMES, _MEETING):
        if match := re.search(r"PBS_O_HOST|SLURM_SUBMIT_HOST", word.active):
            yield mark(word, f"${match[0]} is the login node, where nothing of the job runs")
    if script.nodes != 1:
        yield from _find_own_names(script)


def _find_own_names(script: Script) -> Iterator[Fault]:
    for word in _list_values(script, _ADDRESS_NAMES, _MEETING):
        if loopback := _LOOPBACK.fullmatch(word.text):
            yield mark(word, f"{loopback[1]} is each node's name for itself alone")
    late = _join_late(script)
    for _, agent, _ in list_agents(script):
        place = agent.find(*_MEETING)
        name = FORMS["own-name"].match(place.raw) if place else None
        if place and name and name[1] in late and agent.nodes != "1":
            yield mark(place, f"{name[1]} is the name of each node, which then waits at its own")


def _join_late(script: Script) -> str:
    """What the shells on the nodes expand, behind launchers."""
    launched = [command for command in script.expanded if unwrap(command.words).launchers]
    words = [word for command in launched for word in command.words]
    return "".join(part.text for word in words for part in word.segments if not part.live)


@rule("step-takes-all")
def _find_beside(script: Script) -> Iterator[Fault]:
    steps = [command for command in script.commands if command.name == "srun"]
    for index, command in enumerate(steps):
        if command.end != "&" or "if" in command.openers or _has(command, _SHARES):
            continue
        placed = _has(command, _PLACED)
        wide = [item for item in steps[index + 1 :] if not _has(item, _PART)]
        if wide if placed else len(steps) > 1:
            takes = "takes all of its nodes" if placed else "takes all of the job"
            message = f"an srun in the background {takes}, and the next one waits for it"
            yield mark(command.place, message)
            return


def _has(command: Command, option: re.Pattern[str]) -> bool:
    return any(map(option.fullmatch, command.texts))


@rule("step-in-turn")
def _find_in_turn(script: Script) -> Iterator[Fault]:
    for command in script.commands:
        openers, ranked = command.openers, _has(command, _RANK)
        waits = command.name == "srun" and command.end in ("\n", ";")
        if ranked and waits and openers & {"for", "while"}:
            yield mark(command.place, "an agent waits for those of the next turns of this loop")


@rule("sleep-until-ready")
def _find_sleep(script: Script) -> Iterator[Fault]:
    if FORMS["asks"].search(script.text):
        return
    sleeps = [item for item in _list_after_server(script) if item.name == "sleep"]
    for command in sleeps[:1]:
        message = f"whether the server is up after {command.texts[-1]} s is not known"
        yield mark(command.place, message)


def _list_after_server(script: Script) -> list[Command]:
    """List the commands after the first that starts a server in the background."""
    beside = ((number, item) for number, item in enumerate(script.commands, 1) if item.end == "&")
    serving = (number for number, item in beside if FORMS["server"].search(" ".join(item.texts)))
    return script.commands[next(serving, len(script.commands)) :]
