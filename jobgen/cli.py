"""The command line. The only module that prints or exits; each command imports what it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn

import click

from jobgen import __version__
from jobgen.cli_sites import sites
from jobgen.errors import JobFailedError, JobgenError, Problem, SpecError, StaleError

if TYPE_CHECKING:
    from jobgen.plan import Plan
    from jobgen.spec import LoadedSpec
    from jobgen.submit import Submission

Command = Callable[..., Any]
DEFAULT_SPEC = "job.yaml"

_EXIT_CODES = """\b
Exit codes: 0 ok, 1 unexpected error, 2 wrong usage, 3 spec or site profile invalid, 4 a script is
stale, 5 the scheduler refused, 6 the scheduler's command is missing or does not answer, 7 the job
failed (submit --wait), 130 interrupted."""


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


@click.group(epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="jobgen %(version)s")
def cli() -> None:
    """From one short YAML file to a multi-node PyTorch job on PBS or Slurm."""


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
        click.option("--site", metavar="NAME", help="The cluster's profile, not the spec's."),
        click.option(
            "--scheduler",
            type=click.Choice(["slurm", "pbs", "local"]),
            help="The scheduler, not the spec's.",
        ),
    ):
        command = decorate(command)
    return command


@cli.command()
@click.argument("specs", nargs=-1, metavar="[SPEC]...")
@click.option("-o", "--output", metavar="FILE", help="Write there; its folder is made.")
@click.option(
    "--out-dir", metavar="DIR", help="Write each spec's script there, under the spec's own name."
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
    with _problems() as collect:
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
@click.argument("paths", nargs=-1, metavar="[SPEC or SCRIPT]...")
@click.option(
    "--out-dir", metavar="DIR", help="Where the scripts of the specs are; beside them if not said."
)
def check(paths: tuple[str, ...], out_dir: str | None) -> None:
    """Compare committed scripts with what their specs render today; exit 4 and a diff if stale."""
    from pathlib import Path

    from jobgen import spec
    from jobgen.check import is_script, read_script, scripts_of

    stale, missing = [], []
    with _problems() as collect:
        for path in dict.fromkeys(paths or (DEFAULT_SPEC,)):
            with collect():
                if is_script(path):
                    script = read_script(Path(path))
                    pairs = [(script, Path(path).parent / script.header.source)]
                else:
                    folder = Path(out_dir) if out_dir else Path(path).parent
                    pairs = [(found, Path(path)) for found in scripts_of(Path(path), folder)]
                    if not pairs:
                        spec.load(path)
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
@click.argument("path", default=DEFAULT_SPEC, metavar="[SPEC or SCRIPT]")
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
        ready = _from_script(path, stale_ok=stale_ok)
    else:
        ready = _from_spec(path, target)
    if dry_run:
        _show(ready)
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
@click.argument("job")
def status(job: str) -> None:
    """Print how a job stands: queued, running, done, failed, cancelled or unknown."""
    from jobgen import runs
    from jobgen.status import state

    found = state(runs.find(job))
    click.echo(found.name)
    if found.reason:
        click.echo(found.reason, err=True)


@cli.command()
@click.argument("job")
def cancel(job: str) -> None:
    """End a job."""
    from jobgen import runs
    from jobgen.status import cancel as end

    end(runs.find(job))


def _print(text: str) -> None:
    """Data to stdout, now: a pipe that is closed is noticed here and not when Python ends."""
    sys.stdout.write(text)
    sys.stdout.flush()


@contextmanager
def _problems() -> Iterator[Callable[[], Any]]:
    """Gather the problems of several documents, and raise them together at the end."""
    gathered: list[Problem] = []

    @contextmanager
    def collect() -> Iterator[None]:
        try:
            yield
        except SpecError as error:
            gathered.extend(error.problems)

    yield collect
    if gathered:
        raise SpecError(gathered)


def _plan(path: str, target: Mapping[str, Any]) -> tuple[LoadedSpec, Plan]:
    """The spec in a file and its plan, by the target options; what there is to note is said."""
    from jobgen import spec
    from jobgen.plan import resolve

    loaded = spec.load(path, target["overrides"])
    limits = not target["no_limits"]
    plan = resolve(loaded, scheduler=target["scheduler"], site=target["site"], limits=limits)
    for note in plan.notes:
        click.echo(note, err=True)
    return loaded, plan


def _script_name(path: str, plan: Plan) -> str:
    from jobgen import schedulers

    return os.path.splitext(os.path.basename(path))[0] + schedulers.get(plan.scheduler).suffix


def _from_spec(path: str, target: Mapping[str, Any]) -> Submission:
    from pathlib import Path

    from jobgen import process, submit
    from jobgen.render import render as render_plan

    loaded, plan = _plan(path, target)
    script = loaded.spec.run.script
    if script and "$" not in script and not os.path.isfile(os.path.expanduser(script)):
        hint = "paths are relative to the folder you submit from"
        raise SpecError([loaded.problem("run.script", f"no such file here: {script!r}", hint)])
    text = render_plan(plan)
    process.check_syntax(text)
    return submit.from_text(
        text,
        name=plan.name,
        scheduler=plan.scheduler,
        stem=Path(path).stem,
        source=Path(path).read_text(encoding="utf-8"),
    )


def _from_script(path: str, *, stale_ok: bool) -> Submission:
    from pathlib import Path

    from jobgen.check import read_script
    from jobgen.submit import Submission

    script = read_script(Path(path))
    spec_path = script.path.parent / script.header.source
    source = None
    if spec_path.is_file():
        source = spec_path.read_text(encoding="utf-8")
        if not stale_ok and script.diff(spec_path):
            hint = f"see 'jobgen check {path}', render it again, or give --stale-ok"
            raise StaleError(f"{path}: is not what {spec_path} renders today; {hint}")
    elif not stale_ok:
        click.echo(f"{path}: {spec_path} is not there, so nobody knows if it is stale", err=True)
    return Submission(
        script.text, script.header.name, script.header.scheduler, script.path, False, source
    )


def _show(ready: Submission) -> None:
    import shlex

    click.echo(f"# in {os.getcwd()}:")
    click.echo(f"mkdir -p {shlex.join(ready.folders)}")
    if ready.write:
        click.echo(f"# write the script below to {ready.file}, then")
    click.echo(shlex.join(ready.argv))
    click.echo("# the script:")
    _print(ready.text)


cli.add_command(sites)
