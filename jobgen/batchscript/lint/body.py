"""Rules on the script as a program of bash: whether it can be read, where it runs, how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise

from jobgen import process
from jobgen.batchscript.bash import Command, Word
from jobgen.batchscript.expand import PlainVariables
from jobgen.batchscript.launchers import Started, unwrap_nested
from jobgen.batchscript.lint.rule import Fault, mark, rule
from jobgen.batchscript.purposes import FORMS, HARMLESS, PREPARING, READIES, REPEATABLE
from jobgen.batchscript.reach import list_run
from jobgen.batchscript.readable import find_syntax_fault
from jobgen.batchscript.reader import Script

_ADDRESS = re.compile(r"hostname\s+(-[iI]|--ip-address|--all-ip-addresses)\b")
_RELATIVE = re.compile(r"(\./|\.\./)?[\w.-]+(/[\w.-]+)*\.(py|sh)|\.\.?/.*")
# Takes one of several words.
_PICKS = re.compile(r"\b(awk|cut|head|sed|tr|grep)\b|\[0\]|%%|read .*<<<")
_READS_STATUS = re.compile(r"^(?!\s*(echo|printf)\b)[^#\n]*(\$\?|PIPESTATUS)", re.MULTILINE)

# What other rules find: what bash itself refuses, and words that stand in place of a command.
_OTHERS = {*range(1000, 2000), 2276, *range(2282, 2290)}
# Words that are meant to split, a loop over ls, an array in a line that is printed, a test that is
# always true or false, exit -1, output that backticks do not get: nothing runs otherwise.
_STYLE = {2045, 2068, 2145, 2157, 2242, 2328}


@rule("bash-syntax")
def _check_syntax(script: Script) -> Iterator[Fault]:
    if fault := find_syntax_fault(script):
        line, message = fault
        yield Fault(line, 1, message)


@rule("pbs-workdir")
def _check_workdir(script: Script) -> Iterator[Fault]:
    if not script.starts_at_home or not script.directives:
        return
    for launch in script.launches:
        if _moves(launch.command):
            return
        for word in _list_files(launch.started):
            message = f"'{word.text}' is looked for in the home folder, where PBS starts it"
            yield mark(word, message)
            return


def _moves(command: Command) -> bool:
    reads = command.name in ("source", ".")
    sets = reads and not FORMS["familiar"].search(" ".join(command.texts))
    return sets or command.name in ("cd", "pushd")


def _list_files(started: Started) -> list[Word]:
    if started.name in HARMLESS | REPEATABLE:
        return []
    if started.name.startswith("python"):
        words = list(started.program[1:4])
    else:  # without a folder it is looked for on the PATH
        words = [word for word in started.program[:1] if "/" in word.text]
    return [word for word in words if _RELATIVE.fullmatch(word.text)]


@rule("host-addresses")
def _find_host_addresses(script: Script) -> Iterator[Fault]:
    for name, word, raw in script.variables() if script.nodes != 1 else ():
        uses = re.findall(rf".*\$\{{?{name}\b.*", script.text.partition(word.raw)[2])
        if _ADDRESS.search(raw) and not _PICKS.search("\n".join([raw, *uses])):
            message = "a node with several addresses gives them all, separated by spaces"
            yield mark(word, message)


def _matters(started: Started) -> bool:
    text = " ".join(started.texts)
    if started.name in PREPARING | REPEATABLE | HARMLESS or READIES.match(text):
        return False
    own = re.search(r"^[./$~]|^python\S* .|\S\.py\b", text) is not None
    return own or started.is_launched or bool(started.wrapper)


@rule("hidden-exit")
def _check_hidden_exit(script: Script) -> Iterator[Fault]:
    commands = _find_last(script)
    if not commands or FORMS["keeps-status"].search(script.text) or _is_kept(*commands):
        return
    command, *later = commands
    beside = command.end == "&"
    if later and (not beside or "wait" in [item.name for item in later]):
        name = later[-1].name.split("\n")[0]
        message = f"the job's exit code is that of '{name}' in line {later[-1].line}, not of this"
        own = 'wait for each by its id: p=$!; ...; wait "$p" || exit' if beside else ""
        yield mark(command.place, message, fix=own)
    elif not beside and command.openers & {"for", "while", "until"}:
        message = "the job's exit code is that of this loop's last turn alone"
        yield mark(command.place, message)


@rule("no-wait")
def _find_no_wait(script: Script) -> Iterator[Fault]:
    commands = _find_last(script) if script.directives else []
    ends = {item.name for item in commands[1:]} <= {"echo", "printf"}
    if commands and commands[0].end == "&" and ends:
        yield mark(commands[0].place, "the script ends beside this, and the job with it")


def _is_kept(command: Command, *later: Command) -> bool:
    """Whether an exit code is looked at, or the script ends with another that it chooses."""
    chosen = [item.texts[1:] for item in later if item.name in ("exit", "wait")]
    looked_at = command.end in ("||", "&&", "|", "|&")
    return looked_at or any(code not in ([], ["0"]) for code in chosen)


def _find_last(script: Script) -> list[Command]:
    """The last command that a script is about, and those after it that set the status.

    None, where an exit code is read after the first such command.
    """
    commands = (item for item in list_run(script) if not item.command.function)
    launches = [item for item in commands if item.command.words]
    places = [index for index, item in enumerate(launches) if _matters(item.started)]
    first = launches[places[0]].command.line if places else 0
    if not first or _READS_STATUS.search("\n".join(script.lines[first - 1 :])):
        return []
    command, *after = (item.command for item in launches[places[-1] :])
    # What may be another branch sets none.
    choices = {block for block in command.blocks if block.opener in ("if", "case")}
    return [command, *(x for x in after if choices.isdisjoint(x.blocks) and _sets_status(x))]


def _sets_status(command: Command) -> bool:
    closes = command.name in ("fi", "done", "}", "esac", ")")
    return not closes and command.texts != ["exit"]


@rule("tee-status")
def _find_tee(script: Script) -> Iterator[Fault]:
    if re.search(r"^[^#\n]*(\bset\s.*\bpipefail\b|\bPIPESTATUS\b)", script.text, re.MULTILINE):
        return
    for command, following in pairwise(script.expanded):
        piped = command.end in ("|", "|&") and following.name == "tee"
        launches = unwrap_nested(command, PlainVariables({}, {})) if piped else ()
        if any(_matters(item.started) for item in launches):
            yield mark(command.place, f"the exit code of {command.name} is lost: tee's counts")


@rule("no-command")
def _find_no_command(script: Script) -> Iterator[Fault]:
    odd = [item for item in script.commands if FORMS["no-command"].match(" ".join(item.texts))]
    for command in odd:
        unset = command.texts[1:2] == ["="]  # which matters where something reads it
        if not unset or re.search(rf"\$\{{?{command.name}\b", script.text):
            yield mark(command.place, f"'{command.texts[0]}' stands in place of a command")
            return


@rule("shellcheck")
def _run_shellcheck(script: Script) -> Iterator[Fault]:
    argv = ["shellcheck", "--shell=bash", "--severity=error", "--format=json", "-"]
    text = script.text.replace("\r\n", "\n").encode("utf-8", "replace")
    for comment in json.loads(process.filter_text(argv, text, cpu_seconds=2) or "[]"):
        # Another rule tells of a place that is to be filled in.
        place = FORMS["place"].search(script.lines[comment["line"] - 1])
        if not place and comment["code"] not in _OTHERS | _STYLE:
            message = f"SC{comment['code']}: {comment['message'].rstrip('.')}"
            yield Fault(comment["line"], comment["column"], message)
