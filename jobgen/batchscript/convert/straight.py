"""The statements of a script, and what each one is for; of an unknown kind, none is guessed."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Collection, Iterator
from itertools import chain, pairwise

from jobgen.batchscript import purposes
from jobgen.batchscript.bash import DECLARES, Command, parse
from jobgen.batchscript.expand import PlainVariables, expand_command, list_names
from jobgen.batchscript.launchers import list_inner, unwrap
from jobgen.batchscript.purposes import FORMS, WHY
from jobgen.batchscript.readable import find_place, list_submissions
from jobgen.batchscript.reader import Script
from jobgen.records import NamedTuple

# Get things ready, once; what is no program of the job.
_PREPARES = purposes.PREPARING | purposes.REPEATABLE


class Statement(NamedTuple):
    """Commands that stand together; `kind` says what for, as `launch`, or a form in forms.txt."""

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
        self.line, self.reason = line, reason


def refuse(line: int, reason: str, *holds: object) -> None:
    """Raise NotStraightError for a line of which any of these holds."""
    if any(holds):
        raise NotStraightError(line, reason)


def read_statements(script: Script) -> list[Statement]:
    """Return the statements of a script in order; raise NotStraightError where one is not known."""
    groups: list[list[Command]] = []  # of commands in a block, a list, or on a line
    for command in script.commands:
        _check_command(command)
        if groups and _is_joined(groups[-1][-1], command):
            groups[-1].append(command)
        else:
            groups.append([command])
    return [item for group in groups for item in _read_group(script, group)]


def _is_joined(before: Command, command: Command) -> bool:
    in_line = before.end in ("&&", "||", "|", "|&") or command.place.line <= before.last_line
    return in_line or bool(before.blocks)


def _check_command(command: Command) -> None:
    """Raise NotStraightError for what changes how bash reads the lines after it."""
    own = re.search(rf"\$\{{!|{FORMS['itself'].pattern}", FORMS["unread"].sub("", command.active))
    quiet = command.name in purposes.PRINTS and all(map(purposes.is_quiet, command.redirects))
    passed = [word for word in command.all_words if re.search(r"(^|[=,])[<>]\(", word.raw)]
    left = FORMS["left"].fullmatch(" ".join(command.texts))
    splits = "IFS" in command.list_set() and command.name in ("", *DECLARES)
    tells = [*filter(FORMS["told-job"].fullmatch, command.list_set())]
    refuse(command.place.line, WHY.BASH, left, splits, tells, own and not quiet, passed)


def find_arguments(text: str) -> set[str]:
    """Return the arguments of the script that bash would put in, as they are written."""
    return {*FORMS["argument"].findall(FORMS["unread"].sub("", text))}


def find_use(script: Script, names: str, *early: Command) -> tuple[int, str] | None:
    """Return where a variable is used, and not printed: in these commands, or else in the first."""
    read = re.compile(rf"(?:\$\{{?|\w\[|\(\([^()]*\b)({names})\b")
    for command in (*early, *script.commands):
        match = read.search(" ".join([*(word.raw for word in command.parts), *command.bodies]))
        if match and _has_use(script, command):
            return command.line, f"${match[1]}"
    return None


def _has_use(script: Script, command: Command) -> bool:
    """Whether a command does more than to print, or to set variables that nothing reads."""
    quiet = all(map(purposes.is_quiet, command.redirects)) and command.end[:1] != "|"
    if command.words:
        own = f"{command.name} {command.active}\n{script.text}"
        return not quiet or FORMS["only-prints"].match(own) is None
    names = command.list_set()
    exported = any(map(FORMS["exported"].fullmatch, names))
    return exported or re.search(rf"\$\{{?({'|'.join(names)})\b", script.text) is not None


def list_lines_outside(script: Script) -> set[int]:
    """Return the lines of a script that submits itself which no job runs, as it has no number."""
    ends = [line for line, _ in list_submissions(script)]
    asks = [x.line for x in script.commands if FORMS["no-job"].search(" ".join(x.texts))]
    return {n for ask in asks for n in range(ask, 1 + min((x for x in ends if x > ask), default=0))}


def list_arguments(script: Script, left: str = "no-argument") -> Iterator[tuple[int, str]]:
    """Yield the lines and words that ask for arguments, once each, but for what is `left` out."""
    loops, named = dict(_list_option_loops(script)), set[str]()
    outside = list_lines_outside(script).union(*loops.values(), *_list_own_arguments(script))
    outside.difference_update({"remark": loops}.get(left, ()))  # of each, what asks for them
    for item in script.commands:
        if item.function or item.line in outside or not _has_use(script, item):
            continue
        if item.name in {"getopts", "shift"} - named:
            named.add(item.name)
            yield item.line, item.name
        texts = [(word.line, word.raw, word.active) for word in item.all_words]
        texts += [(doc.line, "<<", doc.body) for doc in item.heredocs]
        for line, text, active in texts:
            asked = find_arguments(FORMS[left].sub("", active))
            if not asked <= named:
                yield line, text
            named |= asked


def _list_own_arguments(script: Script) -> Iterator[range]:
    """Yield the lines behind each `set --`, to the end of the `if` that it is in."""
    sets = [x for x in script.commands if x.name == "set" and x.openers <= {"for", "if"}]
    for given in (x for x in sets if FORMS["gives"].match(script.lines[x.line - 1])):
        block = {*given.blocks[-1:]} if "if" in given.openers else set[str]()
        last = max(x.last_line for x in script.commands if block <= {*x.blocks})
        yield range(given.line + 1, last + 1)


def _list_option_loops(script: Script) -> Iterator[tuple[int, range]]:
    """Yield the line that asks for options, and those of its loop, if all have a default."""
    for case in [x for x in script.commands if x.name == "case" and x.blocks[1:]]:
        inside = [x for x in script.commands if case.blocks[-2] in x.blocks]
        asks = [x.line for x in (inside[0], case) if FORMS["asks-options"].match(" ".join(x.texts))]
        if asks and _sets_again(inside, script):
            yield asks[0], range(inside[0].line, inside[-1].last_line + 1)


def _sets_again(inside: list[Command], script: Script) -> bool:
    """Whether commands only set what others of the script have set, and do not demand."""
    others = [x for x in script.commands if x not in inside]
    given, sets = (set[str]().union(*map(Command.list_set, some)) for some in (others, inside))
    given.difference_update(FORMS["demanded"].findall(script.text))
    return sets <= given and all(FORMS["of-options"].fullmatch(x.name) for x in inside)


def is_common(name: str) -> bool:
    """Whether a scheduler, a site or a shell may set a variable by itself."""
    return any(FORMS[kind].fullmatch(name) for kind in WHY.common.split())


def list_set(script: Script) -> set[str]:
    """Return the variables that a script, or what it runs, sets by any command."""
    commands = [launch.command for launch in script.launches]
    words = [word for command in commands for word in command.parts]
    commands += chain.from_iterable(purposes.read_substituted(word.raw) for word in words)
    own = set(script.given).union(*map(Command.list_changed, commands))
    by_name = {x.function for x in commands if FORMS["by-name"].match(" ".join(x.texts))}
    takers = {"local", "declare", "typeset"} | by_name  # of a name that is theirs, or to be set
    own.update(text for x in commands if x.name in takers for text in x.texts)
    return own.union(*map(Command.list_set, commands))


def list_submitted(script: Script) -> list[tuple[int, str, str]]:
    """List the variables that the submission may set, at their lines, each with a plain default."""
    own, with_default = list_set(script), FORMS["with-default"].findall
    tested = [(x.line, name, "") for x in script.commands for name in with_default(x.active)]
    lines = [(n, FORMS["submitted-with"].match(x)) for n, x in enumerate(script.lines, 1)]
    asked = [(n, x[1] or x[2], x[3] or "") for n, x in lines if x and n not in script.documents]
    unset = [x for x in asked if x[1] not in script.given] + [x for x in tested if x[1] not in own]
    shown = filter(is_common, re.findall(r"(\w+)=", " ".join(FORMS["shown"].findall(script.text))))
    uses = [find_use(script, name) for name in shown if name not in own]
    return [x for x in unset if not is_common(x[1])] + [(x[0], x[1][1:], "") for x in uses if x]


def goes_back(script: Script, statement: Statement, variables: PlainVariables) -> bool:
    """Return whether all that a statement does is a `cd` to the folder that the job is in."""
    lines = [" ".join(expand_command(x, variables).texts) for x in statement.commands]
    goes = any(map(re.compile("cd|pushd").match, lines))
    elsewhere = script.value("--container-image")
    return goes and all(map(FORMS["goes-back"].fullmatch, lines)) and not elsewhere


def find_start(script: Script) -> list[str]:
    """Return the line that goes to the folder of --chdir, or for PBS home, if one is needed."""
    asked = [item for item in script.read_directives if item.option in ("--chdir", "-d")]
    if asked and not find_place(script, asked[-1]):
        folder = shlex.quote(f"{asked[-1].value.rstrip('/')}/")
        says = f"as {asked[-1].option} says to {script.can.title}"
        return [] if folder == "./" else [f"cd {folder}    # {says}"]
    others = (item for item in script.expanded if not _is_anywhere(item))
    first = next((f"{len(item.blocks)} {' '.join(item.texts)}" for item in others), "")
    away = FORMS["away"].match(f"{first}\n{script.text}")
    return [WHY.AT_HOME] if script.starts_at_home and not away else []


def _is_anywhere(item: Command) -> bool:
    text, quiet = " ".join(item.texts), all(map(purposes.is_quiet, item.redirects))
    same = (quiet and FORMS["anywhere"].fullmatch(text)) or purposes.leaves_nothing(item)
    return bool(same) and not FORMS["asks-folder"].match(f"{item.name}\n{item.active}")


def split_assignments(launch: Statement) -> tuple[list[Statement], Statement]:
    """Return the variables that a launch line sets, as an export before it, and the line."""
    command, *others = launch.commands
    if not command.assignments:
        return [], launch
    later = list_names(" ".join(word.raw for word in command.words))
    refuse(launch.line, WHY.LAUNCH, not command.words, command.list_set() & later)
    text = " ".join(["export", *(word.raw for word in command.assignments)])
    export = Statement("export", tuple(parse(text, launch.line)), text)
    return [export], launch._replace(commands=(command._replace(assignments=()), *others))


def _read_group(script: Script, group: list[Command]) -> Iterator[Statement]:
    first, last = group[0].place.line, max(command.last_line for command in group)
    text = textwrap.dedent("\n".join(script.lines[first - 1 : last])).strip()
    if any(command.blocks for command in group):
        yield Statement(_classify_block(group, text), tuple(group), text)
        return
    for part in _split_group(group):
        own = text if part == group else " ".join(map(write, part))
        own = FORMS["behind"].sub(r"\1", own)
        kinds = list(map(classify, part))
        own = re.sub(" &&$", " || exit" if kinds == ["folder"] else "", own)
        yield Statement(_classify_all(kinds) if kinds[1:] else kinds[0], tuple(part), own)


def _split_group(group: list[Command]) -> list[list[Command]]:
    if any(command.heredocs for command in group):
        return [group]
    parts: list[list[Command]] = [[]]
    for command, after in pairwise([*group, group[-1]]):
        parts[-1].append(command)
        apart = FORMS["apart"].fullmatch(f"{classify(command)} {command.end} {classify(after)}")
        if command.end in (";", "\n") or (apart and not parts[-1][1:]):
            parts.append([])
    return list(filter(None, parts))


def write(command: Command) -> str:
    """Return a command on one line, with what joins it to the next."""
    words = [word.raw for word in command.all_words]
    ends = [command.end] if command.end in ("|", "|&", "||", "&&", "&") else []
    places = [(re.sub("(?<=[<>])$", " ", where), to.raw) for where, to in command.redirects]
    return " ".join(words + list(map("".join, places)) + ends)


def _classify_block(group: list[Command], text: str) -> str:
    """What a condition is for that prints, ends the job or goes to its folder; bash runs others."""
    heads = [item for item in group if item.name in purposes.HEADS]
    reads = [item for item in group if item.words and purposes.leaves_nothing(item)]
    kinds = {x: "prints" if x in reads else classify(x) for x in group if x not in heads}
    inner = {kind for item, kind in kinds.items() if item.blocks}
    usage = group[0].name in ("[", "[[") and find_arguments(group[0].active)
    if usage and inner <= {"prints", "ends", "fails"}:
        return "prints"  # how it is to be called
    left = [item for item in group if item.function or item.openers - {"if", "{"}]
    left += [item for item in heads if item.end == "&"]
    refuse(group[0].place.line, WHY.BLOCK, left, inner - {"prints", "fails", "ends", "folder"})
    if {*kinds.values()} <= {"prints"} and all(map(purposes.only_looks, heads)):
        return "prints"
    return _classify_all({*kinds.values(), "prints"}, inner)


def _classify_all(kinds: Collection[str], inner: Collection[str] = ()) -> str:
    named = {"folder": "goes", "ends": "ends"}
    first = [named[kind] for kind in named if kind in inner]
    first += ["launch"] if "launch" in kinds else []
    plain = all(map(FORMS["plain-kind"].fullmatch, kinds))
    return [*first, "repeats" if plain else "once"][0]


def classify(command: Command) -> str:
    """Return what one command is for."""
    kind = _classify_quiet(command)
    refuse(command.place.line, WHY.BASH, command.end == "&" and kind not in ("prints", "launch"))
    writes = command.heredocs or not all(map(purposes.is_quiet, command.redirects))
    refuse(command.place.line, WHY.BASH, writes and kind == "assigns")
    return "once" if writes and kind != "launch" else kind


def _classify_quiet(command: Command) -> str:
    if not command.words:
        return "assigns"
    kinds = (kind for kind in WHY.whole.split() if FORMS[kind].fullmatch(" ".join(command.texts)))
    return next(kinds, "") or _classify_program(command)


def _classify_program(command: Command) -> str:
    started = unwrap(command.words)
    quiet = not started.launchers or all(map(purposes.is_quiet, command.redirects))
    if started.name in purposes.PRINTS and quiet:
        return "prints" if purposes.list_pure(command) else "once"
    text = " ".join([started.name, *started.texts[1:]])
    if {*map(purposes.leaves_nothing, list_inner(started, command))} == {True}:
        return "prints"
    if started.wrapper and command.texts[1] in ("run", "exec"):  # of this node
        return "launch"
    if re.match(rf"python\S* ({FORMS['makes'].pattern})", text):
        return "once"
    names = {started.name if started.runner else command.name, started.name}
    return "once" if names & _PREPARES else "launch"
