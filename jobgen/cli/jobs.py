"""Commands about submitted jobs: their state, their output, and why they failed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from jobgen.cli.following import QueueNews, StatusLine, name_cause, raise_failures, say_they_go_on
from jobgen.cli.options import STDOUT, complete_words, options_of, refuse_together
from jobgen.cli.printing import put_answer, put_err, put_out, put_text
from jobgen.cli.remote import RemoteCommand
from jobgen.errors import JobFailedError, RefusedError, SchedulerUnavailableError, UsageError
from jobgen.output import make_printable, offer_line, write_file

if TYPE_CHECKING:
    from pathlib import Path

    from jobgen.api import Job
    from jobgen.jobs.status import JobStatus, StatusReport
    from jobgen.jobs.table import JobRow
    from jobgen.jobs.top import NodeUse
    from jobgen.jobs.watch import Watch
    from jobgen.report.facts import Report
    from jobgen.schedulers.base import State

job_argument = click.argument(
    "job", required=False, shell_complete=complete_words("jobs.find", "list_words")
)
jobs_argument = click.argument(
    "jobs", nargs=-1, metavar="[JOB]...", shell_complete=complete_words("jobs.find", "list_words")
)


@click.command(cls=RemoteCommand)
@jobs_argument
@options_of("status")
def status(jobs: tuple[str, ...], watch: bool, as_json: bool) -> None:
    """Show the state of jobs (ID, name or run folder; default: the latest).

    States are queued, running, stopping, done, failed, cancelled, timeout, node lost and unknown.
    For one job, the first line is only its state, and details follow; without a word, its name and
    ID come before, on stderr. Several jobs print a table.
    """
    refuse_together({"--watch": watch, "--json": as_json})
    from jobgen import find_all, get_status
    from jobgen.jobs import table

    named, problems = find_all(jobs)
    if watch:
        _watch(named)
        _raise_problems(problems)
        return
    seen = get_status(named)
    rows = [table.build_row(each, tracked=True) for each in seen.jobs]
    if len(rows) == 1:  # of many it takes seconds
        rows = [rows[0]._replace(cause=name_cause(*seen.jobs[0][:2]))]
    if as_json:
        put_out({"jobs": rows})
    elif len(jobs) > 1:
        put_text(table.format_jobs(rows))
    else:
        _show_one(rows, named=bool(jobs))
    _raise_problems(problems, seen.silences)


def _show_one(rows: Iterable[JobRow], *, named: bool) -> None:
    """Print the state of a job, if it was found, alone on a line, and the details."""
    from jobgen.jobs import table

    for row in rows:
        if not named:
            put_err(f"{row.name} {row.id}:")
        put_text(f"{row.state}\n{table.format_details(row)}")


def _watch(jobs: list[Job]) -> None:
    """Redraw the table; without a terminal, print each job whose state has changed."""
    from jobgen import Watch
    from jobgen.jobs import table

    before: dict[str, str] = {}
    for seen in Watch(jobs).until_over():
        if sys.stdout.isatty():
            shown = table.format_jobs([table.build_row(each) for each in seen.jobs])
            put_out(f"\x1b[H\x1b[J{shown}")
            put_err("".join(f"{silence}\n" for silence in seen.silences), end="")
            continue
        for job, state, *_ in seen.jobs:
            if before.get(job.id) != state.name:
                before[job.id] = state.name
                put_out(f"{job.id} {state.name}\n")


@click.command("list", cls=RemoteCommand)
@options_of("list")
def list_jobs(
    state: str | None, limit: int | None, everywhere: bool, bad_nodes: bool, as_json: bool
) -> None:
    """List jobs submitted from this folder, newest first."""
    from typing import get_args

    from jobgen import get_status, list_jobs
    from jobgen.jobs import table
    from jobgen.jobs.find import NO_JOB
    from jobgen.schedulers.base import StateName
    from jobgen.spec.spelling import find_near

    if state is not None and state.lower() not in get_args(StateName):
        near = find_near(state.lower(), get_args(StateName))
        words = ", ".join(get_args(StateName)) + f"; did you mean {near}?" * bool(near)
        raise click.UsageError(f"--state {state}: not one of {words}")
    state = state and state.lower()  # squeue prints capitals
    known, problems = list_jobs(elsewhere=everywhere)
    if bad_nodes:
        _show_bad_nodes(known, as_json=as_json)
        _raise_problems(problems)
        return
    seen = get_status(known[:limit] if state is None else known)
    chosen = [each for each in seen.jobs if state in (None, each.state.name)]
    rows = [table.build_row(each) for each in chosen[:limit]]
    put_answer({"jobs": rows}, table.format_jobs(rows, folders=everywhere), as_json=as_json)
    if not (known or everywhere or problems or as_json):
        put_err(NO_JOB)
    _raise_problems(problems, seen.silences)


def _show_bad_nodes(jobs: Sequence[Job], *, as_json: bool) -> None:
    from jobgen.jobs import verdicts

    nodes = verdicts.sum_bad_nodes(jobs)
    put_answer({"nodes": nodes}, verdicts.format_bad_nodes(nodes), as_json=as_json)


def confirm_latest(verb: str, job: Job, about: str = "") -> None:
    """Ask before a command acts on the latest job, as none was named; refuse off a terminal."""
    if not sys.stdin.isatty():
        raise UsageError(f"name the job to {verb}; the latest is {job.name} {job.id}")
    click.confirm(f"{verb} {job.name} {job.id}{about}?", abort=True, err=True)


@click.command(cls=RemoteCommand)
@jobs_argument
@options_of("cancel")
def cancel(jobs: tuple[str, ...], as_json: bool) -> None:
    """Cancel jobs (ID, name or run folder); without any, asks before it cancels the latest left."""
    import jobgen

    named, problems = jobgen.find_all(jobs)
    _raise_problems(problems)  # cancel all of them or none
    if not jobs:
        known = jobgen.get_status(jobgen.list_jobs()[0]).jobs
        going = (one.job.id for one in known if not (one.state.ended or one.forgotten))
        named = [jobgen.find(next(going, named[0].id))]
        confirm_latest("cancel", named[0])
    ended: tuple[str, ...] = ()
    try:
        ended = tuple(job.id for job in jobgen.cancel(named))
    except RefusedError as error:
        ended = error.cancelled
        raise
    finally:
        for job in named:
            if job.id in ended:
                put_err(f"{job.name} {job.id}: cancelled")
        _name_others(named, jobs)
        if as_json:
            put_out({"cancelled": ended})


def _name_others(named: Sequence[Job], words: Sequence[str]) -> None:
    """Say who else has the name by which a job was meant, whether that was cancelled or not."""
    from jobgen.jobs.status import list_namesakes

    for job in named:
        if job.name in words and (others := list_namesakes(job)):
            line = offer_line("jobgen", "cancel", *others)
            put_err(f"a name is the latest job of that name; for the others: {line}")


@click.command(cls=RemoteCommand)
@jobs_argument
@options_of("wait")
def wait(jobs: tuple[str, ...], then: str | None, as_json: bool) -> None:
    """Wait for jobs to end (default: the latest), and print the state of each as it ends.

    Exits with 7 unless all jobs are done. jobgen asks the scheduler once a minute, and prints on
    stderr why a job is queued. It does not wait for a job that will never start.
    """
    from jobgen import find_all
    from jobgen.jobs import table

    named, problems = find_all(jobs)
    if problems and then and " " not in then:
        problems.append(f"--then takes one word; put the command in quotes: --then '{then} ...'")
    _raise_problems(problems)
    seen = _wait_for(named, then, quiet=as_json)
    if as_json:
        put_out({"jobs": list(map(table.build_row, seen.jobs))})
    raise_failures([each[:2] for each in seen.jobs])


def _wait_for(jobs: Sequence[Job], then: str | None, *, quiet: bool) -> StatusReport:
    """Return the last report on jobs when all have ended; act on each as it ends."""
    from jobgen import Watch

    watch, left = Watch(jobs), dict(enumerate(jobs))
    try:
        for seen in _follow_all(watch):
            for index in list(filter(watch.over, left)):
                del left[index]
                if not quiet:
                    put_out(f"{seen.jobs[index].job.id} {seen.jobs[index].state.name}\n")
                _run_hook(then, seen.jobs[index])
    except KeyboardInterrupt:
        say_they_go_on([job.id for job in left.values()])
        raise
    return seen


def _follow_all(watch: Watch) -> Iterator[StatusReport]:
    """Yield the reports on jobs until all have ended; print why they wait, and who is silent."""
    news, silences = QueueNews(), tuple[str, ...]()
    for seen in watch.until_over():
        news.tell(seen)
        if seen.silences not in (silences, ()):
            put_err("\n".join(seen.silences))
        silences = seen.silences
        yield seen


def _run_hook(command: str | None, ended: JobStatus) -> None:
    if not command:
        return
    from jobgen.process import run_here

    job, state = ended.job, ended.state
    words = {"ID": job.id, "NAME": job.name, "STATE": state.name, "REASON": state.reason}
    code = run_here(
        ["bash", "-c", command],
        environment={f"JOBGEN_JOB_{key}": word for key, word in words.items()},
    )
    if code:
        put_err(f"--then of job {job.id} failed with exit code {code}")


@click.command(cls=RemoteCommand)
@job_argument
@options_of("diagnose")
def diagnose(job: str | None, as_json: bool) -> None:
    """Find out why a job failed (default: the latest job).

    Names the rank that failed first, the likely cause, the evidence, and what to do.
    """
    from jobgen import find

    cause = find(job).diagnose()
    put_answer(cause, cause.as_text(), as_json=as_json)


@click.command(cls=RemoteCommand)
@job_argument
@options_of("logs")
def logs(job: str | None, follow: bool, as_json: bool, **wanted: Any) -> None:
    """Show the output of a job (default: the latest), with the node and rank of each line.

    Shows a line that many ranks print only once, with their number. With -f, exits with 7 if the
    job will never start.
    """
    from jobgen import find

    refuse_together({"--follow": follow, "--json": as_json})
    named = find(job)
    if node := wanted["node"]:
        wanted["node"] = _name_node(named, wanted["role"], node)
    if as_json:
        lines = list(named.logs(**wanted))
        if not lines:
            _explain_silence(named, wanted)
        put_out({"lines": lines})
        return
    printed = _follow(named, wanted) if follow else _print_lines(named.logs(**wanted), StatusLine())
    if not printed:
        _explain_silence(named, wanted)


def _name_node(job: Job, role: str | None, node: str) -> str:
    """Return the node that a number stands for, as it does to `jobgen shell`; a name as it is."""
    from jobgen.jobs.run_folder import name_node, read_nodes

    return name_node(read_nodes(job.roles.get(role or "", job)), node)


def _follow(job: Job, wanted: Mapping[str, Any]) -> bool:
    """Print the lines of a job until it ends; return whether there was any."""
    standing = StatusLine()

    def pause(seconds: float) -> None:
        sys.stdout.flush()
        time.sleep(seconds)

    try:
        printed = _print_lines(job.follow(**wanted, pause=pause, notice=standing.show), standing)
    except KeyboardInterrupt:
        standing.clear()
        say_they_go_on([job.id])
        raise
    if standing.state and (standing.state.hopeless or _waited_in_vain(job, standing.state)):
        raise JobFailedError(f"job {job.id}: {standing.state.described}")
    return printed


def _waited_in_vain(job: Job, end: State) -> bool:
    """Return whether a job is gone, and has not begun, as another has not ended well."""
    from jobgen.jobs.dependencies import find_unmet
    from jobgen.jobs.run_folder import read_traces

    begun = any(read_traces(part).attempts for part in job.parts)
    return end.name == "cancelled" and not begun and find_unmet(job) != ""


def _print_lines(lines: Iterable[object], standing: StatusLine) -> bool:
    """Print lines in the place of what stands below them; return whether there was any."""
    printed, show = False, make_printable if sys.stdout.isatty() else str
    for line in lines:
        printed = True
        standing.clear()
        sys.stdout.write(f"{show(str(line))}\n")
    standing.clear()
    sys.stdout.flush()
    return printed


def _explain_silence(job: Job, wanted: Mapping[str, Any]) -> None:
    """Name the output that the job has; raise UsageError if it lacks who was asked for."""
    from jobgen.jobs.logs import Wanted, has_none_of, name_output

    if next(job.logs(**{**wanted, "stderr": True}), None):
        put_err("no such output, but there are lines on stderr: add --stderr")
        return
    where, there = os.path.relpath(job.run_dir), name_output(job, Wanted(**wanted))
    others = f": {where} has that of {there}" if there else f" yet; the files are in {where}"
    if has_none_of(job, Wanted(**wanted)):
        raise UsageError(f"no such output{others}")
    put_err(f"no such output{others}")


@click.command(cls=RemoteCommand)
@jobs_argument
@options_of("report")
def report(
    jobs: tuple[str, ...], output: str | None, as_text: bool, everything: bool, as_json: bool
) -> None:
    """Write an HTML report of a run (default: the latest job), and print its path.

    The report shows attempts, loss, speed, ranks, efficiency and cost. For several jobs or an
    array, compares the runs in comparison.html, in the run folder of the first.
    """
    from jobgen import find, list_jobs, make_report

    refuse_together({"--text": as_text, "--json": as_json})
    refuse_together({"--all": everything, "names of jobs": jobs})
    named = list_jobs()[0] if everything else list(map(find, dict.fromkeys(jobs)))
    named = named or [find()]
    result = make_report(named)
    if as_text:
        _write_text(result, output)
        return
    if as_json:
        put_out(result)
    if output == STDOUT:
        put_out(_render(result))
    elif output or not as_json:
        file = _write_page(result, output, named[0].run_dir)
        if not as_json:
            put_out(f"{os.path.relpath(file)}\n")


def _write_text(result: Report, output: str | None) -> None:
    from jobgen.report.text import format_text

    text = format_text(result, now=time.time())
    write_file(output, text) if output and output != STDOUT else put_out(text)


def _write_page(result: Report, output: str | None, folder: Path) -> Path | str:
    """Write the page where it is wanted, or to the run folder; return its file."""
    from jobgen.jobs.files import write_run_file

    html = _render(result).encode("utf-8", "replace")
    if output:
        write_file(output, html)
        return output
    file = folder / ("comparison.html" if result.comparison else "report.html")
    write_run_file(file, html)  # a run folder may hold another's links
    return file


def _render(result: Report) -> str:
    from jobgen.report.page import render_page

    return render_page(result, now=time.time())


@click.command(cls=RemoteCommand)
@job_argument
@options_of("top")
def top(job: str | None, as_json: bool) -> None:
    """Show the GPUs, CPUs and memory that a job uses on each node, and its progress.

    On a terminal, the table updates until the job ends or you press Ctrl-C, which does not cancel
    the job. jobgen asks each node for CPUs and memory, with a job step on Slurm and ssh on PBS; the
    job itself records its GPUs every 30 s.
    """
    from jobgen import Watch, find
    from jobgen.jobs import table
    from jobgen.jobs.inside import refuse_array
    from jobgen.jobs.top import list_nodes

    one = find(job)
    refuse_array(one)
    watch = Watch([one])
    live = sys.stdout.isatty() and not as_json
    while True:
        seen = watch.look()
        row, state = table.build_row(seen.jobs[0]), seen.jobs[0].state
        nodes = list_nodes(one, running=state.name == "running")
        if as_json:
            put_out({"job": row, "nodes": nodes})
            return
        text = "".join(f"{line}\n" for line in _format_use(row, state, nodes))
        put_out(f"\x1b[H\x1b[J{text}" if live else text)
        put_err("".join(f"{silence}\n" for silence in seen.silences), end="")
        if not live or watch.over(0):
            return
        time.sleep(10)  # each look is a job step on every node


def _format_use(row: JobRow, state: State, nodes: Sequence[NodeUse]) -> list[str]:
    """Return the lines on a job and what it uses on each node."""
    from jobgen.jobs.top import format_nodes

    lines = [f"{row.name} {row.id}: {'; '.join([row.state, *row.details()])}"]
    running = state.name == "running"
    lines += format_nodes(nodes, running=running) if nodes else ["no node has started"]
    if state.ended:
        report, logs = (offer_line("jobgen", what, row.id) for what in ("report", "logs"))
        lines.append(f"it has ended; `{report}` shows what it used, and `{logs}` its output")
    return lines


def _raise_problems(problems: Sequence[str], silences: Sequence[str] = ()) -> None:
    message = "\n".join([*problems, *silences])
    if problems:
        raise UsageError(message)
    if silences:
        raise SchedulerUnavailableError(message)
