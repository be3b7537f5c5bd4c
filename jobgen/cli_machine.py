"""The commands that look at the machine they run on: `jobgen doctor` and `jobgen init`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from jobgen.cli_target import (
    DEFAULT_SPEC,
    FILE,
    completes,
    json_option,
    plan_of,
    put_out,
    target_options,
)
from jobgen.errors import FaultsFoundError, UsageError


@click.command()
@click.argument("path", required=False, type=FILE, metavar="[SPEC]")
@json_option
@target_options
def doctor(path: str | None, as_json: bool, **target: Any) -> None:
    """Check that this machine can submit jobs; with a spec, also its queue, account and paths.

    Takes a few seconds at most. Exit 8 if something would make jobs fail.
    """
    from jobgen.doctor import examine
    from jobgen.plain import to_json
    from jobgen.verdict import as_text, worst

    plan, site = None, None
    if path is not None:
        loaded, plan = plan_of(path, target)
        site = target["site"] or loaded.spec.site
    elif any(target.values()):
        raise UsageError("--scheduler, --site, --set and --no-limits are for a spec; name one")
    checks = examine(plan, site)
    if as_json:
        put_out(to_json({"verdict": worst(checks), "checks": checks}))
    else:
        put_out(as_text(checks))
    if failed := [check.what for check in checks if check.verdict == "fail"]:
        raise FaultsFoundError(f"not ready: {', '.join(failed)}")


@click.command()
@click.argument("file", default=DEFAULT_SPEC, type=FILE, metavar="[FILE]")
@click.option(
    "--site",
    metavar="NAME",
    help="A cluster's profile, not the one that is found.",
    shell_complete=completes("site", "names"),
)
@click.option(
    "--scheduler",
    type=click.Choice(["slurm", "pbs", "local"]),
    help="Without a site's profile.",
)
@click.option("--account", metavar="NAME", help="Who pays.")
@click.option("--queue", metavar="NAME", help="On Slurm, the partition.")
@click.option("--nodes", type=click.IntRange(1), metavar="N")
@click.option("--gpus-per-node", type=click.IntRange(0), metavar="N")
@click.option("--walltime", metavar="TIME", help="Such as 4h or 00:30:00.")
@click.option("--script", metavar="FILE", help="The Python file to run; or --module.")
@click.option("--module", metavar="NAME", help="The Python module to run.")
@click.option("--force", is_flag=True, help="Replace FILE where it is there.")
def init(file: str, force: bool, **given: Any) -> None:
    """Write a commented job.yaml for this machine, which it looks at.

    On a terminal it asks what it cannot find and was not told.
    """
    from pathlib import Path

    from jobgen.init import Wishes, look, questions, write
    from jobgen.runs import write_atomically

    wishes = Wishes(**given)
    if wishes.site and wishes.scheduler:
        raise UsageError("--site and --scheduler exclude each other")
    if wishes.script and wishes.module:
        raise UsageError("--script and --module exclude each other")
    if os.path.lexists(file) and not force:
        raise UsageError(f"{file}: is there already; --force replaces it")
    machine = look()
    if sys.stdin.isatty() and sys.stderr.isatty():
        for key, words, default in questions(machine, wishes):
            answer = click.prompt(words, default=default, err=True)
            wishes = wishes._replace(**{key: None if answer == "" else answer})
    written = write(machine, wishes, file=file)
    write_atomically(Path(file), written.text)
    for note in written.plan.notes:
        click.echo(note, err=True)
    click.echo(f"{file}: written; read it, then: jobgen explain, jobgen submit", err=True)


COMMANDS = {"doctor": doctor, "init": init}
