"""Rules on several programs of one job: servers, and a Ray that is started by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import Command
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.lint.rule import BASH, TRAINS, Fault, mark, rule
from jobgen.batchscript.reader import Script

_RAY = "https://docs.ray.io/en/latest/cluster/vms/user-guides/community/slurm.html"
#: what others connect to
SERVER = re.compile(
    r"\bray start\b|\bvllm serve\b|\bvllm-serve\b|\bapi_server\b|\bsglang\.launch_server\b"
)
# What asks whether something is there; a script that has it needs no rule on sleeping.
_STOPS = re.compile(r"^[^#\n]*\b(kill|pkill|killall|scancel|qdel|ray stop)\b", re.MULTILINE)
_ASKS = re.compile(r"\bcurl\b|\bwget\b|/dev/tcp/|\bnc -z|\bray (status|list|health-check)\b")


@rule("sleep-until-ready", "A server that is given some seconds to start", _RAY)
def _find_sleep(script: Script) -> Iterator[Fault]:
    """A slow file system or a large model takes longer, and then the client fails; a server that
    has died is not noticed at all.

    Fix: ask until it answers, with a limit, and look whether it still runs; ready does so in a
    jobgen spec with roles
    """
    if _ASKS.search(script.text):
        return
    started = False
    for command in script.commands:
        started = started or _serves_beside(command)
        if started and command.name == "sleep" and re.fullmatch(r"\d+[sm]?", command.texts[-1]):
            message = f"whether the server is up after {command.texts[-1]} s is not known"
            yield mark(command.place, message)
            return


def _serves_beside(command: Command) -> bool:
    quiet = command.name in ("echo", "printf")
    return command.end == "&" and not quiet and bool(SERVER.search(" ".join(command.texts)))


@rule("endless-wait", "A wait for a server that nothing ends", BASH)
def _find_endless_wait(script: Script) -> Iterator[Fault]:
    """wait without a number waits for all that runs in the background, and a server does not end:
    once the program is done, the job idles until its time is up.

    Fix: stop the server, or give wait the numbers of the programs: p=$!; ...; wait "$p"
    """
    if _STOPS.search(script.text):
        return
    serves = works = False
    for command in script.commands:
        serves = serves or _serves_beside(command)
        program = TRAINS.fullmatch(unwrap(command.words).name) and command.end != "&"
        works = works or (serves and bool(program))
        if works and command.texts == ["wait"]:
            message = "the server never ends, so this waits until the job's time is up"
            yield mark(command.place, message)
            return


@rule("list-in-quotes", "An array of nodes that has one element", _RAY)
def _find_list_in_quotes(script: Script) -> Iterator[Fault]:
    """In quotes the lines of a list are one word: the first element is all nodes, and no other
    one is set.

    Fix: write mapfile -t NAME < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
    """
    begin, command = r"^[ \t]*", "scontrol show hostname"
    array = rf'{begin}\w+=\("\$(?:\({command}|\{{?(\w+)\}}?"\))'
    for match in re.finditer(array, script.text, re.MULTILINE):
        named = rf'{begin}{match[1]}="?\$\({command}'
        if not match[1] or re.search(named, script.text, re.MULTILINE):
            line = script.text.count("\n", 0, match.start()) + 1
            yield Fault(line, 1, "all names of nodes are one element of this array")


@rule("worker-on-head", "A Ray worker beside the head", _RAY)
def _find_worker_on_head(script: Script) -> Iterator[Fault]:
    """The head's node then counts twice, and other nodes of the job idle.

    Fix: begin the loop at 1, and start each by srun, pbsdsh or ssh on its node
    """
    if not re.search(r"ray start\b[^\n]*--head", script.text):
        return
    for command in script.commands:
        joins = any(text.startswith("--address") for text in command.texts)
        elsewhere = any(block.opener in ("if", "case", "{") for block in command.blocks)
        if joins and not elsewhere and [*command.texts[:2]] == ["ray", "start"]:
            yield mark(command.place, "this worker starts where the script itself runs")
    loop = r"^[ \t]*for\s*\(\(\s*(\w+)\s*=\s*0\s*;(?:(?!^\s*done\b).)*?\[\$?\{?\1\}?\]"
    worker = r"(?:(?!^\s*done\b|--head).)*?ray start\b(?:(?!^\s*done\b|--head).)*?--address"
    if match := re.search(loop + worker, script.text, re.MULTILINE | re.DOTALL):
        line = script.text.count("\n", 0, match.start()) + 1
        yield Fault(line, 1, "the workers begin at node 0, where the head is")
