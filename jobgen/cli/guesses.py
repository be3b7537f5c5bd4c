"""What to type instead of a command or an option that jobgen does not have.

The words are data, in `jobgen/spec/data/words.yaml`. Only an error imports this.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

import click

from jobgen.spec.table import load_table
from jobgen.spec.words import find_near, list_paths, list_synonyms, normalize


def explain_command(args: Sequence[str], known: Iterable[str]) -> str:
    """Return the message for a word, with others after it, that is none of the commands `known`."""
    word, rest = args[0], shlex.join(args[1:])
    message = f"no such command {word!r}"
    if word.endswith((".yaml", ".yml")):
        return f"{message}; type: jobgen submit {shlex.join(args)}"
    if word.endswith(".py"):
        return f"{message}; type: jobgen init --script {word}"
    if word.endswith((".sh", ".sbatch", ".slurm", ".pbs")):
        return f"{message}; type: jobgen import {word}, or jobgen lint {word}"
    for row in load_table()["commands"]:
        if word.lower() in row["words"].split():
            line = row["type"].replace("$FILE", rest or "job.yaml").replace("$JOB", rest)
            return f"{message}; type: {line.strip()}"
    if near := find_near(word, known, cutoff=0.6):
        return f"{message}; did you mean: jobgen {shlex.join([near, *args[1:]])}"
    return f"{message}; jobgen --help lists them"


def explain_option(error: click.NoSuchOption, argv: Sequence[str]) -> str:
    """Return the message for an option that a command does not have."""
    name = error.option_name
    message = f"no such option {name}"
    command = error.ctx.command if error.ctx else None
    own = [text for param in command.params for text in param.opts] if command else []
    word, value = normalize(name), _find_value(name, argv)
    paths = {path.rpartition(".")[2]: path for path in reversed(_list_all_paths())}
    path = list_synonyms().get(word) or paths.get(word)
    if path and "--set" in own:
        return f"{message}; type: --set {shlex.quote(f'{path}={value}')}"
    table = load_table()
    for row in (*table["prompt_options"], *table["answers"]):
        if word in row["words"].split():
            return f"{message}; {row.get('say')}"
    if near := find_near(name, [text for text in own if text.startswith("--")], cutoff=0.8):
        return f"{message}; did you mean {near}?"
    if path:
        return f"{message}; write {path} in the spec, or give --set {path}={value} when you submit"
    return f"{message}; jobgen {command.name if command else ''} --help lists them"


def _list_all_paths() -> tuple[str, ...]:
    from jobgen.spec.model import JobSpec

    return list_paths(JobSpec)


def _find_value(name: str, argv: Sequence[str]) -> str:
    """Return the value that was given with an option, or VALUE."""
    for index, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if option == name:
            following = argv[index + 1] if index + 1 < len(argv) else ""
            return value if equals else following if following[:1] not in ("", "-") else "VALUE"
    return "VALUE"
