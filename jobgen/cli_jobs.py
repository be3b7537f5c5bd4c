"""Commands about jobs that were submitted: a part of the command line, printing as it does."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from jobgen.cli_host import OnHost
from jobgen.cli_target import completes, json_option, put_out, settle_first


@click.command(cls=OnHost)
@click.argument("job", required=False, shell_complete=completes("runs", "words"))
@json_option
def diagnose(job: str | None, as_json: bool) -> None:
    """Say what went wrong with a job first: which rank, why, what shows it, and what to do."""
    from jobgen import find
    from jobgen.plain import to_json

    settle_first()
    cause = find(job).diagnose()
    put_out(to_json(cause) if as_json else cause.as_text())


@click.command(cls=OnHost)
@click.argument("job", required=False, shell_complete=completes("runs", "words"))
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--rank", type=click.IntRange(0), metavar="R", help="Of this process only.")
@click.option("--node", metavar="N", help="Of this node only, by its name.")
@click.option("--stderr", is_flag=True, help="What processes printed on stderr, and the agents.")
def logs(job: str | None, follow: bool, rank: int | None, node: str | None, stderr: bool) -> None:
    """Print what a job's script and processes have printed, with the node and rank of each line.

    What many ranks print alike stands once, with their number.
    """
    import sys
    import time

    from jobgen import find

    def pause(seconds: float) -> None:
        sys.stdout.flush()
        time.sleep(seconds)

    settle_first()
    found = find(job)
    lines: Iterator[object] = found.logs(rank=rank, node=node, stderr=stderr)
    if follow:
        lines = found.follow(rank=rank, node=node, stderr=stderr, pause=pause)
    nothing = True
    for line in lines:
        nothing = False
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    if nothing:
        where = os.path.relpath(found.run_dir)
        click.echo(f"nothing of that kind has been printed yet; the files are in {where}", err=True)


COMMANDS = {"diagnose": diagnose, "logs": logs}
