"""Commands that act on a recorded job: rerun it, enter it, remove it."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jobgen.cli.jobs import confirm_latest, job_argument, jobs_argument
from jobgen.cli.options import DEFAULT_SPEC, FILE, options_of, refuse_together
from jobgen.cli.printing import put_answer, put_err, put_next, report_recoveries, take_host
from jobgen.cli.remote import RemoteCommand, RemoteSpecCommand
from jobgen.cli.target import SpecCommand, add_target_options, load_plan
from jobgen.errors import UsageError
from jobgen.output import format_count, format_table, offer_line

if TYPE_CHECKING:
    from jobgen.api import Job
    from jobgen.jobs.clean import Waste
    from jobgen.jobs.status import StatusReport


@click.command(cls=RemoteSpecCommand)
@job_argument
@options_of("rerun")
def rerun(
    job: str | None,
    failed: bool,
    go_on: bool,
    overrides: tuple[str, ...],
    again: bool,
    as_json: bool,
) -> None:
    """Submit a recorded job again, and print the new ID.

    Submits the same script. With --set, --failed, a task of an array or arguments after --, renders
    its spec again, unless the script that ran was edited (exit code 4). The new job runs in the
    current folder with its current code. Without a job, asks before it reruns the latest.
    """
    from jobgen import find

    refuse_together({"--failed": failed, "--continue": go_on})
    host = take_host()
    named = find(job)
    if job is None:
        options = [*["--failed"] * failed, *["--continue"] * go_on, *overrides]
        changes = f" with {', '.join(options)}" if options else ""
        confirm_latest("rerun", named, f" ({named.status().described}){changes}")
    jobs = named.rerun(failed=failed, go_on=go_on, overrides=overrides, again=again, warn=put_err)
    rows = [
        {"id": one.id, "run_folder": os.path.relpath(one.run_dir), "rerun_of": one.rerun_of}
        for one in jobs
    ]
    put_answer({"jobs": rows}, "".join(f"{one.id}\n" for one in jobs), as_json=as_json)
    for one, row in zip(jobs, rows, strict=True):
        of_tasks = f", reruns {', '.join(one.rerun_of)}" if failed else ""
        put_err(f"run folder: {row['run_folder']}{of_tasks}")
    put_next(host, [one.id for one in jobs])


_NO_SSH = 255  # the exit code of an ssh that has no connection


class ShellCommand(click.Command):
    """`shell`, which may name no job: a word after `--` is never the job."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words before `--`, and add the others to the command."""
        at = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["words"] = (*ctx.params["words"], *args[at + 1 :])
        return rest


@click.command(cls=ShellCommand)
@job_argument
@options_of("shell")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def shell(job: str | None, node: str | None, role: str | None, words: tuple[str, ...]) -> int:
    """Open a shell on a node of a running job, or run a command there: jobgen shell 12 -- top -b.

    The default is the latest job. The shell starts in the folder you submitted from, with
    $JOBGEN_RUN_DIR set; jobgen exits with the command's exit code.
    """
    from jobgen import find
    from jobgen.jobs.inside import enter_job
    from jobgen.process import run_here

    report_recoveries()
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    command = enter_job(find(job), node=node, words=words, terminal=terminal, role=role)
    code = run_here(command)
    if command[0] == "ssh" and code == _NO_SSH:
        put_err("ssh could not reach the node, and PBS has no other way into a running job")
        put_err("ask your site whether users may enter the nodes of their jobs")
    return code


@click.command(cls=SpecCommand)
@click.argument("spec", default=DEFAULT_SPEC, type=FILE, metavar="[SPEC]")
@options_of("run")
@add_target_options
def run(spec: str, task: int | None, **target: Any) -> int:
    """Run the job of a spec in the allocation that this shell holds, from salloc or qsub -I.

    Runs the script that `jobgen render` prints, with a run folder; `status`, `logs` and the other
    commands find the run by the allocation's ID. Prints what rank 0 prints. A local job runs in the
    foreground.
    """
    from jobgen.cli.following import run_shown
    from jobgen.jobs.inside import write_held_job

    loaded, plan = load_plan(spec, target, task)
    return run_shown(write_held_job(loaded.spec, plan), plan.name)


@click.command(cls=RemoteCommand)
@jobs_argument
@options_of("clean")
def clean(jobs: tuple[str, ...], older: str | None, yes: bool, as_json: bool, **which: Any) -> None:
    """Remove the run folders of ended jobs: those you name, or all below ./runs.

    Lists the folders with their sizes, and asks first. Keeps running jobs and files outside run
    folders. A job in an unknown state goes only if you name it and its scheduler does not know it.
    """
    from jobgen import get_status
    from jobgen.jobs.clean import find_waste, remove_waste

    age = older or ("" if jobs else "30d")
    before = time.time() - _read_age(age)
    known = _list_known(jobs)
    _check_kept(which["keep"], known)
    seen = get_status(known)
    waste = find_waste(seen, before=before, named=bool(jobs), **which)
    if jobs:
        _name_kept(seen, waste, age, failed=which["failed"])
        _name_others(known, jobs)
    elif known and not (waste or any(which.values())):
        kept = format_count(len(known), "job")
        put_err(f"{kept} kept: each goes on, or ended less than {age} ago (--older)")
    total = f"{sum(each.size for each in waste) / 1e6:,.1f} MB of {format_count(len(waste), 'job')}"
    if waste:
        _confirm_removal(waste, total, yes=yes)
    for each in waste:
        remove_waste(each)
    removed = [{"id": each.job.id, "size": each.size} for each in waste]
    put_answer({"removed": removed}, f"removed {total}\n", as_json=as_json)


def _list_known(names: Sequence[str]) -> list[Job]:
    """Return the jobs of these names; without any, all below ./runs that can be read."""
    from jobgen import find_all, list_jobs

    known, problems = find_all(names) if names else list_jobs()
    if problems and names:
        raise UsageError("\n".join(problems))
    put_err("".join(f"{problem}\n" for problem in problems), end="")
    return known


def _check_kept(names: Sequence[str], known: Sequence[Job]) -> None:
    """Raise UsageError for a part to keep that is a number, or one misspelt: it would be lost."""
    from jobgen.spec.spelling import find_near

    parts = {path.name for job in known for path in job.run_dir.glob("*")} if names else set()
    for name in sorted({*names} - parts):
        near = find_near(name, parts)
        if near or name.isdecimal():
            hint = f"did you mean {near}?" if near else "of jobs, --older TIME keeps some"
            raise UsageError(f"--keep {name}: no run folder has such a part; {hint}")


def _read_age(age: str) -> float:
    """Return the seconds of a time such as 30d; 0 of none."""
    from jobgen.spec.units import parse_duration

    if re.fullmatch("(0+[smhdw]?)?", age):
        return 0
    try:
        return parse_duration(age)
    except ValueError as error:
        fault = f"has no unit; write {age}d for days" if age.isdecimal() else error
        raise UsageError(f"--older: {age!r} {fault}") from None


def _name_kept(seen: StatusReport, waste: Sequence[Waste], age: str, *, failed: bool) -> None:
    """Say of each job that does not go why it is kept."""
    going, wholes = {each.job.id for each in waste}, {each.job.array for each in waste}
    recent = f"it ended less than {age} ago (--older), or " if age else ""
    for job, state, *_ in seen.jobs:
        why = f"{recent}nothing of it is left to remove"
        if not state.ended or (failed and state.name == "done"):
            why = f"it is {state.described}"
        if job.id not in going | wholes and job.array not in going:
            put_err(f"{job.id}: kept, because {why}")


def _name_others(known: Sequence[Job], names: Sequence[str]) -> None:
    """Say which jobs have the same name as one that was named so."""
    from jobgen import list_jobs

    own = {job.id for job in known}
    if others := [job.id for job in list_jobs()[0] if job.name in names and job.id not in own]:
        line = offer_line("jobgen", "clean", *others)
        put_err(f"a name is the latest job of that name; for the others: {line}")


def _confirm_removal(waste: Sequence[Waste], total: str, *, yes: bool) -> None:
    """List what goes, and ask, unless the user has said `yes`."""
    rows = [
        (f"{each.size / 1e6:,.1f} MB", each.state.name, os.path.relpath(each.job.run_dir))
        for each in waste
    ]
    put_err("\n".join(format_table(rows)))
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"{total} not removed: jobgen cannot ask here; to confirm, give --yes")
    if not yes:
        click.confirm(f"remove {total}?", abort=True, err=True)
