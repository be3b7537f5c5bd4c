"""Commands that do something with a job on record: once more, inside of it, away with it."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from jobgen.cli.jobs import job_argument, jobs_argument
from jobgen.cli.options import (
    DEFAULT_SPEC,
    FILE,
    add_target_options,
    json_option,
    load_plan,
    put_err,
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
        warn=put_err,
    )
    rows = [
        {"id": one.id, "run_folder": os.path.relpath(one.run_dir), "rerun_of": one.rerun_of}
        for one in jobs
    ]
    put_out(format_json({"jobs": rows}) if as_json else "".join(f"{one.id}\n" for one in jobs))


class ShellCommand(click.Command):
    """`shell`, of the latest job too: what stands behind `--` is never the job."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before `--`, and add the rest."""
        at = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["words"] = (*ctx.params["words"], *args[at + 1 :])
        return rest


@click.command(cls=ShellCommand)
@job_argument
@click.option("--node", metavar="N", help="This node, by name or number; else the first.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def shell(job: str | None, node: str | None, words: tuple[str, ...]) -> int:
    """Open a shell on a node of a running job, or run a command there: jobgen shell 12 -- top -b.

    It is the latest job when none is named. The shell begins in the folder of submission, and has
    $JOBGEN_RUN_DIR; jobgen exits as the command does.
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

    loaded, plan = load_plan(spec, target, task)
    return run_here(write_held_job(loaded.spec, plan))


@click.command(cls=RemoteCommand)
@jobs_argument
@click.option(
    "--older", metavar="TIME", help="Since its end, such as 12h; 30d by default, of jobs named any."
)
@click.option(
    "--keep",
    multiple=True,
    metavar="NAME",
    help="Leave this of each run folder, such as checkpoints, and the record with it.",
)
@click.option("--failed", is_flag=True, help="Only of jobs that are not done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def clean(
    jobs: tuple[str, ...],
    older: str | None,
    keep: tuple[str, ...],
    failed: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove run folders of jobs that have ended: of those named, or of all below ./runs.

    Shows first what would go, and how much it is, and asks. What is alive, or not known to have
    ended, stays, and so does all that is not in a run folder.
    """
    import time

    from jobgen import everything, find_all
    from jobgen.errors import UsageError
    from jobgen.jobs.handling.clean import find_waste, remove_waste
    from jobgen.output import format_json, format_table
    from jobgen.spec.units import parse_duration

    try:
        seconds = parse_duration(older or "30d") if older or not jobs else 0
    except ValueError as error:
        raise UsageError(f"--older {older}: {error}") from None
    report_recoveries()
    known, problems = find_all(jobs) if jobs else everything()
    if problems and jobs:
        raise UsageError("\n".join(problems))
    put_err("".join(f"{problem}\n" for problem in problems), end="")
    waste = find_waste(known, before=time.time() - seconds, failed=failed, keep=keep)
    going = {each.job.id for each in waste}
    for job in known if jobs else ():
        if job.id not in going:
            why = "it is not known to have ended, or not as asked for, or nothing of it is left"
            put_err(f"{job.id} stays: {why}")
    rows = [
        (f"{each.size / 1e6:,.1f} MB", each.state.name, os.path.relpath(each.job.run_dir))
        for each in waste
    ]
    total = f"{sum(each.size for each in waste) / 1e6:,.1f} MB of {len(waste)} jobs"
    put_err("".join(f"{line}\n" for line in format_table(rows)) if rows else "", end="")
    if waste and not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"{total}: not removed, as there is nobody to ask; give --yes")
        click.confirm(f"remove {total}?", abort=True, err=True)
    for each in waste:
        remove_waste(each)
    if as_json:
        removed = [{"id": each.job.id, "size": each.size} for each in waste]
        put_out(format_json({"removed": removed}))
    else:
        put_out(f"removed {total}\n")


COMMANDS = {"clean": clean, "rerun": rerun, "run": run, "shell": shell}
