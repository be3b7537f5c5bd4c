"""Rules on what the scheduler reads: the #SBATCH and #PBS lines, and the bytes of the file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.lint.rule import QSUB, SBATCH, Fault, rule
from jobgen.batchscript.purposes import PRINTS
from jobgen.batchscript.readable import PLACEHOLDER
from jobgen.batchscript.reader import OPTION_VARIABLES, DirectiveOption, Script
from jobgen.schedulers import SCHEDULERS

_GPU_OPTIONS = ("--gres", "--gpus", "--gpus-per-node", "--gpus-per-task")


def _read_lines(script: Script) -> Iterator[tuple[DirectiveOption, str]]:
    """The lines of directives that the scheduler reads, once each, as they stand in the file."""
    seen = set()
    for item in script.directives:
        if item.read and item.line not in seen:
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
        if item.option in ("-o", "-e") and script.resource("nodes"):  # Torque expands these
            line = re.sub(r"\$\{?PBS_JOB(ID|NAME)\b", "", line)
        if match := re.search(r"\$\{?[A-Za-z_(1-9]|`", line):
            message = f"{script.scheduler} reads '{item.text}' as it is, with the '{match[0][0]}'"
            yield Fault(item.line, match.start() + 1, message)


@rule("unset-variable", "A variable that Slurm does not set", SBATCH)
def _find_unset(script: Script) -> Iterator[Fault]:
    """Slurm sets it for the option of its name alone, and it is empty where the same is asked for
    in other words.

    Fix: ask by that option, or read what Slurm always sets, such as SLURM_GPUS_ON_NODE
    """
    own = {name for command in script.commands for name, _, _ in command.variables()}
    short = script.can.short_options
    for name, option in OPTION_VARIABLES.items():
        others = _GPU_OPTIONS if "GPUS" in name else ("--nodes", "--ntasks")
        if name in own or script.value(option) or not script.value(*others):
            continue
        read, before = re.compile(rf"\$({name}\b|\{{{name}\}})"), ""
        for command in script.commands:
            words = [word for word in command.all_words if read.search(word.raw)]
            guarded = before == "&&" or any(block.opener == "if" for block in command.blocks)
            before = command.end
            launchers = unwrap(command.words).launchers
            given = {short.get(key[1:], key) for item in launchers for key, _ in item.options}
            if words and not guarded and option not in given and command.name not in PRINTS:
                yield Fault(words[0].line, words[0].column, f"only {option} sets ${name}")
                break


@rule("late-directive", "A directive after the first command", SBATCH)
def _find_late(script: Script) -> Iterator[Fault]:
    """sbatch and qsub stop reading directives at the first line that is a command, silently.

    Fix: move it up, before all commands
    """
    items = [item for item in script.directives if not item.read]
    late = {item.line: item.text for item in items}
    parked = all(script.value(item.option) for item in items)  # beside those that count
    for line, text in list(late.items())[:1]:  # one command is the cause of all
        more = f", and {len(late) - 1} more," if len(late) > 1 else ""
        come = "come" if more else "comes"
        message = f"'{text}'{more} {come} after the first command, in line {script.body_line}"
        yield Fault(line, 1, message, parked)


@rule("output-folder", "Output to a folder that is not there", SBATCH)
def _check_output_folder(script: Script) -> Iterator[Fault]:
    """Neither scheduler makes the folder. Slurm ends the job before the script begins, with no
    log, so that a mkdir in the script is too late; PBS cannot deliver the output at the end.

    Fix: make the folder before you submit, or write to the folder of submission
    """
    if script.scheduler is None:
        return
    scheduler = SCHEDULERS[script.scheduler]
    folders = set[str]()
    if script.can.chunks and script.value("-k") is None:
        makes = [item for item in script.expanded if item.name == "mkdir"]
        folders |= {text.rstrip("/") for item in makes for text in item.texts}
    for item, line in _read_lines(script):
        for folder in scheduler.output_folders(line.strip() + "\n"):
            plain = folder.rstrip("/")
            if plain in folders or PLACEHOLDER.search(folder):  # of which another rule tells
                continue
            folders.add(plain)
            if "$" not in folder and not os.path.isdir(folder):
                # What becomes of the job is measured, for each of the two.
                column = line.find(folder) + 1
                parts = plain.split("/")  # /home, and whose folder is there
                known = "/".join(parts[: 3 if len(parts) > 3 else 2])
                elsewhere = folder.startswith("/") and not os.path.isdir(known)
                elsewhere = elsewhere or script.value("--chdir", "-d") is not None
                message = (
                    f"there is no folder {folder!r} here, so the job {script.can.without_output}"
                )
                yield Fault(item.line, column, message, elsewhere)


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
