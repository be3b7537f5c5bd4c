"""What to type instead of a command or an option that jobgen does not have.

The words and the lines are data, in `jobgen/spec/data/words.yaml`. Only an error imports this.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import click

from jobgen.errors import Position
from jobgen.spec.spelling import find_near
from jobgen.spec.table import fill, load_table
from jobgen.spec.words import (
    describe,
    list_paths,
    list_synonyms,
    normalize,
    point_to_directive,
)
from jobgen.spec.yaml_nodes import Scalar

_JOB = re.compile(r"(?:job(?:_?id)?[=/])?(\d+(?:_\d+|\[\d*\])?(?:\.[A-Za-z][\w.-]*)?)(?:[.:]\S*)?")


# What people put before and behind a word that means the same without it.
_BEFORE = r"(?:use|with|enable|set|the|my|slurm|sbatch|pbs|qsub|default|target|cluster)_"
_BEHIND = r"_(?:env|environment|file|path|spec|yaml|option|names?|only)"
_NAMES_FILE = re.compile("^-[fi]$|file|spec|input|script|config|definition|template|manifest")
_SIGNS = {"sbatch": "#SBATCH", "srun": "#SBATCH", "salloc": "#SBATCH", "qsub": "#PBS"}
_FILES = {"SPEC": (".yaml", ".yml"), "SCRIPT": (".sbatch", ".slurm", ".pbs", ".sh", ".job")}


def explain_command(
    args: Sequence[str], context: click.Context, groups: Mapping[str, Iterable[str]]
) -> str:
    """Return the message for a word, with others after it, that these groups of commands lack."""
    table, known = load_table(), _list_commands(context)
    message = f"no such command {args[0]!r}"
    plain = [re.sub(r"^(?:pods?|jobs?|deploy\w*)/", "", one) for one in args]
    kinds = ("pod", "pods")  # which say nothing before a name
    following = zip(plain, [*plain[1:], ""], strict=True)
    word, *rest = [one for one, after in following if not after or one not in kinds]
    meant = [one for one in rest if one in known]
    if meant and (_JOB.fullmatch(word) or word.endswith(_FILES["SPEC"])):
        rest.remove(meant[0])
        return f"{message}; type: jobgen {shlex.join([meant[0], word, *rest])}"
    while word in table["tools"].split() and rest and not rest[0].startswith("-"):
        word, *rest = rest
    nouns = table["nouns"].split()
    parts = [part for part in re.split("[-_:.]", word.lower())[::-1] if part not in nouns]
    parts.sort(key=lambda part: (part in ("list", "run"), part not in known))
    for reading in (word.lower(), *parts):
        if reading in known and (reading != word.lower() or len(rest) < len(args) - 1):
            programs = [one for one in rest if one.endswith(".py")]
            if programs and reading in ("run", "submit"):
                return f"{message}; type: jobgen init --script {programs[0]}"
            # An option before a spec only says that it is one.
            after = zip(rest, [*rest[1:], ""], strict=False)
            rest = [
                one for one, file in after if one[:2] != "--" or not _list_files([file], "SPEC")
            ]
            return f"{message}; type: {_write_line(f'jobgen {reading} $LINE', word, rest)}"
        for row in table["commands"]:
            match = re.search(row.get("matches", ""), shlex.join(rest))
            if reading in row["words"].split() and match:
                start, text = ("", row["say"]) if "say" in row else ("type: ", row["type"])
                others, own = _part_words(rest, None if word in _SIGNS else _find(text, context))
                line = _write_line(text, word, others, match)
                line += "" if "matches" in row else _carry_options(word, line, others, context)
                return f"{message}; {start}{' '.join([line, *map(shlex.quote, own)])}"
        for rule in table["word_rules"]:
            if match := re.search(rule["matches"], reading):
                return f"{message}; type: {_write_line(rule['type'], word, rest, match)}"
    if near := find_near(word, known, cutoff=0.75):
        return f"{message}; did you mean: jobgen {shlex.join([near, *rest])}"
    given = "; jobgen status $JOB shows the state of a job" * any(map(_JOB.fullmatch, rest))
    given = "; jobgen submit $FILE submits it" if _list_files(rest, "SPEC") else given
    lines = [f"{title.lower()}: {', '.join(group)}" for title, group in groups.items()]
    return "\n  ".join((f"{message}{_write_line(given, word, rest)}; the commands", *lines))


def _list_commands(context: click.Context) -> list[str]:
    assert isinstance(context.command, click.Group)
    return context.command.list_commands(context)


def _find(line: str, context: click.Context) -> click.Command | None:
    """Return the command that a line to type names."""
    return cast(click.Group, context.command).get_command(context, f"{line} - -".split()[1])


def _part_words(words: Sequence[str], command: click.Command | None) -> tuple[list[str], list[str]]:
    """Return the words apart from the options that a command has, and these with their values."""
    params = command.params if command else []
    own = {name: param for param in params for name in (*param.opts, *param.secondary_opts)}
    others: list[str] = []
    options: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        param = own.get(name) if word[:1] == "-" else None
        (options if param else others).append(word)
        if isinstance(param, click.Option) and not (param.is_flag or equals):
            options += left[:1]
            del left[:1]
    return others, options


def _carry_options(tool: str, line: str, words: Sequence[str], context: click.Context) -> str:
    """Return options of another tool's command in the words of the one that a line names."""
    command = _find(line, context)
    own = command.params if command else []
    settable = any("--set" in param.opts for param in own)
    if command is None or not settable or _list_files([line], "SCRIPT"):
        return ""
    options = [(word.partition("=")[0], words[at:]) for at, word in enumerate(words)]
    pairs = [(one, _find_value(one, after)) for one, after in options if one[:2] == "--"]
    carried, rest = "", ""
    if sign := _SIGNS.get(tool):
        asked = (one for one in words if one not in line.split())
        values = _read_directive(f"{sign} {shlex.join(asked)}")
        # What a directive means beside others, which the spec has.
        pairs = [pair for pair in pairs if pair[0] in ("--ntasks-per-node", "--mem-per-cpu")]
        if any(option == "--mem-per-cpu" for option, _ in pairs):
            values.pop("resources.memory_per_node", None)
        pairs += [_split_option(one.partition(" ")[2]) for one in values.pop("directives", [])]
        for path, value in values.items():
            text = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)
            carried += f" --set {shlex.quote(f'{path}={text}')}"
    for option, value in pairs:
        if _list_files([value], "SPEC"):
            continue
        # Of -l, all that a spec can say is read above.
        answer = "" if option == "-l" else _translate_option(option, value, command, words)
        if re.match("type: --?[A-Za-z]", answer) and not re.search(r"\b[A-Z]$|VALUE|,", answer):
            carried += answer.removeprefix("type:")
        elif answer or sign:
            kept = f"write directives: ['{f'{sign} {option} {value}'.strip()}'] in the spec"
            rest += f"; for {option}: {answer or kept}"
    return carried + rest


def _read_directive(line: str) -> dict[str, Any]:
    """Return what a line of #SBATCH or #PBS sets in a spec, as `import` reads it."""
    from jobgen.batchscript.directives import settle
    from jobgen.batchscript.draft import Draft
    from jobgen.batchscript.reader import Script

    draft = Draft()
    settle(Script("", f"{line}\n"), draft)
    return draft.values


def _split_option(text: str) -> tuple[str, str]:
    option = text.split("=")[0].split()[0]
    option = option if option[:2] == "--" else option[:2]
    return option, text.removeprefix(option).strip("= '")


def _list_files(words: Sequence[str], kind: str) -> list[str]:
    return [word for word in words if word.endswith(_FILES[kind])]


def _write_line(
    text: str, word: str, rest: Sequence[str], match: re.Match[str] | None = None
) -> str:
    """Return a line of the table with the words that were typed."""
    jobs = [job[1] for one in rest if (job := _JOB.fullmatch(one))]
    names = [one for one in rest if re.fullmatch(r"[A-Za-z][\w.]*-?[\w.-]+", one)]
    specs, scripts = _list_files(rest, "SPEC"), _list_files(rest, "SCRIPT")
    if specs and "$SCRIPT" in text:
        text = "jobgen check $FILE"  # which is for a spec what lint is for a script
    if jobs and re.match("jobgen (list|explain)", text):
        text = "jobgen status $JOB"
    values = {
        "WORD": word,
        "LINE": shlex.join(rest),
        "JOB": " ".join(jobs or [one for one in names if not one.endswith(".py")][-1:]),
        "FILE": shlex.join([*specs, *scripts] or ["job.yaml"]),
        "SCRIPT": shlex.join(scripts or ["SCRIPT"]),
    }
    return fill(text, values | (match.groupdict("") if match else {})).strip()


def explain_usage(error: click.UsageError, argv: Sequence[str]) -> str:
    """Return the message for a command line that a command does not take."""
    if isinstance(error, click.NoSuchOption):
        return explain_option(error, argv)
    if (group := re.fullmatch(r"No such command '(\S+)'\.", error.message)) and error.ctx:
        line = f"jobgen {error.ctx.command.name}"  # of the profiles
        return f"{error.message} For one, type: {line} show {group[1]}; {line} capture makes one"
    match = re.fullmatch(r"Got unexpected extra arguments? \((.+)\)", error.message)
    given = match[1].split() if match else []  # none where the argument is a blank
    if not given or error.ctx is None:
        return error.format_message()
    name = error.ctx.command.name or ""
    own = [text for param in error.ctx.command.params for text in param.opts]
    line = f"jobgen {name} {shlex.join(_list_files(argv, 'SPEC') or ['job.yaml'])}"
    host = next((one for one in argv if re.fullmatch(r"[\w.-]+@[\w.-]+(:\S*)?", one)), "")
    if host and "--host" in own:
        return f"{error.message}; type: {line} --host {host}"
    if given[0].endswith(_FILES["SPEC"]):
        return f"{name} takes one file at a time; type: jobgen {name} {given[0]}"
    if "--set" not in own:
        return f"{name} takes one job at a time; its options come before it: jobgen {name} --help"
    parted = re.search(r"--set ([^\s=]+)(?: *= *| +)(\S+)", " ".join(argv))
    if parted and parted[2] in given:
        return f"{error.message}; type: {line} --set {shlex.quote(f'{parted[1]}={parted[2]}')}"
    for word in list(given):
        key, equals, value = word.partition("=")
        key = normalize(key.rpartition(".")[2])
        answer = _answer_key(key, value, settable=True) if equals else ""
        if answer and not re.fullmatch("type: [^;]+", answer):
            return f"{error.message}; {answer}"
        if answer:
            line += answer.removeprefix("type:")
            given.remove(word)
    line += f" -- {shlex.join(given)}" if given else ""
    return f"{error.message}; {'for an argument of the program, ' * bool(given)}type: {line}"


def explain_option(error: click.NoSuchOption, argv: Sequence[str]) -> str:
    """Return the message for an option that a command does not have."""
    name, context = error.option_name, error.ctx
    message, command = f"no such option {name}", str(context.command.name) if context else ""
    if context and isinstance(context.command, click.Group):  # before the command
        listed = _list_commands(context)
        command = next((one for one in argv if one in listed), "")
        command = command or "submit" * bool(_list_files(argv, "SPEC"))
        inner = context.command.get_command(context, command) if command else None
        if programs := [one for one in argv if one.endswith(".py")]:
            return f"{message}; type: jobgen init --script {programs[0]}"
        if inner and any(name in param.opts for param in inner.params):
            rest = [one for one in argv if one != command]
            return f"{message}; type: jobgen {shlex.join([command, *rest])}"
    else:
        inner = context.command if context else None
    params = inner.params if inner else []
    own = [text for param in params for text in param.opts]
    value = _find_value(name, argv)
    if _list_files([value], "SPEC") + _list_files([value], "SCRIPT"):
        if _NAMES_FILE.search(name.lower()):
            return f"{message}; type: jobgen {command} {value}"
        value = value * value.endswith(_FILES["SCRIPT"])  # a spec stands by itself
    if answer := _translate_option(name, value, inner or click.Command(""), argv):
        return f"{message}; {answer}"
    options = [text for text in own if text.startswith("--")]
    parts = name.strip("-").split("-")
    within = [text for text in options if {*text[2:].split("-")} <= {*parts}]
    single = [param.opts[0] for param in params if len(param.opts) == 1 and len(name) == 2]
    alike = within or [text for text in single if text[2:3] == name[1]]
    near = find_near(name, options, cutoff=0.8) or "".join(alike[:1] * (len(alike) == 1))
    meant = f"did you mean {near}? " if near else ""
    if "--set" in own:
        line = " ".join([command, *_list_files(argv, "SPEC")])
        given = shlex.join([name, *([value] if value else [])])
        if programs := [one for one in argv if one.endswith(".py")]:
            before = f"jobgen init --script {programs[0]}, and then"
            return f"{message}; type: {before} jobgen {command} -- {given}"
        return f"{message}; {meant}for an option of the program, type: jobgen {line} -- {given}"
    known = ", ".join(sorted(set(options)))
    return f"{message}; {meant or f'jobgen {command} knows {known}'}".strip()


def _translate_option(name: str, value: str, command: click.Command, argv: Sequence[str]) -> str:
    """Return what to type, or what to know, for an option that a command does not have."""
    own = [text for param in command.params for text in param.opts]
    kinds = [(param.opts[0], param.type) for param in command.params]
    choices = {
        one: text for text, kind in kinds if isinstance(kind, click.Choice) for one in kind.choices
    }
    names_kind = len(name) == 2 or name.strip("-") in load_table()["kinds"].split()
    asked = value if names_kind else name.strip("-")
    if chosen := choices.get(asked):
        return f"type: {chosen} {asked}"
    if longer := next((text for text in own if _is_short_for(text, name)), ""):
        return f"did you mean {longer}?"
    path, equals, content = value.partition("=")
    if equals and "." in path and (answer := _answer_key(path, content, settable="--set" in own)):
        return answer
    word = name if len(name) == 2 else normalize(name)
    plain = re.sub(f"^{_BEFORE}|{_BEHIND}$", "", word)
    for reading in dict.fromkeys((word, plain)):
        answer = _answer_option(reading, value, command, argv)
        if not answer and len(reading) > 2:
            answer = _answer_key(reading, value, settable="--set" in own)
        if answer:
            return answer
    return ""


def _is_short_for(one: str, other: str) -> bool:
    """Whether each part of an option begins a part of another's, or is begun by it."""
    pairs = list(zip(one.strip("-").split("-"), normalize(other).split("_"), strict=False))
    same = one[:2] == "--" and one.count("-") == other.replace("_", "-").count("-")
    return same and all(a.startswith(b) or (len(a) > 2 and b.startswith(a)) for a, b in pairs)


def _answer_option(word: str, value: str, command: click.Command, argv: Sequence[str]) -> str:
    """Return what the table has for an option; a row with a pattern for the value comes first."""
    others, _ = _part_words(argv, command)
    named = [one for one in others if one[:1] != "-" and one not in (command.name, value)]
    rows = sorted(load_table()["prompt_options"], key=lambda row: "matches" not in row)
    for row in rows:
        match = re.search(row.get("matches", ""), value)
        meant = re.search(row["form"], word) if "form" in row else word in row["words"].split()
        if not match or not meant or not re.fullmatch(row.get("at", ".*"), command.name or ""):
            continue
        text = row.get("say") or f"type: {row['type']}"
        jobs = [job[1] if (job := _JOB.fullmatch(one)) else one for one in named]
        if not jobs and _JOB.fullmatch(value) and "$VALUE" not in text:
            jobs = [value]
        values = describe(Scalar(Position(""), value or "VALUE", "str")) | match.groupdict("")
        values |= {"VALUE": shlex.quote(value or "VALUE"), "WORD": word.upper(), "word": word}
        values |= {"COMMAND": command.name or "", "JOB": shlex.join(jobs)}
        return fill(text, values).replace("  ", " ").strip()
    return ""


def _answer_key(word: str, value: str, *, settable: bool) -> str:
    """Return what to type for an option that is a key of the spec, or means one."""
    from jobgen.spec.model import JobSpec

    known = list_paths(JobSpec)
    paths = {path.rpartition(".")[2]: path for path in reversed(known)}
    paths |= {form: path for path in known for form in (path, normalize(path))}
    if path := list_synonyms().get(word) or paths.get(word, ""):
        if settable and (fault := _find_fault(path, value)):
            return f"type: --set {path}=VALUE; {fault}"
        setting = shlex.quote(f"{path}={value or ('true' if path in _SWITCHES else 'VALUE')}")
        if settable:
            return f"type: --set {setting}"
        return f"write {path} in the spec, or give --set {setting} when you submit"
    for row in load_table()["answers"]:
        if word in row["words"].split() and not (settable and "argument" in row):
            return fill(row["say"], {"value": value or "VALUE"}).replace("this key", "the option")
    hint = point_to_directive(word, value)
    return f"{hint.text} in the spec" if hint else ""


def _find_fault(path: str, value: str) -> str:
    """Return what is wrong with a value of a key, and what to write; empty if it is right."""
    from jobgen.errors import SpecError
    from jobgen.spec.load import load

    base = {"name": "a", "resources": {"nodes": 1}, "run": {"script": "a.py"}}
    try:
        load(base, [f"{path}={value}"] if value else [], alone=True)
    except SpecError as error:
        return "; ".join(filter(None, (error.problems[0].message, error.problems[0].hint)))
    return ""


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
