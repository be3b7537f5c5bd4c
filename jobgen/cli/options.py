"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import click

from jobgen.schedulers.registry import PACKAGES

Command = Callable[..., Any]
DEFAULT_SPEC = "job.yaml"
FILE = click.Path(readable=False)  # completes names of files, and checks nothing
SPEC_ENDS = (".yaml", ".yml")  # how the names of specs end
STDOUT = "-"  # in the place of a file to write
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "github"]),
    default="text",
    help="Output format; github writes pull request annotations.",
)


def refuse_together(options: Mapping[str, object]) -> None:
    """Raise UsageError if more than one of some options is given, by their values."""
    given = [name for name, value in options.items() if value]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other")


def complete_words(module: str, function: str) -> Callable[..., list[str]]:
    """Return a shell's completion by the words that a function of a module of jobgen returns."""

    def complete(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
        from importlib import import_module

        words: list[str] = getattr(import_module(f"jobgen.{module}"), function)()
        return [word for word in words if word.startswith(begun)]

    return complete


def site_option(about: str) -> Callable[[Command], Command]:
    """Return the option that names a site, which the shell completes."""
    complete = complete_words("sites.search", "list_names")
    return click.option("--site", metavar="NAME", help=about, shell_complete=complete)


def scheduler_option(about: str) -> Callable[[Command], Command]:
    """Return the option that names a scheduler."""
    return click.option("--scheduler", type=click.Choice(list(PACKAGES)), help=about)


def output_option(about: str) -> Callable[[Command], Command]:
    """Return the option that names a file to write."""
    return click.option("-o", "--output", type=FILE, metavar="FILE", help=about)


def list_names(context: click.Context) -> list[str]:
    """Return the names of all commands."""
    outer = context.find_root()
    return cast(click.Group, outer.command).list_commands(outer)


def make_context(name: str, context: click.Context) -> click.Context:
    """Return what click has for a command, beside another; that of the group if there is none."""
    outer = context.find_root()
    command = cast(click.Group, outer.command).get_command(outer, name)
    return click.Context(command, info_name=name, parent=outer) if command else outer


def list_options(command: click.Command) -> dict[str, bool]:
    """Return the options of a command, each with whether it takes a value."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {name: not param.is_flag for param in options for name in param.opts}


def list_arguments(words: Sequence[str], command: click.Command) -> list[str]:
    """Return the words that are neither options of a command nor values of these."""
    valued = list_options(command)
    pairs = zip(["", *words], words, strict=False)
    return [word for last, word in pairs if word[:1] != "-" and not valued.get(last)]


def takes_job(context: click.Context) -> bool:
    """Whether a command takes a job."""
    return "job" in str([param.name for param in context.command.params])


def find_extra(words: Sequence[str], target: click.Context) -> list[str]:
    """Return the arguments among words that a command does not take."""
    if not isinstance(target.command, click.Group):
        with suppress(click.UsageError):
            return target.command.make_parser(target).parse_args([*words])[1]
    return []
