"""Rules on how nodes find each other: node lists, addresses, ports, ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import Word
from jobgen.batchscript.lint.rule import PBS_RESOURCES, TORCHRUN, Fault, rule
from jobgen.batchscript.reader import Script

_ADDRESS_NAMES = {"MASTER_ADDR", "MAIN_PROCESS_IP", "HEAD_NODE", "RDZV_HOST"}
_PORT_NAMES = {"MASTER_PORT", "RDZV_PORT", "MAIN_PROCESS_PORT"}
# A number, also behind an address, or as the default of a variable.
_PORT = re.compile(r"(?:^|:)(\d+)$|^\$\{\w+:?[-=](\d+)\}$")
# What others connect to, and its port.
_SERVICE = re.compile(
    r"(?:ray start|vllm serve|vllm-serve|api_server|sglang\.launch_server)\b.*?--port[= ](\d+)\b"
    r"|--(?:main[-_]process|main|master)[-_]port[= ](?P<port>\d+)\b"
)
_READS_PORT = re.compile(r"^(?!\s*(#|echo\b|printf\b)).*\$\{?\w*PORT", re.MULTILINE)
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


@rule("fixed-port", "A fixed port", TORCHRUN)
def _find_fixed_port(script: Script) -> Iterator[Fault]:
    """Two jobs on one node meet at the same port, and one of them fails or joins the other.

    Fix: derive it from the job's id: 20000 + its number modulo 10000
    """
    alone = script.value("--exclusive") is not None
    alone = alone or "excl" in (script.resource("place") or "")
    # Whoever takes so many GPUs of a node has it for himself.
    request = script.request
    alone = alone or request.gpus >= 8 or (request.nodes > 1 and request.gpus >= 4)
    agents = any(launch.torchrun for launch in script.launches)
    # A torchrun on one node has a port of its own.
    unread = script.nodes == 1 and agents and not _READS_PORT.search(script.text)
    names = set() if unread else _PORT_NAMES
    words = list(_list_values(script, names, ("--master-port", "--rdzv-endpoint")))
    for launch in script.launches:
        text = " ".join(word.text for word in launch.started.program)
        inner = launch.torchrun or launch.started.name in ("echo", "printf", "eval", "bash", "sh")
        if not inner and (match := _SERVICE.search(text)):
            words.append(Word(match[1] or match["port"], launch.place.line, launch.place.column))
    seen = {"0"}
    for word in words:
        match = _PORT.search(word.text)
        port = match and (match[1] or match[2])
        if port and port not in seen:
            seen.add(port)
            message = f"port {port} is the same for every job"
            yield Fault(word.line, word.column, message, alone)


@rule("login-node-address", "A rendezvous where the job is not", PBS_RESOURCES)
def _find_login_node(script: Script) -> Iterator[Fault]:
    """All nodes must reach the first node of the job by this name; the login node does not run the
    job, and localhost leads each node to itself.

    Fix: take the first name of the job's own node list, before the launcher
    """
    several = script.nodes != 1
    options = ("--master-addr", "--rdzv-endpoint")
    for word in _list_values(script, _ADDRESS_NAMES, options):
        host = re.sub(r":(\d+|\$\{?\w+\}?)$", "", word.text)
        if match := re.search(r"PBS_O_HOST|SLURM_SUBMIT_HOST", word.active):
            message = f"${match[0]} is the login node, where nothing of the job runs"
            yield Fault(word.line, word.column, message)
        elif several and _LOOPBACK.fullmatch(host):
            yield Fault(word.line, word.column, f"{host} is each node's name for itself alone")
