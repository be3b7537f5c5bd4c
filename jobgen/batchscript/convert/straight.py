"""A script that bash runs from top to bottom: its statements, and what each one is for.

Nothing is guessed: a statement that is not of a known kind makes the script one that only bash
understands, and its body is kept as it is.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.batchscript.bash import Command, Redirect, is_closed, parse
from jobgen.batchscript.expand import split_segments
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.reader import Script

_PRINTS = frozenset(
    re.findall(
        r"\S+",
        "echo printf date hostname pwd env printenv which whoami id uname nvidia-smi rocm-smi"
        " amd-smi xpu-smi nproc lscpu free df du ls cat head tail squeue sacct sinfo scontrol"
        " qstat uptime nvcc gcc lsb_release true : sleep type ulimit-show tree groups wc",
    )
)
_PREPARES = frozenset(
    re.findall(
        r"\S+",
        "mkdir cp mv ln rm rsync tar unzip gunzip gzip zip wget curl git pip pip3 touch chmod"
        " sync [ [[ test",
    )
)
# What a substitution may run and leave nothing behind.
_PURE = _PRINTS | frozenset(
    re.findall(
        r"\S+",
        "awk sed grep cut tr sort uniq head tail basename dirname realpath readlink expr bc seq"
        " shuf getent cat jq ip ifconfig ss netstat comm tac command [ [[ test",
    )
)
_SETS = frozenset(("set", "shopt"))
_ENDS = frozenset(("exit", "wait"))
_KINDS_OF_NAME = {
    "module": "module",
    "ml": "module",
    "cd": "folder",
    "ulimit": "limit",
    "umask": "limit",
    "unset": "limit",
    "export": "export",
}
_HOOK = re.compile(
    r'eval "?(\$\(|`)\s*("?\$?\{?[\w/.]*\}?"?/)?(conda|mamba|micromamba) (shell|init)\S* '
    r'(hook|bash)\b[^)`]*(\)|`)"?'
)
# Interpreters that are asked for no more than what they have.
_ASKS = re.compile(
    r"(--version|-V|-m torch\.utils\.collect_env|-m pip (list|freeze|show)( .*)?"
    r"|-c (?=.*print\()(?!.*(open|write|save|remove|download|os\.system|subprocess)\b).*)",
    re.DOTALL,
)
_LISTS = re.compile(
    r"(module|ml) (list|avail|av|spider|show|-t list)|ml|(conda|mamba) (list|info|env list)"
    r"( .*)?|pip3? (list|freeze|show)( .*)?|git (log|status|rev-parse|diff|branch|show)( .*)?"
    r"|[\w./-]+ --version"
)


class Statement(NamedTuple):
    """Commands that stand together on separate lines, and what they are for.

    `kind` is block (a condition or loop around what prepares), prints, prepares, assigns, export,
    module, hook, venv, conda, leaves (an environment), source, folder, limit, sets, ends, or
    launch.
    """

    kind: str
    commands: tuple[Command, ...]
    text: str

    @property
    def first(self) -> Command:
        """Its first command."""
        return self.commands[0]

    @property
    def line(self) -> int:
        """The line that it begins in."""
        return self.first.place.line


class NotStraightError(Exception):
    """What only bash understands: a line of the script, and why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def read_statements(script: Script) -> list[Statement]:
    """Return the statements of a script in order; raise NotStraightError where one is not known."""
    groups: list[list[Command]] = []
    last = 0  # line of the last group
    for command in script.commands:
        _check_command(command)
        before = groups[-1][-1] if groups else None
        joined = before and (
            before.end in ("&&", "||", "|", "|&")
            or command.place.line <= last
            or (bool(command.blocks) and command.blocks[:1] == before.blocks[:1])
        )
        if joined:
            groups[-1].append(command)
        else:
            groups.append([command])
        last = _find_last_line(script, groups[-1])
    statements = []
    for group in groups:
        lines = script.lines[_find_first_line(group) - 1 : _find_last_line(script, group)]
        text = textwrap.dedent("\n".join(lines)).strip()
        statements.append(Statement(_classify(group), tuple(group), text))
    return statements


def _find_first_line(group: list[Command]) -> int:
    return group[0].place.line


def _find_last_line(script: Script, group: list[Command]) -> int:
    """Return the line in which commands end, and the blocks around them."""
    first, last = _find_first_line(group), max(command.last_line for command in group)
    if not any(command.blocks for command in group):
        return last
    for line in range(last, min(last + 4, len(script.lines)) + 1):
        if is_closed("\n".join(script.lines[first - 1 : line])):
            return line
    raise NotStraightError(first, "loops, conditions and groups are left to bash")


def _check_command(command: Command) -> None:
    """Raise NotStraightError for what is part of something larger than a simple command."""
    line = command.place.line
    if "function" in command.inside:
        raise NotStraightError(line, "the script has functions")
    if command.blocks and command.blocks[0].opener not in ("if", "for"):
        raise NotStraightError(line, "loops, conditions and groups are left to bash")
    if command.name in ("trap", "getopts", "shift", "read", "eval") and not is_hook(command):
        raise NotStraightError(line, f"'{command.name}' is left to bash")
    if command.heredocs:
        raise NotStraightError(line, "here-documents are left to bash")
    for word in (*command.words, *command.assignments):
        if word.raw.startswith(("<(", ">(")) or re.search(r"[=,](<|>)\(", word.raw):
            raise NotStraightError(line, "process substitution is left to bash")
        if re.search(r"\$[1-9@*#]|\$\{([1-9@*]|#[}@*])", re.sub(r"'[^']*'", "", word.active)):
            raise NotStraightError(line, "the script takes arguments")


def is_hook(command: Command) -> bool:
    """Whether a command makes `conda activate` work."""
    raw = " ".join(word.raw for word in command.words)
    return bool(_HOOK.fullmatch(raw))


def _classify(group: list[Command]) -> str:
    kinds = [_classify_command(command) for command in group]
    if any(command.blocks for command in group):
        inner = {"prints", "prepares", "assigns", "export", "ends"}
        heads = {"for", "if", "then", "else", "elif", "do"}
        others = {
            kind
            for kind, command in zip(kinds, group, strict=True)
            if kind not in inner and command.name not in heads
        }
        exits = any(command.name == "exit" for command in group)
        if others or exits or not all(command.blocks for command in group):
            reason = "loops, conditions and groups are left to bash"
            raise NotStraightError(group[0].place.line, reason)
        return "block"
    if len(kinds) == 1:
        return kinds[0]
    if "launch" in kinds:
        others = set(kinds) - {"launch"}
        if kinds.count("launch") == 1 and kinds[0] == "launch" and others <= {"prints", "ends"}:
            return "launch"
        tee = all(command.name == "tee" for command in group[1:])
        if kinds[0] == "launch" and len(kinds) == 2 and tee:
            return "launch"
        raise NotStraightError(group[0].place.line, "several commands depend on one another")
    if set(kinds) <= {"prints"}:
        return "prints"
    if set(kinds) <= {"ends", "prints"} and kinds[-1] == "ends":
        return "ends"
    if len(set(kinds)) == 1 and all(command.end in (";", "\n") for command in group):
        return kinds[0]
    if set(kinds) <= {"prints", "prepares", "folder", "source"}:
        return "prepares"
    raise NotStraightError(group[0].place.line, "several commands depend on one another")


def _classify_command(command: Command) -> str:
    if command.redirects and not all(map(_is_quiet, command.redirects)):
        name = unwrap(command.words).name
        plain = not command.words or name in _PRINTS | _PREPARES or command.name in _KINDS_OF_NAME
        return "prepares" if plain else "launch"
    if not command.words:
        return "assigns"
    name, raw = command.name, " ".join(word.raw for word in command.words)
    text = " ".join(command.texts)
    if name == "time" and len(command.words) == 1:
        return "prints"
    if is_hook(command):
        return "hook"
    if _LISTS.fullmatch(text):
        return "prints"
    if name in ("source", "."):
        return _classify_source(command)
    if re.match(r"(conda|mamba|micromamba) (activate|deactivate)\b", text):
        activates = name == "conda" and re.fullmatch(r"conda activate \S+", text)
        return "conda" if activates else "leaves" if "deactivate" in text else "source"
    if name in ("ulimit", "umask") and len(command.words) == 2 and raw.endswith(("-a", "-n", "-l")):
        return "prints"
    if name in _KINDS_OF_NAME:
        return _KINDS_OF_NAME[name]
    if name in ("declare", "typeset") and command.texts[1:2] == ["-x"]:
        return "export"
    if name in _SETS:
        return "sets"
    if name in _ENDS:
        return "ends"
    if name == "deactivate":
        return "leaves"
    return _classify_program(command)


def _classify_source(command: Command) -> str:
    texts = command.texts
    if len(texts) == 2 and texts[1].endswith("/bin/activate"):
        return "venv"
    if len(texts) == 3 and texts[1] == "activate":
        return "conda"
    if len(texts) == 2 and texts[1] == "deactivate":
        return "leaves"
    return "source"


def _classify_program(command: Command) -> str:
    name = command.name
    if name in ("sbatch", "qsub", "scancel", "qdel"):
        raise NotStraightError(command.place.line, f"'{name}' is left to bash")
    started = unwrap(command.words)
    rest = " ".join(word.text for word in started.program[1:])
    if started.name in _PRINTS or (not started.program and started.launchers):
        return "prints" if list_pure(command) else "prepares"
    if started.name.startswith("python") and _ASKS.fullmatch(rest):
        return "prints"
    if name in _PREPARES or started.name in _PREPARES:
        return "prepares"
    return "launch"


def _is_quiet(redirect: Redirect) -> bool:
    """Whether output goes nowhere, or only from one stream to the other."""
    quiet = redirect.target.text in ("/dev/null", "&1", "&2", "1", "2")
    return quiet and redirect.operator.lstrip("012&") in (">", ">>", ">&", "")


def list_pure(command: Command) -> bool:
    """Whether what a command substitutes leaves nothing behind."""
    words = (*command.words, *command.assignments)
    return all(is_pure(word.raw) for word in words)


def is_pure(raw: str) -> bool:
    """Whether the commands that a word runs leave nothing behind."""
    for inner in list_substituted(raw):
        for command in parse(inner):
            started = unwrap(command.words)
            asks = " ".join(word.text for word in started.program[1:])
            known = not command.words or started.name in _PURE
            known = known or (started.name.startswith("python") and bool(_ASKS.fullmatch(asks)))
            quiet = all(map(_is_quiet, command.redirects)) or all(
                redirect.operator.startswith("<") for redirect in command.redirects
            )
            if not (known and quiet and all(is_pure(word.raw) for word in command.words)):
                return False
    return True


def list_substituted(raw: str) -> Iterator[str]:
    """The texts of the commands that a word runs."""
    text = raw.partition("=(")[2].removesuffix(")") if re.match(r"\w+\+?=\(", raw) else raw
    for segment in split_segments(text):
        if segment.text.startswith("$(("):
            continue
        if segment.live and segment.text.startswith("$("):
            yield segment.text[2:-1]
        elif segment.live and segment.text.startswith("`"):
            yield segment.text[1:-1]
        elif segment.live and ("$(" in segment.text or "`" in segment.text):
            yield segment.text  # a default that runs something: no command is called that
