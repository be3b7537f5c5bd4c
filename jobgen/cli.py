"""The command line. The only module that prints or exits; each command imports what it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import click

from jobgen import __version__
from jobgen.errors import (
    EXIT_CODES,
    JobFailedError,
    JobgenError,
    StaleError,
    gathered_problems,
)

if TYPE_CHECKING:
    from jobgen.loaded import LoadedSpec
    from jobgen.plan import Plan

Command = Callable[..., Any]
DEFAULT_SPEC = "job.yaml"
_FILE = click.Path(readable=False)  # completes names of files, and checks nothing

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
        click.echo(str(error), err=True)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = 130
    except OSError as error:
        click.echo(f"{error.filename or 'error'}: {error.strerror}", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


class _Group(click.Group):
    """Commands of this module, and of others that are imported when their command is asked for."""

    elsewhere: ClassVar = {
        "schema": "jobgen.cli_editors",
        "completion": "jobgen.cli_editors",
        "lint": "jobgen.cli_scripts",
        "import": "jobgen.cli_scripts",
        "sites": "jobgen.cli_sites",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted([*self.commands, *self.elsewhere])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in self.elsewhere:
            return super().get_command(ctx, cmd_name)
        from importlib import import_module

        command: click.Command = import_module(self.elsewhere[cmd_name]).COMMANDS[cmd_name]
        return command


@click.group(
    cls=_Group, epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, message="jobgen %(version)s")
def cli() -> None:
    """From one short YAML file to a multi-node PyTorch job on PBS or Slurm."""


def _completes(module: str, function: str) -> Callable[..., list[str]]:
    """For a shell's completion: the words that a function of a module of jobgen gives."""

    def complete(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
        from importlib import import_module

        words: list[str] = getattr(import_module(f"jobgen.{module}"), function)()
        return [word for word in words if word.startswith(begun)]

    return complete


def _target_options(command: Command) -> Command:
    """--scheduler, --site, --set and --no-limits, which all that renders takes."""
    for decorate in (
        click.option(
            "--no-limits", is_flag=True, help="Do not check what the site's profile forbids."
        ),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="PATH=VALUE",
            help="Set one value of the spec, such as resources.nodes=4; null takes it out.",
        ),
        click.option(
            "--site",
            metavar="NAME",
            help="The cluster's profile, not the spec's.",
            shell_complete=_completes("site", "names"),
        ),
        click.option(
            "--scheduler",
            type=click.Choice(["slurm", "pbs", "local"]),
            help="The scheduler, not the spec's.",
        ),
    ):
        command = decorate(command)
    return command


@cli.command()
@click.argument("specs", nargs=-1, type=_FILE, metavar="[SPEC]...")
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="Write there; its folder is made.")
@click.option(
    "--out-dir",
    type=_FILE,
    metavar="DIR",
    help="Write each spec's script there, under the spec's own name.",
)
@_target_options
def render(specs: tuple[str, ...], output: str | None, out_dir: str | None, **target: Any) -> None:
    """Print the job script of a spec (job.yaml here when none is named), or write it."""
    from jobgen.render import render as render_plan

    specs = specs or (DEFAULT_SPEC,)
    if output and out_dir:
        raise click.UsageError("--output and --out-dir exclude each other")
    if len(specs) > 1 and not out_dir:
        raise click.UsageError("several specs need --out-dir")
    plans = []
    with gathered_problems() as collect:
        for path in specs:
            with collect():
                plans.append(_plan(path, target)[1])
    if not output and not out_dir:
        _print(render_plan(plans[0]))
        return
    from pathlib import Path

    from jobgen.runs import write_atomically

    names = [output] if output else map(_script_name, specs, plans)
    files = [os.path.join(out_dir or "", name) for name in names]
    if len(set(files)) < len(files):
        twice = next(file for file in files if files.count(file) > 1)
        raise click.UsageError(f"two of the specs would both be written to {twice}")
    for file, plan in zip(files, plans, strict=True):
        write_atomically(Path(file), render_plan(plan))


@cli.command()
@click.argument("paths", nargs=-1, type=_FILE, metavar="[SPEC or SCRIPT]...")
@click.option(
    "--out-dir",
    type=_FILE,
    metavar="DIR",
    help="Where the scripts of the specs are; beside them if not said.",
)
def check(paths: tuple[str, ...], out_dir: str | None) -> None:
    """Compare committed scripts with what their specs render today; exit 4 and a diff if stale."""
    from pathlib import Path

    from jobgen.check import is_script, read_script, scripts_of
    from jobgen.loaded import load

    stale, missing = [], []
    with gathered_problems() as collect:
        for path in dict.fromkeys(paths or (DEFAULT_SPEC,)):
            with collect():
                if is_script(path):
                    script = read_script(Path(path))
                    pairs = [(script, Path(path).parent / script.header.source)]
                else:
                    folder = Path(out_dir) if out_dir else Path(path).parent
                    pairs = [(found, Path(path)) for found in scripts_of(Path(path), folder)]
                    if not pairs:
                        load(path)
                        missing.append(f"{path}: no script in {folder} was rendered from it")
                for script, spec_path in pairs:
                    diff = script.diff(spec_path)
                    if diff:
                        stale.append(str(script.path))
                        _print(diff)
    if stale or missing:
        lines = [f"{path}: stale; render it again" for path in dict.fromkeys(stale)] + missing
        raise StaleError("\n".join(lines))


@cli.command()
@click.argument("path", default=DEFAULT_SPEC, type=_FILE, metavar="[SPEC]")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@_target_options
def explain(path: str, as_json: bool, **target: Any) -> None:
    """Print who runs where, and every directive and variable with its reason and origin."""
    from jobgen.explain import explain as explain_plan

    found = explain_plan(*_plan(path, target))
    _print(found.as_json() if as_json else found.as_text())


@cli.command()
@click.argument("path", default=DEFAULT_SPEC, type=_FILE, metavar="[SPEC or SCRIPT]")
@click.option("--dry-run", is_flag=True, help="Show the command and the script; submit nothing.")
@click.option("--wait", is_flag=True, help="Follow the job's log; exit 7 unless it ends well.")
@click.option("--stale-ok", is_flag=True, help="Submit a script that its spec no longer renders.")
@_target_options
def submit(path: str, dry_run: bool, wait: bool, stale_ok: bool, **target: Any) -> None:
    """Submit a spec (job.yaml here when none is named) or a rendered script; prints the job's id.

    Paths in the job are relative to the current folder, as for sbatch and qsub.
    """
    from jobgen import submit as submission
    from jobgen.check import is_script

    if is_script(path):
        if any(target.values()):
            raise click.UsageError("a rendered script has its scheduler, site and values already")
        ready = submission.from_script(path, stale_ok=stale_ok)
    else:
        ready = submission.from_spec(
            path,
            scheduler=target["scheduler"],
            site=target["site"],
            overrides=target["overrides"],
            limits=not target["no_limits"],
        )
    if ready.warning:
        click.echo(ready.warning, err=True)
    if dry_run:
        _print(ready.preview())
        return
    job = submission.submit(ready)
    click.echo(job.id)
    click.echo(f"run folder: {os.path.relpath(job.run_dir)}", err=True)
    if wait:
        from jobgen.logs import follow

        state = follow(job, lambda text: click.echo(text, nl=False, err=True))
        if state.name != "done":
            reason = f" ({state.reason})" if state.reason else ""
            raise JobFailedError(f"job {job.id}: {state.name}{reason}")


@cli.command()
@click.argument("job", shell_complete=_completes("runs", "ids"))
def status(job: str) -> None:
    """Print how a job stands: queued, running, done, failed, cancelled or unknown."""
    from jobgen import runs
    from jobgen.status import state

    found = state(runs.find(job))
    click.echo(found.name)
    if found.reason:
        click.echo(found.reason, err=True)


@cli.command()
@click.argument("job", shell_complete=_completes("runs", "ids"))
def cancel(job: str) -> None:
    """End a job."""
    from jobgen import runs
    from jobgen.status import cancel as end

    end(runs.find(job))


def _print(text: str) -> None:
    """Data to stdout, now: a pipe that is closed is noticed here and not when Python ends."""
    sys.stdout.write(text)
    sys.stdout.flush()


def _plan(path: str, target: Mapping[str, Any]) -> tuple[LoadedSpec, Plan]:
    """The spec in a file and its plan, by the target options; what there is to note is said."""
    from jobgen.loaded import load
    from jobgen.plan import resolve

    loaded = load(path, target["overrides"])
    limits = not target["no_limits"]
    plan = resolve(loaded, scheduler=target["scheduler"], site=target["site"], limits=limits)
    for note in plan.notes:
        click.echo(note, err=True)
    return loaded, plan


def _script_name(path: str, plan: Plan) -> str:
    from jobgen import schedulers

    return os.path.splitext(os.path.basename(path))[0] + schedulers.get(plan.scheduler).suffix
