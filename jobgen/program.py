"""The program: the words that one process runs."""

from __future__ import annotations

from collections.abc import Container, Iterator

from jobgen.fields import option_of
from jobgen.loaded import LoadedSpec


class ShellPath(str):
    """Text in which `$NAME`, `${NAME}` and a leading `~` expand when the job runs, and no more."""


def path_of(text: str) -> ShellPath:
    """A path that no program reads as an option."""
    return ShellPath(f"./{text}" if text.startswith("-") else text)


def script_of(loaded: LoadedSpec) -> ShellPath | None:
    """The program's file, where there is one and it is no matter of a container's image."""
    script = loaded.spec.run.script
    if script is None or loaded.spec.environment.container is not None:
        return None
    return path_of(script)


def command_of(loaded: LoadedSpec, without: Container[str] = ()) -> Iterator[str]:
    """The words that one process runs, `without` these keys of its arguments.

    The interpreter is the environment's own python3.
    """
    run = loaded.spec.run
    if run.command is not None:
        yield from run.command
    elif run.script is not None:
        yield from ("python3", "-u", path_of(run.script))
    else:
        yield from ("python3", "-u", "-m", run.module or "")
    if isinstance(run.args, tuple):
        yield from run.args
        return
    for key, value in (run.args or {}).items():
        if key not in without:
            yield from words_of(key, value)


def words_of(key: str, value: bool | str | tuple[str, ...]) -> Iterator[str]:
    """The words of one argument, by its key in `run.args`."""
    option = option_of(key)
    if isinstance(value, tuple):
        yield from (option, *value)
    elif value is True:
        yield option
    elif value is not False:
        # argparse and its like take a separate word with a leading dash for an option.
        yield from [f"{option}={value}"] if value.startswith("-") else [option, value]
