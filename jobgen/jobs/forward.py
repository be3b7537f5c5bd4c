"""A port of a running job's node, made reachable on this machine by ssh."""

from __future__ import annotations

import socket
from collections.abc import Sequence

# -N: no command. A forward that cannot listen, or whose connection is dead, ends.
_OPTIONS = ("-N", "-T", "-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=30")


def make_forward(
    node: str, port: int, *, local_port: int, through: Sequence[str] = ()
) -> list[str]:
    """Return the ssh command that brings `port` of a node to `local_port` of this machine.

    On the node it goes to localhost, where tools listen by default. `through` are the machines on
    the way there.
    """
    way = ["-J", ",".join(through)] if through else []
    return ["ssh", *_OPTIONS, *way, "-L", f"127.0.0.1:{local_port}:localhost:{port}", node]


def pick_port(wanted: int) -> int:
    """Return a port that is free on this machine: the wanted one, or any."""
    for port in (wanted, 0):
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:  # in use, or below 1024
                continue
            return int(free.getsockname()[1])
    return wanted
