"""Bash text to simple commands that know where they stand; what bash cannot read is words, too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import takewhile

from jobgen.errors import UsageError
from jobgen.records import NamedTuple
from jobgen.spec.tables import read_rows

MAX_DEPTH = 32
MAX_COMMANDS = 3_000
WORDS = {name: re.compile(form) for name, form in read_rows("words.txt", room="batchscript")}
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
DECLARES = ("export", "declare", "readonly", "local", "typeset", "env")
_OPENS = {"if": "fi", "case": "esac", "{": "}", "for": "done", "while": "done", "until": "done"}
_ENDS = {**_OPENS, "(": ")"}
CLOSES = {"fi", "esac", "}", "done"}
# Words that stand before a command; `for` and `case` are left to look like commands.
_PREFIXES = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"}
_CLOSERS = {"$(": ")", "${": "}", "(": ")", '"': '"', "`": "`"}
# How builtins are told which variables they set.
_SETTERS = {name: form for kind, form in WORDS.items() for name in kind.split()[1:]}


class Segment(NamedTuple):
    """A part of a word."""

    text: str
    live: bool  # what bash expands in the job, such as `$(date)`, and not only characters
    quoted: bool  # neither split nor matched against files


Field = tuple[Segment, ...]


class Word:
    """One word as it is written, quotes included; line and column count from 1."""

    def __init__(self, raw: str, line: int, column: int) -> None:
        self.raw, self.line, self.column = raw, line, column

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
    """What stands around commands: a compound command, or `<<`, the text of a here-document."""

    opener: str
    start: int
    function: str  # the name of the innermost one that it is part of


class Redirect(NamedTuple):
    """Where input comes from or output goes to, as `2>` and a word."""

    operator: str
    target: Word


class Command(NamedTuple):
    """One simple command: its words, and what stands before and around it; `end` comes after it."""

    words: tuple[Word, ...]
    assignments: tuple[Word, ...]
    heredocs: tuple[Heredoc, ...]
    line: int
    last_line: int
    end: str
    blocks: tuple[ShellBlock, ...]
    redirects: tuple[Redirect, ...]

    @property
    def name(self) -> str:
        """The command's name, without the folder of what bash or the system has; or empty."""
        return WORDS["folder"].sub("", self.words[0].text) if self.words else ""

    @property
    def texts(self) -> list[str]:
        """The words, with their quotes undone."""
        return [word.text for word in self.words]

    @property
    def all_words(self) -> tuple[Word, ...]:
        """Its assignments and its words."""
        return (*self.assignments, *self.words)

    @property
    def parts(self) -> tuple[Word, ...]:
        """Its assignments, its words and those of its redirects."""
        return (*self.all_words, *(item.target for item in self.redirects))

    @property
    def bodies(self) -> list[str]:
        """The texts of its here-documents."""
        return [doc.body for doc in self.heredocs]

    @property
    def active(self) -> str:
        """What bash expands in its assignments, words and redirects."""
        return " ".join(word.active for word in self.parts)

    @property
    def openers(self) -> set[str]:
        """The words that open the blocks around it, such as `if`."""
        return {block.opener for block in self.blocks}

    @property
    def function(self) -> str:
        """The name of the innermost function that it is part of."""
        return self.blocks[-1].function if self.blocks else ""

    @property
    def place(self) -> Word:
        """The word at which the command begins."""
        return self.all_words[0]

    def variables(self) -> Iterator[tuple[str, Word, str]]:
        """Name, word and raw value of each variable that the command sets, exported or not."""
        for word in (*self.assignments, *(self.words[1:] if self.name in DECLARES else ())):
            if match := _ASSIGNMENT.match(word.raw):
                yield match[1], word, word.raw[match.end() :]

    def list_set(self) -> set[str]:
        """The names of the variables that it sets so."""
        return {name for name, _, _ in self.variables()}

    def list_changed(self) -> set[str]:
        """The variables that a builtin sets by their names, such as read, let and `((...))`."""
        raws = [word.raw for word in self.words]
        pattern, text = _SETTERS.get(self.name, WORDS["element"]), " ".join(raws)
        matches = pattern.finditer(text.partition(" ")[2] if self.name in _SETTERS else text)
        return {name for match in matches for name in match.groups() if name}


def find_bracket_end(text: str, start: int) -> int:
    """The index behind the quotes, `$(...)`, `${...}` or parentheses that open at `start`."""
    index, stack = start, list[str]()
    while index < len(text):
        token = WORDS["token"].findall(text, index, index + 2)[0]
        quoted = stack[-1:] == ['"']
        if stack[-1:] == [token]:
            stack.pop()
        elif token in ("'", "$'") and not quoted:
            match = WORDS["single-quoted"].match(text, index)
            index = match.end() - len(token) if match else len(text)
        elif token in _CLOSERS and not (quoted and token == "("):
            stack.append(_CLOSERS[token])
        index += len(token)
        if not stack:
            break
    return min(index, len(text))


def split_segments(raw: str, *, quoted: bool = False) -> Field:
    """The segments of a word as it is written, or of what stands `quoted` between double quotes."""
    segments = [Segment("", False, True)] if quoted else []
    index, special = 0, WORDS["in-quotes"] if quoted else WORDS["special"]
    while match := special.search(raw, index):
        if index < match.start():
            segments.append(Segment(raw[index : match.start()], False, quoted))
        parts, index = _read_special(raw, match.start(), quoted)
        segments += parts
    if index < len(raw):
        segments.append(Segment(raw[index:], False, quoted))
    return tuple(segments)


def _read_special(raw: str, index: int, quoted: bool) -> tuple[Field, int]:
    """The segments of what a quote, `$`, backtick or backslash begins, and the index behind it."""
    char = raw[index]
    if char == "\\":
        return (Segment(raw[index + 1 : index + 2].strip("\n"), False, True),), index + 2
    if WORDS["opener"].match(raw, index) and not (quoted and raw.startswith("$'", index)):
        end = find_bracket_end(raw, index)
    else:
        match = WORDS["named"].match(raw, index)
        end = match.end() if match else index + 1
    if char == '"':
        return split_segments(raw[index + 1 : end].removesuffix(char), quoted=True), end
    if char == "'":
        return (Segment(raw[index + 1 : end].removesuffix(char), False, True),), end
    live = end > index + 1
    return (Segment(raw[index:end], live, quoted or not live),), end


class _Reader:
    """The state of one pass over a text."""

    def __init__(self, text: str, line: int, column: int, blocks: Iterable[ShellBlock]) -> None:
        self.text, self.index, self.first_line, self.first_column = text, 0, line, column
        self.line_index, self.line = 0, line  # up to where lines were counted, and how many
        self.commands: list[Command] = []
        self.open = list(blocks)
        self.function = ""  # whose body the next block is
        self.pattern = False  # whether a pattern of `case` comes next
        self.clear()

    def clear(self) -> None:
        self.words: list[Word] = []
        self.docs: list[Heredoc] = []
        self.redirects: list[Redirect] = []

    def enter(self, opener: str) -> None:
        if len(self.open) >= MAX_DEPTH:
            line = self.line_at(self.index)
            raise UsageError(f"line {line}: more than {MAX_DEPTH} blocks inside one another")
        owner = self.open[-1].function if self.open else ""
        self.open.append(ShellBlock(opener, self.index, self.function or owner))
        self.function = ""

    def leave(self, closer: str) -> None:
        if self.open and _ENDS.get(self.open[-1].opener) == closer:
            self.open.pop()

    def line_at(self, index: int) -> int:
        self.line += self.text.count("\n", self.line_index, index)
        self.line_index = index
        return self.line

    def word(self) -> Word | None:
        start = index = self.index
        while index < len(self.text):
            char = self.text[index]
            if WORDS["opener"].match(self.text, index):
                index = find_bracket_end(self.text, index + (char in "<>"))
            elif char == "(" and _ASSIGNMENT.fullmatch(self.text, start, index):
                index = find_bracket_end(self.text, index)
            elif char in " \t\r\n|&;()<>":
                break
            else:
                index += 2 if char == "\\" else 1
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
        raws = [word.raw for word in self.words]
        return raws[:1] == ["[["] and raws[-1] != "]]"

    def finish(self, operator: str) -> None:
        """Put together the command that an operator ends."""
        words = tuple(self.words)
        if words:
            count = len(list(takewhile(lambda word: _ASSIGNMENT.match(word.raw), words)))
            last = self.line_at(self.index) - (self.text[self.index - 1] == "\n")
            last = max([last, *(doc.line + doc.body.count("\n") for doc in self.docs)])
            if len(self.commands) >= MAX_COMMANDS:
                raise UsageError(f"line {last}: more than {MAX_COMMANDS:,} commands")
            around = tuple(self.open), tuple(self.redirects)
            parts = words[count:], words[:count], tuple(self.docs), words[0].line
            self.commands.append(Command(*parts, last, operator, *around))
        self.clear()

    def add(self, word: Word) -> None:
        """A word: a reserved one where a command may begin, or one of a command."""
        if not self.words and self.is_reserved(word.raw):
            return
        if word.raw == "{" and self.words[0].raw == "function":
            self.function = self.words[-1].raw
            self.enter("{")
            self.words.clear()
            return
        self.words.append(word)
        if word.raw == "in" and len(self.words) == 3 and self.words[0].raw == "case":
            self.finish("\n")
            self.pattern = True

    def is_reserved(self, raw: str) -> bool:
        """Open or close a block by a word; return whether the shell keeps the word for itself."""
        if raw in CLOSES:
            self.leave(raw)
        elif raw in _OPENS:
            self.enter(raw)
        return raw in _PREFIXES or raw == "-p"  # of `time`

    def skip_pattern(self) -> None:
        """Pass over `pattern | pattern)`, which are words of `case`, and not commands."""
        self.pattern = False
        self.take(WORDS["gap"])
        if self.text.startswith("esac", self.index):
            return
        self.index += self.text.startswith("(", self.index)
        while self.index < len(self.text) and self.text[self.index] != ")":
            quoted = self.text[self.index] in "\"'`$\\"
            self.index = find_bracket_end(self.text, self.index) if quoted else self.index + 1
        self.index += 1

    def operator(self, operator: str) -> None:
        if operator == "(":
            self.parenthesis()
            return
        self.finish(operator)
        self.pattern = operator in (";;", ";&", ";;&")
        self.leave(operator)

    def parenthesis(self) -> None:
        """`(` begins a function, arithmetic, a loop that counts, or a subshell."""
        if self.words and WORDS["parentheses"].match(self.text, self.index - 1):
            self.function = self.words[-1].raw
            self.index = self.text.index(")", self.index) + 1
            self.clear()
        elif not self.words and self.text.startswith("(", self.index):
            start, self.index = self.index - 1, find_bracket_end(self.text, self.index - 1)
            self.words.append(self.make_word(start, start + 2))  # arithmetic
            self.words.append(self.make_word(start + 2, self.index))
        elif [word.raw for word in self.words] == ["for"]:
            start = self.index - 1
            self.index = find_bracket_end(self.text, start)
            if name := WORDS["counter"].match(self.text, start):
                self.words.append(self.make_word(name.start(1), name.end(1)))
            self.words.append(self.make_word(start, self.index))
        else:
            self.finish("(")
            self.enter("(")

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Pass over what matches here."""
        match = pattern.match(self.text, self.index)
        self.index = match.end() if match else self.index
        return match

    def redirect(self, operator: str) -> None:
        self.take(WORDS["blank"])
        if target := self.word():
            self.redirects.append(Redirect(operator, target))
        if target and operator.lstrip("0123456789") in ("<<", "<<-"):
            self.take_document(target.text, operator.endswith("-"))

    def take_document(self, limit: str, indented: bool) -> None:
        """Take the lines of a here-document out of the text, up to the one that is its limit."""
        start = self.text.find("\n", self.index) + 1 or len(self.text)
        form = rf"^\t*{re.escape(limit)}" if indented else f"^{re.escape(limit)}"
        last = re.compile(rf"{form}\r*$", re.MULTILINE).search(self.text, start)
        end, position = (last.start(), last.end() + 1) if last else (len(self.text),) * 2
        first = self.text.count("\n", 0, start) + self.first_line
        self.docs.append(Heredoc(self.text[start:end], first))
        # Line numbers stay as they are.
        blank_lines = "\\\n" * self.text.count("\n", start, position)
        self.text = self.text[:start] + blank_lines + self.text[position:]

    def run(self) -> list[Command]:
        while self.index < len(self.text):
            if self.pattern:
                self.skip_pattern()
            elif self.take(WORDS["skipped"]):
                pass
            elif self.in_test() and (match := self.take(WORDS["test-operator"])):
                self.words.append(self.make_word(match.start(), match.end()))
            elif match := self.take(WORDS["redirect"]):
                self.redirect(match[0])
            elif match := self.take(WORDS["operator"]):
                self.operator(match[0])
            elif word := self.word():
                self.add(word)
            else:
                self.index += 1
        self.finish("\n")
        return self.commands


def parse(
    text: str, line: int = 1, column: int = 1, blocks: Iterable[ShellBlock] = ()
) -> list[Command]:
    """The simple commands of `text`, which begins at `line` and `column` of `blocks`, in order."""
    return _Reader(text, line, column, blocks).run()
