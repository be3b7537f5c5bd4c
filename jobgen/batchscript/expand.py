"""What the words of a script stand for: variables and arrays, as far as plain text tells."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable

from jobgen.batchscript.bash import Command, Field, Segment, Word, parse, split_segments

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PLAIN = re.compile(r"\$\{?([A-Za-z_]\w*|[1-9@*])\}?", re.ASCII)
_INDEX = r"[^][]*(?:\[@\])?[^][]*"
_ELEMENT = re.compile(
    rf"\$\{{(#(?=\w+\[[@*]))?([A-Za-z_]\w*)\[([@*]|{_INDEX})\]\}}",
    re.ASCII,
)
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?-.*\}", re.ASCII | re.DOTALL)
_ARGUMENT = re.compile(r"\$\{[1-9]:?[-=]([\w./:-]*)\}", re.ASCII)
_ARITHMETIC = re.compile(r"\$\(\(([^()]*)\)\)")
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)(\[[^]]*\])?(\+?)=", re.ASCII)
# The path of what starts programs is its name as well; that of another command may be an argument.
_WHICH = re.compile(
    r"(?:\$\(|`)\s*(?:which|command -v|type -[pP])\s+"
    r"(python[\d.]*|singularity|apptainer|torchrun|accelerate|deepspeed|composer|bash|mpirun|mpiexec)\s*(?:\)|`)"
)
# How many nodes the job has.
_COUNT = re.compile(r"\$\(\s*scontrol show hostnames?( [^|()]*)?\| *wc -l\s*\)")
_SAFE = re.compile(r"[\w@%+=:,./*?\[\]{}~^!-]*", re.ASCII)
# They change by themselves.
_MOVING = {"RANDOM", "SECONDS", "PWD", "OLDPWD", "SRANDOM", "EPOCHSECONDS", "LINENO", "IFS"}
_LONGEST = 20_000  # characters of a variable


class PlainVariables:
    """What plain assignments, one after the other, make of variables.

    A value is known where it is text, or text with variables that keep theirs; all else is left to
    bash. `loose` are names that conditions, loops, functions or builtins set somewhere, `several`
    those that may be no word or several, or an option.
    """

    def __init__(
        self,
        given: dict[str, str] | None = None,
        loose: frozenset[str] = frozenset(),
        several: frozenset[str] = frozenset(),
    ) -> None:
        self.loose, self.several = loose, several
        # None: only the job knows; more than one field: an array, as are `arrays`.
        self.values: dict[str, tuple[Field, ...] | None] = {
            name: ((Segment(text, False, False),),) for name, text in (given or {}).items()
        }
        self.assigned: set[str] = set(loose)  # by the script
        self.arrays: set[str] = set()
        self.mentioned: set[str] = set()  # in values

    def copy(self) -> PlainVariables:
        """Return the variables that a further shell begins with."""
        other = PlainVariables(None, self.loose, self.several)
        other.values |= self.values
        other.assigned |= self.assigned
        return other

    def forget(self, names: Iterable[str]) -> None:
        """Keep no value of these variables: only the job will tell."""
        for name in list(names):
            self.assigned.add(name)
            self.values[name] = None

    def assign(self, word: Word) -> str:
        """Take over `NAME=value`, `NAME+=value` or `NAME=(...)`; returns the name."""
        match = _ASSIGNS.match(word.raw)
        if not match:
            return ""
        name, index, adds = match.groups()
        raw = word.raw[match.end() :]
        self.assigned.add(name)
        if index or raw.startswith("("):
            self.arrays.add(name)
        fields = self._add(name, self.values.get(name) if adds else (), raw)
        if name in self.mentioned:  # by values that were made of what it was before
            self.forget([other for other in self.values if name in self.list_held(other)])
        self.values[name] = fields
        self.mentioned |= self.list_held(name)
        if not self._keeps(name):
            self.values[name] = None
        return name

    def _add(self, name: str, old: tuple[Field, ...] | None, raw: str) -> tuple[Field, ...] | None:
        """What the value `old` and a word, or `(a b c)`, make; None where only the job knows."""
        if old is None or (name in self.arrays and not raw.startswith("(")):
            return None
        if not raw.startswith("("):
            before = old[0] if old else ()
            return ((*before, *self.join(raw)),)
        elements = self._list_elements(raw)
        return None if any(map(is_open, elements)) else (*old, *elements)

    def _list_elements(self, raw: str) -> list[Field]:
        inner = parse("x " + re.sub(r"(?m)(^|\s)#.*$", "", raw[1:].removesuffix(")")).strip())
        words = [item for command in inner for item in command.words][1:]
        return [field for item in words for field in self.expand(item)]

    def list_held(self, name: str) -> set[str]:
        """The variables that the value of one holds."""
        fields = self.values[name] or ()
        return {part.text.strip("${}") for field in fields for part in field if part.live}

    def _keeps(self, name: str) -> bool:
        """Whether the value of a variable stays as it is until an assignment says so."""
        moving = self.loose | _MOVING
        held = self.list_held(name)
        length = sum(len(part.text) for field in self.values[name] or () for part in field)
        settled = all(map(NAME.fullmatch, held)) and not held & (moving | {name})
        return settled and name not in moving and length < _LONGEST

    def join(self, raw: str) -> Field:
        """What a word stands for as one field, as in an assignment."""
        segments: list[Segment] = []
        for segment in split_segments(raw):
            fields = self._resolve(segment) if segment.live else None
            if fields is None:
                segments.append(segment)
            for number, field in enumerate(fields or ()):
                segments += [Segment(" ", False, True)] if number else []
                segments += field
        return tuple(segments)

    def expand(self, word: Word) -> list[Field]:
        """The fields that a word becomes."""
        if word.text in ("$@", "${@}") and "@" in self.values:  # no argument is no word
            return []
        fields: list[list[Segment]] = [[]]
        for segment in word.segments:
            values = self._resolve(segment) if segment.live else None
            if values is None:
                fields[-1].append(segment)
                continue
            for number, value in enumerate(values):
                if number:
                    fields.append([])
                if segment.quoted:
                    fields[-1] += [part._replace(quoted=True) for part in value]
                else:
                    _split_into(fields, value)
        return list(map(tuple, filter(None, fields)))

    def _resolve(self, segment: Segment) -> tuple[Field, ...] | None:
        """The fields of one live segment; None where only the job knows them."""
        text = segment.text
        if match := _PLAIN.fullmatch(text):
            fields = self.values.get(match[1])
            return None if fields is None else fields[:1]
        if match := _DEFAULT.fullmatch(text):
            return _make_field(self.tell(f"${match[1]}") or None)
        if match := _ELEMENT.fullmatch(text):
            return self._resolve_element(*match.groups(), quoted=segment.quoted)
        if match := _ARITHMETIC.fullmatch(text):
            return _make_field(self._compute(match[1]))
        if _COUNT.fullmatch(text):
            return self.values.get("SLURM_NNODES")
        if match := _WHICH.fullmatch(text) or _ARGUMENT.fullmatch(text):  # a job has no arguments
            return _make_field(match[1])
        return None

    def _resolve_element(
        self, length: str | None, name: str, index: str, *, quoted: bool
    ) -> tuple[Field, ...] | None:
        """The fields of `${NAME[index]}`, or the length of an array."""
        fields = self.values.get(name)
        if not fields or (index == "*" and quoted):
            return None
        if length:
            return _make_field(len(fields))
        if index in ("@", "*"):
            return fields
        at = self._compute(index)
        return None if at is None else fields[at:][:1] or ((),)

    def tell(self, text: str) -> str | None:
        """The literal text that a word of bash stands for; None where only the job knows."""
        return tell_field(self.join(text))

    def _compute(self, text: str) -> int | None:
        """A sum of products of whole numbers and known variables."""
        total = 0
        for sign, term in re.findall(
            r"([-+]?)([^-+]+)", text.removeprefix("$((").removesuffix("))")
        ):
            product = -1 if sign == "-" else 1
            for factor in term.split("*"):
                name = factor.strip().strip("${}")
                known = NAME.fullmatch(name) or re.fullmatch(r"#\w+\[@", name)
                value = self.tell(f"${{{name}}}") if known else name
                if not value or not re.fullmatch(r"(0|[1-9]\d{0,5})", value, re.ASCII):
                    return None
                product *= int(value)
            total += product
        return total


def _make_field(value: object) -> tuple[Field, ...] | None:
    return None if value is None else ((Segment(str(value), False, False),),)


def tell_field(field: Field) -> str | None:
    """The text of a field; None where bash has to expand it."""
    return None if any(part.live for part in field) else "".join(part.text for part in field)


def _split_into(fields: list[list[Segment]], value: Field) -> None:
    """Split an unquoted value at its blanks, into the last field and new ones."""
    for part in value:
        if part.live:
            fields[-1].append(part._replace(quoted=False))
            continue
        for number, piece in enumerate(re.split(r"\s+", part.text)):
            if number and fields[-1]:
                fields.append([])
            if piece:
                fields[-1].append(Segment(piece, False, not _SAFE.fullmatch(piece)))


def write_field(field: Iterable[Segment]) -> str:
    """A field as a word of bash."""
    text = ""
    for part in field:
        if re.match(r"\w", part.text):  # a name before it ends where it did
            text = re.sub(r"\$(\w+)$", r"${\1}", text)
        if part.live:
            text += f'"{part.text}"' if part.quoted else part.text
        else:
            text += shlex.quote(part.text) if part.quoted and part.text else part.text
    return text or "''"


def is_open(field: Field) -> bool:
    """Whether only bash knows how many words a field becomes: a glob, or what it splits."""
    return any(
        (part.live and (not part.quoted or part.text in ("$@", "${@}") or "[@]" in part.text))
        or (not part.live and not part.quoted and re.search(r"[*?\[]|\{.*[,.].*\}", part.text))
        for part in field
    )


def list_names(text: str) -> set[str]:
    """The variables that bash code expands: `$NAME`, `${NAME...}`, and names in arithmetic."""
    bare = re.sub(r"\$'(?:[^'\\]|\\.)*'|'[^']*'", "", text, flags=re.DOTALL)
    names = set(re.findall(r"\$\{?[#!]?([A-Za-z_]\w*)", bare, re.ASCII))
    for expression in re.findall(r"\(\((.*?)\)\)", bare, re.DOTALL):
        names |= set(NAME.findall(expression))
    return names


def expand_command(command: Command, variables: PlainVariables) -> Command:
    """A command with the words that bash makes of its words; each stands where its source does."""
    words: list[Word] = []
    for word in command.words:
        if any(segment.live for segment in word.segments):
            fields = map(write_field, variables.expand(word))
            words += [Word(field, word.line, word.column) for field in fields]
        else:
            words.append(word)
    return command._replace(words=tuple(words))


def follow(command: Command, variables: PlainVariables) -> None:
    """Take over what a plain command assigns."""
    if not command.words or command.name in ("export", "readonly"):
        for word in (*command.assignments, *command.words[1:]):
            variables.assign(word)


def find_set(
    commands: list[Command], *, in_loops: bool = False
) -> tuple[frozenset[str], frozenset[str]]:
    """The names that conditions, loops, functions or builtins set somewhere, and `several`.

    With `in_loops` a loop's body is taken to run, and what it alone sets once is not among them.
    """
    times = Counter(name for command in commands for name, _, _ in command.variables())
    loose: set[str] = set()
    several: set[str] = set()
    before = ""
    for command in commands:
        open_ = _list_open(command)
        loose |= open_
        several |= open_
        surely = _runs_surely(command, before, in_loops=in_loops)
        for name, _, raw in command.variables():
            if _may_split(raw):
                several.add(name)
            if not surely or (command.inside and times[name] > 1):
                loose.add(name)
        before = command.end
    return frozenset(loose), frozenset(several)


def _list_open(command: Command) -> set[str]:
    """The variables that a builtin sets as the job goes on."""
    names = command.list_changed()
    if command.name in ("for", "select", "unset"):
        names |= {word.text for word in command.words[1:]}
    return names


def _runs_surely(command: Command, before: str, *, in_loops: bool) -> bool:
    """Whether a command runs, in the shell of the script; `before` is what stands before it."""
    if command.name in ("declare", "local", "typeset"):
        return False
    if {before, command.end} & {"&&", "||", "|", "|&", "&"}:
        return False
    openers = {block.opener for block in command.blocks}
    looped = in_loops and openers <= {"for", "while"} and not command.function
    return looped or not command.inside


def _may_split(raw: str) -> bool:
    """Whether a value may be no word or several, or an option."""
    text = "".join("x" if part.live else part.text for part in split_segments(raw))
    return not text or bool(re.search(r"[\s(*?]|^-", text))
