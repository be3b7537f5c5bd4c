"""Rules on what the scheduler reads: the #SBATCH and #PBS lines, and the bytes of the file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from jobgen.batchscript.lint.rule import QSUB, SBATCH, Fault, mark, rule
from jobgen.batchscript.readable import PLACEHOLDER
from jobgen.batchscript.reader import DirectiveOption, Script
from jobgen.output import format_count
from jobgen.schedulers import SCHEDULERS


def _read_lines(script: Script) -> Iterator[tuple[DirectiveOption, str]]:
    """The lines of directives that the scheduler reads, once each, as they stand in the file."""
    seen = set()
    for item in script.read_directives:
        if item.line not in seen:
            seen.add(item.line)
            yield item, script.lines[item.line - 1]


@rule("directive-variable", "A variable in a directive", SBATCH)
def _find_variables(script: Script) -> Iterator[Fault]:
    """The scheduler reads directives before any shell does: nothing in them is expanded.

    Fix: write the value out, use the scheduler's own patterns (%j, ^array_index^), or give the
    option on the command line
    """
    comments = script.can.comments
    for item, line in _read_lines(script):
        line = re.sub(r"\s#.*", "", line) if comments else line
        chunks = script.resource("select") or script.resource("ncpus")
        if item.option in ("-o", "-e") and not chunks:  # Torque expands these
            line = re.sub(r"\$\{?PBS_JOB(ID|NAME)\b", "", line)
        if match := re.search(r"\$\{?[A-Za-z_(1-9]|`", line):
            message = f"{script.scheduler} reads '{item.text}' as it is, with the '{match[0][0]}'"
            yield Fault(item.line, match.start() + 1, message)


@rule("late-directive", "A directive after the first command", SBATCH)
def _find_late(script: Script) -> Iterator[Fault]:
    """sbatch and qsub stop reading directives at the first line that is a command, silently.

    Fix: move it up, before all commands
    """
    items = [item for item in script.directives if not item.read]
    parked = all(script.value(item.option) for item in items)  # beside those that count
    if not parked:  # one command is the cause of all
        more = len({item.line for item in items}) - 1
        come = f", and {more} more, come" if more else " comes"
        message = f"'{items[0].text}'{come} after the first command, in line {script.body_line}"
        yield Fault(items[0].line, 1, message)


@rule("dead-directive", "Directives behind a blank", SBATCH)
def _find_dead(script: Script) -> Iterator[Fault]:
    """sbatch and qsub take such lines for comments, so the job gets what it does not ask for.

    Fix: write #SBATCH or #PBS without a blank after the #
    """
    if dead := script.dead_directives:
        (number, text), *more = dead.items()
        others = format_count(len(more), "other line")
        message = f"'{text}' is a comment, like {others}, so the job has no directives"
        yield Fault(number, 1, message)


@rule("one-dash", "A long option with one dash", SBATCH)
def _find_one_dash(script: Script) -> Iterator[Fault]:
    """sbatch reads it as an option of one letter, whose value is the rest: it refuses the job, or
    the job gets something else.

    Fix: write the option with two dashes
    """
    for item in script.read_directives:
        if script.lacks_dash(item.option):
            yield mark(item, f"sbatch does not read {item.option} as -{item.option}")


@rule("output-folder", "Output to a folder that is not there", SBATCH)
def _check_output_folder(script: Script) -> Iterator[Fault]:
    """Neither scheduler makes the folder. Slurm ends the job before the script begins, with no
    log, so that a mkdir in the script is too late; PBS cannot deliver the output at the end.

    Fix: make the folder before you submit, or write to the folder of submission
    """
    if script.value("--chdir", "-d"):
        return
    for item, folder in _list_folders(script):
        if not (os.path.isdir(folder) or _is_elsewhere(folder)):
            column = script.lines[item.line - 1].find(folder) + 1
            does = script.can.without_output  # as measured for each scheduler
            message = f"there is no folder {folder!r} here, so the job {does}"
            yield Fault(item.line, column, message)


def _list_folders(script: Script) -> Iterator[tuple[DirectiveOption, str]]:
    """The folders that output goes to, each once, but for those that the job makes in time."""
    if script.scheduler is None:
        return
    list_folders, seen = SCHEDULERS[script.scheduler].output_folders, set[str]()
    for item, line in _read_lines(script):
        for folder in list_folders(line.strip() + "\n"):
            bare = folder.rstrip("/").removeprefix("./")
            if bare not in seen and not _is_open(folder) and not _makes(script, bare):
                yield item, folder
            seen.add(bare)


def _is_open(folder: str) -> bool:
    return PLACEHOLDER.search(folder) is not None or "$" in folder  # of which other rules tell


def _makes(script: Script, folder: str) -> bool:
    """Whether a job of PBS makes a folder, as far as names tell, before its output comes there."""
    if not script.can.chunks or script.value("-k") is not None:
        return False
    makes = [item for item in script.expanded if item.name == "mkdir"]
    made = (text.rstrip("/") for item in makes for text in item.texts)
    return any(f"/{text}".endswith(f"/{folder}") for text in made)


def _is_elsewhere(folder: str) -> bool:
    """Whether a folder is of another machine: root's, or whose /home or folder is not here."""
    parts = folder.rstrip("/").split("/")
    known = "/".join(parts[: 3 if len(parts) > 3 else 2])
    return folder.startswith("/root/") or (folder[0] == "/" and not os.path.isdir(known))


@rule("crlf", "Line ends of Windows", QSUB)
def _check_line_ends(script: Script) -> Iterator[Fault]:
    r"""qsub and sbatch refuse such a script, and bash takes the CR for part of the last word.

    Fix: convert it: sed -i 's/\r$//' FILE
    """
    lines = script.text.split("\n")
    ends = [number for number, line in enumerate(lines, 1) if line.endswith("\r")]
    if ends:
        what = "1 line ends" if len(ends) == 1 else f"{len(ends)} lines end"
        yield Fault(ends[0], len(lines[ends[0] - 1]), f"{what} as on Windows, in CR and LF")
