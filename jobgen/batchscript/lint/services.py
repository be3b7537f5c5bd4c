"""Rules on several programs of one job: servers, and what waits for them."""

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
    sleeps = [item for item in _list_after_server(script) if item.name == "sleep"]
    for command in sleeps[:1]:
        message = f"whether the server is up after {command.texts[-1]} s is not known"
        yield mark(command.place, message)


def _list_after_server(script: Script) -> list[Command]:
    """List the commands after the first that starts a server in the background."""
    beside = ((number, item) for number, item in enumerate(script.commands, 1) if item.end == "&")
    serving = (number for number, item in beside if SERVER.search(" ".join(item.texts)))
    return script.commands[next(serving, len(script.commands)) :]


@rule("endless-wait", "A wait for a server that nothing ends", BASH)
def _find_endless_wait(script: Script) -> Iterator[Fault]:
    """wait without a number waits for all that runs in the background, and a server does not end:
    once the program is done, the job idles until its time is up.

    Fix: stop the server, or give wait the numbers of the programs: p=$!; ...; wait "$p"
    """
    if _STOPS.search(script.text):
        return
    works = False  # whether a program has run beside the server
    for command in _list_after_server(script):
        works |= command.end != "&" and bool(TRAINS.fullmatch(unwrap(command.words).name))
        if works and command.texts == ["wait"]:
            message = "the server never ends, so this waits until the job's time is up"
            yield mark(command.place, message)
            return
