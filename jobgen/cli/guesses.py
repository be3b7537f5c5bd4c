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
from jobgen.errors import JobgenError, Position, SpecError
from jobgen.plan.resolve import resolve
from jobgen.records import NamedTuple
from jobgen.spec.bind import find_faults
from jobgen.spec.fields import list_paths
from jobgen.spec.load import load
from jobgen.spec.model import JobSpec
from jobgen.spec.spelling import find_near
from jobgen.spec.table import fill, find_rule, list_words, load_table, offer_spec
from jobgen.spec.words import Hint, describe, normalize, show, suggest_key
from jobgen.spec.yaml_nodes import Mapping as Record
from jobgen.spec.yaml_nodes import Scalar, parse

_JOB = re.compile(r"(?i:job(?:_?id)?[=/])?(\d+(?:_\d+|\[\d*\])?(?:\.[A-Za-z][\w.-]*)?)(?:[.:]\S*)?")
_SPEC, _SCRIPT = (".yaml", ".yml"), (".sbatch", ".slurm", ".pbs", ".sh", ".job")

# Options with their values.
_Options = list[tuple[str, str]]


class _Known:
    """What a command takes."""

    def __init__(self, command: click.Command) -> None:
        options = [param for param in command.params if isinstance(param, click.Option)]
        self.name = command.name or ""
        self.options = {name: param for param in options for name in param.opts}
        self.long = [name for name in self.options if name.startswith("--")]
        self.has_set = "--set" in self.options

    def set(self, path: str, text: str) -> list[str]:
        """Return the words that set a key of the spec."""
        short = "--" + path.rpartition(".")[2].replace("_", "-")
        setting = f"{path}={text}".replace("...", "VALUE")
        return [short, text] if short in self.options else ["--set", setting]

    def say_nothing(self, tool: str) -> str:
        """Return what to say of an option, of a tool's perhaps, that means nothing here."""
        known = f"jobgen {self.name} knows {', '.join(sorted(self.long))}"
        return "jobgen has nothing like it" if tool else known


class _Typed(NamedTuple):
    """The words behind a command: plain ones, the options that it has, and those that it lacks."""

    plain: list[str]
    own: _Options
    foreign: _Options


# --- commands ---


def explain_command(
    args: Sequence[str], context: click.Context, groups: Mapping[str, Iterable[str]]
) -> str:
    """Return the message for a word, with others after it, that these groups of commands lack."""
    known = cast(click.Group, context.command).list_commands(context)
    message = f"no such command {args[0]!r}"
    word, *rest = _drop_tools(args)
    if answer := _answer_command(word, rest, context, " ".join(args)):
        return f"{message}; {answer}"
    cutoff = 0.75 if word[3:] else 0.66
    if near := find_near(word, known) or "".join(get_close_matches(word, known, 1, cutoff)):
        return f"{message}; did you mean: jobgen {shlex.join([near, *rest])}"
    lines = [f"{title.lower()}: {', '.join(group)}" for title, group in groups.items()]
    return "\n  ".join((f"{message}; the commands", *lines))


def _answer_command(word: str, words: Sequence[str], context: click.Context, line: str) -> str:
    """Return what to say of a word where a command is wanted, with others after it, if known."""
    known = cast(click.Group, context.command).list_commands(context)
    absent = shlex.join(one for one in _pick(words, _SPEC) if not os.path.exists(one))
    facts = {"plain": shlex.join(words), "absent": absent, "line": line}
    for reading in _list_readings(word.lower(), known):
        answer = find_rule("commands", {"words": reading, "word": reading, **facts})
        if not answer and reading in known:
            answer = {"type": f"jobgen {reading} $LINE"}
        if "say" in answer:
            return _fill_line(answer["say"], word, words)
        if answer:
            return f"type: {_write_line(answer['type'], word, words, context)}"
    return ""


def _drop_tools(args: Sequence[str]) -> list[str]:
    """Return words without another tool's name at their start, or `job/` before a name."""
    words = [re.sub(r"^(?:pods?|jobs?|deploy\w*)/", "", one) for one in args]
    tools = load_table()["tools"].split()
    while words[0] in tools and words[1:] and not words[1].startswith("-"):
        del words[0]
    return words


def _list_readings(word: str, known: Sequence[str]) -> list[str]:
    """Return a word, and its parts, the surest first: show-logs is logs."""
    nouns = load_table()["nouns"].split()
    parts = [part for part in re.split("[-_:.]", word)[::-1] if part not in nouns]
    parts.sort(key=lambda part: (part in ("list", "run"), part not in known))
    return [word, *parts]


def _write_line(text: str, word: str, words: Sequence[str], context: click.Context) -> str:
    """Return a line of the table with the words behind another tool's, as its command has them."""
    if start := re.fullmatch(r"jobgen init (--script|--module) (\S+)", text):
        program = _fill_line(start[2], word, words)
        after = words[words.index(program) + 1 :] if program in words else words
        return offer_spec(program, start[1], words=after)
    command = cast(click.Group, context.command).get_command(context, f"{text} - -".split()[1])
    if command is None:
        return _fill_line(text, word, words)
    known = _Known(command)
    typed = _part_words(words, known, word)
    jobs = [] if known.has_set else [value for _, value in typed.foreign if value]
    line = _fill_line(text, word, [*typed.plain, *jobs])
    line = _add_own(line, typed.own)
    if not known.has_set:
        return line
    answers = _translate(typed, known, word)
    remarks = ""
    for option, remark in answers.remarks:
        # Not of an option that names a file, or that the line has.
        needless = (f"type: jobgen {known.name} ", f".{option.strip('-')}=")
        if not remark.startswith(needless[0]) and needless[1] not in line:
            remarks += f"; for {option}: {remark}"
    return " ".join([line, *answers.typed]) + remarks + _offer_program(answers, typed, known)


def _add_own(line: str, options: _Options) -> str:
    """Return a line with options that its command has, but for those that the table gave it."""
    for option, value in options:
        if option not in line.split():
            line += f" {shlex.join(filter(None, (option, value)))}"
    return line


def _fill_line(text: str, word: str, words: Sequence[str]) -> str:
    """Return a line of the table with the job, the files and the words that were typed."""
    names = [one for one in words if re.fullmatch(r"[A-Za-z][\w.]*-?[\w.-]+(?<!\.py)", one)]
    specs, scripts = _pick(words, _SPEC), _pick(words, _SCRIPT)
    values = {
        "WORD": word,
        "LINE": shlex.join(words),
        "JOB": " ".join(_list_jobs(words) or names[-1:]),
        "FILE": shlex.join([*specs, *scripts] or ["job.yaml"]),
        "SCRIPT": shlex.join(scripts or ["SCRIPT"]),
    }
    return fill(text, values).replace("  ", " ").strip()


def _pick(words: Iterable[str], ends: tuple[str, ...]) -> list[str]:
    return [word for word in words if word.endswith(ends)]


def _list_jobs(words: Iterable[str]) -> list[str]:
    """Return the ids of the jobs that words name."""
    return [job[1] for job in map(_JOB.fullmatch, words) if job]


def _part_words(words: Sequence[str], known: _Known, tool: str = "") -> _Typed:
    """Part the words behind a command; its letters may mean something else to `tool`."""
    elsewhere = load_table()["letters_of"].get(tool, {})
    typed = _Typed([], [], [])
    left = _unfold_letters(words)
    while left and left[0] != "--":
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            typed.plain.append(word)
            continue
        name, equals, value = word.partition("=")
        param = None if name in elsewhere else known.options.get(name)
        if left and not equals and _takes(left[0], param):
            value = left.pop(0)
        (typed.own if param else typed.foreign).append((name, value))
    typed.plain.extend(left)
    return typed


def _unfold_letters(words: Sequence[str]) -> list[str]:
    """Return words with letters and a number in one as their options: -fn100 is -f -n 100."""
    unfolded: list[str] = []
    for word in words:
        joined = re.fullmatch(r"-([A-Za-z]+)(\d+)", word)
        unfolded += [*(f"-{letter}" for letter in joined[1]), joined[2]] if joined else [word]
    return unfolded


def _takes(word: str, param: click.Option | None) -> bool:
    """Whether a word is the value of the option before it, which a command may have."""
    if word.endswith(_SPEC):
        return False
    return not param.is_flag if param else not word.startswith("-")


def make_room(message: str, words: Sequence[str] = ()) -> str:
    """Return a message whose --set words the spec takes: with what they need, and exclude."""
    spec = next(iter(_pick(words, _SPEC)), "job.yaml")
    for _ in range(4):
        settings = re.finditer(r"--set ('?)([\w.]+=[^';]+?)\1(?=\s|;|,|$)", message)
        given = [setting[2] for setting in settings]
        wanted, key = _find_wanted(spec, given) if given and os.path.isfile(spec) else ("", "")
        if not wanted:
            break
        at = max(message.rfind(f"--set {quote}{key}=") for quote in ("", "'"))
        at = message.rindex("--set ") if at < 0 else at
        message = f"{message[:at]}--set {wanted} {message[at:]}"
    return message


def _find_wanted(spec: str, given: Sequence[str]) -> tuple[str, str]:
    """Return the setting that a spec needs first, to take others, and the key that needs it."""
    keys = [setting.partition("=")[0] for setting in given]
    try:
        resolve(load(spec, given))
    except SpecError as error:
        for problem in error.problems:
            key = problem.setting.partition("=")[0]
            if key in keys and problem.path not in keys:  # of two that exclude each other
                return f"{problem.path}=null", key
            if problem.setting and problem.setting not in given:
                return problem.setting, problem.path
    except JobgenError:
        pass
    return "", ""


# --- options ---


def explain_usage(error: click.UsageError, argv: Sequence[str], group: click.Group) -> str:
    """Return the message for a command line that a command of a group does not take."""
    ends = [index for index, word in enumerate(argv) if word in ("&&", "||", "|", ";")]
    argv, context = argv[: ends[0]] if ends else argv, error.ctx  # quoted, by mistake
    if context is None:  # of an option that lacks its value, or has one and takes none
        outer = click.Context(group, info_name="jobgen")
        command = group.get_command(outer, argv[0])
        context = click.Context(command, info_name=argv[0], parent=outer) if command else outer
    path = context.command_path.split()
    unknown = error.option_name if isinstance(error, click.NoSuchOption) else ""
    message = f"no such option {unknown}" if unknown else error.format_message()
    if line := _respell(argv[len(path) - 1 :], context):
        return f"{message.rstrip('.')}; type: {shlex.join([*path, *line])}"
    if unknown:
        return message + _explain_option(context, argv)
    return _explain_words(message, context, argv)


def _respell(words: Sequence[str], context: click.Context) -> list[str]:
    """Return words with a command's options spelt right; nothing if it refuses those too."""
    known = _Known(context.command)
    line: list[str] = []
    for word in words:
        before = known.options.get(line[-1]) if line else None
        if word == "=":  # before a value
            continue
        is_value = before is not None and not before.is_flag
        line += [word] if is_value else _spell(word, known)
    if line == [*words] or isinstance(context.command, click.Group):
        return []
    with suppress(click.ClickException):
        if "--help" not in line:
            context.command.make_context(context.info_name, [*line], parent=context.parent)
        return line
    return []


def _spell(word: str, known: _Known) -> list[str]:
    """Return a word as the option that it is, with its value, if it is one.

    Without its dashes, with others, in capitals, misspelt, or with `:` before the value.
    """
    match = re.fullmatch(r"([-\u2010-\u2015\u2212/]*)(\w[\w-]*)(?:[=:](.*))?", word)
    if not match:
        return [word]
    dashes, name, value = match.groups("")
    name, own = normalize(name), ["--help", *known.long]
    option = f"--{name.replace('_', '-')}"
    if dashes and option not in own and not (known.has_set and _is_listed(name)):
        option = find_near(option, own, cutoff=0.8)
    if option not in own:
        return [word]
    takes = option in known.options and not known.options[option].is_flag
    return [option, value] if value and takes else [option]


def _is_listed(name: str) -> bool:
    """Whether a name is a key of the spec, or a word that the table has: it is not misspelt."""
    keys = (path.rpartition(".")[2] for path in list_paths(JobSpec))
    return name in list_words() or name in keys


def _explain_words(message: str, context: click.Context, argv: Sequence[str]) -> str:
    """Return the message for words that a command does not take."""
    command, path = context.command, context.command_path.split()
    known = _Known(command)
    extra = re.fullmatch(r"Got unexpected extra arguments? \((.+)\)", message)
    given = extra[1].split() if extra else []  # none where the argument is a blank
    takes_spec = any(param.type is FILE for param in command.params)
    facts = {
        "message": message,
        "plain": " ".join(argv),
        "at": known.name,
        "first": "".join(given[:1]),
        "takes": " ".join(name.strip("-") for one in command.params for name in one.opts),
        "lacks": "" if known.has_set else "set",
        "COMMAND": " ".join(path[1:]),
        "FILE": _fill_line("$FILE" if takes_spec else "$JOB", "", argv[len(path) - 1 :]),
        "USAGE": " ".join(command.collect_usage_pieces(context)[1:]),
    }
    if answer := find_rule("usage", facts):
        return f"{message.rstrip('.')}; {answer['say']}".replace("  ", " ")
    if not given:
        return message
    line, left = f"jobgen {known.name} {facts['FILE']}", []
    for word in given:
        name, equals, value = word.partition("=")
        typed = _translate(_Typed([], [], [(name, value)]), known).typed if equals else []
        line = " ".join([line, *typed])
        left += [] if typed else [word]
    if left:
        return f"{message}; for an argument of the program, type: {line} -- {shlex.join(left)}"
    return f"{message}; type: {line}"


def _explain_option(context: click.Context, argv: Sequence[str]) -> str:
    """Return what to say of options that a command does not have."""
    if isinstance(context.command, click.Group) and (line := _explain_early(context, argv)):
        return line
    known = _Known(context.command)
    typed = _part_words([one for one in argv if one != known.name], known)
    answers = _translate(typed, known)
    first = next((option for option, _ in typed.foreign), "")  # which the message names
    reply = "".join(f"; {remark}" for option, remark in answers.remarks if option == first)
    if answers.typed:
        start = "for the others, type" if reply else "type"
        reply += f"; {start}: {' '.join(answers.typed)}"
    for option, remark in answers.remarks:
        reply += f"; for {option}: {remark}" if option != first else ""
    return reply + _offer_program(answers, typed, known)


def _explain_early(context: click.Context, argv: Sequence[str]) -> str:
    """Return the line for options before the command, or beside a file alone; empty for others."""
    known = cast(click.Group, context.command).list_commands(context)
    meant = next((one for one in argv if one in known), "submit")
    if meant not in argv and not _pick(argv, (*_SPEC, ".py")):
        return ""
    return f"; {_answer_command(meant, [one for one in argv if one != meant], context, '')}"


# --- translation ---


class _Answers(NamedTuple):
    """What stands for options that a command lacks."""

    typed: list[str]  # options that it has, as they are typed
    remarks: _Options  # what to say of others
    program: list[str]  # those that are for the program, with their values


def _translate(typed: _Typed, known: _Known, tool: str = "") -> _Answers:
    """Answer the options that a command lacks; `tool` is whose they are."""
    answers = _Answers([], [], [])
    for option, value in typed.foreign:
        answer = _answer_option(option, value, known, typed.plain, tool)
        if not answer and known.has_set and tool in ("", known.name):
            answers.program.extend(filter(None, (option, value)))
        elif re.fullmatch("type: -[^;]+", answer):
            answers.typed.append(answer.removeprefix("type: "))
        else:
            answers.remarks.append((option, answer or known.say_nothing(tool)))
    return answers


def _offer_program(answers: _Answers, typed: _Typed, known: _Known) -> str:
    """Return the line that gives the program its options; empty if there are none."""
    if not answers.program:
        return ""
    specs, programs = _pick(typed.plain, _SPEC), _pick(typed.plain, (".py",))
    if programs and not specs:
        line = offer_spec(programs[0], command=known.name, words=answers.program)
    else:
        line = shlex.join(["jobgen", known.name, *specs, "--", *answers.program])
    return f"; for an option of the program, type: {line}"


def _answer_option(option: str, value: str, known: _Known, others: Sequence[str], tool: str) -> str:
    """Return what to type, or to know, for an option that a command lacks; empty if unknown."""
    letters = load_table()["letters"] | load_table()["letters_of"].get(tool, {})
    word = option if len(option) == 2 else normalize(option)
    stands_for = letters.get(option, word) if value else word
    word = stands_for if tool else word
    facts = describe(Scalar(Position(""), value, "str")) | {
        "words": word,
        "word": word,
        "key": option,
        "plain": value,
        "folder": value if os.path.isdir(value) else "",
        "at": known.name,
        "files": " ".join(_pick([*others, value], _SPEC + _SCRIPT)),
        "COMMAND": known.name,
        "VALUE": shlex.quote(value or "VALUE"),
        "WORD": word.upper(),
    }
    if answer := find_rule("prompt_options", facts):
        text = answer.get("say") or f"type: {answer['type']}"
        jobs = [job for one in others for job in _list_jobs([one]) or [one]]
        if not jobs and value not in text:
            jobs = _list_jobs([value])
        return fill(text, {"JOB": shlex.join(jobs)}).replace("  ", " ").strip()
    if known.has_set:
        return _answer_key(stands_for, value, known)
    return _answer_key(word, value, known) if option[2:] else ""


def _answer_key(word: str, value: str, known: _Known) -> str:
    """Return what to type for an option that is a key of the spec, or means one."""
    key, classes = word.rpartition(".")[2], {"root": JobSpec, "cls": JobSpec}
    hint = suggest_key(key, _read_value(value), path="", check=find_faults, **classes)
    if not hint.text or "run.args" in hint.text:
        return ""
    settings, fault = _list_settings(hint, value)
    if not settings:
        text = hint.text.replace("this key", "the option") if known.has_set else ""
        return f"{text} in the spec" if "write " in text else text
    line = shlex.join(word for setting in settings.items() for word in known.set(*setting))
    return f"type: {line}{fault}" if known.has_set else f"give {line} when you submit{fault}"


def _read_value(value: str) -> Scalar:
    if not value:
        return Scalar(Position(""), "true", "bool")
    return Scalar(Position(""), value, "int" if value.isdecimal() else "str")


def _list_settings(hint: Hint, value: str) -> tuple[dict[str, str], str]:
    """Return the paths and values that a hint says to write; and what is wrong with the value."""
    if "write directives" in hint.text:  # the spec may have others
        return {}, ""
    if shown := re.search(r"(?:as in|write) (\w+: .+?)(?:, (?:at the|for|or) .*)?$", hint.text):
        return dict(_flatten(parse(f"{{{shown[1]}}}", file=""))), ""
    if not hint.meant:
        return {}, ""
    fault = hint.text.partition("; ")[2]
    return ({hint.meant: "VALUE"}, f"; {fault}") if fault else ({hint.meant: value or "VALUE"}, "")


def _flatten(record: Record, start: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of keys within keys as text, by their paths."""
    for name, node in record.items.items():
        if isinstance(node, Record):
            yield from _flatten(node, f"{start}{name}.")
        else:
            yield f"{start}{name}", node.text if isinstance(node, Scalar) else show(node)
