"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, cast

import click

from jobgen.schedulers.registry import PACKAGES

Command = Callable[..., Any]
DEFAULT_SPEC = "job.yaml"
FILE = click.Path(readable=False)  # completes names of files, and checks nothing
SPEC_ENDS = (".yaml", ".yml")  # how the names of specs end
STDOUT = "-"  # in the place of a file to write


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


# What click is told of the value of an option, by the word for it in the table.
_KINDS: dict[str, dict[str, Any]] = {
    "flag": {"is_flag": True},
    "text": {},
    "several": {"multiple": True},
    "file": {"type": FILE},
    "count": {"type": click.IntRange(0)},
    "number": {"type": click.IntRange(1)},
    "port": {"type": click.IntRange(1, 65535)},
    "port or 0": {"type": click.IntRange(0, 65535), "default": 0},
    "format": {"type": click.Choice(["text", "github"]), "default": "text"},
    "scheduler": {"type": click.Choice(list(PACKAGES))},
    "site": {"shell_complete": complete_words("sites.search", "list_names")},
    "setting": {"multiple": True, "shell_complete": complete_words("cli.target", "list_settings")},
}


def options_of(name: str) -> Callable[[Command], Command]:
    """Return what adds the options that the table has for a command."""

    def add(command: Command) -> Command:
        rows = _read_options().partition(f"[{name}]\n")[2].partition("\n\n")[0]
        for row in reversed(rows.splitlines()):
            words, kind, about = row.split(" | ")
            names, _, value = words.partition(" = ")
            more = _KINDS[kind] | {"metavar": value or None, "help": about}
            command = click.option(*names.split(), **more)(command)
        return command

    return add


@cache
def _read_options() -> str:
    """Return the table of options: a paragraph for each command."""
    with open(os.path.join(os.path.dirname(__file__), "options.txt"), encoding="utf-8") as file:
        return file.read()


def list_names(context: click.Context) -> list[str]:
    """Return the names of all commands."""
    outer = context.find_root()
    return cast(click.Group, outer.command).list_commands(outer)


def make_context(name: str, context: click.Context) -> click.Context:
    """Return what click has for a command, beside another; that of the group if there is none."""
    outer = context.find_root()
    command = cast(click.Group, outer.command).get_command(outer, name)
    return click.Context(command, info_name=name, parent=outer) if command else outer


def list_options(command: click.Command) -> dict[str, str]:
    """Return the options of a command, each with what stands for its value; empty without one."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {
        name: "" if param.is_flag else param.metavar or "VALUE"
        for param in options
        for name in param.opts
    }


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
