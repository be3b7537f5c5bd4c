"""What to type instead of a command or an option that jobgen does not have.

The words and the lines are data, in `jobgen/spec/data/words.yaml`. Only an error imports this.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

import click

from jobgen.spec.table import fill, load_table
from jobgen.spec.words import (
    describe,
    find_near,
    list_paths,
    list_synonyms,
    normalize,
    point_to_directive,
)

_JOB = re.compile(r"(?:job(?:_?id)?[=/])?(\d+(?:_\d+|\[\d*\])?(?:\.[A-Za-z][\w.-]*)?)(?:[.:]\S*)?")


def explain_command(args: Sequence[str], known: Iterable[str]) -> str:
    """Return the message for a word, with others after it, that is none of the commands `known`."""
    table, known = load_table(), tuple(known)
    message = f"no such command {args[0]!r}"
    word, *rest = args
    while word in table["tools"].split() and rest and not rest[0].startswith("-"):
        word, *rest = rest
    line = shlex.join(rest)
    if word in known and len(rest) < len(args) - 1:
        return f"{message}; type: {_write_line(f'jobgen {word} $LINE', word, rest)}"
    for row in table["commands"]:
        match = re.search(row.get("matches", ""), line)
        if word.lower() in row["words"].split() and match:
            if "say" in row:
                return f"{message}; {_write_line(row['say'], word, rest, match)}"
            return f"{message}; type: {_write_line(row['type'], word, rest, match)}"
    for rule in table["word_rules"]:
        if re.search(rule["matches"], word):
            return f"{message}; type: {_write_line(rule['type'], word, rest)}"
    if near := find_near(word, known, cutoff=0.6):
        return f"{message}; did you mean: jobgen {shlex.join([near, *rest])}"
    return f"{message}; jobgen --help lists them"


def _write_line(
    text: str, word: str, rest: Sequence[str], match: re.Match[str] | None = None
) -> str:
    """Return a line of the table with the words that were typed."""
    jobs = [job[1] for one in rest if (job := _JOB.fullmatch(one))]
    names = [one for one in rest if re.fullmatch(r"[A-Za-z][\w.]*-?[\w.-]+", one)]
    files = [one for one in rest if one.endswith((".yaml", ".yml", ".sbatch", ".pbs", ".sh"))]
    values = {
        "WORD": word,
        "LINE": shlex.join(rest),
        "JOB": " ".join(jobs or names[-1:]),
        "FILE": shlex.join(files or ["job.yaml"]),
        "SCRIPT": shlex.join(files or ["SCRIPT"]),
    }
    return fill(text, values | (match.groupdict("") if match else {})).strip()


def explain_option(error: click.NoSuchOption, argv: Sequence[str]) -> str:
    """Return the message for an option that a command does not have."""
    name, context = error.option_name, error.ctx
    message, command = f"no such option {name}", str(context.command.name) if context else ""
    own = [text for param in context.command.params for text in param.opts] if context else []
    word, value = name if len(name) == 2 else normalize(name), _find_value(name, argv)
    table = load_table()
    for row in table["prompt_options"]:
        at, match = row.get("at", ".*"), re.search(row.get("matches", ""), value)
        meant = re.search(row["form"], word) if "form" in row else word in row["words"].split()
        if meant and re.fullmatch(at, command) and match:
            text = row.get("say") or f"type: {row['type']}"
            values = describe(value or "VALUE", [], "") | {"VALUE": shlex.quote(value or "VALUE")}
            jobs = [one for one in argv if one != value and _JOB.fullmatch(one)]
            jobs = jobs or [value] * bool(_JOB.fullmatch(value))
            values |= {
                "COMMAND": command,
                "WORD": word.upper(),
                "word": word,
                "JOB": " ".join(jobs),
            } | match.groupdict("")
            return f"{message}; {fill(text, values).replace('  ', ' ').strip()}"
    if len(word) > 2 and (answer := _answer_key(word, value, settable="--set" in own)):
        return f"{message}; {answer}"
    if near := find_near(name, [text for text in own if text.startswith("--")], cutoff=0.8):
        return f"{message}; did you mean {near}?"
    if "--set" in own:
        given = shlex.join([name, *([value] if value else [])])
        return f"{message}; for an option of the program, type: jobgen {command} -- {given}"
    known = ", ".join(sorted({text for text in own if text.startswith("--")}))
    return f"{message}; jobgen {command} knows {known}"


def _answer_key(word: str, value: str, *, settable: bool) -> str:
    """Return what to type for an option that is a key of the spec, or means one."""
    from jobgen.spec.model import JobSpec

    paths = {path.rpartition(".")[2]: path for path in reversed(list_paths(JobSpec))}
    plain = re.sub(r"^(?:slurm|sbatch|pbs|qsub)_", "", word)
    path = _find_path(word, paths) or _find_path(plain, paths)
    if path:
        setting = shlex.quote(f"{path}={value or ('true' if path in _SWITCHES else 'VALUE')}")
        if settable:
            return f"type: --set {setting}"
        return f"write {path} in the spec, or give --set {setting} when you submit"
    for row in load_table()["answers"]:
        if {word, plain} & set(row["words"].split()) and not (settable and "argument" in row):
            return fill(row["say"], {"value": value or "VALUE"}).replace("this key", "the option")
    hint = point_to_directive(plain, value)
    return f"{hint.text} in the spec" if hint else ""


def _find_path(word: str, paths: dict[str, str]) -> str:
    return list_synonyms().get(word) or paths.get(word, "")


_SWITCHES = ("resources.exclusive", "preflight", "report.usage")


def _find_value(name: str, argv: Sequence[str]) -> str:
    """Return the value that was given with an option; empty without one."""
    for index, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if option == name:
            following = argv[index + 1] if index + 1 < len(argv) else ""
            return value if equals else following if following[:1] != "-" else ""
        if len(name) == 2 and word.startswith(name):
            return word[2:]
    return ""
