"""Rules on how nodes find each other: node lists, addresses, ports, ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import Word
from jobgen.batchscript.launchers import find_agent
from jobgen.batchscript.lint.rule import PBS_RESOURCES, TORCHRUN, Fault, Rule
from jobgen.batchscript.reader import Script

_ADDRESS_NAMES = {"MASTER_ADDR", "MAIN_PROCESS_IP", "HEAD_NODE", "RDZV_HOST"}
_PORT_NAMES = {"MASTER_PORT", "RDZV_PORT", "MAIN_PROCESS_PORT"}
_AGENT_PORTS = ("--main_process_port", "--main-process-port", "--master_port", "--main_port")
# A number, also as the default of a variable.
_PORT = re.compile(r"(\d+)|\$\{\w+:?[-=](\d+)\}")
_LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[?::1\]?")


def _list_values(script: Script, names: set[str], options: tuple[str, ...]) -> Iterator[Word]:
    """What is asked by these variables and torchrun options, in the script and inside quotes."""
    for launch in script.launches:
        for name, word, raw in launch.command.variables():
            if name in names:
                yield Word(raw, word.line, word.column)
        agent = launch.torchrun
        for option in options if agent else ():
            value = agent.options.get(option) if agent else None
            if value is not None:
                yield value


def _find_fixed_port(script: Script) -> Iterator[Fault]:
    alone = script.value("--exclusive") is not None
    alone = alone or "excl" in (script.resource("place") or "")
    seen: set[str] = set()
    for word in _list_values(script, _PORT_NAMES, ()) if _reads_ports(script) else ():
        match = _PORT.fullmatch(word.text)
        port = match and (match[1] or match[2])
        if port and port != "0":
            seen.add(port)
            message = f"port {port} is the same for every job"
            yield Fault(word.line, word.column, message, alone)
    # What stands in an option is the variable's value, told already.
    words = list(_list_values(script, set(), ("--master-port", "--rdzv-endpoint")))
    for word in (*words, *_list_agent_values(script, _AGENT_PORTS)):
        match = re.search(r"(?:^|:)(\d+)$", word.text) or _PORT.fullmatch(word.text)
        if match and match[1] and match[1] not in seen | {"0"}:
            message = f"port {match[1]} is the same for every job"
            yield Fault(word.line, word.column, message, alone)


def _reads_ports(script: Script) -> bool:
    """Whether anything reads MASTER_PORT: a torchrun on one node does not, and sets its own."""
    if re.search(rf"\$\{{?({'|'.join(_PORT_NAMES)})", script.text) or script.nodes != 1:
        return True
    agents = [item for item in script.launches if item.torchrun]
    others = [item for item in script.launches if not item.torchrun]
    files = (word.text for item in others for word in item.started.program)
    return not agents or any(text.endswith((".py", ".sh")) for text in files)


def _list_agent_values(script: Script, options: tuple[str, ...]) -> Iterator[Word]:
    """The values that these options give to accelerate and similar launchers."""
    for launch in script.launches:
        program = launch.started.program
        if find_agent(program):
            for index, word in enumerate(program):
                option, equals, value = word.text.partition("=")
                if option in options and equals:
                    yield Word(value, word.line, word.column)
                elif option in options and index + 1 < len(program):
                    yield program[index + 1]


def _find_login_node(script: Script) -> Iterator[Fault]:
    several = script.nodes != 1
    submits = script.scheduler is None or not script.directives
    submits = submits and any(
        command.name in ("sbatch", "qsub", "salloc") for command in script.commands
    )
    options = ("--master-addr", "--rdzv-endpoint")
    for word in _list_values(script, _ADDRESS_NAMES, options):
        host = re.sub(r":(\d+|\$\{?\w+\}?)$", "", word.text)
        if match := re.search(r"PBS_O_HOST|SLURM_SUBMIT_HOST", word.active):
            message = f"${match[0]} is the login node, where nothing of the job runs"
            yield Fault(word.line, word.column, message)
        elif several and _LOOPBACK.fullmatch(host):
            yield Fault(word.line, word.column, f"{host} is each node's name for itself alone")
        elif submits and re.search(r"\$\(\s*hostname|`\s*hostname|\$\{?HOSTNAME", word.active):
            yield Fault(word.line, word.column, "hostname runs here, on the login node")
    for item in script.directives:
        if match := re.search(r"\b(MASTER_ADDR=.*(?:hostname|HOSTNAME|_HOST)\S*)", item.value):
            message = f"'{match[1]}' can at best name the login node"
            yield Fault(item.line, item.column, message)


def _find_own_address(script: Script) -> Iterator[Fault]:
    for launch in script.launches:
        if not launch.started.launchers or "string" not in launch.command.inside:
            continue
        words = [
            Word(raw, word.line, word.column)
            for name, word, raw in launch.command.variables()
            if name in _ADDRESS_NAMES
        ]
        agent = launch.torchrun
        if agent:
            addresses = (agent.options.get(name) for name in ("--master-addr", "--rdzv-endpoint"))
            words += [word for word in addresses if word]
        for word in words:
            if re.search(r"\$\(\s*hostname|`\s*hostname|\$\{?HOSTNAME", word.active):
                yield Fault(word.line, word.column, "every node puts its own name here")


def _find_node_rank(script: Script) -> Iterator[Fault]:
    for launch in script.launches:
        agent = launch.torchrun
        if agent and script.expand(agent.value("--rdzv-backend") or "") == "c10d":
            rank = agent.options.get("--node-rank")
            if rank:
                yield Fault(rank.line, rank.column, "the c10d rendezvous ignores --node-rank")


RULES = (
    Rule(
        "fixed-port",
        "A fixed port",
        "Two jobs on one node meet at the same port, and one of them fails or joins the other.",
        "derive it from the job's id: 20000 + its number modulo 10000",
        TORCHRUN,
        _find_fixed_port,
    ),
    Rule(
        "login-node-address",
        "A rendezvous where the job is not",
        "All nodes must reach the first node of the job by this name; the login node does not run "
        "the job, and localhost leads each node to itself.",
        "take the first name of the job's own node list",
        PBS_RESOURCES,
        _find_login_node,
    ),
    Rule(
        "own-address",
        "A rendezvous on every node",
        "Inside a task hostname is that task's own node, so no two nodes meet.",
        "find the first node's name outside, before the launcher, and pass it in",
        TORCHRUN,
        _find_own_address,
    ),
    Rule(
        "ignored-node-rank",
        "--node-rank under c10d",
        "Only the static rendezvous reads it. Under c10d ranks follow the nodes' addresses, so "
        "what relies on this number is wrong.",
        "leave it out, or use the static rendezvous",
        TORCHRUN,
        _find_node_rank,
    ),
)
