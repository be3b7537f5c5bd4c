"""What was typed at the prompt, as a command has it, and with what was meant in its place."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Container, Iterable, Sequence, Set
from typing import NamedTuple

import click

from jobgen.batchscript.directives import read_walltime
from jobgen.cli.options import SPEC_ENDS, list_options, takes_job
from jobgen.cli.target import SHORTCUTS
from jobgen.jobs import find
from jobgen.jobs.files import read_if_left
from jobgen.output import offer_line
from jobgen.rendering import header
from jobgen.schedulers.registry import SCRIPT_ENDS
from jobgen.spec import table
from jobgen.spec.spelling import find_near
from jobgen.spec.words import normalize

FILE_ENDS = (*SPEC_ENDS, *SCRIPT_ENDS)
# A job, as these name it: an id, an URI of torchx, a file of Slurm's output, a run folder.
JOB = re.compile(
    r"(?:(?i:job(?:_?id)?[=/])|slurm(?:-|://\S*/)|(?P<folder>(?:\S*/)?runs/[\w.-]+/))?"
    r"(?P<job>\d+(?:-\d{6}-\d+)?(?:_\d+|_?\[[\d,:%-]*\])?(?:\.(?!out|err|batch|ext)[A-Za-z][\w.-]*)?)"
    r"(?:[.:]\S*|(?(folder)/\S*))?"
)
# What is given by one option where others give it by several: A=1,B=2 for variables.
_PAIRS = r"(?:\w+=[^,]+|ALL|NONE)(?:,\w+=[^,]+)+"
_REQUEST = "select|nodes|walltime|n?cpus|ngpus|mem|jobfs|storage|filesystems|place|software"
_OPTION = rf"(-l(?=(?:{_REQUEST})=)|-[A-Za-z]+(?=\d)|-[^=:]+)[=:]?(.*)"
_NUMBER = re.compile(r"-?[\d.]+(?:[eE]-?\d+)?")
_INTERPRETER = r"(?:.*/)?python[\d.]*$"
PROGRAM = rf"{_INTERPRETER}|-m$|--module$|.*\.py$"


class Option(NamedTuple):
    """An option that a command lacks, as it was typed."""

    name: str
    value: str
    words: Sequence[str]  # those of the value that stood apart; none behind `=`
    late: bool  # whether it stands behind the file of a job


class Typed:
    """What was typed behind a command, or behind another tool's, read once and word by word.

    The words `bare` are options without their dashes, or arguments of the program; `module` is the
    program, where no file is.
    """

    def __init__(
        self,
        context: click.Context,
        words: Sequence[str],
        tool: str = "",
        *,
        bare: Set[str] = frozenset(),
        module: str = "",
    ) -> None:
        self._ask_command(context)
        self.tool = tool
        self.letters: dict[str, str] = table.load_table()["letters_of"].get(tool, {})
        programs = (one for one in [*words, tool] if re.fullmatch(r"[^-].*\.py", one))
        self.started = module or next(programs, "")
        self.alone = len(pick(words, SPEC_ENDS)) < 2  # whether no more than one may be the spec
        self.plain: list[str] = []  # words that belong to no option
        self.own: list[tuple[str, str]] = []  # options that the command has, with their values
        self.foreign: list[Option] = []  # those that it lacks
        self.extra: list[str] = []  # words that click has named as too many
        self.left: list[str] = []  # those that stand nowhere in the line
        self.respelt, self.lead = False, ""  # what is to be typed before the line
        self.behind = self._read([*words], bare)  # what is for the program
        named = pick(self.plain, SPEC_ENDS)
        self.starts = bool(self.started and not named)  # a program, and no spec
        self.spec = [*named, table.name_spec(self.started)][0] if self.has_program else ""
        if self.spec and self.started:
            self._start("module" if module else "script")
        else:
            self._make(pick(self.plain, SCRIPT_ENDS))

    def _ask_command(self, context: click.Context) -> None:
        """Keep what the command takes."""
        self.context, self.name = context, context.info_name or ""
        self.valued = list_options(context.command)
        self.long = {normalize(name): name for name in self.valued if name.startswith("--")}
        self.has_set, self.takes_job = "--set" in self.valued, takes_job(context)
        self.has_program = self.has_set and not self.takes_job

    def _make(self, scripts: Sequence[str]) -> None:
        """Have a spec be made: by init of a program, or by import of a script to submit."""
        if self.name == "init" and self.started:
            self.own.append(("--script", self.started))
            self.plain = drop(self.plain, [self.started])
        elif self.name != "submit" or not scripts:
            return
        elif header.read(read_if_left(scripts[0])) is None:  # a rendered one is submitted itself
            self.spec = table.name_new(os.path.splitext(scripts[0])[0])
            line = offer_line("jobgen", "import", scripts[0], "-o", self.spec)
            self.lead = f"{line}, and then "
            self.plain[self.plain.index(scripts[0])] = self.spec

    def _start(self, key: str) -> None:
        """Have the program be started: by its spec, by the spec that is named, or by a new one."""
        program = self.started
        named, known = self.spec in self.plain, table.names_program(self.spec, program)
        if named and not known:
            self.own.append(("--set", f"run.{key}={program}"))
        elif not known:
            line, self.spec = table.offer_init(program, f"--{key}")
            self.lead = f"{line}, and then "
        self.plain = drop(self.plain, [program])
        self.plain += [] if named else [self.spec]

    def _read(self, left: list[str], bare: Set[str]) -> list[str]:
        """Part the words before the program; return those behind it, or behind two dashes."""
        begun = self._begins_program([self.tool])
        while left and left[0] != "--" and not (begun := begun or self._begins_program(left)):
            self._read_word(left.pop(0), left, bare)
        begun = begun or bool(re.match(PROGRAM, "".join(left[1:2])))
        if begun and self.started in left:
            left = left[left.index(self.started) + 1 :]
        return [*itertools.dropwhile("--".__eq__, left)]

    def _read_word(self, word: str, left: list[str], bare: Set[str]) -> None:
        """Take a word for the file of a job, an option, or neither."""
        pair = re.fullmatch(_OPTION, word)
        if pair and self._names_file(pair[1], pair[2] or "".join(left[:1])):
            self.plain += filter(None, (pair[2],))
        elif pair:
            self._read_option(pair[1], pair[2], left)
        elif word in bare:
            self._read_bare(word)
        else:
            self.plain.append(word)

    def _begins_program(self, words: Sequence[str]) -> bool:
        """Whether what another tool starts begins with the first of some words."""
        if not (words and self.tool and self.started and self.has_program):
            return False
        module = [*words[:2]] in (["-m", self.started], ["--module", self.started])
        return module or words[0] == self.started or bool(re.match(_INTERPRETER, words[0]))

    def _read_option(self, name: str, value: str, left: list[str]) -> None:
        """Take an option, with its value from the words after it where it has none."""
        own, late = self._spell(name), bool(pick(self.plain, FILE_ENDS))
        words = [] if value else self._take(own, name, left)
        self._keep(own, Option(name, value or ",".join(words), words, late))

    def _read_bare(self, word: str) -> None:
        """Take a word for an option without its dashes, or leave it."""
        name, equals, value = word.partition("=")
        own = self.long.get(normalize(name), "")
        if equals or self.valued.get(own) == "":
            self._keep(own, Option(name, value, (), late=False))
        else:
            self.plain.append(word)

    def _keep(self, own: str, option: Option) -> None:
        """Keep an option under the command's name of it, or as one that the command lacks."""
        value = option.value
        self.respelt |= own not in ("", option.name)
        if own:
            takes = self.valued[own]
            self.own.append((own, takes and self._read_time(own, value or takes)))
        else:
            several = re.split(r",(?=\w+=)", value) if re.fullmatch(_PAIRS, value) else [value]
            self.foreign += [option._replace(value=one) for one in several]

    def _read_time(self, own: str, value: str) -> str:
        """Return the value of an option; a time as the tool's scheduler reads it."""
        scheduler = table.load_table()["schedulers_of"].get(self.tool, "")
        is_time = scheduler and own in SHORTCUTS["resources.walltime"][0]
        return (is_time and read_walltime(value, scheduler)) or value

    def _read_letter(self, option: str) -> str:
        """Return what an option is to the tool: itself, unless it is a letter of a known tool."""
        unknown = self.letters and len(option) == 2
        return self.letters.get(option, "\n\n" if unknown else option)

    def _spell(self, option: str) -> str:
        """Return the command's option that is written so, or nearly so; empty without one."""
        meant = self._read_letter(option)
        if meant in self.valued:
            return meant
        if meant != option or len(option) == 2:
            return ""
        word = normalize(option)
        if word in self.long or word in table.list_words(keys=self.has_set):
            return self.long.get(word, "")
        parts = [part for part in word.split("_") if part not in table.list_section("fillers")]
        return self.long.get("_".join(parts)) or find_near(option, self.long.values(), cutoff=0.8)

    def _take(self, own: str, option: str, left: list[str]) -> list[str]:
        """Take the value of an option from the words after it; several numbers for a program."""
        if not self._has_value(own, option, left):
            return []
        word, units = left.pop(0), table.load_table()["units"]
        if word.isdecimal() and "".join(left[:1]) in units:
            return [word + units[left.pop(0)]]
        value = [word]
        if self.has_program and not own and _NUMBER.fullmatch(word):
            value += itertools.takewhile(_NUMBER.fullmatch, left)
            del left[: len(value) - 1]
        return value

    def _has_value(self, own: str, option: str, left: Sequence[str]) -> bool:
        """Whether the first of the words after an option is its value."""
        word = "".join(left[:1])
        kind = (word and self.valued[own]) if own else re.match(r"[^-]|-\d\d+$|-[^=]* ", word)
        other = self._begins_program(left) or self._is_file(option, word)
        other |= self.takes_job and option in table.list_section("flags")
        return bool(kind) and (kind == "FILE" or not other)

    def _names_file(self, option: str, value: str) -> bool:
        """Whether an option names the file of a job, which jobgen takes without it."""
        form = table.load_table()["file_options"]
        return bool(re.fullmatch(form, option)) and self._is_file(option, value, SCRIPT_ENDS)

    def _is_file(self, option: str, word: str, scripts: tuple[str, ...] = ()) -> bool:
        """Whether a word is the file of a job, and not the value of the option before it."""
        if not word.endswith(SPEC_ENDS):
            takes = self.has_set and not self.tool  # a value that ends so
            return word.endswith(scripts or (() if takes else SCRIPT_ENDS))
        if not self.alone or self.started or option in self.letters:  # which may read it
            return table.is_spec(word)
        return bool(self.tool) or not os.path.exists(word) or table.is_spec(word)


def drop(words: Iterable[str], others: Container[str]) -> list[str]:
    """Return words without others."""
    return [word for word in words if word not in others]


def pick(words: Iterable[str], ends: tuple[str, ...]) -> list[str]:
    """Return the words that end so."""
    return [word for word in words if word.endswith(ends)]


def pick_jobs(words: Iterable[str]) -> list[str]:
    """Return the ids of jobs among words."""
    parts = re.split(r",(?![^[]*\])|\0", "\0".join(words))  # 1,2 are two jobs, and 1_[1,2] is not
    return [job["job"] for job in map(JOB.fullmatch, parts) if job]


def name_jobs(words: Iterable[str]) -> list[str]:
    """Return what names jobs among words: ids, or else a name, unless they are a sentence."""
    listed = {*find.list_words()}
    known = [one for one in words if one in listed]  # each of them, as report takes
    if known[1:] and not pick_jobs(set(words).difference(known)):
        return known
    names = [one for one in words if re.fullmatch(r"[A-Za-z][\w.]*-?[\w.-]+(?<!\.py|aml)", one)]
    named = {*names[-1:]} if len(names) < 3 else set()
    return pick_jobs(words) or [*named - table.list_section("silent")]


def fill_line(text: str, word: str, words: Sequence[str]) -> str:
    """Return a line of the table with the job, the files and the words that were typed."""
    specs, scripts = pick(words, SPEC_ENDS), pick(words, SCRIPT_ENDS)
    values = {
        "WORD": offer_line(word) if word else "",
        "LINE": offer_line(*words),
        "JOB": offer_line(*name_jobs(words)),
        "FILE": offer_line(*([*specs, *scripts] or ["job.yaml"])),
        "SCRIPT": offer_line(*(scripts or ["SCRIPT"])),
    }
    form = r"""\"'\"|(?<!\w)'[^']*'|\$(\w+)"""  # what is quoted is words that were typed
    filled = re.sub(form, lambda one: values.get(one[1], one[0]), text)
    return filled.replace("  ", " ").strip()
