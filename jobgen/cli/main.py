"""The command line. The only module that prints or exits; each command imports what it needs."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NoReturn

import click

from jobgen import __version__
from jobgen.cli.options import DEFAULT_SPEC, FILE, STDOUT, options_of, refuse_together
from jobgen.cli.printing import put_err, put_out
from jobgen.cli.target import (
    SpecCommand,
    add_target_options,
    explain_error,
    make_plans,
    read_spec,
)
from jobgen.errors import EXIT_CODES, JobgenError, SpecError, StaleError
from jobgen.output import offer_line, write_file

if TYPE_CHECKING:
    from jobgen.plan.plan import Plan
    from jobgen.spec.load import LoadedSpec

_EXIT_CODES = f"\b\nExit codes: {EXIT_CODES}."


def main() -> NoReturn:
    """Run the `jobgen` command and exit."""
    if isinstance(sys.stdout, TextIOWrapper):  # a script has the same bytes in every locale
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        code = cli.main(prog_name="jobgen", standalone_mode=False)
    except click.ClickException as error:
        _explain(error).show()
        code = error.exit_code
    except JobgenError as error:
        put_err("\n".join([explain_error(error, sys.argv[1:]), *error.warnings]))
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        put_err("interrupted")
        code = 130
    except OSError as error:
        put_err(f"{error.filename or 'error'}: {error.strerror}")
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: click.ClickException) -> click.ClickException:
    """Return click's error with what to type instead."""
    # Without a command, click's message is the help, which its error shows as it is.
    if not isinstance(error, click.UsageError) or error.message.startswith("Usage: "):
        return error
    from jobgen.cli.guesses import explain_usage

    return click.UsageError(explain_usage(error, sys.argv[1:], cli), ctx=error.ctx)


def _read_commands() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the commands by their groups: the module of this room, and the line in the help."""
    groups: dict[str, dict[str, tuple[str, ...]]] = {}
    # Without the room of tables, which imports yaml.
    with open(os.path.join(os.path.dirname(__file__), "commands.txt"), encoding="utf-8") as file:
        for group, name, *row in (line.strip().split(" | ") for line in file if line[0] != "#"):
            groups.setdefault(group, {})[name] = (*row,)
    return groups


_COMMANDS = _read_commands()
#: every command, in the order of the help
LISTED = {name: row for group in _COMMANDS.values() for name, row in group.items()}
#: commands that other commands run, and their modules
_HIDDEN = {"receive": "submit"}


class _Group(click.Group):
    """Commands of this module, and of others that are imported when their command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the help."""
        return list(LISTED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        place = _HIDDEN.get(cmd_name) or LISTED.get(cmd_name, ("main",))[0]
        if place == "main":
            return super().get_command(ctx, cmd_name)
        from importlib import import_module

        values = vars(import_module(f"jobgen.cli.{place}")).values()
        commands = (value for value in values if isinstance(value, click.Command))
        return next(command for command in commands if command.name == cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one a word of another tool means."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from jobgen.cli.guesses import explain_command

            ctx.fail(explain_command(args, ctx, _COMMANDS))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups, without importing any."""
        for title, group in _COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:10}", row[1]) for name, row in group.items()])


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
    """Turn a short YAML file into a multi-node PyTorch job on PBS or Slurm."""


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


@cli.command(cls=SpecCommand)
@click.argument("specs", nargs=-1, type=FILE, metavar="[SPEC]...")
@options_of("render")
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
    """Render specs to job scripts.

    Prints the script of SPEC (default: job.yaml), or writes it with --output or --out-dir.
    `jobgen check` also warns of what a spec and its program are unlikely to mean.
    """
    from jobgen import render as render_plan

    refuse_together({"--output": output, "--out-dir": out_dir})
    refuse_together({"--expand": expand, "--task": task is not None})
    if not out_dir:
        _refuse_several(specs, expand=expand)
    planned = _load_all(specs or (DEFAULT_SPEC,), target, task, expand=expand)
    files = [] if output == STDOUT else _name_files(planned, output, out_dir)
    rows = []
    for (spec, plan), file in zip_longest(planned, files):
        text = render_plan(plan)
        if file:
            _refuse_to_replace(file, text)
            write_file(file, text)
        if as_json:  # or else, of thousands, no more than one is held
            rows.append({"spec": spec, "file": file, "script": text})
        elif not file:
            put_out(text)
    if as_json:
        put_out({"scripts": rows})


def _refuse_several(specs: Sequence[str], *, expand: bool) -> None:
    """Raise UsageError for more than one script, which needs a folder."""
    if expand:
        raise click.UsageError("--expand needs --out-dir")
    if specs[1:]:
        raise click.UsageError("several specs need --out-dir")


def _load_all(
    specs: Sequence[str], target: dict[str, Any], task: int | None, *, expand: bool
) -> list[tuple[str, Plan]]:
    """Return the plans of specs, each with its file; raise SpecError with the problems of all.

    All are read before the first is planned: so the processor's caches hold what each step needs.
    """
    loaded: list[LoadedSpec] = []
    planned: list[tuple[str, Plan]] = []
    refused: list[SpecError] = []
    for path in specs:
        try:
            loaded.append(read_spec(path, target))
        except SpecError as error:
            refused.append(error)
    for spec in loaded:
        tasks = range(len([*spec.spec.choices()])) if expand else ()
        try:
            plans = make_plans(spec, target, tasks or [task])
            planned += [(spec.file, plan) for plan in plans]
        except SpecError as error:
            refused.append(error)
    if refused:
        raise _join_refusals(refused)
    return planned


def _join_refusals(refused: Sequence[SpecError]) -> SpecError:
    problems = (problem for one in refused for problem in one.problems)
    return SpecError(problems, (warning for one in refused for warning in one.warnings))


def _name_files(
    planned: Sequence[tuple[str, Plan]], output: str | None, out_dir: str | None
) -> list[str]:
    """Return the file of each script: that which was asked for, or one in a folder."""
    if not out_dir:
        return [output] if output else []
    files = [os.path.join(out_dir, _name_script(path, plan)) for path, plan in planned]
    if twice := [file for file, times in Counter(files).items() if times > 1]:
        raise click.UsageError(f"two of the specs would both be written to {twice[0]}")
    return files


def _refuse_to_replace(file: str, text: str) -> None:
    """Raise for a file that jobgen did not render, or that is another now though its spec is not.

    Another release of jobgen renders other scripts: their runtimes tell.
    """
    if not os.access(file, os.F_OK) or not os.path.isfile(file) or not os.path.getsize(file):
        return  # os.path raises and catches an exception for each file that is not there
    from jobgen.rendering import header
    from jobgen.rendering.runtime import split_script

    with open(file, encoding="utf-8", errors="replace") as own:
        known = own.read()
    before, after = ((header.read(one), *(split_script(one)[1] or ())[:2]) for one in (known, text))
    if before[0] is None:
        reason = "already exists and was not rendered by jobgen; jobgen will not overwrite it"
        raise click.UsageError(f"{file} {reason}")
    if known != text and before == after:
        line = f"{offer_line('rm', file)} && {offer_line('jobgen', *sys.argv[1:])}"
        check = offer_line("jobgen", "check", file)
        why = "not what its unchanged spec renders: it was edited, or its site or jobgen changed"
        raise StaleError(f"{file}: {why}; see `{check}`; to overwrite it, type: {line}")


def _name_script(path: str, plan: Plan) -> str:
    from jobgen import schedulers

    stem = os.path.splitext(os.path.basename(path))[0]
    if plan.program.task_given:
        stem += "-" + plan.name.rpartition("-")[2]
    return stem + schedulers.SCHEDULERS[plan.scheduler].suffix
