"""The command line. The only module that prints or exits; each command imports what it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from jobgen import __version__
from jobgen.cli.options import (
    DEFAULT_SPEC,
    FILE,
    STDOUT,
    add_target_options,
    json_option,
    load_plan,
    load_plans,
    put_err,
    put_out,
)
from jobgen.cli.remote import RemoteCommand
from jobgen.errors import (
    EXIT_CODES,
    AlreadySubmittedError,
    JobFailedError,
    JobgenError,
    gather_problems,
)
from jobgen.output import make_printable

if TYPE_CHECKING:
    from jobgen.plan.plan import Plan

_EXIT_CODES = f"\b\nExit codes: {EXIT_CODES}."


def main() -> NoReturn:
    """The `jobgen` command: runs it and exits."""
    if isinstance(sys.stdout, TextIOWrapper):  # a script has the same bytes in every locale
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        code = cli.main(prog_name="jobgen", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except JobgenError as error:
        put_err(str(error))
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        put_err("interrupted")
        code = 130
    except OSError as error:
        put_err(f"{error.filename or 'error'}: {error.strerror}")
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


class _Listed(NamedTuple):
    """A command in the list of `jobgen --help`: its module of this room, and a line of its own."""

    module: str
    help: str


# In groups, as a job goes; a line is at most 55 characters, so that it stands whole at 80 columns.
_COMMANDS = {
    "Write a job": {
        "init": _Listed("machine", "Write a commented job.yaml for this machine"),
        "render": _Listed("main", "Print or write the job script of a spec"),
        "check": _Listed("spec", "Check specs, and that committed scripts match them"),
        "explain": _Listed("spec", "Say who runs where, the cost, and why each line is so"),
        "page": _Listed("page", "Write a web page that composes jobs, or show it"),
    },
    "Run it": {
        "doctor": _Listed("machine", "Check that this machine can submit jobs"),
        "submit": _Listed("main", "Submit a spec or script; --wait follows it"),
        "status": _Listed("jobs", "Print how jobs stand"),
        "list": _Listed("jobs", "Print all jobs that were submitted from here"),
        "logs": _Listed("jobs", "Print what a job prints; -f follows it"),
        "top": _Listed("jobs", "Show what a job uses on each node, live"),
        "shell": _Listed("handling", "Open a shell on a node of a running job"),
        "wait": _Listed("jobs", "Wait for jobs to end"),
        "cancel": _Listed("jobs", "End jobs"),
        "rerun": _Listed("handling", "Do a job, or its failed tasks, again"),
        "run": _Listed("handling", "Run a job in the allocation that you hold"),
    },
    "Afterwards": {
        "diagnose": _Listed("jobs", "Say what went wrong first, and what to do"),
        "report": _Listed("jobs", "Write one HTML page about how a run went"),
        "clean": _Listed("handling", "Remove run folders of jobs that have ended"),
    },
    "Scripts you have": {
        "lint": _Listed("batchscript", "Find the classic faults of job scripts"),
        "import": _Listed("batchscript", "Print the spec of an existing script"),
    },
    "Clusters and editors": {
        "sites": _Listed("machine", "List the site profiles, show or capture one"),
        "schema": _Listed("editors", "Print the JSON Schema, for editors"),
        "completion": _Listed("editors", "Print what makes a shell complete jobgen"),
    },
}
#: every command, in the order of the help
LISTED = {name: row for group in _COMMANDS.values() for name, row in group.items()}


class _Group(click.Group):
    """Commands of this module, and of others that are imported when their command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the help."""
        return list(LISTED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name in self.commands or cmd_name not in LISTED:
            return super().get_command(ctx, cmd_name)
        from importlib import import_module

        module = import_module(f"jobgen.cli.{LISTED[cmd_name].module}")
        command: click.Command = module.COMMANDS[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups, without importing any."""
        for title, group in _COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:10}", row.help) for name, row in group.items()])


@click.group(
    cls=_Group, epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, given: _tell_version(context) if given else None,
    help="Print the version and the commit.",
)
def cli() -> None:
    """From one short YAML file to a multi-node PyTorch job on PBS or Slurm."""


def _tell_version(context: click.Context) -> NoReturn:
    """Print the version, and the commit that it was built from, or that the checkout is at."""
    from pathlib import Path

    from jobgen.process import ask

    package = Path(__file__).parents[1]
    commit = ""
    if (package / "commit").is_file():
        commit = (package / "commit").read_text().strip()
    elif (package.parent / ".git").exists():
        with suppress(JobgenError):
            commit = ask(["git", "-C", str(package.parent), "rev-parse", "--short", "HEAD"]).output
    put_out(f"jobgen {__version__}{f' ({commit.strip()})' if commit else ''}\n")
    context.exit()


@cli.command()
@click.argument("specs", nargs=-1, type=FILE, metavar="[SPEC]...")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Write there; - is stdout.")
@click.option(
    "--out-dir",
    type=FILE,
    metavar="DIR",
    help="Write each spec's script there, under the spec's own name.",
)
@click.option("--expand", is_flag=True, help="Write a script for each task of the spec's array.")
@click.option("--task", type=click.IntRange(0), help="Only this task, as a job of its own.")
@json_option
@add_target_options
def render(
    specs: tuple[str, ...],
    output: str | None,
    out_dir: str | None,
    expand: bool,
    task: int | None,
    as_json: bool,
    **target: Any,
) -> None:
    """Print the job script of a spec (job.yaml here when none is named), or write it."""
    from jobgen import render as render_plan

    specs = specs or (DEFAULT_SPEC,)
    if output and out_dir:
        raise click.UsageError("--output and --out-dir exclude each other")
    if (len(specs) > 1 or expand) and not out_dir:
        raise click.UsageError(f"{'--expand needs' if expand else 'several specs need'} --out-dir")
    if expand and task is not None:
        raise click.UsageError("--expand and --task exclude each other")
    plans, paths = [], []
    with gather_problems() as collect:
        for path in specs:
            with collect():
                for plan in (
                    load_plans(path, target) if expand else [load_plan(path, target, task)[1]]
                ):
                    plans.append(plan)
                    paths.append(path)
    if output in (None, STDOUT) and not out_dir:
        text = render_plan(plans[0])
        put_out(_list_scripts(paths, [None], [text]) if as_json else text)
        return
    from pathlib import Path

    from jobgen.output import write_file

    names = [output] if output else map(_name_script, paths, plans)
    files = [os.path.join(out_dir or "", name) for name in names]
    if len(set(files)) < len(files):
        twice = next(file for file in files if files.count(file) > 1)
        raise click.UsageError(f"two of the specs would both be written to {twice}")
    texts = list(map(render_plan, plans))
    for file, text in zip(files, texts, strict=True):
        write_file(Path(file), text)
    if as_json:
        put_out(_list_scripts(paths, files, texts))


def _list_scripts(specs: Sequence[str], files: Sequence[str | None], texts: Sequence[str]) -> str:
    from jobgen.output import format_json

    keys = ("spec", "file", "script")
    rows = [dict(zip(keys, row, strict=True)) for row in zip(specs, files, texts, strict=True)]
    return format_json({"scripts": rows})


@cli.command(cls=RemoteCommand)
@click.argument("path", default=DEFAULT_SPEC, type=FILE, metavar="[SPEC or SCRIPT]")
@click.option("--dry-run", is_flag=True, help="Show the command and the script; submit nothing.")
@click.option("--wait", is_flag=True, help="Follow the job's log; exit 7 unless it ends well.")
@click.option(
    "--after",
    multiple=True,
    metavar="[KIND:]ID",
    help="Wait for a job to end well, or as KIND says: afterok, afterany, afternotok or after.",
)
@click.option("--again", is_flag=True, help="Submit though the same is submitted already.")
@click.option("--stale-ok", is_flag=True, help="Submit a script that its spec no longer renders.")
@click.option(
    "--send",
    type=click.Choice(["tracked"]),
    help="With --host, send all files here that git tracks.",
)
@json_option
@add_target_options
def submit(
    path: str,
    dry_run: bool,
    wait: bool,
    after: tuple[str, ...],
    again: bool,
    stale_ok: bool,
    send: str | None,
    as_json: bool,
    **target: Any,
) -> None:
    """Submit a spec (job.yaml here when none is named) or a rendered script; prints the job's id.

    Paths in the job are relative to the current folder, as for sbatch and qsub.
    """
    from jobgen import prepare
    from jobgen import submit as hand_over
    from jobgen.output import format_json

    if send:
        raise click.UsageError("--send is for --host, and the files are here already")
    limits = not target.pop("no_limits")
    ready = prepare(path, stale_ok=stale_ok, after=after, limits=limits, **target)
    if dry_run:
        for message in ready.list_warnings():
            put_err(message)
        put_out(format_json(ready.as_dict()) if as_json else ready.preview())
        return
    try:
        try:
            job = hand_over(ready, again=again, warn=put_err)
        except AlreadySubmittedError as refusal:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            click.confirm(
                f"{make_printable(str(refusal))}\nsubmit another job?", abort=True, err=True
            )
            job = hand_over(ready, again=True, warn=put_err)
    except JobgenError as error:
        if error.job_id:
            put_out(format_json({"id": error.job_id}) if as_json else f"{error.job_id}\n")
        raise
    run_folder = os.path.relpath(job.run_dir)
    handed_over = {"id": job.id, "run_folder": run_folder, **ready.as_dict()}
    handed_over |= {"argv": job.argv, "script": os.path.join(run_folder, "script")}
    if not as_json:
        put_out(f"{job.id}\n")
    elif not wait:
        put_out(format_json(handed_over))
    put_err(f"run folder: {run_folder}")
    if not wait:
        put_err(f"next: jobgen logs -f {job.id}, jobgen status {job.id}")
    else:
        from jobgen.cli.jobs import follow_job

        state = follow_job(job)
        if as_json:
            put_out(format_json(handed_over | {"state": state.name, "reason": state.reason}))
        if state.name != "done":
            raise JobFailedError(f"job {job.id}: {state.described}")


@cli.command(hidden=True)
@click.argument("folder")
def receive(folder: str) -> None:
    """Write the files that `submit --host` sends, one line on stdin, below a folder."""
    from jobgen.machine.transfer import unpack_files

    unpack_files(sys.stdin.readline(), folder)


def _name_script(path: str, plan: Plan) -> str:
    from jobgen import schedulers

    stem = os.path.splitext(os.path.basename(path))[0]
    if plan.program.task_given:
        stem += "-" + plan.name.rpartition("-")[2]
    return stem + schedulers.get_scheduler(plan.scheduler).suffix
