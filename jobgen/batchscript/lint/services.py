"""Rules on several programs of one job: servers, and what waits for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import Command
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.lint.rule import BASH, TRAINS, Fault, mark, rule
from jobgen.batchscript.reader import Script

#: what others connect to
SERVER = re.compile(
    r"\bray start\b|\bvllm serve\b|\bvllm-serve\b|\bapi_server\b|\bsglang\.launch_server\b"
)
_STOPS = re.compile(r"^[^#\n]*\b(kill|pkill|killall|scancel|qdel|ray stop)\b", re.MULTILINE)


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
