"""What was typed at the prompt: its jobs, files and options, as a command has them."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Container, Iterable, Sequence, Set

import click

from jobgen.batchscript.directives import read_walltime
from jobgen.cli.options import SPEC_ENDS, list_options, takes_job
from jobgen.cli.target import SHORTCUTS
from jobgen.jobs.files import read_if_left
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
_NUMBERS = re.compile(r"-?[\d.]+(?:[eE]-?\d+)?")
_INTERPRETER = r"(?:.*/)?python[\d.]*$"
_SCRIPT = re.compile(r"(?<!\S)[^-\s]\S*\.py(?!\S)")
PROGRAM = rf"{_INTERPRETER}|-m$|--module$|.*\.py$"


class Typed:
    """What was typed behind a command, or behind another tool's.

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
        self.context, self.name, self.tool = context, context.info_name or "", tool
        self.typed = words
        self.valued = list_options(context.command)
        self.long = {normalize(name): name for name in self.valued if name.startswith("--")}
        self.has_set, self.takes_job = "--set" in self.valued, takes_job(context)
        self.has_program = self.has_set and not self.takes_job
        self.plain: list[str] = []  # words that belong to no option
        self.own: list[tuple[str, str]] = []  # options that the command has, with their values
        self.foreign: list[tuple[str, str]] = []  # those that it lacks
        self.loose: set[str] = set()  # values that stand behind an option, and may be no such
        self.apart: set[str] = set()  # numbers behind an option, each a word
        self.extra: list[str] = []  # words that click has named as too many
        self.left: list[str] = []  # those that stand nowhere in the line
        self.respelt, self.lead = False, ""  # what is to be typed before the line
        program = module or "".join(_SCRIPT.findall(" ".join([*words, tool]))[:1])
        files = pick(words, SPEC_ENDS)
        self.letters: dict[str, str] = table.load_table()["letters_of"].get(tool, {})
        self.alone = self._is_alone(files, program)
        left, behind = _cut(words, tool, program if self.has_program else "")
        self.behind = [*self._part(left, bare), *behind]
        if program in self.behind:
            del self.behind[: self.behind.index(program) + 1]
        named = pick(self.plain, SPEC_ENDS)
        self.starts = bool(program and not named)  # a program, and no spec
        self.spec = [*named, table.name_spec(program)][0] if self.has_program else ""
        if self.spec and program:
            self._start("module" if module else "script", program)
        else:
            self._make(program, pick(self.plain, SCRIPT_ENDS), files)

    def _is_alone(self, files: Sequence[str], program: str) -> bool:
        """Whether a file of YAML must be the spec: no other is here, and the tool reads none."""
        before = [one for one, file in itertools.pairwise(self.typed) if file in files]
        own = not program and self.letters.keys().isdisjoint(before)
        meant = (
            table.is_spec(one) or (own and (self.tool or not os.path.exists(one))) for one in files
        )
        return len(files) < 2 and all(meant)

    def _make(self, program: str, scripts: Sequence[str], files: Sequence[str]) -> None:
        """Have a spec be made: by init of a program, or by import of a script to submit."""
        if self.name == "init" and program:
            self.own.append(("--script", program))
            self.plain = drop(self.plain, [program])
        elif self.name != "submit" or not scripts:
            return
        elif header.read(read_if_left(scripts[0])) is None:  # a rendered one is submitted itself
            self.spec = table.name_new()
            self.lead = f"jobgen import {shlex.quote(scripts[0])} -o {self.spec}, and then "
            self.plain[self.plain.index(scripts[0])] = self.spec

    def _start(self, key: str, program: str) -> None:
        """Have the program be started: by its spec, by the spec that is named, or by a new one."""
        named, known = self.spec in self.plain, table.names_program(self.spec, program)
        if named and not known:
            self.own.append(("--set", f"run.{key}={program}"))
        elif not known:
            line, self.spec = table.offer_init(program, f"--{key}")
            self.lead = f"{line}, and then "
        self.plain = drop(self.plain, [program])
        self.plain += [] if named else [self.spec]

    def _part(self, left: list[str], bare: Set[str]) -> list[str]:
        """Part the words; return those for the program."""
        while left and left[0] != "--":
            word = left.pop(0)
            pair = re.fullmatch(_OPTION, word)
            if pair and self.alone and _names_file(pair[1], pair[2] or "".join(left[:1])):
                self.plain += filter(None, (pair[2],))
            elif pair:
                own = self._spell(pair[1])
                self._keep(own, pair[1], pair[2] or self._take(own, left))
            elif word in bare:
                self._part_bare(word)
            else:
                self.plain.append(word)
        return left[1:]

    def _part_bare(self, word: str) -> None:
        """Take a word for an option without its dashes, or leave it."""
        name, equals, value = word.partition("=")
        own = self.long.get(normalize(name), "")
        if equals or self.valued.get(own) == "":
            self._keep(own, name, value)
        else:
            self.plain.append(word)

    def _keep(self, own: str, name: str, value: str) -> None:
        """Keep an option under the command's name of it, or as one that the command lacks."""
        self.respelt |= own not in ("", name)
        if own:
            takes = self.valued[own]
            self.own.append((own, takes and self._read_time(own, value or takes)))
        else:
            several = re.split(",(?=\\w+=)", value) if re.fullmatch(_PAIRS, value) else [value]
            self.foreign += [(name, one) for one in several]

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

    def _take(self, own: str, left: list[str]) -> str:
        """Take the value of an option from the words after it, if the first of them is one."""
        word, units = "".join(left[:1]), table.load_table()["units"]
        ends = FILE_ENDS if self.tool or not self.has_set else SPEC_ENDS
        is_file = self.alone and word.endswith(ends)
        kind = self.valued[own] if own else re.match(r"[^-]|-\d\d+$|-[^=]* ", word)
        takes = kind and (kind == "FILE" or not is_file)  # a file of YAML is the spec, and no NAME
        value = left.pop(0) if left and takes else ""
        if self.has_program and not own and _NUMBERS.fullmatch(value):
            more = [*itertools.takewhile(_NUMBERS.fullmatch, left)]
            value = ",".join([value, *more])
            del left[: len(more)]
            self.apart.add(value)
        self.loose.add(value)
        if own and value.isdecimal() and "".join(left[:1]) in units:
            value += units[left.pop(0)]
        return value


def _cut(words: Sequence[str], tool: str, program: str) -> tuple[list[str], list[str]]:
    """Return another tool's words before what starts a program, and those behind the program."""
    if not (tool and program):
        return [*words], []
    at = words.index(program) if program in words else 0
    behind = [*words[at + (program in words) :]]
    at -= [*words[at - 1 : at]] in (["-m"], ["--module"])
    launch = itertools.takewhile(lambda one: not re.match(_INTERPRETER, one), [tool, *words[:at]])
    return [*launch][1:], behind


def _names_file(option: str, value: str) -> bool:
    """Whether an option of another tool names the file of a job, which jobgen takes without it."""
    form = table.load_table()["file_options"]
    return value.endswith(FILE_ENDS) and bool(re.fullmatch(form, option))


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
    names = [one for one in words if re.fullmatch(r"[A-Za-z][\w.]*-?[\w.-]+(?<!\.py|aml)", one)]
    named = {*names[-1:]} if len(names) < 3 else set()
    return pick_jobs(words) or [*named - table.list_section("silent")]


def fill_line(text: str, word: str, words: Sequence[str]) -> str:
    """Return a line of the table with the job, the files and the words that were typed."""
    specs, scripts = pick(words, SPEC_ENDS), pick(words, SCRIPT_ENDS)
    values = {
        "WORD": word,
        "LINE": shlex.join(words),
        "JOB": shlex.join(name_jobs(words)),
        "FILE": shlex.join([*specs, *scripts] or ["job.yaml"]),
        "SCRIPT": shlex.join(scripts or ["SCRIPT"]),
    }
    return table.fill(text, values).replace("  ", " ").strip()
