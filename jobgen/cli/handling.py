"""Commands that do something with a job on record: once more, inside of it, away with it."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from jobgen.cli.jobs import job_argument
from jobgen.cli.options import (
    DEFAULT_SPEC,
    FILE,
    add_target_options,
    json_option,
    load_plan,
    put_out,
    report_recoveries,
)
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


@click.command()
@job_argument
@click.option("--node", metavar="N", help="This node, by name or number; else the first.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def shell(job: str | None, node: str | None, words: tuple[str, ...]) -> int:
    """Open a shell on a node of a running job, or run a command there: jobgen shell 12 -- top -b.

    It begins in the folder of submission, and has $JOBGEN_RUN_DIR. Exits as the command does.
    """
    from jobgen import find
    from jobgen.jobs.handling.inside import enter_job
    from jobgen.process import run_here

    report_recoveries()
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return run_here(enter_job(find(job), node=node, words=words, terminal=terminal))


@click.command()
@click.argument("spec", default=DEFAULT_SPEC, type=FILE, metavar="[SPEC]")
@click.option("--task", type=click.IntRange(0), help="This task of the spec's array.")
@add_target_options
def run(spec: str, task: int | None, **target: Any) -> int:
    """Run a spec's job in the allocation that this shell holds: by salloc, qsub -I and the like.

    The same script as of render, with its run folder; what has begun is known to status, logs and
    the other commands by the allocation's id. On this machine (local) it runs in the foreground.
    """
    from jobgen.jobs.handling.inside import write_held_job
    from jobgen.process import run_here

    return run_here(write_held_job(load_plan(spec, target, task)[1]))


COMMANDS = {"rerun": rerun, "run": run, "shell": shell}
