"""What a rule of `jobgen lint` is, what it finds, and how that is shown and fixed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import ModuleType

from jobgen.batchscript.bash import Word
from jobgen.batchscript.purposes import FORMS, WHY
from jobgen.batchscript.reader import INSIDE, DirectiveOption, Script
from jobgen.records import NamedTuple
from jobgen.spec.tables import read_rules

# Findings that have one safe fix.
MENDED = ("crlf", "srun-kill")


class Fault(NamedTuple):
    """What is wrong, and where."""

    line: int
    column: int
    message: str
    fix: str = ""  # instead of the rule's, where that one does not fit the place


def mark(place: Word | DirectiveOption, message: str, fix: str = "") -> Fault:
    """Make a fault at the place of a word or an option."""
    outer, line = divmod(place.line, INSIDE)
    where = f", in line {line + 1} of the file named here" if outer else ""
    return Fault(outer or line, place.column, message + where, fix)


def find_text(script: Script, row: str) -> Iterator[Fault]:
    """Make a fault of each place that has the form which a row of `reasons.txt` names last."""
    message, _, fix = vars(WHY)[row].partition("; ")
    for match in FORMS[row.rpartition(" ")[2]].finditer(script.text):
        above = script.text[: match.start(match.lastindex or 0)]
        yield Fault(above.count("\n") + 1, len(above) - above.rfind("\n"), message, fix)


def join_acting(script: Script) -> str:
    """The lines of a script without comments, and without those that only say something."""
    lines = (line for line in script.lines if not FORMS["no-state"].match(line))
    return re.sub(r"\s#.*", "", "\n".join(lines))


class Rule(NamedTuple):
    """One fault that scripts have: its name, why it is one, how to fix it, a public page on it."""

    id: str
    title: str
    why: str
    fix: str
    reference: str
    find: Callable[[Script], Iterable[Fault]] = lambda script: ()  # beside forms of text

    def check(self, script: Script) -> Iterator[Fault]:
        """Yield what it finds, and the forms of text that `reasons.txt` says it finds."""
        yield from self.find(script)
        for row in vars(WHY):
            if row.startswith(f"{self.id} finds "):
                yield from find_text(script, row)

    @property
    def docs(self) -> str:
        """The rule's section in jobgen's documentation."""
        return f"docs/reference/lint.md#{self.id}"


def rule(id: str) -> Callable[..., Rule]:
    """Make a rule of what yields faults, if anything does, in the words of a row of `rules.txt`."""
    title, reference, why, *fix = read_rules("batchscript")[id]  # which may have a pipe in it
    return partial(Rule, id, title, why, " | ".join(fix), reference)


def list_rules(*modules: ModuleType) -> tuple[Rule, ...]:
    """Return the rules of these modules, in the order in which they stand there."""
    values = (value for module in modules for value in vars(module).values())
    return tuple(value for value in values if isinstance(value, Rule))


class Finding(NamedTuple):
    """One fault in one script."""

    file: str
    line: int
    column: int
    rule: Rule
    message: str
    fix: str  # what to write instead

    def __str__(self) -> str:
        line = f"{self.file}:{self.line}:{self.column}: {self.rule.id}: {self.message}; {self.fix}"
        return f"{line}\n    {self.rule.why} [{self.rule.docs}]"

    def as_dict(self) -> dict[str, str | int]:
        """All there is to say of it, for JSON."""
        rule = self.rule
        about = {"level": "fault", "rule": rule.id, "title": rule.title, "why": rule.why}
        return {**self._asdict(), **about, "docs": rule.docs, "reference": rule.reference}


def mend_text(text: str, findings: list[Finding]) -> str:
    """A script without those of its findings that have one safe fix; what else it says stays."""
    lines = text.split("\n")
    for item in sorted((x for x in findings if x.rule.id == "srun-kill"), reverse=True):
        line, start = lines[item.line - 1], item.column - 1
        added = re.sub(r"^srun\b(?! *-K [01]\b)", "srun --kill-on-bad-exit=1", line[start:])
        lines[item.line - 1] = line[:start] + added
    ends = r"(?m)\r$" if "crlf" in {item.rule.id for item in findings} else r"\A"
    return re.sub(ends, "", "\n".join(lines))
