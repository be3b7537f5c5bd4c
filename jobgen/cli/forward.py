"""`jobgen forward`: a port of a running job on this machine."""

from __future__ import annotations

import shlex
import socket
from contextlib import suppress
from typing import Any

import click

from jobgen.cli.options import complete_words, options_of
from jobgen.cli.printing import put_err, put_out
from jobgen.cli.remote import RemoteCommand, RemoteHost
from jobgen.errors import UsageError

# -N: no command. A forward that cannot listen, or whose connection is dead, ends.
_SSH_OPTIONS = ("-N", "-T", "-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=30")


class _Forward(RemoteCommand):
    """`forward`, whose ssh runs here: with --host, jobgen there only says which node it is."""

    _here = ("--host", "--local-port")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as usual; only with a role may the port be left out."""
        left = super().parse_args(ctx, args)
        if not (ctx.params["port"] or ctx.params["role"] or ctx.resilient_parsing):
            port = next(one for one in self.params if one.name == "port")
            raise click.MissingParameter(ctx=ctx, param=port)
        return left

    def invoke(self, ctx: click.Context) -> Any:
        """Find the node here or there, and forward to it."""
        if ctx.params["host"] is None:
            return super().invoke(ctx)
        host, printed = RemoteHost(ctx.params["host"]), list[bytes]()
        words = [word for word in ctx.meta["words"] if word != "--print"]
        code = host.run_jobgen(["forward", *words, "--print"], keep=printed)
        if code:
            return code
        command = shlex.split(b"".join(printed).decode(errors="replace"))
        port, wanted, only_print = (ctx.params[key] for key in ("port", "local_port", "only_print"))
        # Nothing is printed of a job on the machine itself.
        node, through = (command[-1], [host.name]) if command else (host.name, [])
        port = port or _read_port(command, host.name)
        return _forward(node, port, wanted, through=through, only_print=only_print)


@click.command(cls=_Forward)
@click.argument("job", shell_complete=complete_words("jobs.find", "list_words"))
@click.argument("port", type=click.IntRange(1, 65535), required=False, metavar="PORT")
@options_of("forward")
def forward(
    job: str,
    port: int | None,
    node: str | None,
    role: str | None,
    local_port: int | None,
    only_print: bool,
) -> int | None:
    """Forward a port of a running job's node to this machine until you press Ctrl-C.

    Your own ssh forwards the port to localhost on the node. The site must allow ssh to the nodes
    of your jobs. For a task of an array, give its ID, such as 12_3. Exits with ssh's exit code.
    """
    from jobgen import find
    from jobgen.jobs.inside import find_node, find_port

    record = find(job)
    name = find_node(record, node, role)
    port = port or find_port(record, role)
    if record.local:
        put_err(f"job {record.id} runs on this machine: http://127.0.0.1:{port}/")
        return 0
    return _forward(name, port, local_port, through=[], only_print=only_print)


def _forward(
    node: str, port: int, local_port: int | None, *, through: list[str], only_print: bool
) -> int:
    """Run ssh to the node; what it forwards goes to localhost there, where tools listen."""
    from jobgen.process import replace_process

    local = local_port or _pick_port(port)
    jump = ["-J", ",".join(through)] if through else []
    argv = ["ssh", *_SSH_OPTIONS, *jump, "-L", f"127.0.0.1:{local}:localhost:{port}", node]
    if only_print:
        put_out(f"{shlex.join(argv)}\n")
        return 0
    put_err(f"ssh connects to {node}, which the site must allow from this machine")
    words = shlex.quote(f"http://127.0.0.1:{local}/ is port {port} of {node}; Ctrl-C ends it")
    # What ssh runs here once it is connected and listens; its tokens begin with a percent sign.
    tell = f"LocalCommand=echo {words.replace('%', '%%')} >&2"
    replace_process([*argv[:1], "-o", "PermitLocalCommand=yes", "-o", tell, *argv[1:]])


def _read_port(command: list[str], host: str) -> int:
    """Return the port that a printed ssh command forwards; UsageError where none is printed."""
    if not command:
        raise UsageError(f"a job on {host} itself needs a PORT: `jobgen status` shows it")
    return int(command[-2].rpartition(":")[2])


def _pick_port(wanted: int) -> int:
    """Return a port that is free on this machine: the wanted one, or any."""
    for port in (wanted, 0):
        with suppress(OSError), socket.socket() as free:  # in use, or below 1024
            free.bind(("127.0.0.1", port))
            return int(free.getsockname()[1])
    return wanted
