"""Commands that do something with a job on record: once more, inside of it, away with it."""

from __future__ import annotations

import os

import click

from jobgen.cli.jobs import job_argument
from jobgen.cli.options import json_option, put_out, report_recoveries
from jobgen.cli.remote import RemoteCommand


@click.command(cls=RemoteCommand)
@job_argument
@click.option("--failed", is_flag=True, help="Only if it has failed; of an array, what has.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Set one value of its spec, such as resources.walltime=8h.",
)
@click.option("--again", is_flag=True, help="Submit though the same is submitted already.")
@json_option
def rerun(
    job: str | None, failed: bool, overrides: tuple[str, ...], again: bool, as_json: bool
) -> None:
    """Submit a job again as it is on record (the latest when none is named); prints the new id.

    Without --set and --failed it is the same script, else what its spec renders today. It runs from
    the current folder, with the code that is there now.
    """
    from jobgen import find
    from jobgen.output import format_json

    report_recoveries()
    jobs = find(job).rerun(
        failed=failed,
        overrides=overrides,
        again=again,
        warn=lambda text: click.echo(text, err=True),
    )
    rows = [
        {"id": one.id, "run_folder": os.path.relpath(one.run_dir), "rerun_of": one.rerun_of}
        for one in jobs
    ]
    put_out(format_json({"jobs": rows}) if as_json else "".join(f"{one.id}\n" for one in jobs))


COMMANDS = {"rerun": rerun}
