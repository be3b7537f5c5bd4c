"""One reader of batch scripts as people have them: what the scheduler reads, and what bash runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from jobgen.errors import UsageError
from jobgen.launchers import Started, Torchrun, nested, torchrun
from jobgen.shell import Command, Word, parse

_PREFIX = {
    "slurm": re.compile(r"#SBATCH(?=\s|$)"),
    "pbs": re.compile(r"[ \t]*#PBS(?=\s|$)"),
}
_SHORT = {
    "slurm": dict(
        re.findall(
            r"(\w) (--[\w-]+)",
            "J --job-name A --account p --partition q --qos N --nodes n --ntasks c --cpus-per-task"
            " t --time o --output e --error d --dependency D --chdir C --constraint w --nodelist"
            " x --exclude L --licenses M --clusters G --gpus a --array H --hold k --no-kill",
        )
    ),
    "pbs": {},
}


class Directive(NamedTuple):
    """One option of a directive line. `read` is false where the scheduler never sees the line."""

    line: int
    column: int
    option: str  # as `--nodes` for Slurm, also where it was written -N; as `-l` for PBS
    value: str
    text: str  # the whole line
    read: bool


class Launch(NamedTuple):
    """A command of the body, or one inside its quotes, with what starts it."""

    started: Started
    command: Command

    @property
    def torchrun(self) -> Torchrun | None:
        """The torchrun agent that it starts, if it does."""
        return torchrun(self.started.program)

    @property
    def place(self) -> Word:
        """Where to point."""
        program = self.started.program
        return program[0] if program else self.command.place


class Script:
    """A batch script. `scheduler` is slurm, pbs, or None where nothing tells."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.lines = re.split(r"\r?\n", text)
        self.scheduler = self._scheduler()
        self.body_line = self._body_line()
        self.commands = parse(text.replace("\r\n", "\n"))

    def _scheduler(self) -> str | None:
        counts = {
            name: sum(bool(pattern.match(line)) for line in self.lines)
            for name, pattern in _PREFIX.items()
        }
        best = max(counts, key=lambda name: counts[name])
        if counts[best]:
            return best
        found = re.search(r"\$\{?(PBS|SLURM)_", self.text)
        return {"PBS": "pbs", "SLURM": "slurm"}[found[1]] if found else None

    def _body_line(self) -> int:
        """The number of the first line that ends the directives (sbatch(1), qsub(1B))."""
        for number, line in enumerate(self.lines, 1):
            bare = line.strip()
            if bare and not bare.startswith("#") and not (self.scheduler == "pbs" and bare == ":"):
                return number
        return len(self.lines) + 1

    @cached_property
    def directives(self) -> list[Directive]:
        """Every directive of the script's own scheduler, in order; one for each option."""
        found = []
        for number, line in enumerate(self.lines, 1):
            match = self.scheduler and _PREFIX[self.scheduler].match(line)
            if match:
                read = number < self.body_line
                for column, option, value in self._options(line, match.end()):
                    found.append(Directive(number, column, option, value, line.strip(), read))
        return found

    def _options(self, line: str, start: int) -> Iterator[tuple[int, str, str]]:
        column = start + len(line[start:]) - len(line[start:].lstrip()) + 1
        line = line[start:]
        if self.scheduler == "slurm":
            line = re.sub(r"\s#.*", "", line)
        try:
            words = shlex.split(line)
        except ValueError:  # a quote is open; the scheduler will complain
            words = line.split()
        short = _SHORT[self.scheduler or "slurm"]
        index = 0
        while index < len(words):
            word = words[index]
            index += 1
            option, equals, value = word.partition("=")
            if not word.startswith("-"):  # hetjob
                yield column, word, ""
                continue
            if not word.startswith("--"):
                option, value = word[:2], word[2:]
                option = short.get(option[1:], option)
            elif equals:
                yield column, option, value
                continue
            if not value and index < len(words) and not re.match(r"-[-A-Za-z]", words[index]):
                value = words[index]
                index += 1
            yield column, option, value

    @cached_property
    def launches(self) -> list[Launch]:
        """Every command of the body and, after each, those inside its quotes and documents."""
        return [Launch(*pair) for command in self.commands for pair in nested(command)]

    def value(self, *options: str) -> str | None:
        """What the scheduler is told by one of these options; the last one counts."""
        values = [item.value for item in self.directives if item.read and item.option in options]
        return values[-1] if values else None

    def resource(self, name: str) -> str | None:
        """What PBS is told by `-l NAME=...`; the last one counts."""
        found = None
        for item in self.directives:
            if item.read and item.option == "-l":
                for part in re.split(r",(?=[A-Za-z_]+=)", item.value):
                    key, equals, value = part.partition("=")
                    found = value if equals and key.strip() == name else found
        return found

    @cached_property
    def constants(self) -> dict[str, str]:
        """Variables that the body sets once, to a value that can be read here."""
        values: dict[str, str | None] = {}
        for command in self.commands:
            for name, word, raw in command.variables():
                value = Word(raw, word.line, word.column)
                plain = (
                    value.literal and not raw.startswith("(") and "heredoc" not in command.inside
                )
                values[name] = value.text if plain and name not in values else None
        return {name: value for name, value in values.items() if value is not None}

    def expand(self, text: str) -> str:
        """`text` with the variables put in that are constants."""

        def known(match: re.Match[str]) -> str:
            return self.constants.get(match[1] or match[2], match[0])

        return re.sub(r"\$(?:(\w+)|\{(\w+)\})", known, text, flags=re.ASCII)

    @cached_property
    def nodes(self) -> int | None:
        """How many nodes the job has; None where the script does not say it plainly."""
        if self.scheduler == "slurm":
            found = re.match(r"(\d{1,6})$", self.value("--nodes") or "")
            return int(found[1]) if found else None
        select = self.resource("select") or self.resource("nodes")
        if select:
            counts = [re.match(r"(\d{1,6})(?=:|$)", chunk.strip()) for chunk in select.split("+")]
            return sum(int(count[1]) if count else 1 for count in counts)
        return None


def read(path: str) -> Script:
    """The script in a file; bytes that are no UTF-8 are kept. Raises UsageError if unreadable."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path!r}: is no file name") from None
    if b"\0" in data:
        raise UsageError(f"{path}: is no text")
    return Script(path, data.decode("utf-8-sig", "surrogateescape"))
