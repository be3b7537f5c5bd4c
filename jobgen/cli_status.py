"""Commands that say how jobs stand, wait for them or end them: a part of the command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from jobgen.cli_host import OnHost
from jobgen.cli_target import completes, json_option, put_out, settle_first

if TYPE_CHECKING:
    from jobgen.api import Job
    from jobgen.status import Look

jobs_argument = click.argument(
    "jobs", nargs=-1, metavar="[JOB]...", shell_complete=completes("runs", "words")
)


@click.command(cls=OnHost)
@jobs_argument
@click.option("--watch", is_flag=True, help="Go on showing it, until all have ended.")
@json_option
def status(jobs: tuple[str, ...], watch: bool, as_json: bool) -> None:
    """Print how jobs stand: the latest when none is named, by id, name or run folder.

    A job is queued, running, stopping, done, failed, cancelled, timeout (its walltime has ended
    it), node lost or unknown. Of one job that word is all of stdout; the scheduler's reason, when
    it is expected to start, its progress and the time left are on stderr. Several are a table.
    """
    if watch and as_json:
        raise click.UsageError("--watch and --json exclude each other")
    from jobgen import find_all, look, overview
    from jobgen.plain import to_json

    settle_first()
    found, problems = find_all(jobs)
    if watch:
        _watch(found)
        _complain(problems)
        return
    seen = look(found)
    rows = [overview.row(each) for each in seen.found]
    if as_json:
        put_out(to_json({"jobs": rows}))
    elif len(jobs) < 2:
        for one in rows:
            put_out(f"{one.state}\n")
            click.echo(overview.alone(one), err=True, nl=False)
    else:
        put_out(overview.table(rows))
    _complain(problems, seen)


@click.command("list", cls=OnHost)
@json_option
def list_jobs(as_json: bool) -> None:
    """Print how all jobs stand that were submitted from here, the latest first."""
    from jobgen import everything, look, overview
    from jobgen.plain import to_json

    settle_first()
    found, problems = everything()
    seen = look(found)
    rows = [overview.row(each) for each in seen.found]
    put_out(to_json({"jobs": rows}) if as_json else overview.table(rows))
    _complain(problems, seen)


@click.command(cls=OnHost)
@click.argument(
    "jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=completes("runs", "words")
)
def cancel(jobs: tuple[str, ...]) -> None:
    """End jobs, by id, name or run folder; of a name the latest."""
    import jobgen

    settle_first()
    found, problems = jobgen.find_all(jobs)
    if not problems:  # half of what was meant is not meant
        jobgen.cancel(found)
    _complain(problems)


@click.command(cls=OnHost)
@jobs_argument
@json_option
def wait(jobs: tuple[str, ...], as_json: bool) -> None:
    """Wait for jobs to end (the latest when none is named); exit 7 unless all are done.

    Each is printed as it ends: its id and its state. The scheduler is asked once a minute.
    """
    from jobgen import Watch, find_all, overview
    from jobgen.errors import JobFailedError
    from jobgen.plain import to_json

    settle_first()
    found, problems = find_all(jobs)
    _complain(problems)
    watch, told, silences = Watch(found), set[int](), tuple[str, ...]()
    for seen in watch.until_over():
        if seen.silences != silences:
            silences = seen.silences
            click.echo("\n".join(silences), err=True, nl=bool(silences))
        for index, each in enumerate(seen.found):
            if index not in told and watch.over(index):
                told.add(index)
                if not as_json:
                    put_out(f"{each.job.id} {each.state.name}\n")
    if as_json:
        put_out(to_json({"jobs": [overview.row(each) for each in seen.found]}))
    bad = [each for each in seen.found if each.state.name != "done"]
    if bad:
        lines = (f"job {each.job.id}: {each.state.said}" for each in bad)
        raise JobFailedError("\n".join(lines))


def _watch(found: list[Job]) -> None:
    """Draw the table again and again; where it is no terminal, the jobs whose state has changed."""
    from jobgen import Watch, overview

    before: dict[str, str] = {}
    for seen in Watch(found).until_over():
        rows = [overview.row(each) for each in seen.found]
        if sys.stdout.isatty():
            put_out(
                "\x1b[H\x1b[J" + overview.table(rows) + "".join(map("{}\n".format, seen.silences))
            )
            continue
        for each in rows:
            if before.get(each.id) != each.state:
                before[each.id] = each.state
                put_out(f"{each.id} {each.state}\n")


def _complain(problems: list[str], seen: Look | None = None) -> None:
    """End with what is wrong: records that are damaged, schedulers that have not answered."""
    from jobgen.errors import SchedulerUnavailableError, UsageError

    if problems:
        raise UsageError("\n".join([*problems, *(seen.silences if seen else ())]))
    if seen and seen.silences:
        raise SchedulerUnavailableError("\n".join(seen.silences))


COMMANDS = {"cancel": cancel, "list": list_jobs, "status": status, "wait": wait}
