"""Rules on the script as a program of bash: whether it can be read, where it runs, how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain, compress, pairwise

from jobgen import process
from jobgen.batchscript.bash import Command
from jobgen.batchscript.expand import PlainVariables
from jobgen.batchscript.launchers import Started, list_inner, unwrap, unwrap_nested
from jobgen.batchscript.lint.rule import Fault, find_text, mark, rule
from jobgen.batchscript.purposes import FORMS, HELPING, READIES, REPEATABLE, WHY, reads_settings
from jobgen.batchscript.reach import list_run
from jobgen.batchscript.readable import SHELLS, find_syntax_fault
from jobgen.batchscript.reader import Script


@rule("bash-syntax")
def _check_syntax(script: Script) -> Iterator[Fault]:
    if fault := find_syntax_fault(script):
        about = f"{fault[1]}\n{script.text}"
        kinds = (kind for kind in ("conflict", "else-if") if FORMS[kind].match(about))
        yield Fault(fault[0], 1, fault[1], vars(WHY).get(next(kinds, ""), ""))


@rule("pbs-workdir")
def _check_workdir(script: Script) -> Iterator[Fault]:
    for started, command in script.launches if script.starts_at_home else ():
        if reads_settings(command) or FORMS["moves"].match(" ".join(command.texts)):
            return
        by_shell = re.match("python|(ba)?sh$", started.name)
        for word in started.program[1:4] if by_shell else started.program[:1]:
            on_path = not by_shell and "/" not in word.text
            if not on_path and FORMS["relative"].fullmatch(word.text):
                where = "is looked for in the home folder, where PBS starts it"
                yield mark(word, f"'{word.text}' {where}")
                return


SCRIPT_FOLDER, NO_HOOK = rule("script-folder")(), rule("no-hook")()


@rule("host-addresses")
def _find_host_addresses(script: Script) -> Iterator[Fault]:
    meets = script.nodes != 1 or "rdzv" in script.text
    for name, word, raw in script.variables() if meets else ():
        uses = re.findall(rf".*\$\{{?{name}\b.*", script.text.partition(word.raw)[2])
        if FORMS["addresses"].search(raw) and not FORMS["picks"].search("\n".join([raw, *uses])):
            yield mark(word, "a node with several addresses gives them all, separated by spaces")


def _matters(started: Started) -> bool:
    """Whether it is a program of the job's own, or started as one."""
    text = " ".join(started.texts)
    helps = started.name in HELPING | REPEATABLE or READIES.match(text)
    own = FORMS["program-of-job"].search(text)
    return not helps and bool(own or started.is_launched or started.wrapper)


@rule("hidden-exit")
def _check_hidden_exit(script: Script) -> Iterator[Fault]:
    if script.read_directives:
        yield from find_text(script, "at denies")
    yield from _find_beside(script)
    commands = _find_last(script)
    if not commands or commands[0].end == "&" or _is_kept(script, *commands):
        return
    command, *later = commands
    called = [x.blocks for x in script.expanded if x.name == command.function != ""]
    around = chain(command.blocks, *called)
    once = [x.blocks[-1:] for x in script.expanded if FORMS["once"].fullmatch(" ".join(x.texts))]
    turns = any((x,) not in once for x in around if FORMS["loop"].fullmatch(x.opener))
    if later:
        name, line = later[-1].name.split("\n")[0], later[-1].line
        message = f"its exit code is lost: the lines up to '{name}' in line {line} set the job's"
        end = "quoted" if command.line in script.documents else _find_end(command, later)
        fix = vars(WHY).get(end, WHY.turn if turns else "")
        yield mark(command.place, message, fix=fix)
    elif turns:
        message = "the job's exit code is that of this loop's last turn alone"
        yield mark(command.place, message, fix=WHY.turn)


def _find_beside(script: Script) -> Iterator[Fault]:
    """Find programs in the background that only a bare wait, or a long sleep, is for."""
    holds = FORMS["holds"].fullmatch
    run = [(x.command, holds(" ".join(x.command.texts)), x.started) for x in list_run(script)]
    steps = [(command, held) for command, held, started in run if held or _matters(started)]
    pairs = [(x, y) for (x, _), (y, held) in pairwise(steps) if x.end == "&" and held]
    for command, last in pairs:
        later = [item for item in script.expanded if item.line > last.line]
        acts = _acts_on_status("\n".join(script.lines[last.line :]))
        if not (acts or _is_kept(script, command, *later)):
            end = f"the {last.name} in line {last.line} ends with 0"
            message = f"its exit code is lost, and that of all beside it: {end}"
            yield mark(command.place, message, fix=WHY.beside)


def _find_end(command: Command, later: list[Command]) -> str:
    """Return what comes behind a command, or behind the group that it is part of."""
    grouped = not command.function and {"(", "{"} & command.openers
    return "beside" if grouped and "wait" in [x.name for x in later] else command.end


@rule("no-wait")
def _find_no_wait(script: Script) -> Iterator[Fault]:
    commands = _find_last(script)
    ends = all(FORMS["over-soon"].match(" ".join(item.texts)) for item in commands[1:])
    for command in commands[:1]:
        if command.end == "&" and (ends or _matters(unwrap(commands[1].words))):
            yield mark(command.place, "the script ends beside this, and the job with it")


def _is_kept(script: Script, command: Command, *later: Command) -> bool:
    """Whether an exit code is looked at, or the script ends with another that it chooses."""
    ends = command.end not in ("&", "then") and FORMS["keeps-status"].search(script.text)
    chosen = FORMS["chooses"].search("\n".join(" ".join(item.texts) for item in later))
    called = (x.end for x in script.expanded if x.name == command.function != "")
    asks = not {command.end, *called}.isdisjoint(("||", "&&", "|", "|&"))
    asked = [" ".join(item.texts) for item in _list_asked(script, command)]
    looked_at = asks or any(map(FORMS["gives-up"].match, asked))
    if command in _list_piped(script.expanded, "to-tee"):  # of which another rule tells
        looked_at = FORMS["keeps-pipe"].search(script.text) is None
    serves = FORMS["server"].search(" ".join(command.texts))  # and does not end by itself
    return any((ends, looked_at, serves, chosen))


def _find_last(script: Script) -> list[Command]:
    """The last command a script is about, and those that set the status; none if it acts on one."""
    launches = [x for x in list_run(script) if x.command.words]
    commands, matter = [x.command for x in launches], [_matters(x.started) for x in launches]
    runs = [*compress(commands, matter)]
    if not runs or _acts_on_status("\n".join(script.lines[runs[0].line - 1 :])):
        return []
    last, after = runs[-1], commands[len(matter) - matter[::-1].index(True) :]
    last = last._replace(end="then") if _is_told(script, last) else last
    lost = [[item, last] for item in runs[:-1] if _is_lost(item, last)]
    beside = [pair for pair in lost if pair[0].end == "&"]
    if beside and not FORMS["together"].search(script.text):
        return beside[0]
    if setting := _list_setting(last, after):
        return [last, *setting]
    return [*(pair for pair in lost if pair not in beside), [last]][0]


def _list_setting(last: Command, after: list[Command]) -> list[Command]:
    """Return the commands behind the last one that set another status than its own."""
    # In another branch, what comes later sets no status of this one.
    choices = {x for x in last.blocks if x.opener in ("if", "case") and last.end != "then"}
    others = [item for item in after if item.name != last.function]  # which calls it
    beside = [item for item in others if choices.isdisjoint(item.blocks)]
    return [item for item in beside if not FORMS["no-status"].fullmatch(" ".join(item.texts))]


def _is_told(script: Script, command: Command) -> bool:
    """Whether an `if`, or what comes behind ||, only says how a command ends."""
    if command.end in ("&&", "||"):
        return FORMS["only-says"].match(script.lines[command.last_line - 1]) is not None
    asked = _list_asked(script, command)
    return bool(asked) and all(FORMS["says"].match(" ".join(item.texts)) for item in asked)


def _list_asked(script: Script, command: Command) -> list[Command]:
    """List what stands in the `if` that asks how a command ends; nothing without one."""
    block = {block for block in command.blocks[-1:] if block.opener == "if"}
    first, *others = [x for x in script.expanded if block & {*x.blocks}] or [command]
    return others if first.place.column >= command.place.column else []


def _is_lost(command: Command, last: Command) -> bool:
    """Whether the exit code of a command is not kept, and the last run needs nothing of it."""
    own, other = (" ".join(unwrap(item.words).texts) for item in (command, last))
    kinds = (FORMS["kind-of-name"].sub("", x) for x in (own, other))
    names = {*map(tuple, map(FORMS["names"].findall, kinds))}
    needs = FORMS["needs"].search(" ".join({*other.split()} - {*own.split()}))
    lost = (len(names) == 1 and not needs) or FORMS["learnt"].match(f"{own}\n{other}")
    sure = command.end in ("\n", ";", "&") and last.end in ("\n", ";")
    return bool(sure and lost and command.openers.isdisjoint(("if", "case")))


def _acts_on_status(text: str) -> bool:
    """Whether a part of a script acts on an exit code, and does not only keep or print it."""
    text = FORMS["said"].sub("", text)
    kept = "|".join(FORMS["keeps-code"].findall(text)) or "(?!)"
    reads = rf"{FORMS['code'].pattern}|(\$\{{?|\(\([^)\n]*\b)({kept})\b"
    acts = rf"(?m)^(?!\s*(echo|printf)\b)[^#\n]*({reads})"
    return re.search(acts, FORMS["keeps-code"].sub("", text)) is not None


@rule("tee-status")
def _find_tee(script: Script) -> Iterator[Fault]:
    for command in chain.from_iterable(_list_lossy(script)):
        outer, *inner = [x.started for x in unwrap_nested(command, PlainVariables({}, {}))]
        if any(map(_matters, inner or [outer])):  # of a shell, what it runs
            yield mark(command.place, f"the exit code of {command.name} is lost in the pipe")


def _list_lossy(script: Script) -> Iterator[list[Command]]:
    """Yield what stands before a filter in each shell whose pipes have only its exit code."""
    shells = [(script.text, script.expanded)]
    for command in script.expanded:
        inner = script.open(command)
        above = script.text if command.name in ("eval", "source", ".") else ""  # the same shell
        own = "\n".join([above, *inner.texts, *inner.bodies])
        shells.append((own, list_inner(unwrap(inner.words), inner)))
    lossy = (commands for own, commands in shells if not FORMS["keeps-pipe"].search(own))
    return (_list_piped(commands, "lossy-pipe") for commands in lossy)


def _list_piped(commands: list[Command], kind: str) -> list[Command]:
    """List the commands that a pipe leads to one of a kind."""
    pairs = [(one, other.texts) for one, other in pairwise(commands) if one.end in ("|", "|&")]
    return [command for command, texts in pairs if FORMS[kind].match(" ".join(texts))]


@rule("no-command")
def _find_no_command(script: Script) -> Iterator[Fault]:
    odd = [item for item in script.commands if _is_odd(script, item)]
    for command in [] if FORMS["cut"].search(script.text) else odd[:1]:  # by which words stray
        name = command.place.text
        message = f"'{name}' stands in place of a command"
        above = "\n".join(script.lines[: command.line])
        kinds = (kind for kind in ("commented", "doubled", "assigned") if FORMS[kind].search(above))
        yield mark(command.place, message, vars(WHY).get(next(kinds, name), ""))


def _is_odd(script: Script, command: Command) -> bool:
    """Whether something else stands in place of a command, as where A = 1 is to set a variable."""
    if unset := FORMS["unset"].fullmatch(" ".join(word.raw for word in command.all_words)):
        read = rf"(?m)^[^#\n]*(\$\{{?|\(\([^)\n]*\b){unset[1]}\b"
        return re.search(read, script.text) is not None
    return FORMS["no-command"].match(" ".join(command.texts)) is not None


@rule("pbsdsh-status")
def _find_pbsdsh(script: Script) -> Iterator[Fault]:
    kept = FORMS["keeps-task"].search(script.text) or "$?" in str(script.beside)
    for started, command in () if kept else script.launches:
        if started.name not in SHELLS and command.end not in ("&&", "||") and _matters(started):
            of = [x.word for x in started.launchers if x.name == "pbsdsh"]
            yield from (mark(word, "pbsdsh ends with 0 even if its tasks fail") for word in of)


@rule("shellcheck")
def _run_shellcheck(script: Script) -> Iterator[Fault]:
    argv = ["shellcheck", "--shell=bash", "--severity=warning", "--format=json", "-"]
    text = script.text.replace("\r\n", "\n").encode("utf-8", "replace")
    for comment in json.loads(process.filter_text(argv, text, cpu_seconds=2) or "[]"):
        place = FORMS["place"].search(script.lines[comment["line"] - 1])  # of another rule
        if not place and not FORMS["shellcheck"].fullmatch(f"{comment['level']} {comment['code']}"):
            message = f"SC{comment['code']}: {comment['message'].rstrip('.')}"
            yield Fault(comment["line"], comment["column"], message)
