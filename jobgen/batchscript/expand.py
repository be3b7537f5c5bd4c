"""What the words of a script stand for: variables, arrays and arithmetic, as far as text tells."""

from __future__ import annotations

import operator
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from jobgen.batchscript.bash import Word, find_bracket_end, parse, read_single_quoted

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


_PLAIN = re.compile(r"\$(?:([A-Za-z_]\w*|[0-9@*#])|\{([A-Za-z_]\w*|[0-9@*#])\})", re.ASCII)


_ELEMENT = re.compile(r"\$\{(#(?=\w+\[[@*]))?([A-Za-z_]\w*)\[([@*]|\d+)\]\}", re.ASCII)
_INDIRECT = re.compile(r"\$\{!([A-Za-z_]\w*)\}", re.ASCII)


_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*|[0-9])(:?)([-=])(.*)\}", re.ASCII | re.DOTALL)


# The path of what starts programs is its name as well; that of another command may be an argument.
_WHICH = re.compile(
    r"(?:\$\(|`)\s*(?:which|command -v|type -[pP])\s+"
    r"(python[\d.]*|torchrun|accelerate|deepspeed|composer|bash|mpirun|mpiexec)\s*(?:\)|`)"
)


_SAFE = re.compile(r"[\w@%+=:,./*?\[\]{}~^!-]*", re.ASCII)


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: int(left / right),
    "%": lambda left, right: left - right * int(left / right),
    "<": operator.lt,
    ">": operator.gt,
}


_MOVING = {"RANDOM", "SECONDS", "PWD", "OLDPWD", "SRANDOM", "EPOCHSECONDS"}


_LONGEST = 20_000  # characters of a variable


class Segment(NamedTuple):
    """A part of a word: characters, or what bash expands in the job (`live`), such as `$(date)`.

    What is `quoted` is neither split nor matched against files.
    """

    text: str
    live: bool
    quoted: bool

    @property
    def changes(self) -> bool:
        """Whether it has another value each time that it is expanded."""
        plain = _PLAIN.fullmatch(self.text) and self.text.strip("${}") not in _MOVING
        return self.live and not plain


Field = tuple[Segment, ...]


class Variable(NamedTuple):
    """What a script has set a variable to; `fields` is None where text does not tell."""

    fields: tuple[Field, ...] | None
    array: bool = False
    exported: bool = False


def split_segments(raw: str) -> Field:
    """The segments of a word as it is written."""
    segments: list[Segment] = []
    index = 0
    while index < len(raw):
        char = raw[index]
        if char == "\\":
            text = raw[index + 1 : index + 2]
            segments.append(Segment("" if text == "\n" else text, False, True))
            index += 2
        elif char == "'" or raw.startswith("$'", index):
            text, index = read_single_quoted(raw, index)
            segments.append(Segment(text, False, True))
        elif char == '"':
            end = find_bracket_end(raw, index)
            inner = raw[index + 1 : end - 1 if raw[end - 1 : end] == '"' else end]
            segments += _split_quoted(inner)
            index = end
        elif char in "$`":
            end = _end_live(raw, index)
            live = end > index + 1
            segments.append(Segment(raw[index:end], live, not live))
            index = end
        else:
            end = index
            while end < len(raw) and raw[end] not in "\\'\"$`":
                end += 1
            segments.append(Segment(raw[index:end], False, False))
            index = end
    return tuple(segments)


def _split_quoted(text: str) -> list[Segment]:
    """The segments of what stands in double quotes."""
    segments = [Segment("", False, True)]
    index = start = 0
    while index < len(text):
        if text[index] == "\\" and text[index + 1 : index + 2] in tuple('"$`\\\n'):
            segments.append(Segment(text[start:index], False, True))
            start = index + 1 + (text[index + 1] == "\n")
            index += 2
        elif text[index] in "$`" and (end := _end_live(text, index)) > index + 1:
            segments.append(Segment(text[start:index], False, True))
            segments.append(Segment(text[index:end], True, True))
            start = index = end
        else:
            index += 1
    return [*segments, Segment(text[start:], False, True)]


def _end_live(text: str, index: int) -> int:
    """Where what begins with `$` or a backtick ends; one further where it is a plain character."""
    if text[index] == "`" or text.startswith(("$(", "${"), index):
        return find_bracket_end(text, index)
    match = re.compile(r"\$(\w+|[@*#?$!-])", re.ASCII).match(text, index)
    if match and match[1][0].isdigit():
        return index + 2
    return match.end() if match else index + 1


def write_field(field: Iterable[Segment]) -> str:
    """A field as a word of bash; one without live segments is quoted as a whole."""
    field = [segment for segment in field if segment.text or segment.quoted]
    if not any(segment.live for segment in field):
        text = "".join(segment.text for segment in field)
        open_ = all(not segment.quoted or _SAFE.fullmatch(segment.text) for segment in field)
        globs = any(
            not segment.quoted and re.search(r"[*?\[{~]", segment.text) for segment in field
        )
        return text if open_ and globs else shlex.quote(text)
    return "".join(
        (f'"{segment.text}"' if segment.quoted else segment.text)
        if segment.live
        else segment.text
        if _SAFE.fullmatch(segment.text)
        and not (segment.quoted and re.search(r"[*?\[{~]", segment.text))
        else shlex.quote(segment.text)
        for segment in _merge(field)
    )


def _merge(field: Iterable[Segment]) -> Iterator[Segment]:
    """Neighbours of one kind as one; those in double quotes stay in one pair of them."""
    last: Segment | None = None
    for segment in field:
        if last and last[1:] == segment[1:]:
            last = Segment(last.text + segment.text, last.live, last.quoted)
        else:
            if last and (last.text or not last.live):
                yield last
            last = segment
    if last:
        yield last


class ShellVariables:
    """The variables of a script at one point of it.

    `given` are those that the scheduler sets to what the directives say, `answers` what commands
    print that only ask for it, by their form.
    """

    def __init__(
        self,
        given: dict[str, str] | None = None,
        answers: tuple[tuple[re.Pattern[str], str], ...] = (),
    ) -> None:
        self.answers = answers
        self.values: dict[str, Variable] = {
            name: Variable(((Segment(text, False, False),),))
            for name, text in (given or {}).items()
        }
        self.given = frozenset(self.values)
        self.assigned: set[str] = set()  # ever, by the script
        self.positional: tuple[Field, ...] | None = None
        self.export_all = False

    def get(self, name: str) -> Variable | None:
        """What a variable was set to; None where the script has not set it."""
        if name.isdigit() and self.positional is not None:
            number = int(name)
            inside = 0 < number <= len(self.positional)
            return Variable((self.positional[number - 1],)) if inside else Variable(((),))
        return self.values.get(name)

    def forget(self, names: Iterable[str]) -> None:
        """Keep no value of these variables: only the job will tell."""
        for name in names:
            old = self.values.get(name)
            self.assigned.add(name)
            self.values[name] = Variable(None, exported=bool(old and old.exported))

    def assign(self, word: Word, *, export: bool = False) -> str | None:
        """Take over `NAME=value`, `NAME+=value` or `NAME=(...)`; the name, if it is one."""
        match = re.match(r"([A-Za-z_]\w*)(\[[^]]*\])?(\+?)=", word.raw, re.ASCII)
        if not match:
            return None
        name, raw = match[1], word.raw[match.end() :]
        old = self.values.get(name)
        exported = export or self.export_all or bool(old and old.exported)
        self.assigned.add(name)
        if match[2]:
            self.values[name] = Variable(None, True, exported)
            return name
        if raw.startswith("("):
            inner = parse("x " + re.sub(r"(?m)(^|\s)#.*$", "", raw[1:].removesuffix(")")).strip())
            words = [item for command in inner for item in command.words][1:]
            fields = tuple(field for item in words for field in self.expand(item))
            before = old.fields if match[3] and old else ()
            known = before is not None and not any(
                _mentions(item, name) or is_open(item) for item in fields
            )
            self._keep(
                name, ((before or ()) + fields) if known else None, array=True, exported=exported
            )
            return name
        value = self.join(raw)
        if match[3]:
            if old and old.array:
                first, *others = old.fields or ((),)
                longer = ((*first, *value), *others) if old.fields is not None else None
                self._keep(name, longer, array=True, exported=exported)
                return name
            before = old.fields if old else None
            known = before is not None
            self._keep(name, ((*before[0], *value),) if before else None, exported=exported)
            return name
        known = not _mentions(value, name)
        self._keep(name, (value,) if known else None, exported=exported)
        return name

    def _keep(
        self, name: str, fields: tuple[Field, ...] | None, *, array: bool = False, exported: bool
    ) -> None:
        """Set a variable; one that a script makes longer and longer is as good as not known."""
        if name in _MOVING or (
            fields and sum(len(part.text) for value in fields for part in value) > _LONGEST
        ):
            fields = None
        self.values[name] = Variable(fields, array, exported)

    def join(self, raw: str) -> Field:
        """What a word stands for as one field, as in an assignment."""
        segments: list[Segment] = []
        for segment in split_segments(raw):
            fields = self._resolve(segment) if segment.live else None
            if fields is None:
                segments.append(segment)
            else:
                for number, field in enumerate(fields):
                    segments += [Segment(" ", False, True)] if number else []
                    segments += field
        return tuple(segments)

    def expand(self, word: Word) -> list[Field]:
        """The fields that a word becomes."""
        fields: list[list[Segment]] = [[]]
        started = apart = False  # apart: a blank ended the last field
        for segment in split_segments(word.raw):
            values = self._resolve(segment) if segment.live else None
            if apart and (values is None or any(part.text for value in values for part in value)):
                fields.append([])
                apart = False
            if values is None:
                fields[-1].append(segment)
                started = started or bool(segment.text) or segment.quoted
            elif segment.quoted and re.fullmatch(r"\$(\*|\{(\*|\w+\[\*\])\})", segment.text):
                for number, value in enumerate(values):
                    fields[-1] += [Segment(" ", False, True)] if number else []
                    fields[-1] += [part._replace(quoted=True) for part in value]
                started = True
            elif segment.quoted:
                started = True
                many = _ELEMENT.fullmatch(segment.text) or segment.text in ("$@", "${@}")
                if many and not values:
                    started = any(part.text for part in fields[-1])
                for number, value in enumerate(values):
                    if number:
                        fields.append([])
                    fields[-1] += [part._replace(quoted=True) for part in value]
            elif len(values) == 1 and self._stays(values[0]):
                fields[-1].append(segment)
                started = True
            else:
                for number, value in enumerate(values):
                    if number:
                        fields.append([])
                    started = self._split_into(fields, value) or started
                    apart = bool(fields[-1] and value and value[-1].text[-1:].isspace())
        return [tuple(field) for field in fields if field or started] if started else []

    def _stays(self, value: Field) -> bool:
        """Whether a variable is better named than replaced by what would be evaluated again."""
        blank = any(not part.live and re.search(r"\s", part.text) for part in value)
        return any(part.changes for part in value) and not blank

    def _split_into(self, fields: list[list[Segment]], value: Field) -> bool:
        """Split an unquoted value at its blanks, into the last field and new ones."""
        some = False
        for part in value:
            if part.live:
                fields[-1].append(part._replace(quoted=part.quoted and not _PLAIN.match(part.text)))
                some = True
                continue
            pieces = re.split(r"\s+", part.text)
            for number, piece in enumerate(pieces):
                if number and fields[-1]:
                    fields.append([])
                if piece:
                    fields[-1].append(Segment(piece, False, not _SAFE.fullmatch(piece)))
                    some = True
        if len(fields) > 1 and not fields[-1]:
            fields.pop()
        return some

    def _resolve(self, segment: Segment) -> tuple[Field, ...] | None:
        """The fields of one live segment; None where only the job knows them."""
        text = segment.text
        if match := _PLAIN.fullmatch(text):
            name = match[1] or match[2]
            if name in "@*" and self.positional is not None:
                return self.positional
            if name == "#" and self.positional is not None:
                return ((Segment(str(len(self.positional)), False, False),),)
            variable = self.get(name)
            if variable is None or variable.fields is None:
                return None
            if segment.quoted and len(variable.fields) == 1 and self._stays(variable.fields[0]):
                return None
            return variable.fields[:1] or ((),)
        if match := _INDIRECT.fullmatch(text):
            name = self.tell(f"${match[1]}") or ""
            known = NAME.fullmatch(name) and name in self.values
            return self._resolve(segment._replace(text=f"${name}")) if known else None
        if match := _ELEMENT.fullmatch(text):
            return self._resolve_element(match)
        if match := _DEFAULT.fullmatch(text):
            return self._resolve_default(match)
        if text.startswith("$((") and text.endswith("))"):
            number = self.compute(text[3:-2])
            return None if number is None else ((Segment(str(number), False, False),),)
        if match := _WHICH.fullmatch(text):
            return ((Segment(match[1], False, False),),)
        for form, answer in self.answers if text[:2] == "$(" or text[:1] == "`" else ():
            if form.search(text):
                return ((Segment(answer, False, False),),)
        return None

    def _resolve_element(self, match: re.Match[str]) -> tuple[Field, ...] | None:
        """`${NAME[0]}`, `${NAME[@]}` and `${#NAME[@]}`."""
        variable = self.get(match[2])
        if variable is None or variable.fields is None:
            return None
        if match[1]:
            return ((Segment(str(len(variable.fields)), False, False),),)
        if match[3] in "@*":
            return variable.fields
        index = int(match[3])
        return variable.fields[index : index + 1] or ((),)

    def _resolve_default(self, match: re.Match[str]) -> tuple[Field, ...] | None:
        """`${NAME:-value}`: the default counts where the script can tell that there is no value."""
        variable = self.get(match[1])
        if variable is None:
            if not match[1].isdigit():
                return None
            return (self.join(match[4]),)  # jobgen hands on no arguments
        if variable.fields is None:
            return None
        empty = not any(part.text for field in variable.fields for part in field)
        if not empty or not match[2]:
            return variable.fields[:1] or ((),)
        return (self.join(match[4]),)

    def tell(self, text: str) -> str | None:
        """The literal text that a word of bash stands for; None where only the job knows."""
        field = self.join(text)
        return None if any(part.live for part in field) else "".join(part.text for part in field)

    def compute(self, text: str) -> int | None:
        """The value of an arithmetic expression of whole numbers and known variables."""
        expression = text
        for _ in range(20):
            names = list(re.finditer(r"\$?\{?([A-Za-z_]\w*)\}?", expression, re.ASCII))
            if not names:
                break
            for match in reversed(names):
                variable = self.get(match[1])
                value = None
                if variable and variable.fields:
                    value = self.tell(write_field(variable.fields[0]))
                if not value:
                    return None
                expression = f"{expression[: match.start()]}({value}){expression[match.end() :]}"
        tokens = re.findall(r"\d+|[-+*/%()<>]|\S", expression, re.ASCII)
        try:
            value_, rest = _add(tokens)
        except (ValueError, ZeroDivisionError, IndexError, RecursionError):
            return None
        if rest[:1] == ["?"] or rest:
            return None
        return value_


def _add(tokens: list[str]) -> tuple[int, list[str]]:
    value, tokens = _multiply(tokens)
    while tokens and tokens[0] in ("+", "-", "<", ">"):
        sign = tokens[0]
        right, tokens = _multiply(tokens[1:])
        value = int(_OPERATORS[sign](value, right))
    return value, tokens


def _multiply(tokens: list[str]) -> tuple[int, list[str]]:
    value, tokens = _read_atom(tokens)
    while tokens and tokens[0] in ("*", "/", "%"):
        sign = tokens[0]
        right, tokens = _read_atom(tokens[1:])
        value = _OPERATORS[sign](value, right)
    return value, tokens


def _read_atom(tokens: list[str]) -> tuple[int, list[str]]:
    head, tokens = tokens[0], tokens[1:]
    if head == "(":
        value, tokens = _add(tokens)
        if tokens[0] != ")":
            raise ValueError(head)
        return value, tokens[1:]
    if head == "-":
        value, tokens = _read_atom(tokens)
        return -value, tokens
    if len(head) > 18:
        raise ValueError(head)
    return int(head), tokens


def is_open(field: Field) -> bool:
    """Whether only bash knows how many words a field becomes: a glob, or what it splits."""
    return any(
        (part.live and (not part.quoted or part.text in ("$@", "${@}") or "[@]" in part.text))
        or (not part.live and not part.quoted and re.search(r"[*?\[]|\{.*[,.].*\}", part.text))
        for part in field
    )


def _mentions(field: Field, name: str) -> bool:
    return any(part.live and name in list_names(part.text) for part in field)


def list_names(text: str) -> set[str]:
    """The variables that bash code expands: `$NAME`, `${NAME...}`, and names in arithmetic."""
    bare = re.sub(r"\$'(?:[^'\\]|\\.)*'|'[^']*'", "", text, flags=re.DOTALL)
    names = set(re.findall(r"\$\{?[#!]?([A-Za-z_]\w*)", bare, re.ASCII))
    for expression in re.findall(r"\(\((.*?)\)\)", bare, re.DOTALL):
        names |= set(NAME.findall(expression))
    return names
