"""What to type instead of a command or an option that jobgen does not have.

The words and the lines are data, in `jobgen/spec/data/words.yaml`. Only an error imports this. An
option that sets something of a job is looked up as a key of a spec.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import cast

import click

from jobgen.batchscript.directives import read_walltime, settle
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.reader import Script
from jobgen.cli.options import FILE, SPEC_ENDS
from jobgen.cli.target import SHORTCUTS
from jobgen.errors import JobgenError, Position, Problem, SpecError
from jobgen.plan.program import read_sources
from jobgen.plan.resolve import resolve
from jobgen.schedulers.registry import SCRIPT_ENDS
from jobgen.sites.search import list_names, list_near
from jobgen.spec.arguments import write_words
from jobgen.spec.bind import find_faults
from jobgen.spec.edit import list_values
from jobgen.spec.fields import join_path, read_fields
from jobgen.spec.load import load
from jobgen.spec.model import JobSpec
from jobgen.spec.spelling import find_near
from jobgen.spec.table import (
    explain_file,
    fill,
    find_rule,
    list_words,
    load_table,
    names_program,
    offer_spec,
)
from jobgen.spec.words import Hint, describe, list_synonyms, normalize, suggest_key
from jobgen.spec.yaml_nodes import Scalar

_JOB = re.compile(r"(?i:job(?:_?id)?[=/])?(\d+(?:_\d+|\[\d*\])?(?:\.[A-Za-z][\w.-]*)?)(?:[.:]\S*)?")
# What is given by one option where others give it by several: A=1,B=2 for variables.
_PAIRS = r"\w+=[^,]+(?:,\w+=[^,]+)+"
_INTERPRETER = r"(?:.*/)?python[\d.]*$|-m$"
_PROGRAM = rf"{_INTERPRETER}|.*\.py$"
# A line to type: the command, its words, and what stands behind them, such as a pipe or a remark.
_SHOWN = re.compile(r"((?:[a-z]+ \S+ )?jobgen) ([a-z]+)((?: (?:'[^']*'|[^\s,;|<(']+))*)(.*)")
# What stands in a line for a file or a job that is not known.
_PLACE = re.compile(r"(?:JOB|SCRIPT)(?:\.\.\.)?")
_LEAVE = "leave it out"
_NUMBER = re.compile("[1-9][0-9]{0,8}")


class _Line:
    """What was typed behind a command, or behind another tool's."""

    def __init__(self, context: click.Context, words: Sequence[str], tool: str = "") -> None:
        self.context, self.name, self.tool = context, context.info_name or "", tool
        self.valued = _list_options(context.command)
        self.long = {normalize(name): name for name in self.valued if name.startswith("--")}
        self.has_set = "--set" in self.valued
        self.line = ""  # what stands for the whole line
        self.plain: list[str] = []  # words that belong to no option
        self.own: list[tuple[str, str]] = []  # options that the command has, with their values
        self.foreign: list[tuple[str, str]] = []  # those that it lacks
        self.typed: list[str] = []  # what stands for those
        self.remarks: dict[str, str] = {}  # what to say of the others
        self.program: list[str] = []  # what is for the program
        self.respelt = False
        self.alone = len(_pick(words, SPEC_ENDS)) < 2  # whether a file of YAML must be the spec
        self._part([*words])
        programs = [] if tool or not self.has_set else _pick(self.plain, (".py",))
        # The option of `init` for a program that has no spec yet, and the program.
        self.starts = ("--script", programs[0]) if programs and not self._names_spec else ()

    def _part(self, left: list[str]) -> None:
        """Part the words; a letter may mean something else to the tool than to the command."""
        while left and left[0] != "--":
            word = left.pop(0)
            pair = re.fullmatch(r"(-[A-Za-z]+(?=\d)|-[^=:]+)[=:]?(.*)", word)
            if pair is None:
                self.plain.append(word)
            elif self.alone and _names_file(pair[1], pair[2] or "".join(left[:1])):
                self.plain += filter(None, (pair[2],))
            else:
                own = self._spell(pair[1])
                self._keep(own, pair[1], pair[2] or self._take(own, left))
        self.behind = [] if self.tool else left[1:]  # of another tool's it is in the table's line

    def _hand_over(self) -> None:
        """Leave words that the command does not take to the program, which may be among them."""
        programs = _pick(self.plain, (".py",))
        others = (one for one in programs if not names_program(self._spec, one))
        self.own += (("--set", f"run.script={one}") for one in others)
        over = [one for one in self.plain if re.match(_PROGRAM, one)]
        over += _find_extra(self.plain, self.context)
        self.plain = [one for one in self.plain if one not in over]
        silent = rf"{_PROGRAM}|.*({'|'.join((*SPEC_ENDS, *SCRIPT_ENDS))})$"
        self.behind = [*(one for one in over if not re.match(silent, one)), *self.behind]

    @property
    def _names_spec(self) -> bool:
        return bool(_pick(self.plain, SPEC_ENDS))

    def _keep(self, own: str, name: str, value: str) -> None:
        """Keep an option under the command's name of it, or as one that the command lacks."""
        if own != name and self.valued.get(own) and not value:
            own = ""  # another word, spelt nearly so
        self.respelt |= own not in ("", name)
        if own:
            scheduler = load_table()["schedulers_of"].get(self.tool, "")
            is_time = scheduler and own in SHORTCUTS["resources.walltime"][0]
            self.own.append((own, (is_time and read_walltime(value, scheduler)) or value))
        else:
            several = re.split(",(?=\\w+=)", value) if re.fullmatch(_PAIRS, value) else [value]
            self.foreign += [(name, one) for one in several]

    def _spell(self, option: str) -> str:
        """Return the command's option that is written so, or nearly so; empty without one."""
        if option in load_table()["letters_of"].get(self.tool, {}):
            return ""
        if option in self.valued:
            return option
        if len(option) == 2:
            return ""
        word = normalize(option)
        if word in self.long or word in list_words(keys=self.has_set):
            return self.long.get(word, "")
        parts = [part for part in word.split("_") if part not in _list("fillers")]
        return self.long.get("_".join(parts)) or find_near(option, self.long.values(), cutoff=0.8)

    def _take(self, own: str, left: list[str]) -> str:
        """Take the value of an option from the words after it, if the first of them is one."""
        word, units = "".join(left[:1]), load_table()["units"]
        takes = self.valued.get(own)
        if not own:
            takes = (word[:1] != "-" or " " in word) and not (
                self.alone and word.endswith(SPEC_ENDS)
            )
        value = left.pop(0) if left and takes else ""
        unit = units.get("".join(left[:1]), "") if own and value.isdecimal() else ""
        del left[: 1 if unit else 0]
        return value + unit

    def answer(self, text: str, first: str = "") -> str:
        """Return a line of the table with all options, and what to know of the others.

        What is known of the option `first`, which a message has named, comes first.
        """
        if self._spec and not self.tool:
            self._hand_over()
        for option, value in self.foreign:
            self._translate(option, value)
        self.program += self.behind
        start = self.line or _fill_line(text, self.tool, self.plain)
        line = self._write(start)
        remark = self.remarks.pop(first, "")
        parts = [remark] if remark else []
        if self._has_line(remark):
            parts.append(f"{self._lead(remark)}type: {line}")
        for option, what in self.remarks.items():
            if self._is_news(option, what, start):
                parts.append(f"for {option}: {what}")
        return "; ".join(parts)

    def _has_line(self, remark: str) -> bool:
        """Whether there is a line to type beside what is said of options."""
        if self.typed or self.program or self.line:
            return True
        others = () if self.tool else self.remarks.values()
        leaves = all(one.startswith(_LEAVE) for one in filter(None, [remark, *others]))
        return leaves and (self.context.parent is not None or bool(self.own))

    def _lead(self, remark: str) -> str:
        """Return what a line is for, where it is not for the whole of what was typed."""
        if self.program and not self.starts:
            return "for the program, "
        others = remark and not remark.startswith(_LEAVE) and len(self.typed) < len(self.foreign)
        return "for the others, " if others else ""

    def _is_news(self, option: str, what: str, start: str) -> bool:
        """Whether what is known of an option says more than a line that starts so."""
        is_line = self.tool and what.startswith(f"type: jobgen {self.name} ")
        return not is_line and f".{option.strip('-')}=" not in start

    def _write(self, start: str) -> str:
        """Return a line with the options that its command takes, and the words of the program."""
        shown = _SHOWN.match(start)
        lead, name, words, end = shown.groups() if shown else ("", self.name, "", "")
        target = _make_context(name, self.context)
        before, dashes, behind = words.partition(" -- ")
        rest = self._list_rest(start, target)
        if self.starts:
            return offer_spec(
                self.starts[1], self.starts[0], command=self.name, rest=" ".join(rest)
            )
        if shown is None or target.command.name != name:
            return " ".join([start, *rest])
        words = shlex.join(self._place(shlex.split(before), target))
        return " ".join(filter(None, [lead, name, words, *rest])) + dashes + behind + end

    def _list_rest(self, start: str, target: click.Context) -> list[str]:
        """Return the options that a command takes, beside those of a line, and for its program."""
        takes = _list_options(target.command) | {"--help": False}
        own = (pair for pair in self.own if pair[0] not in start.split())
        given = [*(shlex.join(filter(None, pair)) for pair in own), *self.typed]
        program = ["--", shlex.join(self.program)] if self.program and "--set" in takes else []
        return [one for one in given if one not in start and one.split()[0] in takes] + program

    def _place(self, words: Sequence[str], target: click.Context) -> Sequence[str]:
        """Return the words of a command with what was typed in the place of its arguments."""
        valued = _list_options(target.command)
        pairs = [*zip(["", *words], words, strict=False)]
        given = [one for last, one in pairs if one[:1] != "-" and not valued.get(last)]
        unknown = [*filter(_PLACE.fullmatch, given)]
        known = self._list_known_arguments(target, unknown)
        if known and all(map(str.isupper, given)):
            at = words.index(given[0]) if given else len(words)
            words = [*words[:at], *known, *(given[len(known) :] if given != unknown else ())]
        extra = _find_extra(words, target)
        return [one for one in words if one not in extra]

    def _list_known_arguments(self, target: click.Context, unknown: Sequence[str]) -> list[str]:
        """Return those of the words typed that another command, or the same, takes."""
        if "SCRIPT" in "".join(unknown):
            return _pick(self.plain, SCRIPT_ENDS)
        if _takes_job(target.command):
            return _name_jobs(self.plain)
        return _pick(self.plain, (*SPEC_ENDS, *SCRIPT_ENDS))

    def _translate(self, option: str, value: str) -> None:
        """Keep what stands for an option that the command lacks."""
        answer = self._explain(option, value)
        value = self._leave_job(option, value, answer)
        if line := re.fullmatch("(?:(.+); )?type: (-[^;]+)", answer):
            self.typed.append(line[2])
            answer = line[1] or ""
        elif not self.line and re.match("type: (?:[a-z]+ \\S+ )?jobgen ", answer):
            self.line, answer = answer.removeprefix("type: "), ""
        elif not answer and self.has_set and not self.tool:
            words, answer = self._write_argument(option, value)
            self.program += words
        else:
            answer = answer or self._list_known(option)
        self.remarks |= {option: answer} if answer else {}

    def _leave_job(self, option: str, value: str, answer: str) -> str:
        """Return the value of an option; that of one without a value may be the job's name."""
        takes = answer and answer != self._explain(option, "")
        named = _JOB.fullmatch(value) or not answer
        if takes or not named or value in answer or not self._takes_job(value):
            return value
        self.plain.append(value)
        return ""

    def _takes_job(self, value: str) -> bool:
        """Whether the value of an option that takes none names the job."""
        if not _takes_job(self.context.command):
            return False
        return not self.has_set or bool(_JOB.fullmatch(value) and not _pick_jobs(self.plain))

    @property
    def _spec(self) -> str:
        """The spec whose program gets the words; empty of a job that has its own."""
        takes_program = self.has_set and not (_takes_job(self.context.command) or self.starts)
        return self._named if takes_program else ""

    @property
    def _named(self) -> str:
        return (*_pick(self.plain, SPEC_ENDS), "job.yaml")[0]

    def _write_argument(self, option: str, value: str) -> tuple[list[str], str]:
        """Return an option, or NAME=VALUE, as its program takes it; and why it surely does not."""
        words = list(filter(None, (option, value)))
        if not option.startswith("-"):
            pairs = _takes_pairs(self._spec)
            words = [f"{option}={value}"] if pairs else [f"--{option.lstrip('+')}", value]
        hint = _find_refusal(self._spec, words)
        near = re.fullmatch(r"write (--\S+)", hint)
        plain = re.sub("^(?:max|num|n)_", "", normalize(option.rpartition(".")[2]))
        same = [one for one in re.findall(r"--[\w-]+", hint) if normalize(one) == plain]
        if near or same:
            return [near[1] if near else same[0], value], ""
        dashed = option.startswith("-")
        known = f"; {self._list_known(option)}" if dashed else ""
        typed = option if dashed else f"{option}={value}"
        lead = f"{typed} is for the program, behind --; the program has no {words[0]}"
        return ([], f"{lead}: {hint}{known}") if hint else (words, "")

    def _list_known(self, option: str) -> str:
        """Return what to say of an option that no table has: what its command knows, who has it."""
        if self.tool:
            return "jobgen has nothing like it"
        known = f"{self.context.command_path} knows {', '.join(sorted(self.long.values()))}"
        return "; ".join([known, *_name_owners(option, self.context.find_root())])

    def move(self, given: Sequence[str], *, pairs: bool) -> bool:
        """Take words for options without their dashes, or for arguments of the program.

        Words that are given, or all NAME=VALUE with `pairs`; return whether there are some.
        """
        pairs &= self.has_set
        left = [word for word in self.plain if word in given or (pairs and "=" in word)]
        self.plain, moved = [word for word in self.plain if word not in left], bool(left)
        while left:
            name, equals, value = _read_override(left.pop(0)).partition("=")
            own = self.long.get(normalize(name), "")
            if own and not equals:
                value = self._take(own, left)
            if equals or value or (own and not self.valued[own]):
                self._keep(own, name, value)
            else:
                self.behind.append(name)
        return moved

    def _explain(self, option: str, value: str) -> str:
        """Return what to type, or to know, for an option that is not here; empty if unknown."""
        letters = load_table()["letters"] if self.has_set else {}
        letters = letters | load_table()["letters_of"].get(self.tool, {})
        word = option if len(option) == 2 else normalize(option)
        meant = letters.get(option, word) if value else word
        word = meant if self.tool else word
        if answer := find_rule("prompt_options", self._describe(option, word, value)):
            text = answer.get("say") or f"type: {answer['type']}"
            return _fill_line(text, word, self.plain or [value] * (value not in text))
        if self.has_set:
            return self._look_up(meant, value)
        return self._look_up(word, value) if option[2:] and value else ""

    def _describe(self, option: str, word: str, value: str) -> dict[str, str]:
        """Return what a rule can say of an option."""
        return describe(Scalar(Position(""), value, "str")) | {
            "words": word,
            "word": word,
            "key": option,
            "plain": value,
            "folder": value if os.path.isdir(value) else "",
            "spread": self._spread(value),
            "at": self.name,
            "given": " ".join(normalize(name) for name, _ in self.own),
            "COMMAND": self.name,
            "VALUE": shlex.quote(value or "VALUE"),
            "WORD": word.upper(),
        }

    def _spread(self, gpus: str) -> str:
        """Return options for so many GPUs in all, on nodes such as the spec's; empty if none do."""
        given, gpus = dict(self.own), gpus.removeprefix("ngpus=")
        if not _NUMBER.fullmatch(gpus):
            return ""
        nodes = given.get("-N", given.get("--nodes", ""))
        by = nodes or given.get("--gpus-per-node") or _read_gpus(self._named)
        if not _NUMBER.fullmatch(by):
            return ""
        times, rest = divmod(int(gpus), int(by))
        if not (nodes or times):
            return f"-N 1 --gpus-per-node {gpus}"
        return "" if rest else f"{'--gpus-per-node' if nodes else '-N'} {times}"

    def drop_foreign(self) -> None:
        """Leave out what another tool's options say, but for flags, pipes and the ids of jobs."""
        kept = []
        for option, value in self.foreign:
            answer = self._explain(option, value)
            same = answer.startswith(f"type: jobgen {self.name} -")
            if (not value and answer.startswith("type: -")) or same or " | " in answer:
                kept.append((option, value))
            elif answer == f"type: jobgen {self.name} {value}" or _JOB.fullmatch(value):
                self.plain += filter(None, [value])
        self.foreign = kept

    def _look_up(self, word: str, value: str) -> str:
        """Return what to type for an option that is a key of the spec, or means one."""
        hint = _find_hint(word, value)
        asked = re.match("(select|nodes|walltime)=", value)
        settings = _read_chunks(value) if asked else _list_settings(hint, value)
        if line := " ".join(self._set(*setting) for setting in settings.items()):
            return f"type: {line}" if self.has_set else f"give {line} when you submit"
        text = hint.text.replace("this key", "the option") if self.has_set else ""
        return f"{text} in the spec" if "write " in text else text

    def _set(self, path: str, text: str) -> str:
        """Return the words that set a key of the spec."""
        short = self.long.get(path.rpartition(".")[2], "")
        setting = f"{path}={text}".replace("...", "VALUE")
        return shlex.join([short, text] if short else ["--set", setting])


def _read_override(word: str) -> str:
    """Return a word without the sign that Hydra wants before it, where it names a key of a spec."""
    path = word.lstrip("+~")
    if path == word or path.partition(".")[0] not in read_fields(JobSpec):
        return word
    return f"{path}=null" if word[0] == "~" else path


def _read_gpus(spec: str) -> str:
    """Return the GPUs of each node of a spec; of one that cannot be read, nothing."""
    with suppress(JobgenError):  # told of when the command runs
        return str(load(spec).spec.resources.gpus_per_node)
    return ""


def _takes_pairs(spec: str) -> bool:
    """Whether a program may take NAME=VALUE, as Hydra's do: unless it is here, and reads none."""
    try:
        source = read_sources(resolve(load(spec))) if spec else None
    except JobgenError:
        return True
    return source is None or re.search("hydra|OmegaConf", source) is not None


def _find_refusal(spec: str, words: Sequence[str]) -> str:
    """Return what to write where the program of a spec surely takes no such words; else nothing."""
    from jobgen.programs import look_at

    try:
        remarks = look_at(resolve(load(spec, [write_words(words)]))) if spec else []
    except JobgenError:  # told of when the command runs
        return ""
    return next((one.hint for one in remarks if one.rule == "unknown-argument"), "")


def explain_setting(problem: Problem, words: Sequence[str]) -> str:
    """Return what is wrong with a setting, named by the option among the words, and what to type.

    What is wrong in a file is returned as it is.
    """
    path = problem.where.file.removeprefix("--set ")
    if path == problem.where.file:
        return str(problem)
    given = [word.partition(f"{path}=")[2] for word in words if f"{path}=" in word]
    names = () if given else SHORTCUTS.get(path, [()])[0]
    typed = next((name for name in names for word in words if word.startswith(name)), "")
    outer, hint = problem.path.rpartition(".")[0], problem.hint
    near = re.match(r"did you mean '(\w+)'", hint)
    inner = path.removeprefix(problem.path)
    settings = {near[1] + inner: given[0]} if near and given else _list_settings(Hint(hint), "")
    if line := " ".join(_write_setting(outer, *setting) for setting in settings.items()):
        lead = re.sub(r"(, as in|write) [\w.]+: .*", "", hint).strip()
        hint = "; ".join(filter(None, (lead, f"type: {line}")))
    elif "run.args" in hint and given:
        name = path.removeprefix("args.")
        hint = f"for the program, end the line with: -- {shlex.join([f'--{name}', given[0]])}"
    where = Position(typed) if typed else problem.where
    return make_room(str(problem._replace(where=where, hint=hint)), words)


def _write_setting(outer: str, path: str, text: str) -> str:
    """Return the words that set a key: of a whole spec, or of the record at `outer`."""
    known = path.partition(".")[0] in read_fields(JobSpec)
    return shlex.join(["--set", f"{path if known else join_path(outer, path)}={text}"])


def _find_hint(word: str, value: str) -> Hint:
    """Return what a spec has for an option; nothing of an argument of the program."""
    node = Scalar(Position(""), value, "int" if value.isdecimal() else "str")
    node = node if value else Scalar(Position(""), "true", "bool")
    key = word.rpartition(".")[2]
    hint = suggest_key(key, node, path="", check=find_faults, root=JobSpec, cls=JobSpec)
    return Hint() if "run.args" in hint.text else hint


def _read_chunks(value: str) -> dict[str, str]:
    """Return what a request of PBS sets in a spec, as import reads it."""
    draft = Draft()
    settle(Script("job.pbs", f"#!/bin/bash\n#PBS -l {value}\n"), draft)
    return {path: str(text) for path, text in draft.values.items()}


def _list_settings(hint: Hint, value: str) -> dict[str, str]:
    """Return the paths and values that a hint says to write; `make_room` judges these."""
    if "write directives" in hint.text:  # the spec may have others
        return {}
    if shown := re.search(r"(?:as in|write) ([\w.]+: .+?)(?:, (?:at the|for|or) .*)?$", hint.text):
        values = list_values(f"{{{shown[1]}}}")
        inner = {path.rpartition(".")[0] for path in values}
        inner |= {path for path in values if path.startswith("run.args.")}  # a list has none
        return {path: text for path, text in values.items() if path not in inner}
    return {hint.meant: value or "VALUE"} if hint.meant else {}


# --- commands ---


def explain_command(
    args: Sequence[str], context: click.Context, groups: Mapping[str, Iterable[str]]
) -> str:
    """Return the message for a word, with others after it, that these groups of commands lack."""
    message = f"no such command {args[0]!r}"
    args = _unwrap(_respell_specs(args))
    opens = args[0].lower() in _list("questions") and args[1:]
    if opens and (answer := _read_sentence(args, context)):
        return f"{message}; {answer}"
    word, *rest = _drop_tools(args)
    if answer := _answer_command(word, rest, context, " ".join(args)):
        return f"{message}; {_name_foreign(answer, rest) or answer}"
    known = cast(click.Group, context.command).list_commands(context)
    close = get_close_matches(word, known, 1, 0.75 if word[3:] else 0.66)
    if near := find_near(word, known) or "".join(close):
        return f"{message}; did you mean: jobgen {shlex.join([near, *rest])}"
    lines = [f"{title.lower()}: {', '.join(group)}" for title, group in groups.items()]
    return "\n  ".join((f"{message}; the commands", *lines))


def _name_foreign(answer: str, words: Sequence[str]) -> str:
    """Return what a file is that an answer has in a line, where it is another tool's."""
    for path in filter(os.path.isfile, _pick(words, SPEC_ENDS)):
        with open(path, encoding="utf-8", errors="replace") as file:
            about = explain_file(path, file.read())
        if about and re.search(rf"type: jobgen [^;]* {re.escape(path)}(?!\S)", answer):
            return f"{path} {'; '.join(about)}"
    return ""


def _unwrap(words: Sequence[str]) -> list[str]:
    """Return the words of a line with those that sbatch's --wrap has in one, at the end."""
    line = [part for word in words for part in re.split("(?<=^--wrap)=", word)]
    if "--wrap" not in line[:-1]:
        return [*words]
    at = line.index("--wrap")
    return [*line[:at], *line[at + 2 :], *line[at + 1].split()]


def _respell_specs(words: Sequence[str]) -> list[str]:
    """Return words with the specs that are here, where the ending alone is misspelt."""
    here = {os.path.splitext(one)[0]: one for one in os.listdir() if one.endswith(SPEC_ENDS)}
    absent = {one: os.path.splitext(one) for one in words if not os.path.exists(one)}
    meant = {one: here[stem] for one, (stem, end) in absent.items() if end and stem in here}
    return [meant[one] if find_near(one, [meant.get(one, "")]) else one for one in words]


def _list(section: str) -> list[str]:
    """Return the words of a section of the table."""
    words: str = load_table()[section]
    return words.split()


def _list_silent() -> set[str]:
    """Return the words that say nothing in a sentence."""
    return {*_list("questions"), *_list("idle"), *_list("nouns")}


def _find_counts(text: str) -> list[tuple[str, str]]:
    """Return the numbers in a text that a key of a spec counts, each with the word for the key."""
    return [pair for pair in re.findall(r"(?<!\S)(\d+) ([a-z]+)", text) if _is_key(pair[1])]


def _read_sentence(args: Sequence[str], context: click.Context) -> str:
    """Return what the first word of a sentence means that means something, with what it names.

    A number before what it counts sets that: on 4 nodes.
    """
    text, means = " ".join(args), load_table()["asked"]
    if " -" in f" {text}":
        return ""
    counts, specs = _find_counts(text), _pick(args, SPEC_ENDS)
    jobs = [] if counts else _pick_jobs(args)
    silent = {*_list_silent(), *specs, *jobs, *itertools.chain(*counts)}
    words = [one for one in re.findall(r"[^\s?!,]+", text) if one.lower() not in silent]
    rest = [*specs, *jobs, *(f"--{what}={number}" for number, what in counts)]
    if not {*args}.isdisjoint(_list("setting")):
        rest += [f"--{one}" for one in filter(_is_key, words)]
        words = ["submit", *words]
    usual = ["submit"] if counts else ["status"] if jobs else []
    read = (
        _answer_command(means.get(one, one), rest, context, text)
        for one in [*words, *usual, *filter(means.__contains__, args)]
    )
    return next(filter(None, read), "")


def _is_key(word: str) -> bool:
    """Whether a word means a key of a spec."""
    keys = {path.rpartition(".")[2] for path in load_table()["keys"]}
    return normalize(word) in keys | list_synonyms().keys()


def _drop_tools(args: Sequence[str]) -> list[str]:
    """Return words without another tool's name at their start, or `job/` before a name."""
    words = [re.sub(r"^(?:pods?|jobs?|deploy\w*)/", "", one) for one in args]
    if re.match(r"\S*python[\d.]* -m torch\.distributed\.\w+ \S", " ".join(words)):
        words = words[2:]
    tools = _list("tools")
    while words[0] in tools and words[1:] and not words[1].startswith("-"):
        del words[0]
    return words


def _answer_command(word: str, words: Sequence[str], context: click.Context, line: str) -> str:
    """Return what to say of a word where a command is wanted, with others after it, if known."""
    known = cast(click.Group, context.command).list_commands(context)
    absent = [one for one in [word, *words] if not os.path.exists(one)]
    facts = {"plain": shlex.join(words), "line": line, "absent": _join(absent, SPEC_ENDS)}
    facts |= {"unwritten": _join(absent, SCRIPT_ENDS), "site": _find_site([word, *words])}
    facts["place"] = _find_site(re.findall(r"[\w-]+", line))
    for reading in _list_readings(word.lower(), known):
        answer = find_rule("commands", {"words": reading, "word": reading, **facts})
        if "say" in answer:
            return _fill_line(answer["say"], word, words)
        if answer or reading in known:
            text = answer.get("type", f"jobgen {reading} $LINE")
            return _write_line(text, word, words, context)
    return ""


def _find_site(words: Iterable[str]) -> str:
    """Return the cluster that one of some words names, or a part of whose name it is."""
    known = list_names()
    parts = {part: name for name in known for part in name.split("-") if part[3:]}
    parts |= zip(known, known, strict=True)
    return next(filter(None, map(parts.get, words)), "")


def _list_readings(word: str, known: Sequence[str]) -> list[str]:
    """Return a word, and its parts, the surest first: show-logs is logs."""
    nouns = _list("nouns")
    parts = [part for part in re.split("[-_:.]", word)[::-1] if part not in nouns]
    parts.sort(key=lambda part: (part in ("list", "run"), part not in known))
    return [word, *parts]


def _write_line(text: str, word: str, words: Sequence[str], context: click.Context) -> str:
    """Return a line of the table with the words behind another tool's, as its command has them."""
    start = re.fullmatch(r"jobgen init (--script|--module) (\S+)", text)
    name = "submit" if start else f"{text} - -".split()[1]
    target = _make_context(name, context)
    if target is context:
        return f"type: {_fill_line(text, word, words)}"
    line = _Line(target, words, "" if word == name else word)
    if start:
        line = _start_program(target, start[1], _fill_line(start[2], word, words), [word, *words])
    elif not line.has_set:
        line.drop_foreign()
    return line.answer("" if start else text)


def _start_program(
    context: click.Context, option: str, program: str, words: Sequence[str]
) -> _Line:
    """Return a launcher's line, by its options, for a program, which may be its first word."""
    at = words.index(program) if program in words[1:] else 0
    own = [*itertools.takewhile(lambda one: not re.match(_INTERPRETER, one), words[: max(at, 1)])]
    line = _Line(context, own[1:], words[0])
    line.starts, line.behind = (option, program), [*words[at + 1 :]]
    return line


def _fill_line(text: str, word: str, words: Sequence[str]) -> str:
    """Return a line of the table with the job, the files and the words that were typed."""
    specs, scripts = _pick(words, SPEC_ENDS), _pick(words, SCRIPT_ENDS)
    values = {
        "WORD": word,
        "LINE": shlex.join(words),
        "JOB": " ".join(_name_jobs(words)),
        "FILE": shlex.join([*specs, *scripts] or ["job.yaml"]),
        "SCRIPT": shlex.join(scripts or ["SCRIPT"]),
    }
    return fill(text, values).replace("  ", " ").strip()


def _names_file(option: str, value: str) -> bool:
    """Whether an option of another tool names the file of a job, which jobgen takes without it."""
    is_file = value.endswith((*SPEC_ENDS, *SCRIPT_ENDS))
    return is_file and bool(re.fullmatch(load_table()["file_options"], option))


def _pick_jobs(words: Iterable[str]) -> list[str]:
    """Return the ids of jobs among words."""
    return [job[1] for job in map(_JOB.fullmatch, words) if job]


def _name_jobs(words: Iterable[str]) -> list[str]:
    """Return what names jobs among words: ids, or else a name, unless they are a sentence."""
    names = [one for one in words if re.fullmatch(r"[A-Za-z][\w.]*-?[\w.-]+(?<!\.py)", one)]
    named = names[-1:] if len(names) < 3 else []
    return _pick_jobs(words) or [one for one in named if one not in _list_silent()]


def _pick(words: Iterable[str], ends: tuple[str, ...]) -> list[str]:
    return [word for word in words if word.endswith(ends)]


def _join(words: Iterable[str], ends: tuple[str, ...]) -> str:
    return shlex.join(_pick(words, ends))


def explain_jobs(message: str, argv: Sequence[str]) -> str:
    """Return a message that some words name no job, with the line without those of a sentence."""
    silent = _list_silent() & {*re.findall(r"^no job '(\w+)' below", message, re.MULTILINE)}
    left = (
        shlex.join(one for one in argv if one not in silent)
        if _pick_jobs(argv)
        else "list, which prints their ids"
    )
    if silent:
        return f"{message}\ntype: jobgen {left}"
    swapped = find_rule("usage", {"message": message, "plain": " ".join(argv)})
    return "; ".join((message, *swapped.values()))


# --- options and words behind a command ---


def explain_usage(error: click.UsageError, argv: Sequence[str], group: click.Group) -> str:
    """Return the message for a command line that a command of a group does not take."""
    argv = _read_line(argv)
    context = error.ctx or _make_context(argv[0], click.Context(group, info_name="jobgen"))
    unknown = error.option_name if isinstance(error, click.NoSuchOption) else ""
    message = f"no such option {unknown}" if unknown else error.format_message()
    answer = _explain_early(context, argv) if unknown and context.parent is None else ""
    answer = answer or _explain_words(message, unknown, context, argv)
    return f"{message.rstrip('.')}; {answer}" if answer else message


def _read_line(argv: Sequence[str]) -> list[str]:
    """Return the words of one command, with plain dashes."""
    own = itertools.takewhile(lambda word: word not in ("&&", "||", "|", ";"), argv)
    return [re.sub("^[\u2010-\u2015\u2212]+", "-", word) for word in own if word != "="]


def _make_context(name: str, context: click.Context) -> click.Context:
    """Return what click has for a command, beside another; that of the group if there is none."""
    outer = context.find_root()
    command = cast(click.Group, outer.command).get_command(outer, name)
    return click.Context(command, info_name=name, parent=outer) if command else outer


def _list_options(command: click.Command) -> dict[str, bool]:
    """Return the options of a command, each with whether it takes a value."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {name: not param.is_flag for param in options for name in param.opts}


def _name_owners(option: str, group: click.Context) -> list[str]:
    """Return words for the commands that have an option; none if no command has it."""
    names = cast(click.Group, group.command).list_commands(group)
    own = [one for one in names if option in _list_options(_make_context(one, group).command)]
    return [f"{option} is an option of jobgen {' and '.join(own[:3])}"] if own else []


def _takes_job(command: click.Command) -> bool:
    return "job" in str([param.name for param in command.params])


def _takes_file(command: click.Command) -> bool:
    arguments = (param for param in command.params if isinstance(param, click.Argument))
    return any(param.type is FILE for param in arguments)


def _find_extra(words: Sequence[str], target: click.Context) -> list[str]:
    """Return the arguments among words that a command does not take."""
    if not isinstance(target.command, click.Group):
        with suppress(click.UsageError):
            return target.command.make_parser(target).parse_args([*words])[1]
    return []


def _explain_early(context: click.Context, argv: Sequence[str]) -> str:
    """Return the line for options before the command, or beside a file alone; empty for others."""
    known = cast(click.Group, context.command).list_commands(context)
    meant = next((one for one in argv if one in known), "submit")
    if meant not in argv and not _pick(argv, (*SPEC_ENDS, ".py")):
        return ""
    return _answer_command(meant, [one for one in argv if one != meant], context, "")


def _explain_words(message: str, unknown: str, context: click.Context, argv: Sequence[str]) -> str:
    """Return what to say of an unknown option, or of other words that a command does not take."""
    words = argv[context.command_path.count(" ") :]
    named = re.findall(r"^Got unexpected extra arguments? \((.+)\)$", message)
    given = extra = " ".join(named).split()  # none where the argument is a blank
    parted = _drop_idle(words, given) if "--set" in _list_options(context.command) else words
    given = [one for one in given if one in parted and not re.match(_PROGRAM, one)]
    line = _Line(context, parted)
    moved = line.move(given, pairs=bool(given or unknown))
    respelt = unknown or line.respelt or (extra and not moved) or parted != words
    asks = unknown or not respelt
    if asks and (answer := _find_usage(message, given, context, argv)):
        return answer
    return line.answer(f"{context.command_path} $LINE", unknown) if extra or respelt else ""


def _drop_idle(words: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return words without those of a sentence; what is counted in it becomes an option."""
    counts = _find_counts(" ".join(given))
    dropped = {*_list("idle"), *itertools.chain(*counts)} & {*given}
    options = [f"--{what}={number}" for number, what in counts]
    return [*(one for one in words if one not in dropped), *options]


def _find_usage(
    message: str, given: Sequence[str], context: click.Context, argv: Sequence[str]
) -> str:
    """Return what the table says of words that a command does not take."""
    command, path = context.command, context.command_path.split()
    takes = " ".join(name.strip("-") for param in command.params for name in param.opts)
    typed = _Line(context, argv[len(path) - 1 :]).plain
    facts = {
        "message": message,
        "plain": " ".join(argv),
        "at": command.name or "",
        "first": "".join(given[:1]),
        "site": "".join(list_near(argv[-1])[:1]) if command.name == "sites" else "",
        "meant": _read_sentence(given, context.find_root()) if given else "",
        "takes": takes,
        "lacks": "" if "set" in takes.split() else "set",
        "COMMAND": " ".join(path[1:]),
        "FILE": _fill_line("$FILE" if _takes_file(command) else "$JOB", "", argv[len(path) - 1 :]),
        "USAGE": " ".join([*typed, *command.collect_usage_pieces(context)[1 + len(typed) :]]),
    }
    return find_rule("usage", facts).get("say", "").replace("  ", " ")


def name_known(message: str) -> str:
    """Return a message with the script or the job of this folder, where it has one alone."""
    from jobgen import list_jobs

    scripts = [name for name in os.listdir() if name.endswith(SCRIPT_ENDS)]
    jobs = [job.id for job in list_jobs()[0]] if "JOB" in message else []
    for form, names in ((r"(?<!')\bSCRIPT\b(\.\.\.)?", scripts), (r"(?<!')\bJOB\b(?! JOB)", jobs)):
        message = re.sub(form, names[0], message) if len(names) == 1 else message
    return message


def make_room(message: str, words: Sequence[str] = ()) -> str:
    """Return a message whose settings the spec takes: with what they need, and exclude.

    Of a value that is refused, it says why.
    """
    spec = next(iter(_pick(words, SPEC_ENDS)), "job.yaml")
    for _ in range(4 if os.path.isfile(spec) else 0):
        given = {path: typed for path, typed in _find_settings(message) if typed not in words}
        problem = _find_problem(spec, given) if given else None
        if problem is None:
            break
        path, key = problem.path, problem.setting.partition("=")[0]
        typed = given.get(path, [*given.values()][-1])
        if key in given and path not in given:  # of two that exclude each other
            message = _put_before(message, given[key], f"{path}=null")
        elif setting := problem.setting or _read_missing(problem):
            message = _put_before(message, typed, setting)
        elif path in given:
            value = re.sub(rf"(^-\S+ |{re.escape(path)}=).+", r"\1VALUE", typed)
            message = f"{message.replace(typed, value)}; {problem.message}; {problem.hint}"
    return message


def _read_missing(problem: Problem) -> str:
    """Return the setting, the first of some, that a hint says to add to a record."""
    added = re.match(r"add (\w+): (\w+)", problem.hint)
    return f"{problem.path}.{added[1]}={added[2]}" if added else ""


def _put_before(message: str, typed: str, setting: str) -> str:
    """Put a setting before the words of another, which needs it."""
    at = message.rindex(typed)
    at = at if typed[0] == "-" else message.rindex("--set ", 0, at)
    return f"{message[:at]}--set {setting} {message[at:]}"


_SHORT = {name: path for path, (names, *_) in SHORTCUTS.items() for name in names}


def _find_settings(message: str) -> Iterator[tuple[str, str]]:
    """Yield the paths of what a message sets in a spec, each with the words that do so."""
    for typed in re.finditer(r"--set ('?)(([\w.]+)=(?!VALUE\b)[^';]+?)\1(?=\s|;|,|$)", message):
        yield typed[3], typed[2]
    for typed in re.finditer(rf"(?<!\S)({'|'.join(_SHORT)}) [a-z\d][^\s';,]*", message):
        yield _SHORT[typed[1]], typed[0]


def _find_problem(spec: str, given: Mapping[str, str]) -> Problem | None:
    """Return what a spec needs first to take settings, or what is wrong with one of these.

    What is wrong without them, the command says when it runs.
    """
    settings = [re.sub(r"^-\S+ ", f"{path}=", typed) for path, typed in given.items()]
    own = {problem.path for problem in _list_problems(spec, ())}
    new = (one for one in _list_problems(spec, settings) if one.path not in own)
    return next((one for one in new if one.setting not in settings), None)


def _list_problems(spec: str, settings: Sequence[str]) -> Sequence[Problem]:
    try:
        resolve(load(spec, settings))
    except SpecError as error:
        return error.problems
    except JobgenError:  # such as of a file that cannot be read
        pass
    return ()
