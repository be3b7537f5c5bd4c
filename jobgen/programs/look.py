"""What a look into a training program finds, before the queue finds it.

A warning is certain from the files at hand; a note is likely. `# jobgen: ignore[rule]` in the line
silences one. The rules are records of `remarks.txt`; a Case answers what they need to know.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from jobgen.programs.case import PYTHON, Case
from jobgen.programs.finds import FINDS, PLACES
from jobgen.programs.project import Project
from jobgen.programs.remark import JobSize, Remark, join_remarks, make_remark, read_rules
from jobgen.programs.source import Source
from jobgen.programs.text import Call, Module, is_newer, spell_form
from jobgen.spec import tables

_IDLE = {"empty", "main-not-called"}  # by which nothing is run that more could be said of


def check_program(path: str, size: JobSize, *roots: str) -> list[Remark]:
    """Return what a look into a program finds, in the order of files and lines.

    Modules of the project are those in `roots`: by default beside it, and in the current folder.
    """
    if os.path.isdir(path):
        return [make_remark("not-a-program", path)]
    try:
        source = Source(Project(path, *roots))
    except SyntaxError as error:
        old = is_newer(error)
        unless = ", unless the job's Python is 3.12 or newer, and reads it" if old else ""
        words = {"reader": PYTHON, "fault": error.msg, "unless": unless}
        return [make_remark("syntax", path, error.lineno or 1, certain=not old, **words)]
    except (OSError, ValueError):
        return []
    look = _Look(Case(source, size))
    for name, rule in read_rules().items():
        if "needs" in rule:
            look.apply(name, rule)
    remarks = [join_remarks(*same) for same in look.remarks.values()]
    return sorted(remarks, key=lambda one: (one.path != path, *one[:2]))


def _list_tests(case: Case, at: Call) -> str:
    """Return the tests on the way to a place, if there is one way."""
    ways = case.source.list_ways(at.place)
    return "\n".join(map(at.fill, ways[0])) if len(ways) == 1 else ""


# What a rule matches by a key of its own, the cheapest first: the words of a place, ...
_MATCHED: dict[str, Callable[[Case, Call], str]] = {
    "inside": lambda _, at: at.place.scope.name if at.place.scope else "",
    "where": lambda _, at: at.text,
    "unless": lambda _, at: at.text,
    "within": lambda _, at: "\n".join(map(ast.unparse, at.place.within)),
    "to": lambda _, at: at.target,
    "elsewhere": lambda _, at: at.target,
    "words": lambda case, _: "\n".join(case.given),
    "settings": lambda case, _: "\n".join(map(" ".join, case.settings)),
    "job": lambda case, _: case.size.asked,
    "no-job": lambda case, _: case.size.asked,
    "under": _list_tests,
    "has": lambda case, _: case.source.project.code,
    "lacks": lambda case, _: case.source.project.code,
}
_DENIED = {"unless", "elsewhere", "lacks", "no-job"}  # and must not match


class _Look:
    """One look into a program, for the job that starts it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.remarks: dict[str, list[Remark]] = {}  # by their messages, as they are found

    def apply(self, name: str, rule: dict[str, str]) -> None:
        """Say a rule wherever it holds."""
        of_job, of_place = tables.read_needs(rule["needs"], frozenset(PLACES))
        if not of_job.items() <= self.case.answers.items():
            return
        places = FINDS[name](self.case) if name in FINDS else self._find_places(rule)
        holds = partial(self._holds, rule["holds"]) if "holds" in rule else None
        for at in filter(holds, places) if places and self._allows(rule) else ():
            if all(PLACES[need](self.case, at) == wanted for need, wanted in of_place.items()):
                self._say(name, at)

    def _holds(self, test: str, at: Call) -> bool:
        """Whether a comparison of numbers of the job and a place comes out true."""
        with suppress(SyntaxError):  # as of 08
            node = ast.parse(self._fill(test, at).replace("\\", ""), mode="eval").body
            return self.case.source.values.find_value(node, at.module) is True
        return False

    def _allows(self, rule: dict[str, str]) -> bool:
        """Whether the program has what a rule wants in it, and nothing that speaks against it."""
        without, wanted = rule.get("without"), self._fill(rule.get("with", ""))
        against = without and re.search(self._fill(without), self.case.told)
        return not against and re.search(wanted, self.case.source.project.code) is not None

    def _find_places(self, rule: dict[str, str]) -> list[Call]:
        """Return the calls that a rule is about; without `calls`, the lines that it matches."""
        if "calls" in rule:
            return self._find_calls(rule)
        modules = self.case.source.project.modules[: None if "anywhere" in rule else 1]
        return [place for one in modules if (place := self._find_text(rule, one))]

    def _find_text(self, rule: dict[str, str], module: Module) -> Call | None:
        """Return the line of a file that a rule is about, if the program comes to what it calls."""
        match = re.search(self._fill(rule.get("with", "")), module.code)
        if not match:
            return None
        start = match.start("at" if "at" in match.re.groupindex else 0)
        line = ast.Pass(lineno=module.code.count("\n", 0, start) + 1)
        at = next((one for one in module.calls if one.line == line.lineno), module.whole)
        reached = self.case.source.is_reached(at.place)
        return self._fit(rule, at._replace(node=line, about=match.groupdict())) if reached else None

    def _find_calls(self, rule: dict[str, str]) -> list[Call]:
        calls = self.case.source.find(rule["calls"])
        named = map(_name_option, calls) if rule["calls"] == "option" else calls
        places = [place for call in named if (place := self._fit(rule, call))]
        return [] if "every" in rule and len(places) < len(calls) else places

    def _fit(self, rule: dict[str, str], at: Call) -> Call | None:
        """Return a place with the groups of what it matches of a rule; None where it does not."""
        for key, read in _MATCHED.items():
            if key in rule:
                match = re.search(self._fill(rule[key], at), read(self.case, at))
                if (match is None) != (key in _DENIED):
                    return None
                at = at._replace(about={**at.about, **(match.groupdict() if match else {})})
        if "others" in rule and not all(self._match_calls(rule["others"], at)):
            return None
        if "beside" not in rule:
            return at
        beside = next(filter(None, self._match_calls(rule["beside"], at)), None)
        return beside and at._replace(about={**at.about, **beside.groupdict()})

    def _match_calls(self, wanted: str, at: Call) -> Iterator[re.Match[str] | None]:
        """Yield what a rule wants of other calls, of a kind, as far as each has it."""
        kind, _, form = wanted.partition(" ")
        form = self._fill(form, at)
        return (re.search(form, other.text) for other in self.case.source.find(kind))

    def _fill(self, form: str, at: Call | None = None) -> str:
        """Return a regular expression with what the job has, and forms of `forms.txt`, in it."""
        return re.sub("<<(below )?(.+?)>>", partial(self._give, at), form)

    def _give(self, at: Call | None, word: re.Match[str]) -> str:
        if word[1]:
            return "|".join(map(str, range(self.case.values[word[2]]))) or "(?!)"
        if at and word[2] in at.about:
            return re.escape(at.about[word[2]] or "")
        values = self.case.values
        return str(values[word[2]]) if word[2] in values else spell_form(word[2])

    def _say(self, name: str, at: Call) -> None:
        """Keep a remark on a place, unless a comment there silences it."""
        module, about = at.module, {"call": at.short, "module": at.name}
        sure = all(self.case.source.values.decide(test, module) for test in at.place.tests)
        remark = make_remark(
            name, module.path, at.line, certain=sure, **{**self.case.values, **about, **at.about}
        )
        if not module.silences(at.line, remark.rule):
            self.remarks.setdefault(remark.message, []).append(remark)
            self.case.answers |= {name: True, remark.rule: True}
            self.case.answers["sound"] &= remark.rule not in _IDLE


def _name_option(call: Call) -> Call:
    """Return a call that adds an option, with its names for the words of a remark."""
    option = str(["", *call.words][-1])
    name = option.lstrip("-")
    return call._replace(about={"option": option, "name": name, "dest": name.replace("-", "_")})
