"""What to type instead of a command or an option that jobgen does not have.

The words and the lines are data, in `jobgen/spec/data/words.yaml`. Only an error imports this. An
option that sets something of a job is looked up as a key of a spec.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import cast

import click

from jobgen.cli.options import FILE
from jobgen.errors import JobgenError, Position
from jobgen.plan.resolve import resolve
from jobgen.spec.bind import find_faults
from jobgen.spec.fields import list_paths
from jobgen.spec.load import load
from jobgen.spec.model import JobSpec
from jobgen.spec.spelling import find_near
from jobgen.spec.table import fill, find_rule, load_table, offer_spec
from jobgen.spec.words import describe, list_synonyms, normalize, show, suggest_key
from jobgen.spec.yaml_nodes import Mapping as Record
from jobgen.spec.yaml_nodes import Scalar, parse

_JOB = re.compile(r"(?i:job(?:_?id)?[=/])?(\d+(?:_\d+|\[\d*\])?(?:\.[A-Za-z][\w.-]*)?)(?:[.:]\S*)?")
_SPEC, _SCRIPT = (".yaml", ".yml"), (".sbatch", ".slurm", ".pbs", ".sh", ".job")

_FOR_PROGRAM = "for an option of the program, type: "

# Options with their values.
_Options = list[tuple[str, str]]


def explain_command(
    args: Sequence[str], context: click.Context, groups: Mapping[str, Iterable[str]]
) -> str:
    """Return the message for a word, with others after it, that these groups of commands lack."""
    table, known = load_table(), cast(click.Group, context.command).list_commands(context)
    message = f"no such command {args[0]!r}"
    word, *rest = [re.sub(r"^(?:pods?|jobs?|deploy\w*)/", "", one) for one in args]
    while word in table["tools"].split() and rest and rest[0][:1] != "-":
        word, *rest = rest
    parts = re.split("[-_:.]", word.lower())[::-1]
    parts = [part for part in parts if part not in table["nouns"].split()]
    parts.sort(key=lambda part: (part in ("list", "run"), part not in known))
    absent = shlex.join(one for one in _pick(rest, _SPEC) if not os.path.exists(one))
    for reading in (word.lower(), *parts):  # show-logs is logs
        facts = {"words": reading, "word": reading, "plain": shlex.join(rest), "absent": absent}
        facts["line"] = " ".join(args)
        answer = find_rule("commands", facts)
        if not answer and reading in known:
            answer = {"type": f"jobgen {reading} $LINE"}
        if "say" in answer:
            return f"{message}; {_fill_line(answer['say'], word, rest)}"
        if answer:
            return f"{message}; type: {_write_line(answer['type'], word, rest, context)}"
    cutoff = 0.75 if word[3:] else 0.66
    if near := find_near(word, known) or "".join(get_close_matches(word, known, 1, cutoff)):
        return f"{message}; did you mean: jobgen {shlex.join([near, *rest])}"
    lines = [f"{title.lower()}: {', '.join(group)}" for title, group in groups.items()]
    return "\n  ".join((f"{message}; the commands", *lines))


def _write_line(text: str, word: str, words: Sequence[str], context: click.Context) -> str:
    """Return a line of the table with the words behind another tool's, as its command has them."""
    command = cast(click.Group, context.command).get_command(context, f"{text} - -".split()[1])
    if program := re.fullmatch(r"jobgen init (--script|--module) (\S+)", text):
        line, file = offer_spec(_fill_line(program[2], word, words), program[1]), program[2]
        left = words[words.index(file) + 1 :] if file in words else []
        if not left:
            return line
        if line.startswith("jobgen init "):
            line = " ".join([f"{line}, and then jobgen submit", *_pick(line.split(), _SPEC)])
        return f"{line} -- {shlex.join(left)}"
    if command is None:
        return _fill_line(text, word, words)
    others, own, foreign = _part_words(words, command, word)
    jobs = [value for _, value in foreign if value and not _can_set(command)]
    line = _fill_line(text, word, [*others, *jobs])
    for option, value in own:
        if option not in line.split():  # the line of the table may have it
            line += f" {shlex.join(filter(None, (option, value)))}"
    if not _can_set(command) or _pick(others, _SCRIPT):
        return line
    typed, remarks = _translate(foreign, command, others, word)
    for option, remark in remarks:
        # Not of an option that names a file, or that the line has.
        if not (
            remark.startswith(f"type: jobgen {command.name} ") or f".{option.strip('-')}=" in line
        ):
            typed += f"; for {option}: {remark}"
    return line + typed


def _fill_line(text: str, word: str, words: Sequence[str]) -> str:
    """Return a line of the table with the job, the files and the words that were typed."""
    jobs = [job[1] for one in words if (job := _JOB.fullmatch(one))]
    names = [one for one in words if re.fullmatch(r"[A-Za-z][\w.]*-?[\w.-]+", one)]
    specs, scripts = _pick(words, _SPEC), _pick(words, _SCRIPT)
    values = {
        "WORD": word,
        "LINE": shlex.join(words),
        "JOB": " ".join(jobs or [one for one in names if not one.endswith(".py")][-1:]),
        "FILE": shlex.join([*specs, *scripts] or ["job.yaml"]),
        "SCRIPT": shlex.join(scripts or ["SCRIPT"]),
    }
    return fill(text, values).replace("  ", " ").strip()


def _pick(words: Iterable[str], ends: tuple[str, ...]) -> list[str]:
    return [word for word in words if word.endswith(ends)]


def _part_words(
    words: Sequence[str], command: click.Command, tool: str = ""
) -> tuple[list[str], _Options, _Options]:
    """Return plain words, the options that the command has, and unknown ones, with values.

    What `tool` has otherwise by the same letter is not the command's own.
    """
    own = {name: param for param in _list_options(command) for name in param.opts}
    table = load_table()
    elsewhere, flags = table["letters_of"].get(tool, {}), table["flags"].get(tool, "").split()
    # Letters and a number in one word: -fn100 is -f -n 100.
    joined = [re.fullmatch(r"-([A-Za-z]+)(\d+)", word) for word in words]
    parts = [[f"-{letter}" for letter in one[1]] + [one[2]] if one else [] for one in joined]
    words = [one for word, part in zip(words, parts, strict=True) for one in part or [word]]
    others: list[str] = []
    parted: tuple[_Options, _Options] = ([], [])
    left = list(words)
    while left and left[0] != "--":
        word = left.pop(0)
        if word[:1] != "-" or word == "-":
            others.append(word)
            continue
        name, equals, value = word.partition("=")
        param = None if name in elsewhere else own.get(name)
        takes = not param.is_flag if param else left and left[0][:1] != "-" and name not in flags
        if takes and left and not (equals or value or left[0].endswith(_SPEC)):
            value = left.pop(0)
        parted[param is None].append((name, value))
    return [*others, *left], *parted


def _list_options(command: click.Command) -> list[click.Option]:
    return [param for param in command.params if isinstance(param, click.Option)]


def _can_set(command: click.Command) -> bool:
    return any("--set" in param.opts for param in _list_options(command))


def make_room(message: str) -> str:
    """Return a message whose --set words the spec here takes: with what they need, and exclude."""
    for _ in range(4):
        given = [
            words[2] for words in re.finditer(r"--set ('?)([\w.]+=[^';]+?)\1(?=\s|;|,|$)", message)
        ]
        if not given or not os.path.isfile("job.yaml"):
            return message
        try:
            resolve(load("job.yaml", given))
            return message
        except JobgenError as error:
            text = str(error)
        wanted = ""
        if match := re.search(r"([\w.]+)\.\w+: is given together with (\w+);", text):
            wanted = f"{match[1]}.{match[2]}=null"
        elif match := re.search(r"([\w.]+\.\w+): is missing; it is required", text):
            wanted = f"{match[1]}={match[1].rpartition('.')[2].upper()}"
        elif match := re.search(r"([\w.]+): names no \w+, .*; add (\w+): ([\w-]+),", text):
            wanted = f"{match[1]}.{match[2]}={match[3]}"
        if not wanted or wanted in given:
            return message
        last = message.rindex("--set ")
        message = f"{message[:last]}--set {wanted} {message[last:]}"
    return message


# --- options ---


def explain_usage(error: click.UsageError, argv: Sequence[str], group: click.Group) -> str:
    """Return the message for a command line that a command of a group does not take."""
    context, message = error.ctx, error.format_message()
    if context is None:  # of an option that lacks its value, or has one and takes none
        outer = click.Context(group, info_name="jobgen")
        command = group.get_command(outer, argv[0])
        context = click.Context(command, info_name=argv[0], parent=outer) if command else outer
    command = context.command
    path = context.command_path.split()
    if isinstance(error, click.NoSuchOption):
        message = f"no such option {error.option_name}"
    if not isinstance(command, click.Group) and (line := _respell(argv[len(path) - 1 :], context)):
        return f"{message.rstrip('.')}; type: {shlex.join([*path, *line])}"
    if isinstance(error, click.NoSuchOption):
        reply = _explain_option(error.option_name, context, argv)
        unknown = " knows " in reply or _FOR_PROGRAM in reply
        return reply + (_name_owner(error.option_name, context, group) if unknown else "")
    match = re.fullmatch(r"Got unexpected extra arguments? \((.+)\)", message)
    given = match[1].split() if match else []  # none where the argument is a blank
    takes_spec = any(param.type is FILE for param in command.params)
    facts = {
        "message": message,
        "plain": " ".join(argv),
        "at": command.name or "",
        "first": "".join(given[:1]),
        "takes": " ".join(name.strip("-") for one in command.params for name in one.opts),
        "lacks": "set" * (not _can_set(command)),
        "COMMAND": " ".join(path[1:]),
        "FILE": _fill_line("$FILE" if takes_spec else "$JOB", "", argv[len(path) - 1 :]),
        "USAGE": " ".join(command.collect_usage_pieces(context)[1:]),
    }
    if answer := find_rule("usage", facts):
        return f"{message.rstrip('.')}; {answer['say']}".replace("  ", " ")
    if not given:
        return message
    pairs = [word.partition("=") for word in given if "=" in word]
    typed, remarks = _translate([(name, value) for name, _, value in pairs], command, [])
    left = {name for name, _ in remarks}
    given = [word for word in given if "=" not in word or word.partition("=")[0] in left]
    start, more = "for an argument of the program, type", f" -- {shlex.join(given)}"
    start, more = (start, more) if given else ("type", "")
    return f"{message}; {start}: jobgen {command.name} {facts['FILE']}{typed}{more}"


def _name_owner(option: str, context: click.Context, group: click.Group) -> str:
    """Return which command of a group has an option; empty if none has."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command and any(option in param.opts for param in command.params):
            return f"; jobgen {name} has it"
    return ""


def _respell(words: Sequence[str], context: click.Context) -> list[str]:
    """Return a command's words with its own options spelt right; nothing if it refuses those too.

    Without their dashes, with others, in capitals, misspelt, or with ` = ` before the value.
    """
    options = _list_options(context.command)
    own = {name: one.is_flag for one in options for name in one.opts if name[:2] == "--"}
    own["--help"] = True
    rows = [*load_table()["prompt_options"], *load_table()["answers"]]
    # Words that the table has are not misspelt.
    known = {*list_synonyms(), *" ".join(row.get("words", "") for row in rows).split()}
    line: list[str] = []
    for word in words:
        match = re.fullmatch(r"([-\u2010-\u2015\u2212/]*)(\w[\w-]*)(?:[=:](.*))?", word)
        name = f"--{normalize(match[2]).replace('_', '-')}" if match else ""
        listed = name[2:].replace("-", "_") in known
        if match and match[1] and name not in own and not (listed and _can_set(context.command)):
            name = find_near(name, own, cutoff=0.9 if listed else 0.8)
        is_value = bool(line) and own.get(line[-1]) is False
        if word == "=":  # before a value
            continue
        if match and name in own and not is_value:
            line += [name, match[3]] if match[3] and not own[name] else [name]
        else:
            line.append(word)
    if line == [*words] or context.command.name == "schema":
        return []
    with suppress(click.ClickException):
        if "--help" not in line:
            context.command.make_context(context.info_name, [*line], parent=context.parent)
        return line
    return []


def _explain_option(name: str, context: click.Context, argv: Sequence[str]) -> str:
    """Return the message for an option that a command does not have, and for others beside it."""
    message, command, words = f"no such option {name}", context.command, list(argv)
    if isinstance(command, click.Group):  # before the command
        meant = next((one for one in argv if one in command.list_commands(context)), "submit")
        words = [one for one in argv if one != meant]
        if programs := _pick(argv, (".py",)):
            return f"{message}; type: {offer_spec(programs[0])}"
        if _pick(argv, _SPEC) or meant in argv:
            return f"{message}; type: {_write_line(f'jobgen {meant} $LINE', meant, words, context)}"
    words = [one for one in words if one != command.name]
    others, _, foreign = _part_words(words, command)
    typed, remarks = _translate(foreign, command, others)
    programs = [remark for _, remark in remarks if remark.startswith(_FOR_PROGRAM)]
    if programs[1:]:  # all options of the program are one line
        line = " ".join([programs[0], *(one.partition(" -- ")[2] for one in programs[1:])])
        remarks = [one for one in remarks if one[1] not in programs] + [(foreign[0][0], line)]
    reply = f"; type:{typed}" if typed else ""
    for option, remark in remarks:
        clear = (option == foreign[0][0] and not typed) or remark.startswith(_FOR_PROGRAM)
        reply += f"; {remark}" if clear else f"; for {option}: {remark}"
    return f"{message}{reply}"


def _translate(
    foreign: _Options, command: click.Command, others: Sequence[str], tool: str = ""
) -> tuple[str, _Options]:
    """Return options that a command lacks as those that it has, and what to say of the others."""
    typed, remarks = "", []
    for option, value in foreign:
        answer = _answer_option(option, value, command, others, tool)
        if re.fullmatch(r"(did you mean \S+ )?type: -[^;]+", answer):
            typed += answer.partition("type:")[2]
        else:
            remarks.append((option, answer))
    return typed, remarks


def _answer_option(
    option: str, value: str, command: click.Command, others: Sequence[str], tool: str
) -> str:
    """Return what to type, or what to know, for an option that a command does not have."""
    table, settable = load_table(), _can_set(command)
    letters = table["letters"] | table["letters_of"].get(tool, {})
    word = option if len(option) == 2 else normalize(option)
    word = letters[option] if option in letters and value and tool else word
    facts = describe(Scalar(Position(""), value, "str")) | {
        "words": word,
        "word": word,
        "key": option,
        "plain": value,
        "folder": value * os.path.isdir(value),
        "at": command.name or "",
        "files": " ".join(_pick([*others, value], _SPEC + _SCRIPT)),
        "COMMAND": command.name or "",
        "VALUE": shlex.quote(value or "VALUE"),
        "WORD": word.upper(),
    }
    if answer := find_rule("prompt_options", facts):
        text = answer.get("say") or f"type: {answer['type']}"
        jobs = [job[1] if (job := _JOB.fullmatch(one)) else one for one in others]
        if not jobs and _JOB.fullmatch(value) and value not in text:
            jobs = [value]
        return fill(text, {"JOB": shlex.join(jobs)}).replace("  ", " ").strip()
    own = [name for param in _list_options(command) for name in param.opts if name[:2] == "--"]
    read = letters.get(option, word) if value and settable else word
    if (settable or option[2:]) and (reply := _answer_key(read, value, command)):
        return reply
    alone = [one.opts[0] for one in _list_options(command) if len(one.opts) == 1]
    alike = [name for name in alone if name[2] == option[1:]] or [find_near(option, own)]
    meant = f"did you mean {alike[0]}? " if alike[0] and len(alike) == 1 else ""
    if not settable:
        return meant.strip() or f"jobgen {command.name} knows {', '.join(sorted(own))}"
    if tool and tool not in ("submit", "run"):
        return "jobgen has nothing like it"
    specs, programs = _pick(others, _SPEC), _pick(others, (".py",))
    start = offer_spec(programs[0]) if programs and not specs else ""
    line = " ".join([f"jobgen {command.name}", *specs, *_pick(start.split(), _SPEC)])
    if start.startswith("jobgen init "):
        line = f"{start}, and then {line}"
    given = shlex.join(filter(None, (option, value)))
    return f"{meant}{_FOR_PROGRAM}{line} -- {given}"


def _answer_key(word: str, value: str, command: click.Command) -> str:
    """Return what to type for an option that is a key of the spec, or means one."""
    form = "int" if value.isdecimal() else "str" if value else "bool"
    node, known = Scalar(Position(""), value or "true", form), {"root": JobSpec, "cls": JobSpec}
    hint = suggest_key(word.rpartition(".")[2], node, path="", check=find_faults, **known)
    if not hint.text or "run.args" in hint.text:
        return ""
    shown = re.search(r"(?:as in|write) (\w+: .+?)(?:, (?:at the|for|or) .*)?$", hint.text)
    if "write directives" in hint.text or not (shown or hint.meant):  # the spec may have others
        text = hint.text.replace("this key", "the option") * _can_set(command)
        return f"{text} in the spec" if "write " in text else text
    fault = ""
    if shown:
        settings = dict(_flatten(parse(f"{{{shown[1]}}}", file="")))
    else:
        settings, fault = {hint.meant: value or "VALUE"}, hint.text.partition("; ")[2]
        field = list_paths(JobSpec).get(hint.meant)
        if value and field and not fault and (wrong := find_faults(node, field.kinds)):
            fault = wrong[0].message
        settings, fault = ({hint.meant: "VALUE"}, f"; {fault}") if fault else (settings, "")
    own = [name for param in _list_options(command) for name in param.opts]
    words: list[str] = []
    for path, text in settings.items():
        short = "--" + path.rpartition(".")[2].replace("_", "-")
        setting = f"{path}={text}".replace("...", "VALUE")
        words += [short, text] if short in own else ["--set", setting]
    line = shlex.join(words)
    if not _can_set(command):
        return f"give {line} when you submit{fault}"
    return f"type: {line}{fault}"


def _flatten(record: Record, start: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of keys within keys as text, by their paths."""
    for name, node in record.items.items():
        if isinstance(node, Record):
            yield from _flatten(node, f"{start}{name}.")
        else:
            yield f"{start}{name}", node.text if isinstance(node, Scalar) else show(node)
