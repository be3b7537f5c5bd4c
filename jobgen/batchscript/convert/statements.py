"""The statements of a script, what stands around the program in its own, and the first node."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobgen.batchscript.bash import Command
from jobgen.batchscript.convert.program import HARMLESS, READING, REPEATABLE, spell
from jobgen.batchscript.expand import list_names
from jobgen.batchscript.launchers import list_inner, unwrap
from jobgen.batchscript.reader import Script

# How scripts find the first node, in the value of a variable: of the list of nodes they take one.
_LIST_OF_NODES = re.compile(r"scontrol\s+show|NODEFILE|NODELIST")
_ONE_OF_THEM = re.compile(r"\bhead\b|\[0\]|\bsed\b|\bawk\b|\bcut\b|\|\s*hostname")
_OWN_NAME = re.compile(
    r"\bhostname\b|SLURMD_NODENAME|\{\w*(?i:node|host|addr|worker)\w*\[0\]|getent|/etc/hosts|\bip\b"
)
_COUNTS = re.compile(r"\bwc\b|uniq\s+-c|grep\s+-c|\$\(\(|\b(paste|tr|xargs)\b")
_ADDRESS_NAME = re.compile(
    r"(?i).*(addr|host|coord|head|master|node|(^|_)ip(_|\d|$)|rdzv|(^|_)url(_|$))"
)
_NO_ADDRESS_NAME = re.compile(
    r"(?i).*(nodes|hosts|names|list|file|count|num|port|rank|size|dir|path)"
)
_NAMING = ("for", "select", "local")
_DECLARES = ("export", "declare", "readonly", "local", "typeset")


class Statement(NamedTuple):
    """Whole lines of a script that belong together, and the commands in them."""

    first: int
    last: int
    commands: tuple[Command, ...]
    part: str = ""  # the text, where it is but a part of its lines

    @property
    def names(self) -> set[str]:
        """The variables that it sets."""
        names = {
            name
            for command in self.commands
            if not command.words or command.name in _DECLARES  # not for one command alone
            for name, _, _ in command.variables()
        }
        for command in self.commands:
            names |= command.list_changed()
            if command.name in _NAMING:
                names |= {word.text for word in command.words[1:] if word.text.isidentifier()}
        return names


def split_statements(script: Script) -> list[Statement]:
    """Commands in statements: a loop, a function or a continued line is one."""
    commands = script.commands
    statements: list[Statement] = []
    group: list[Command] = []
    last = 0
    for index, command in enumerate(commands):
        group.append(command)
        last = max(last, command.last_line)
        following = commands[index + 1 : index + 2]
        closed = not command.inside and command.end not in ("|", "|&", "&&", "||", "(")
        if following and closed and following[0].line > last:
            statements.append(Statement(_find_first(script, group[0]), last, tuple(group)))
            group, last = [], 0
    if group:
        last = max(last, group[-1].last_line)
        statements.append(Statement(_find_first(script, group[0]), last, tuple(group)))
    return statements


def join_dependent(statements: list[Statement]) -> list[Statement]:
    """Statements, of which one that begins with `$?` is one with that before it."""
    joined: list[Statement] = []
    for item in statements:
        if joined and begins_with_status(item) and not (item.part or joined[-1].part):
            previous = joined.pop()
            commands = (*previous.commands, *item.commands)
            item = Statement(previous.first, item.last, commands)
        joined.append(item)
    return joined


def begins_with_status(statement: Statement) -> bool:
    """Whether it looks at how the command before it has ended, or at its process."""
    command = statement.commands[0]
    words = (*command.assignments, *command.words)
    return any(re.search(r"\$[?!]|PIPESTATUS", word.active) for word in words)


def _find_first(script: Script, command: Command) -> int:
    """The line that a statement begins in: that of the name, where it is a function."""
    name = re.escape(command.function)
    header = re.compile(rf"\s*(function\s+{name}\b|{name}\s*\(\s*\))")
    for line in range(command.line, max(0, command.line - 20), -1) if name else ():
        if header.match(script.lines[line - 1]):
            return line
    return command.line


def is_submit_folder(script: Script, texts: list[str]) -> bool:
    """Whether `cd` with these words goes to where the job was submitted."""
    if {"PBS_O_WORKDIR", "SLURM_SUBMIT_DIR"} & script.variables.assigned:
        return False  # to another folder, by that name
    name = "(PBS_O_WORKDIR|SLURM_SUBMIT_DIR)"
    named = rf"\$({name}|\{{{name}(:-[^}}]*)?\}})/?\.?"
    return len(texts) == 1 and bool(re.fullmatch(named, texts[0]))


def find_folder(script: Script, line: int) -> str | None:
    """The folder that the script has gone to before a line; None where it is that of submission."""
    folder = None
    for step in script.steps:
        if step.source.line < line and step.command.name in ("cd", "pushd"):
            words = step.command.words[1:]
            if not words:
                folder = "$HOME"
            elif is_submit_folder(script, [words[0].text]):
                folder = None
            else:
                text = words[0].text
                folder = f"{folder}/{text}" if folder and not re.match(r"[/$~]", text) else text
    return folder


def find_strict_line(script: Script) -> float:
    """The line from which on a command that fails ends the script; infinity where none does."""
    if re.match(r"#!\S*sh\s+-\w*e", script.lines[0]):
        return 0
    strict = [
        step.source.line
        for step in script.steps
        if step.command.name == "set"
        and re.search(r"(^| )-\w*e|errexit", " ".join(step.command.texts[1:]))
    ]
    return min(strict, default=float("inf"))


def split_own(own: Statement, program: Command) -> tuple[list[Statement], list[Statement], bool]:
    """What of the program's own statement runs before it and after it, and whether that is all.

    It is not all where a command runs in a block of its own, or in a pipe, or before a `||`.
    """
    commands = list(own.commands)
    place = (program.place.line, program.place.column)
    at = next((i for i, c in enumerate(commands) if (c.place.line, c.place.column) == place), 0)
    before: list[Statement] = []
    after: list[Statement] = []
    whole = True
    for index, command in enumerate(commands):
        if index == at or _is_idle(command):
            continue
        low, high = min(index, at), max(index, at)
        if any({"else", "elif"} & set(item.keywords) for item in commands[low + 1 : high + 1]):
            continue  # of another branch
        if all(item.end in ("|", "|&") for item in commands[low:high]):
            continue  # of the program's own pipe
        blocks = command.blocks == program.blocks[: len(command.blocks)]
        previous = commands[index - 1].end if index else "\n"
        alone = {"|", "|&", "||"}.isdisjoint((command.end, previous))
        if index > at and commands[at].end == "||":
            alone = blocks = True  # what the script does where the program fails
        if not blocks or not alone or {"if", "elif", "while", "until"} & set(command.keywords):
            whole = False
            continue
        single = command._replace(function="", inside=(), blocks=(), keywords=())
        statement = Statement(command.line, command.last_line, (single,), spell(command))
        (before if index < at else after).append(statement)
    return before, after, whole


def _is_idle(command: Command) -> bool:
    """Whether it only shows or tests something."""
    writes = any(
        item.operator.lstrip("0123456789&") in (">", ">>", ">|")
        and item.target.text not in ("/dev/null", "&1", "&2", "1", "2")
        for item in command.redirects
    )
    harmless = command.name in HARMLESS and not changes_job(command)
    return bool(command.words) and harmless and not writes


def classify_command(command: Command) -> str:
    """What a command outside the program does: `show` nothing lasting, `repeat`, or run `once`.

    What is of the second kind may run on every node, or several times, as well as once.
    """
    if command.texts[:2] in (["command", "-v"], ["command", "-V"]):
        return "show"
    started = unwrap(command.words)
    name = started.name
    writes = any(
        item.operator.lstrip("0123456789&") in (">", ">>", ">|")
        and item.target.text not in ("/dev/null", "&2", "&1", "1", "2")
        and not item.operator.startswith("2")
        for item in command.redirects
    )
    if command.end == "&":
        return "once"
    if exports_all(command) is not None:
        return "repeat"
    if name == "scontrol" and "write" in command.texts:
        return "once"
    inner = list_inner(started, command)
    if inner and not writes and all(item.name in HARMLESS for item in inner):
        return "show"
    if command.end == ")" and command.blocks and command.blocks[-1].opener == "case":
        return "show"  # a pattern
    if started.launchers:
        return "show" if name in HARMLESS and not writes else "once"
    if re.fullmatch(r"python[\d.]*", name) and not writes:
        code = command.texts[-1] if "-c" in command.texts else ""
        shows = "print" in code and not re.search(r"download|save|write|pretrained|open\(", code)
        if shows or {"-V", "--version"} & set(command.texts):
            return "show"
    if name in ("module", "ml") and command.texts[1:2] in (["list"], ["avail"], ["show"]):
        return "show"
    if name in ("conda", "mamba", "micromamba", "pip", "pip3"):
        if command.texts[1:2] in (["list"], ["info"], ["freeze"], ["show"]):
            return "show"
        if command.texts[1:3] == ["env", "list"]:
            return "show"
        return "repeat" if {"activate", "deactivate", "init"} & set(command.texts) else "once"
    if name in HARMLESS or (not name and command.words):
        return "once" if writes else "show"
    if name in READING:
        return "once" if writes or "-i" in command.texts else "show"
    if name in ("mkdir", "tee") or name in REPEATABLE:
        return "repeat"
    return "once"


def changes_job(command: Command) -> bool:
    """Whether it tells the scheduler to do something with a job."""
    return command.name == "scontrol" and not {"show", "ping", "version"} & set(command.texts)


def waits(statement: Statement) -> bool:
    """Whether it is a loop that waits for something."""
    loops = any({"while", "until"} & set(item.keywords) for item in statement.commands)
    return loops and any(item.name == "sleep" for item in statement.commands)


def exports_all(command: Command) -> bool | None:
    """Whether all variables are exported from here on, or no longer; None if it says neither."""
    if command.name != "set":
        return None
    text = " ".join(command.texts[1:])
    if re.search(r"(^| )-\w*a|-o allexport", text):
        return True
    return False if re.search(r"(^| )\+\w*a|\+o allexport", text) else None


def reads_array(command: Command) -> bool:
    """Whether it reads words into an array."""
    options = command.texts[1:] if command.name == "read" else []
    return command.name in ("mapfile", "readarray") or any(
        re.fullmatch(r"-[a-z]*a[a-z]*", text) for text in options
    )


def ends_environment(command: Command) -> bool:
    return command.name in ("deactivate",) or command.texts[:2] == ["conda", "deactivate"]


def writes_document(statement: Statement) -> bool:
    """Whether it only writes a here-document to a file."""
    return all(
        command.heredocs and command.name in ("cat", "tee") for command in statement.commands
    )


def find_consumed(script: Script, text: str) -> frozenset[str]:
    """The variables that a launch line is put together from, whose values are several words."""
    sources: dict[str, str] = {}
    for step in script.steps:
        for name, _, raw in step.source.variables():
            sources[name] = f"{sources.get(name, '')} {raw}"
    names: set[str] = set()
    open_ = list_names(text)
    while open_:
        name = open_.pop()
        several = re.sub(r"\$\(.*\)|`[^`]*`", "", sources.get(name, ""))
        if name in sources and name not in names and re.search(r"\s\S", several.strip()):
            names.add(name)
            open_ |= list_names(sources[name])
    return frozenset(names)


def find_first_node_names(script: Script) -> set[str]:
    """The variables that hold the name or address of the job's first node."""
    names = set()
    for step in script.steps:
        for name, _, raw in step.source.variables():
            if _may_be_address(name) and _tells_first_node(raw):
                names.add(name)
    for step in script.steps:  # and those that are one of them
        for name, _, raw in step.source.variables():
            if _may_be_address(name) and list_names(raw) & names and len(list_names(raw)) == 1:
                names.add(name)
    return names


def _may_be_address(name: str) -> bool:
    return bool(_ADDRESS_NAME.match(name)) and not _NO_ADDRESS_NAME.match(name)


def _tells_first_node(raw: str) -> bool:
    if _COUNTS.search(raw):
        return False
    return bool((_ONE_OF_THEM if _LIST_OF_NODES.search(raw) else _OWN_NAME).search(raw))
