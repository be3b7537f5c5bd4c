"""What the words of a script stand for: variables, as far as plain text tells."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping
from itertools import chain

from jobgen.batchscript.bash import WORDS, Command, Field, Segment, Word, parse, split_segments
from jobgen.spec.tables import read_rows

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NUMBER = re.compile(r"0|[1-9]\d{0,5}", re.ASCII)
_SUM = re.compile(rf"[-+]?(?:{_NUMBER.pattern})(?:[-+*](?:{_NUMBER.pattern}))*", re.ASCII)
# How a script asks how many nodes its job has, and how many lines their list, and what says itself.
_COUNTS = {name: re.compile(form) for name, form in read_rows("counts.txt", room="batchscript")}
# They change by themselves.
_MOVING = {"RANDOM", "SECONDS", "PWD", "OLDPWD", "SRANDOM", "EPOCHSECONDS", "LINENO", "IFS"}
_LONGEST = 20_000  # characters of a variable


class PlainVariables:
    """What plain assignments, one after the other, make of variables; all else is left to bash."""

    def __init__(
        self, given: dict[str, str], loose: Mapping[str, float], several: Iterable[str] = ()
    ) -> None:
        # Those that conditions, loops, functions or builtins set, and the last line that may.
        self.until, self.loose = loose, frozenset(loose)
        self.several = frozenset(several)  # those that may be no word or several, or an option
        self.values = {x: _make_field(text) for x, text in given.items() if x not in loose}
        self.assigned: set[str] = set(loose)  # by the script
        self.arrays: dict[str, list[Field] | None] = {}  # their elements, where they are plain
        self.raws: dict[str, str] = {}  # how the values are written
        self.held: dict[str, set[str]] = {}  # the variables that the value of one holds

    def copy(self) -> PlainVariables:
        """Return the variables that a further shell begins with."""
        other = PlainVariables({}, self.until, self.several)
        other.values |= self.values
        other.assigned |= self.assigned
        return other

    def forget(self, names: Iterable[str]) -> None:
        """Keep no value of these variables: only the job will tell."""
        for name in list(names):
            self._set(name, None)

    def assign(self, word: Word) -> None:
        """Take over `NAME=value` or `NAME+=value`."""
        match = WORDS["sets-name"].match(word.raw)
        if not match:  # or NAME=$NAME
            return
        name, index, adds = match.groups()
        raw = re.sub(r"^~(?=/|$)", "${HOME}", word.raw[match.end() :])
        if index or raw.startswith("("):
            self.arrays[name] = self._read_elements(name, "" if index else raw, adds)
        self.raws[name] = raw
        old = self.values.get(name) if adds else ()
        unknown = old is None or name in self.arrays
        field = None if unknown else (*(old or ()), *self.join(raw))
        # Values that were made of what it was before.
        self.forget([other for other, held in self.held.items() if name in held])
        self._set(name, field, word.line)
        self._set(f"{name}[@]", tuple(chain(*self.arrays.get(name) or ())), word.line)

    def _read_elements(self, name: str, raw: str, adds: str) -> list[Field] | None:
        """Return the elements that an array has, with those before; None if bash alone knows."""
        words = [word for command in parse(f": {raw[1:-1]}") for word in command.all_words][1:]
        before = self.list_elements(name) if adds else []
        if before is None or name in self.loose or re.search(r"^$|[(\s]\[", raw):
            return None
        return [*before, *chain.from_iterable(map(self.expand, words))]

    def list_elements(self, name: str) -> list[Field] | None:
        """Return the elements of an array; None where only the job knows them."""
        return None if self.values.get(f"{name}[@]") is None else self.arrays.get(name)

    def is_one_word(self, name: str) -> bool:
        """Whether a value surely is one word: a number, or an element of an array of words."""
        source = WORDS["one-word"].sub(r"\1", self.raws.get(name, "?"))
        elements = self.list_elements(source) or []
        return source == "" or (elements != [] and all(map(_is_plain, elements)))

    def _set(self, name: str, field: Field | None, line: int = 0) -> None:
        """Keep a value, set in a line, that stays until an assignment says so, and no other."""
        parts = field or ()
        held = {part.text.strip("${}") for part in parts if part.live}
        short = sum(len(part.text) for part in parts) < _LONGEST
        kept = short and self._stays(name, held, line)
        self.assigned.add(name)
        self.values[name] = field if kept else None
        self.held[name] = held if kept else set()

    def _stays(self, name: str, held: set[str], line: int) -> bool:
        """Whether a variable whose value holds these others stays as it is from a line on."""
        moving = _MOVING | {other for other in held if self.until.get(other, 0) >= line}
        stays = name not in self.loose | _MOVING and held.isdisjoint(moving | {name})
        return stays and all(map(NAME.fullmatch, held))

    def _look_up(self, segment: Segment) -> Field:
        """What a segment stands for: itself where only the job knows."""
        field = self._resolve(segment.text) if segment.live else None
        return (segment,) if field is None else field

    def join(self, raw: str) -> Field:
        """What a word stands for as one field, as in an assignment."""
        return tuple(part for segment in split_segments(raw) for part in self._look_up(segment))

    def expand(self, word: Word) -> list[Field]:
        """The fields that a word becomes."""
        if WORDS["rest"].fullmatch(word.text) and "@" in self.values:  # no argument is no word
            return []
        match = WORDS["all-elements"].fullmatch(word.raw)
        elements = self.list_elements(match[2]) if match else None
        if match and elements is not None and (match[1] or all(map(_is_plain, elements))):
            return elements
        fields: list[list[Segment]] = [[]]
        for segment in word.segments:
            value = self._look_up(segment)
            if segment.quoted or not segment.live:
                fields[-1] += [part._replace(quoted=segment.quoted) for part in value]
            else:
                _split_into(fields, value)
        return list(map(tuple, filter(None, fields)))

    def _resolve(self, text: str) -> Field | None:
        if match := WORDS["plain-variable"].fullmatch(text):
            return self.values.get(match[1])
        if match := WORDS["default"].fullmatch(text):
            return _make_field(self.tell(f"${match[1]}") or None)
        if match := WORDS["arithmetic"].fullmatch(text):
            return _make_field(self._compute(match[1]))
        if match := _COUNTS["said"].fullmatch(text):
            return self.join("".join(match.groups("")))
        names = [name for name, form in _COUNTS.items() if form.fullmatch(text)]
        return self.values.get("".join(names))

    def tell(self, text: str) -> str | None:
        """The literal text that a word of bash stands for; None where only the job knows."""
        field = self.join(text)
        return None if any(part.live for part in field) else "".join(part.text for part in field)

    def _compute(self, text: str) -> int | None:
        def tell_number(name: re.Match[str]) -> str:
            value = self.tell(f"${{{name[1]}}}") or ""
            return value if _NUMBER.fullmatch(value) else "?"

        plain = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", tell_number, text).replace(" ", "")
        if not _SUM.fullmatch(plain):
            return None
        terms = re.findall(r"[-+]?[\d*]+", plain)
        return sum(math.prod(map(int, term.split("*"))) for term in terms)


def _is_plain(field: Field) -> bool:
    return re.fullmatch(r"[^\s*?$`[\]]+", write_field(field)) is not None


def _make_field(value: object) -> Field | None:
    return None if value is None else (Segment(str(value), False, False),)


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
                fields[-1].append(Segment(piece, False, not WORDS["safe"].fullmatch(piece)))


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


def find_set(commands: list[Command]) -> tuple[dict[str, float], set[str]]:
    """The names that conditions, loops, functions or builtins set somewhere; and those of words."""
    loose, several, before = dict[str, float](), set[str](), ""
    for command in commands:
        until = math.inf if command.function else command.last_line
        loose |= dict.fromkeys(command.list_changed(), until)
        several |= set() if command.name in ("let", "((") else command.list_changed()
        surely = command.name not in ("declare", "local", "typeset") and not command.blocks
        surely &= {before, command.end}.isdisjoint(("&&", "||", "|", "|&", "&"))
        for name, _, _ in command.variables():
            loose |= {} if surely and name not in loose else {name: until}
        before = command.end
    return loose, several
