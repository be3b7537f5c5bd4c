"""`jobgen submit`, and what it runs on another machine to receive the files of a job."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from jobgen.cli.options import DEFAULT_SPEC, FILE, options_of
from jobgen.cli.printing import can_ask, put_answer, put_err, put_next, put_out, take_host
from jobgen.cli.remote import RemoteSpecCommand
from jobgen.cli.target import add_target_options
from jobgen.errors import AlreadySubmittedError, JobgenError, UsageError
from jobgen.output import make_printable

if TYPE_CHECKING:
    from jobgen.api import Job
    from jobgen.jobs.submission import Submission


@click.command(cls=RemoteSpecCommand)
@click.argument("path", default=DEFAULT_SPEC, type=FILE, metavar="[SPEC or SCRIPT]")
@options_of("submit")
@add_target_options
def submit(path: str, dry_run: bool, wait: bool, again: bool, as_json: bool, **how: Any) -> None:
    """Submit a spec (default: job.yaml) or a rendered script, and print the job's ID.

    The job runs in the current folder, as with sbatch and qsub.
    """
    from jobgen import prepare

    limits = not how.pop("no_limits")
    host = take_host()
    ready = prepare(path, limits=limits, **how)
    if dry_run:
        for message in ready.list_warnings():
            put_err(message)
        put_answer(ready.as_dict(), ready.preview(), as_json=as_json)
        return
    job = _hand_over(ready, again=again, as_json=as_json)
    run_folder = os.path.relpath(job.run_dir)
    handed_over = {"id": job.id, "run_folder": run_folder, **ready.as_dict()}
    handed_over |= {"argv": job.argv, "script": os.path.join(run_folder, "script")}
    if wait:
        _wait(job, handed_over, as_json=as_json)
        return
    put_answer(handed_over, f"{job.id}\n", as_json=as_json)
    put_err(f"run folder: {run_folder}")
    put_next(host, [job.id])


def _wait(job: Job, handed_over: dict[str, Any], *, as_json: bool) -> None:
    """Follow a job to its end; --json prints all of it then."""
    from jobgen.cli.following import follow_job, raise_failures

    put_out("" if as_json else f"{job.id}\n")
    put_err(f"run folder: {handed_over['run_folder']}")
    state = follow_job(job)
    if as_json:
        put_out(handed_over | {"state": state.name, "reason": state.reason})
    raise_failures([(job, state)])


def _hand_over(ready: Submission, *, again: bool, as_json: bool) -> Job:
    """Submit a job; of one that is on its way after all, print the id."""
    try:
        return _submit_or_ask(ready, again=again)
    except JobgenError as error:
        if error.job_id:
            put_answer({"id": error.job_id}, f"{error.job_id}\n", as_json=as_json)
        raise


def _submit_or_ask(ready: Submission, *, again: bool) -> Job:
    """Submit a job; on a terminal, ask about one that is submitted already."""
    from jobgen import submit as hand_over

    warn = partial(_warn, ready)
    try:
        return hand_over(ready, again=again, warn=warn, tell=put_err)
    except AlreadySubmittedError as refusal:
        if not can_ask():
            raise
        question = f"{make_printable(str(refusal))}\nsubmit another job?"
        click.confirm(question, abort=True, err=True)
        return hand_over(ready, again=True, warn=warn, tell=put_err)


def _warn(ready: Submission, message: str) -> None:
    """Print a warning; refuse what ends the job at once, or has it refused, whatever it runs."""
    sure = re.search(rf"^warning: ({'|'.join(_list_sure(ready))})", message, re.MULTILINE)
    if sure:
        raise UsageError(f"{sure[1]}; nothing is submitted")
    put_err(message)


def _list_sure(ready: Submission) -> Iterator[str]:
    """Yield the forms of the warnings that are sure of a job.

    Of an argument that was typed; where it stands in the spec, its author may know better.
    """
    yield r"(?:--set |the command line: ).*(?= \[unknown-argument\]$)"
    if not (ready.after or ready.scheduler.dependencies(ready.head)):  # the job before may make it
        yield r"\S+ environment\.(?:venv|container\.image): .* is not here\b.*"
    if not any("ACCOUNT" in name for name in ready.list_variables()):
        yield r"\S+ every job here needs an account.*(?= \(it may be given later\)$)"


@click.command(hidden=True)
@click.argument("folder")
def receive(folder: str) -> None:
    """Unpack the files that `submit --host` sends on stdin into a folder."""
    from jobgen.machine.transfer import unpack_files

    unpack_files(sys.stdin.readline(), folder)
