"""Rules on how nodes and programs find each other: addresses, ports, steps, servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import dropwhile, takewhile

from jobgen.batchscript.bash import Command, Word
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.lint.rule import Fault, find_text, join_acting, mark, rule
from jobgen.batchscript.purposes import FORMS, WHY, trains
from jobgen.batchscript.reach import list_agents, list_run
from jobgen.batchscript.reader import Script


def _list_set(script: Script, kind: str) -> list[Word]:
    """The last value of each variable of a kind that a program may get."""
    reads = FORMS["reads-port"].search(script.text)
    commands = [item.command for item in script.launches if item.command.name or reads]  # exports
    given = [x for item in commands for x in item.variables() if FORMS[kind].fullmatch(x[0])]
    return list({name: Word(raw, word.line, word.column) for name, word, raw in given}.values())


@rule("fixed-port")
def _find_fixed_port(script: Script) -> Iterator[Fault]:
    words = (_list_set(script, "port-name") if _reads_port(script) else []) + [*_list_ports(script)]
    shared = [] if _has_whole_nodes(script) else words[::-1]  # so the first of a port stays
    ports = {port: word for word in shared for port in FORMS["port"].findall(word.text)}
    yield from (mark(word, f"port {x} is the same for every job") for x, word in ports.items())


def _reads_port(script: Script) -> bool:
    """Whether a variable may tell a program its port: a torchrun has options, or a free one."""
    if any(launch.started.torchrun for launch in script.launches):
        return FORMS["reads-port"].search(script.text) is not None
    return script.request.gpus > 0 or "MASTER_ADDR=" in script.text  # by which a world meets


def _has_whole_nodes(script: Script) -> bool:
    """Whether no other job can be on its nodes: whoever takes so much has them for himself."""
    request = script.request
    wide = (request.gpus >= 4, request.cpus >= 64, request.nodes > 1 and request.tasks >= 4)
    alone = (script.value("--exclusive") is not None, "excl" in script.resource("place"))
    whole = (script.value("--mem") == "0", script.resource("filesystems"))  # of a site
    return any((*wide, *alone, *whole))


def _list_ports(script: Script) -> Iterator[Word]:
    for launch in list_run(script):
        if agent := launch.started.torchrun:
            yield from filter(None, map(agent.options.get, ("--master-port", "--rdzv-endpoint")))
        elif match := FORMS["port-option"].search(" ".join(launch.started.texts)):
            yield Word(match[1], launch.place.line, launch.place.column)


@rule("login-node-address")
def _find_login_node(script: Script) -> Iterator[Fault]:
    agents = [agent for _, agent, _ in list_agents(script)]
    meet = [agent for agent in agents if agent.nodes != "1"]
    asked = [*filter(None, (agent.find("--master-addr", "--rdzv-endpoint") for agent in meet))]
    others = (x for x in script.launches if trains(x.started) and not x.started.agent)
    # An agent that is alone tells its own processes another one.
    named = _list_set(script, "address-name") if meet or not agents or any(others) else []
    for word in [] if script.nodes == 1 else named + asked:  # which meets nobody
        if message := _judge_address(script, word):
            yield mark(word, message)


def _judge_address(script: Script, word: Word) -> str:
    """Say why others do not find the first node at an address."""
    if loopback := FORMS["loopback"].fullmatch(word.text):
        return f"{loopback[1]} is each node's name for itself alone"
    free = script.nodes and script.value("--nodelist") is None
    host = FORMS["host"].fullmatch(word.text) if free else None
    return f"{host[1]} is the same for every job, whose nodes may be others" if host else ""


@rule("step-takes-all")
def _find_beside(script: Script) -> Iterator[Fault]:
    steps = [x for x in script.commands if x.name in ("srun", "wait") and "if" not in x.openers]
    for index, command in enumerate(steps):
        if (command.name, command.end) != ("srun", "&"):
            continue
        taken = _list_taken(script, command)
        nodes = unwrap(command.words).launchers[0].read_count("nodes", script.nodes)
        placed = nodes < script.nodes or _has(command, "placed")
        later = _list_until_wait(command, steps, steps[index + 1 :])
        if taken and any(not (placed and _has(item, "part")) for item in later):
            message = f"an srun in the background takes all {taken} of its nodes"
            yield mark(command.place, f"{message}, and the next one waits")
            return


def _list_until_wait(command: Command, steps: list[Command], rest: list[Command]) -> list[Command]:
    """List the steps before the next wait, with a loop's next turn; those that overlap aside."""
    own = [x for x in command.blocks[-1:] if FORMS["loop"].fullmatch(x.opener)]
    turns = [x for x in steps if {*own} & {*x.blocks}]
    coming = [*filter(turns.__contains__, rest), *turns, *rest]
    return [x for x in takewhile(lambda x: x.name == "srun", coming) if "--overlap" not in x.texts]


def _list_taken(script: Script, command: Command) -> str:
    """Return what a step takes all of, which it has not been told to share."""
    if not _has(command, "shares"):
        return "CPUs"
    # Each task's, where the job's own options share them out; a step has those options, too.
    shared = FORMS["shares-gpus"].search("\n".join([" ".join(command.texts), script.text]))
    return "" if shared or not script.request.gpus else "GPUs"


def _has(command: Command, kind: str) -> bool:
    return any(map(FORMS[kind].fullmatch, command.texts))


@rule("sleep-until-ready")
def _find_sleep(script: Script) -> Iterator[Fault]:
    served = [] if FORMS["asks"].search(join_acting(script)) else _list_after_server(script)
    for command in [item for item in served if item.name == "sleep"][:1]:
        yield mark(command.place, f"whether the server is up in {command.texts[-1]} s is not known")


@rule("endless-wait")
def _find_endless_wait(script: Script) -> Iterator[Fault]:
    acting = join_acting(script)
    served = [] if FORMS["stops"].search(acting) else _list_after_server(script)
    later = [item for item in served if item.end != "&" and trains(unwrap(item.words))]
    beside = [item for item in script.commands if item.end == "&" and unwrap(item.words).agent]
    for command in [item for item in served if item.texts == ["wait"] and later + beside][:1]:
        fix = vars(WHY).get("".join(re.findall(r"\s(--no-wait)\s", acting)[:1]), "")
        yield mark(command.place, "the server never ends, so that the job waits out its time", fix)
    if not FORMS["stops"].search(acting):
        yield from find_text(script, "at stays")


def _list_after_server(script: Script) -> list[Command]:
    serves = FORMS["server"].search
    later = dropwhile(lambda x: x.end != "&" or not serves(" ".join(x.texts)), script.commands)
    return list(later)[1:]
