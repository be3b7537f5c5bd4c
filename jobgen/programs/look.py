"""What a look into a training program finds, before the queue finds it.

A warning is certain from the files at hand; a note is likely. `# jobgen: ignore[rule]` in the line
silences one. The rules are records of `remarks.txt`; a Case answers what they need to know.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from jobgen.programs.case import PYTHON, Case
from jobgen.programs.finds import FINDS, PLACES
from jobgen.programs.project import Project
from jobgen.programs.remark import JobSize, Remark, join_remarks, make_remark, read_rules
from jobgen.programs.source import Source
from jobgen.programs.text import Call, Module, is_newer, spell_form
from jobgen.spec import tables


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
        if look.case.answers["empty"]:
            break  # as nothing is run that more could be said of
    remarks = [join_remarks(*same) for same in look.remarks.values()]
    return sorted(remarks, key=lambda one: (one.path != path, *one[:2]))


# What a rule matches by a key of its own, the cheapest first: the words of a place, the job, ...
_MATCHED: dict[str, Callable[[Case, Call], str]] = {
    "where": lambda _, at: at.text,
    "unless": lambda _, at: at.text,
    "to": lambda _, at: at.target,
    "words": lambda case, _: "\n".join(case.given),
    "settings": lambda case, _: "\n".join(map(" ".join, case.settings)),
    "job": lambda case, _: case.size.asked,
    "with": lambda case, _: case.source.project.code,
    "without": lambda case, _: case.told,
}
_DENIED = {"unless", "without"}  # and must not match


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
        fitting = [fit for at in places if (fit := self._fit(rule, at))]
        if "every" in rule and len(fitting) < len(places):
            return
        for at in filter(partial(self._holds, rule.get("holds", "")), fitting):
            if all(PLACES[need](self.case, at) == wanted for need, wanted in of_place.items()):
                self._say(name, at)

    def _holds(self, test: str, at: Call) -> bool:
        """Whether a comparison of numbers of the job and a place comes out true."""
        if not test:
            return True
        with suppress(SyntaxError):  # as of 08
            node = ast.parse(self._fill(test, at).replace("\\", ""), mode="eval").body
            return self.case.source.values.find_value(node, at.module) is True
        return False

    def _find_places(self, rule: dict[str, str]) -> list[Call]:
        """Return the calls that a rule is about, or the first line of a file; or the program."""
        if "calls" in rule:
            calls = self.case.source.find(rule["calls"])
            return [*map(_name_option, calls)] if rule["calls"] == "option" else calls
        modules = self.case.source.project.modules
        if "line" not in rule:
            return [modules[0].whole]
        form = re.compile(self._fill(rule["line"]), re.MULTILINE)
        modules = modules[: None if "anywhere" in rule else 1]
        return [line for one in modules if (line := self._find_line(form, one))]

    def _find_line(self, form: re.Pattern[str], module: Module) -> Call | None:
        """Return the line of a file that has a form, if the program comes to what it calls."""
        match = form.search(module.code)
        if not match:
            return None
        line = ast.Pass(lineno=module.code.count("\n", 0, match.start()) + 1)
        at = next((one for one in module.calls if one.line == line.lineno), module.whole)
        reached = self.case.source.is_reached(at.place)
        return at._replace(node=line, about=match.groupdict()) if reached else None

    def _fit(self, rule: dict[str, str], at: Call) -> Call | None:
        """Return a place with the groups of what it matches of a rule; None where it does not."""
        for key, read in _MATCHED.items():
            if key in rule:
                match = re.search(self._fill(rule[key], at), read(self.case, at))
                if (match is None) != (key in _DENIED):
                    return None
                at = at._replace(about={**at.about, **(match.groupdict() if match else {})})
        return at

    def _fill(self, form: str, at: Call | None = None) -> str:
        """Return a regular expression with what the job has, and forms of `forms.txt`, in it."""
        return re.sub("<<(.+?)>>", partial(self._give, at), form)

    def _give(self, at: Call | None, word: re.Match[str]) -> str:
        if at and word[1] in at.about:
            return re.escape(at.about[word[1]] or "")
        values = self.case.values
        return str(values[word[1]]) if word[1] in values else spell_form(word[1])

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


def _name_option(call: Call) -> Call:
    """Return a call that adds an option, with its names for the words of a remark."""
    option = str(["", *call.words][-1])
    name = option.lstrip("-")
    return call._replace(about={"option": option, "name": name, "dest": name.replace("-", "_")})
