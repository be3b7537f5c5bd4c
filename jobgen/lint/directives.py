"""Rules on what the scheduler reads: the #SBATCH and #PBS lines, and the bytes of the file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from jobgen import schedulers
from jobgen.lint.rule import QSUB, SBATCH, Fault, Rule
from jobgen.script import Directive, Script

# Look like a space or a hyphen, and are none to any program.
_LOOKALIKES = re.compile("[\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff\u2010-\u2015\u2212]")


def _lines(script: Script) -> Iterator[tuple[Directive, str]]:
    """The lines of directives that the scheduler reads, once each, as they stand in the file."""
    seen = set()
    for item in script.directives:
        if item.read and item.line not in seen:
            seen.add(item.line)
            yield item, script.lines[item.line - 1]


def _variables(script: Script) -> Iterator[Fault]:
    for item, line in _lines(script):
        if match := re.search(r"\$\{?[A-Za-z_(]|`", line):
            message = f"{script.scheduler} reads '{item.text}' as it is, with the '{match[0][0]}'"
            yield item.line, match.start() + 1, message


def _lookalikes(script: Script) -> Iterator[Fault]:
    for number, line in enumerate(script.lines, 1):
        match = _LOOKALIKES.search(line)
        if match and re.match(r"\s*#\s*(SBATCH|PBS)\b", line):
            message = f"U+{ord(match[0]):04X} in a directive looks like a plain character"
            yield number, match.start() + 1, message


def _late(script: Script) -> Iterator[Fault]:
    seen = set()
    for item in script.directives:
        if not item.read and item.line not in seen:
            seen.add(item.line)
            message = f"'{item.text}' comes after the first command, in line {script.body_line}"
            yield item.line, 1, message


def _spaced(script: Script) -> Iterator[Fault]:
    for number, line in enumerate(script.lines[: script.body_line], 1):
        if match := re.match(r"#\s+(SBATCH|PBS)\s+-", line):
            yield number, 1, f"'# {match[1]}' is a comment, not a directive"


def _output_folder(script: Script) -> Iterator[Fault]:
    if script.scheduler is None:
        return
    scheduler = schedulers.get(script.scheduler)
    for item, line in _lines(script):
        for folder in scheduler.output_folders(line.strip() + "\n"):
            if "$" not in folder and not _is_folder(folder):
                end = "fails without a word" if script.scheduler == "slurm" else "loses its output"
                column = line.find(folder) + 1
                yield item.line, column, f"there is no folder {folder!r} here, so the job {end}"


def _is_folder(path: str) -> bool:
    try:
        return os.path.isdir(path)
    except ValueError:
        return False


def _line_ends(script: Script) -> Iterator[Fault]:
    lines = script.text.split("\n")
    ends = [number for number, line in enumerate(lines, 1) if line.endswith("\r")]
    if ends:
        what = "1 line ends" if len(ends) == 1 else f"{len(ends)} lines end"
        yield ends[0], len(lines[ends[0] - 1]), f"{what} as on Windows, in CR and LF"


def _walltime(script: Script) -> Iterator[Fault]:
    for item in script.directives:
        value = item.value
        if item.option == "-l":
            value = next(iter(re.findall(r"\bwalltime=([^,\s]*)", value)), "")
        elif item.option != "--time":
            continue
        if item.read and re.fullmatch(r"\d+(:\d\d)?", value):
            unit = "seconds" if script.scheduler == "pbs" else "minutes"
            means = "minutes and seconds" if ":" in value else unit
            yield item.line, item.column, f"a walltime of {value} is read as {means}"


RULES = (
    Rule(
        "directive-variable",
        "A variable in a directive",
        "The scheduler reads directives before any shell does: nothing in them is expanded.",
        "write the value out, use the scheduler's own patterns (%j, ^array_index^), or give the "
        "option on the command line",
        SBATCH,
        _variables,
    ),
    Rule(
        "directive-lookalike",
        "A no-break space or a dash in a directive",
        "Copied from a web page or a PDF, it separates no words and begins no option.",
        "type the space or the hyphen anew",
        SBATCH,
        _lookalikes,
    ),
    Rule(
        "late-directive",
        "A directive after the first command",
        "sbatch and qsub stop reading directives at the first line that is a command, silently.",
        "move it up, before all commands",
        SBATCH,
        _late,
    ),
    Rule(
        "spaced-directive",
        "A directive with a space after its #",
        "'# SBATCH' and '# PBS' are comments to the scheduler, and it does not say so.",
        "take the space out, or write ## to switch it off on purpose",
        SBATCH,
        _spaced,
    ),
    Rule(
        "output-folder",
        "Output to a folder that is not there",
        "Neither scheduler makes the folder. Slurm ends the job before the script begins, with no "
        "log; PBS cannot deliver the output. A mkdir in the script is too late.",
        "make the folder before you submit, or write to the folder of submission",
        SBATCH,
        _output_folder,
    ),
    Rule(
        "crlf",
        "Line ends of Windows",
        "qsub and sbatch refuse such a script, and bash takes the CR for part of the last word.",
        "convert it: sed -i 's/\\r$//' FILE",
        QSUB,
        _line_ends,
    ),
    Rule(
        "ambiguous-walltime",
        "A walltime that people and schedulers read differently",
        "A bare number is minutes to Slurm and seconds to PBS; 10:00 is ten minutes to both.",
        "write HH:MM:SS",
        SBATCH,
        _walltime,
    ),
)
