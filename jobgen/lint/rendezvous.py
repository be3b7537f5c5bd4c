"""Rules on how nodes find each other: node lists, addresses, ports, ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.lint.rule import PBS_RESOURCES, QSUB, TORCHRUN, UNIQ, Fault, Rule
from jobgen.script import Script
from jobgen.shell import Word

_ADDRESS_NAMES = {"MASTER_ADDR", "MAIN_PROCESS_IP", "HEAD_NODE", "RDZV_HOST"}
_PORT_NAMES = {"MASTER_PORT", "RDZV_PORT", "MAIN_PROCESS_PORT"}
_LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[?::1\]?")


def _nodeid(script: Script) -> Iterator[Fault]:
    for number, line in enumerate(script.lines, 1):
        code = line if not line.lstrip().startswith("#") else ""
        if (match := re.search(r"\$\{?PBS_NODEID\b", code)) and "PBS_NODEID" not in _set(script):
            yield number, match.start() + 1, "PBS sets no variable PBS_NODEID"


def _set(script: Script) -> set[str]:
    return {name for command in script.commands for name, _, _ in command.variables()}


def _uniq(script: Script) -> Iterator[Fault]:
    for number, line in enumerate(script.lines, 1):
        found = re.search(r"\$\{?PBS_NODEFILE\b(?P<between>.*?\|\s*)(?P<uniq>uniq)\b", line)
        found = found or re.search(r"(?P<between>)\b(?P<uniq>uniq)\b[^|;]*\$\{?PBS_NODEFILE", line)
        if found and "sort" not in found["between"] and not line.lstrip().startswith("#"):
            yield number, found.start("uniq") + 1, "uniq on the node file, which is not sorted"


def _values(script: Script, names: set[str], options: tuple[str, ...]) -> Iterator[Word]:
    """What is said by these variables and torchrun options, in the script and inside quotes."""
    for launch in script.launches:
        for name, word, raw in launch.command.variables():
            if name in names:
                yield Word(raw, word.line, word.column)
        agent = launch.torchrun
        for option in options if agent else ():
            value = agent.options.get(option) if agent else None
            if value is not None:
                yield value


def _fixed_port(script: Script) -> Iterator[Fault]:
    for word in _values(script, _PORT_NAMES, ("--master-port",)):
        if re.fullmatch(r"\d+", word.text):
            yield word.line, word.column, f"port {word.text} is the same for every job"
    for word in _values(script, set(), ("--rdzv-endpoint",)):
        if match := re.search(r":(\d+)$", word.text):
            yield word.line, word.column, f"port {match[1]} is the same for every job"


def _login_node(script: Script) -> Iterator[Fault]:
    several = script.nodes != 1
    submits = script.scheduler is None or not script.directives
    submits = submits and any(
        command.name in ("sbatch", "qsub", "salloc") for command in script.commands
    )
    options = ("--master-addr", "--rdzv-endpoint")
    for word in _values(script, _ADDRESS_NAMES, options):
        host = re.sub(r":(\d+|\$\{?\w+\}?)$", "", word.text)
        if match := re.search(r"PBS_O_HOST|SLURM_SUBMIT_HOST", word.active):
            message = f"${match[0]} is the login node, where nothing of the job runs"
            yield word.line, word.column, message
        elif several and _LOOPBACK.fullmatch(host):
            yield word.line, word.column, f"{host} is each node's name for itself alone"
        elif submits and re.search(r"\$\(\s*hostname|`\s*hostname|\$\{?HOSTNAME", word.active):
            yield word.line, word.column, "hostname runs here, on the login node"
    for item in script.directives:
        if match := re.search(r"\b(MASTER_ADDR=.*(?:hostname|HOSTNAME|_HOST)\S*)", item.value):
            yield item.line, item.column, f"'{match[1]}' can at best name the login node"


def _own_address(script: Script) -> Iterator[Fault]:
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
            said = (agent.options.get(name) for name in ("--master-addr", "--rdzv-endpoint"))
            words += [word for word in said if word]
        for word in words:
            if re.search(r"\$\(\s*hostname|`\s*hostname|\$\{?HOSTNAME", word.active):
                yield word.line, word.column, "every node puts its own name here"


def _node_rank(script: Script) -> Iterator[Fault]:
    for launch in script.launches:
        agent = launch.torchrun
        if agent and script.expand(agent.value("--rdzv-backend") or "") == "c10d":
            rank = agent.options.get("--node-rank")
            if rank:
                yield rank.line, rank.column, "the c10d rendezvous ignores --node-rank"


RULES = (
    Rule(
        "pbs-nodeid",
        "$PBS_NODEID",
        "No PBS has such a variable; it is empty, and torchrun refuses an empty node rank.",
        "use $PBS_NODENUM inside a task, or pass the index to it as an argument",
        QSUB,
        _nodeid,
    ),
    Rule(
        "uniq-nodefile",
        "uniq on the node file",
        "uniq drops repeated lines only where they stand together, and the lines of one node need "
        "not; sorting them first moves the head node.",
        "write awk '!seen[$1]++' \"$PBS_NODEFILE\"",
        UNIQ,
        _uniq,
    ),
    Rule(
        "fixed-port",
        "A fixed port",
        "Two jobs on one node meet at the same port, and one of them fails or joins the other.",
        "derive it from the job's id: 20000 + its number modulo 10000",
        TORCHRUN,
        _fixed_port,
    ),
    Rule(
        "login-node-address",
        "A rendezvous where the job is not",
        "All nodes must reach the first node of the job by this name; the login node does not run "
        "the job, and localhost leads each node to itself.",
        "take the first name of the job's own node list",
        PBS_RESOURCES,
        _login_node,
    ),
    Rule(
        "own-address",
        "A rendezvous on every node",
        "Inside a task hostname is that task's own node, so no two nodes meet.",
        "find the first node's name outside, before the launcher, and pass it in",
        TORCHRUN,
        _own_address,
    ),
    Rule(
        "ignored-node-rank",
        "--node-rank under c10d",
        "Only the static rendezvous reads it. Under c10d ranks follow the nodes' addresses, so "
        "what relies on this number is wrong.",
        "leave it out, or use the static rendezvous",
        TORCHRUN,
        _node_rank,
    ),
)
