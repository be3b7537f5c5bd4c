"""Bash text to simple commands that know where they stand: as much of bash as job scripts use.

Nothing is refused: what is not bash still comes out as words, so that a faulty script can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from jobgen.errors import UsageError
from jobgen.records import NamedTuple

MAX_DEPTH = 32
MAX_COMMANDS = 3_000
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
DECLARES = ("export", "declare", "readonly", "local", "typeset", "env")
_REDIRECT = re.compile(r"\d*(?:&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||<(?!\()|>(?!\())")
_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||\|&|[&|;()\n]")
_TEST_OPERATOR = re.compile(r"&&|\|\||[()<>|]")  # in [[ ... ]], where it is a word
_COUNTER = re.compile(r"\(\(\s*([A-Za-z_]\w*)\s*=")
_PARENTHESES = re.compile(r"\(\s*\)")
_BLANK = re.compile(r"(?:[ \t\r]|\\(?:\r?\n|\Z))+")
_GAP = re.compile(r"(?:\s|\\\n|#[^\n]*\n)*")
_ESAC = re.compile(r"esac\b")
_OPENS = {"if": "fi", "case": "esac", "{": "}", "for": "done", "while": "done", "until": "done"}
_CLOSES = {"fi", "esac", "}", "done"}
# Words that stand before a command; `for` and `case` are left to look like commands.
_PREFIXES = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"}

_SINGLE_QUOTED = re.compile(r"'[^']*'|\$'(?:[^'\\]|\\.)*'", re.DOTALL)
# What arithmetic sets: `n = 1`, `n += 1`, `n++`, `++n`.
_CHANGES = re.compile(
    r"([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)


class Segment(NamedTuple):
    """A part of a word: characters, or what bash expands in the job (`live`), such as `$(date)`.

    What is `quoted` is neither split nor matched against files.
    """

    text: str
    live: bool
    quoted: bool


Field = tuple[Segment, ...]


class Word:
    """One word as it is written, quotes included; line and column count from 1."""

    def __init__(self, raw: str, line: int, column: int) -> None:
        self.raw = raw
        self.line = line
        self.column = column

    @cached_property
    def segments(self) -> Field:
        """Its parts: characters, and what bash expands."""
        return split_segments(self.raw)

    @cached_property
    def text(self) -> str:
        """The word with its quotes undone; what bash would expand stands as it was."""
        return "".join(part.text for part in self.segments)

    @cached_property
    def active(self) -> str:
        """What bash expands in it."""
        return " ".join(part.text for part in self.segments if part.live)


class Heredoc(NamedTuple):
    """The text of a here-document, and the line that it begins in."""

    body: str
    line: int


class ShellBlock(NamedTuple):
    """One compound command around others: the word that opens it, and its number."""

    opener: str
    number: int


class Redirect(NamedTuple):
    """Where input comes from or output goes to, as `2>` and a word."""

    operator: str
    target: Word


class Command(NamedTuple):
    """One simple command: its words, and what stands before, after and around it.

    `end` is the operator after it; `inside` holds `function`, `block` or `heredoc` for each thing
    around it, `blocks` says more of those in this text. `function` is the name of the innermost
    function that it is part of.
    """

    words: tuple[Word, ...]
    assignments: tuple[Word, ...]
    heredocs: tuple[Heredoc, ...]
    line: int
    last_line: int
    end: str
    inside: tuple[str, ...]
    blocks: tuple[ShellBlock, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    function: str = ""

    @property
    def name(self) -> str:
        """The command's name, without its folder; empty for an assignment alone."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def texts(self) -> list[str]:
        """The words, with their quotes undone."""
        return [word.text for word in self.words]

    @property
    def all_words(self) -> tuple[Word, ...]:
        """Its assignments and its words."""
        return (*self.assignments, *self.words)

    @property
    def place(self) -> Word:
        """The word at which the command begins."""
        return self.all_words[0]

    @property
    def is_inner(self) -> bool:
        """Whether it stands where another command may start it on every node."""
        return not {"function", "heredoc"}.isdisjoint(self.inside)

    def variables(self) -> Iterator[tuple[str, Word, str]]:
        """Name, word and raw value of each variable that the command sets, exported or not."""
        declared = self.name in DECLARES
        for word in (*self.assignments, *(self.words[1:] if declared else ())):
            if match := _ASSIGNMENT.match(word.raw):
                yield match[1], word, word.raw[match.end() :]

    def list_changed(self) -> set[str]:
        """The variables that a builtin sets by their names, such as read, let and `((...))`."""
        texts = self.texts[1:]
        if self.name in ("read", "mapfile", "readarray", "getopts"):
            return {text for text in texts if text.isidentifier()}
        if self.name == "printf" and texts[:1] == ["-v"]:
            return {text for text in texts[1:2] if text.isidentifier()}
        if self.name in ("let", "(("):
            pairs = _CHANGES.findall(" ".join(texts))
            return {name for pair in pairs for name in pair if name}
        if self.name == ":":
            given = " ".join(word.raw for word in self.words)
            return set(re.findall(r"\$\{([A-Za-z_]\w*):?=", given, re.ASCII))
        return set()


def find_quote_end(text: str, start: int) -> int:
    """The index behind the `'...'` or `$'...'` that opens at `start`."""
    match = _SINGLE_QUOTED.match(text, start)
    return match.end() if match else len(text)


def find_bracket_end(text: str, start: int) -> int:
    """The index behind the quotes, `$(...)`, `${...}` or parentheses that open at `start`."""
    index, stack = start, [""]
    while index < len(text):
        char, top = text[index], stack[-1]
        if char == "\\":
            index += 2
            continue
        if char == top:
            stack.pop()
            index += 1
        elif top != '"' and (char == "'" or text.startswith("$'", index)):
            index = find_quote_end(text, index)
        elif text.startswith(("$(", "${"), index):
            stack.append(")" if text[index + 1] == "(" else "}")
            index += 2
        elif char in '"`' or (char == "(" and top != '"'):
            stack.append(")" if char == "(" else char)
            index += 1
        else:
            index += 1
        if len(stack) == 1:
            return min(index, len(text))
    return len(text)


def split_segments(raw: str, *, quoted: bool = False) -> Field:
    """The segments of a word as it is written, or of what stands `quoted` between double quotes."""
    segments = [Segment("", False, True)] if quoted else []
    index = start = 0
    while index < len(raw):
        char, parts, end = raw[index], tuple[Segment, ...](), index + 1
        escapes = not quoted or raw[end : end + 1] in tuple('"$`\\\n')
        if char == "\\" and escapes:
            parts = (Segment(raw[end : end + 1].strip("\n"), False, True),)
            end += 1
        elif not quoted and (char == "'" or raw.startswith("$'", index)):
            end = find_quote_end(raw, index)
            text = raw[index:end] if char == "$" else raw[index + 1 : end].removesuffix("'")
            parts = (Segment(text, char == "$", char == "'"),)
        elif not quoted and char == '"':
            end = find_bracket_end(raw, index)
            parts = split_segments(raw[index + 1 : end].removesuffix('"'), quoted=True)
        elif char in "$`" and (end := _end_live(raw, index)) > index + 1:
            parts = (Segment(raw[index:end], True, quoted),)
        elif char in "$`":
            parts = (Segment(char, False, True),)
        if parts:
            segments += [Segment(raw[start:index], False, quoted)] if start < index else []
            segments += parts
            start = end
        index = end
    return (*segments, Segment(raw[start:], False, quoted)) if start < len(raw) else tuple(segments)


def _end_live(text: str, index: int) -> int:
    """Where what begins with `$` or a backtick ends; one further where it is a plain character."""
    if text[index] == "`" or text.startswith(("$(", "${"), index):
        return find_bracket_end(text, index)
    match = re.compile(r"\$(\w+|[@*#?$!-])", re.ASCII).match(text, index)
    if match and match[1][0].isdigit():
        return index + 2
    return match.end() if match else index + 1


class _Reader:
    """The state of one pass over a text."""

    def __init__(self, text: str, line: int, column: int, inside: tuple[str, ...]) -> None:
        self.text, self.index, self.first_line, self.first_column = text, 0, line, column
        self.line_index, self.line = 0, line  # up to where lines were counted, and how many
        self.commands: list[Command] = []
        self.around = inside
        # What closes each block, what it is called, the block, and the function that it is of.
        self.open: list[tuple[str, str, ShellBlock, str]] = []
        self.function = ""  # whose body the next block is
        self.pattern = False  # whether a pattern of `case` comes next
        self.timed = False  # whether the word before was `time`
        self.blocks = 0
        self.clear()

    def clear(self) -> None:
        self.words: list[Word] = []
        self.docs: list[Heredoc] = []
        self.redirects: list[Redirect] = []

    def enter(self, opener: str, closer: str) -> None:
        """A block begins."""
        if len(self.open) >= MAX_DEPTH:
            line = self.line_at(self.index)
            raise UsageError(f"line {line}: more than {MAX_DEPTH} blocks inside one another")
        kind = "function" if self.function else "block"
        owner = self.function or (self.open[-1][3] if self.open else "")
        self.blocks += 1
        self.open.append((closer, kind, ShellBlock(opener, self.blocks), owner))
        self.function = ""

    def line_at(self, index: int) -> int:
        self.line += self.text.count("\n", self.line_index, index)
        self.line_index = index
        return self.line

    def word(self) -> Word | None:
        start = index = self.index
        while index < len(self.text):
            char = self.text[index]
            if char == "\\":
                index += 2
            elif char in "'\"`" or self.text.startswith(("$(", "${", "$'", "<(", ">("), index):
                index = find_bracket_end(self.text, index + (char in "<>"))
            elif char == "(" and _ASSIGNMENT.fullmatch(self.text, start, index):
                index = find_bracket_end(self.text, index)
            elif char in " \t\r\n|&;()<>":
                break
            else:
                index += 1
        index = min(index, len(self.text))
        if index == start:
            return None
        self.index = index
        return self.make_word(start, index)

    def make_word(self, start: int, end: int) -> Word:
        begin = self.text.rfind("\n", 0, start)
        column = start - begin + (self.first_column - 1 if begin < 0 else 0)
        return Word(self.text[start:end], self.line_at(start), column)

    def in_test(self) -> bool:
        """Whether `[[` is open."""
        return bool(self.words) and self.words[0].raw == "[[" and self.words[-1].raw != "]]"

    def finish(self, operator: str) -> None:
        """Put together the command that an operator ends."""
        words, count = self.words, 0
        if words:
            while count < len(words) and _ASSIGNMENT.match(words[count].raw):
                count += 1
            kinds = tuple(kind for _, kind, _, _ in self.open)
            last = self.line_at(self.index) - (self.text[self.index - 1] == "\n")
            for doc in self.docs:
                last = max(last, doc.line + doc.body.count("\n"))
            if len(self.commands) >= MAX_COMMANDS:
                raise UsageError(f"line {last}: more than {MAX_COMMANDS:,} commands")
            self.commands.append(
                Command(
                    tuple(words[count:]),
                    tuple(words[:count]),
                    tuple(self.docs),
                    words[0].line,
                    last,
                    operator,
                    self.around + kinds,
                    tuple(block for _, _, block, _ in self.open),
                    tuple(self.redirects),
                    self.open[-1][3] if self.open else "",
                )
            )
        self.clear()

    def add(self, word: Word) -> None:
        """A word: a reserved one where a command may begin, or one of a command."""
        if not self.words:
            if word.raw in _CLOSES:
                if self.open and self.open[-1][0] == word.raw:
                    self.open.pop()
            elif word.raw in _OPENS:
                self.enter(word.raw, _OPENS[word.raw])
            if word.raw in _PREFIXES or (word.raw == "-p" and self.timed):
                self.timed = word.raw == "time"
                return
        elif word.raw == "{" and self.words[0].raw == "function":
            self.function = self.words[1].raw if len(self.words) > 1 else "?"
            self.enter("{", "}")
            self.words.clear()
            return
        self.words.append(word)
        if len(self.words) == 3 and self.words[0].raw == "case" and word.raw == "in":
            self.finish("\n")
            self.pattern = True

    def skip_pattern(self) -> None:
        """Pass over `pattern | pattern)`, which are words of `case`, and not commands."""
        self.pattern = False
        match = _GAP.match(self.text, self.index)
        self.index = match.end() if match else self.index
        if _ESAC.match(self.text, self.index):
            return
        self.index += self.text.startswith("(", self.index)
        while self.index < len(self.text) and self.text[self.index] != ")":
            quoted = self.text[self.index] in "\"'`$\\"
            self.index = find_bracket_end(self.text, self.index) if quoted else self.index + 1
        self.index += 1

    def operator(self, operator: str) -> None:
        if operator == "(":
            if self.words and _PARENTHESES.match(self.text, self.index - 1):
                self.function = self.words[-1].raw
                self.index = self.text.index(")", self.index) + 1
                self.clear()
            elif not self.words and self.text.startswith("(", self.index):
                start, self.index = self.index - 1, find_bracket_end(self.text, self.index - 1)
                self.words.append(self.make_word(start, start + 2))  # arithmetic
                self.words.append(self.make_word(start + 2, self.index))
            elif [word.raw for word in self.words] == ["for"]:
                self.count_up()
            else:
                self.finish("(")
                self.enter("(", ")")
            return
        self.finish(operator)
        self.pattern = operator in (";;", ";&", ";;&") and bool(self.open)
        if operator == ")" and self.open and self.open[-1][0] == ")":
            self.open.pop()

    def count_up(self) -> None:
        """`for ((i = 0; ...))`, as words: its variable, and the arithmetic."""
        start = self.index - 1
        self.index = find_bracket_end(self.text, start)
        if name := _COUNTER.match(self.text, start):
            self.words.append(self.make_word(name.start(1), name.end(1)))
        self.words.append(self.make_word(start, self.index))

    def redirect(self, operator: str) -> None:
        if blank := _BLANK.match(self.text, self.index):
            self.index = blank.end()
        target = self.word()
        if target:
            self.redirects.append(Redirect(operator, target))
        if target and operator.lstrip("0123456789") in ("<<", "<<-"):
            start = self.text.find("\n", self.index) + 1 or len(self.text)
            while self.text.startswith("\\\n", start):  # another document was here
                start += 2
            lines, first = [], self.text.count("\n", 0, start) + self.first_line
            position = start
            while position < len(self.text):
                end = self.text.find("\n", position) + 1 or len(self.text)
                line, position = self.text[position:end], end
                stripped = line.strip("\t\r\n") if operator.endswith("-") else line.rstrip("\r\n")
                if stripped == target.text:
                    break
                lines.append(line)
            self.docs.append(Heredoc("".join(lines), first))
            # The document leaves the text; line numbers stay as they are.
            blank_lines = "\\\n" * self.text.count("\n", start, position)
            self.text = self.text[:start] + blank_lines + self.text[position:]

    def run(self) -> list[Command]:
        while self.index < len(self.text):
            if self.pattern:
                self.skip_pattern()
            elif blank := _BLANK.match(self.text, self.index):
                self.index = blank.end()
            elif self.text[self.index] == "#":
                end = self.text.find("\n", self.index)
                self.index = len(self.text) if end < 0 else end
            elif self.in_test() and (match := _TEST_OPERATOR.match(self.text, self.index)):
                self.words.append(self.make_word(self.index, match.end()))
                self.index = match.end()
            elif match := _REDIRECT.match(self.text, self.index):
                self.index = match.end()
                self.redirect(match[0])
            elif match := _OPERATOR.match(self.text, self.index):
                self.index = match.end()
                self.operator(match[0])
            elif word := self.word():
                self.add(word)
            else:
                self.index += 1
        self.finish("\n")
        return self.commands


def parse(
    text: str, *, line: int = 1, column: int = 1, inside: tuple[str, ...] = ()
) -> list[Command]:
    """The simple commands of `text`, which begins at `line` and `column`, in order."""
    return _Reader(text, line, column, inside).run()
