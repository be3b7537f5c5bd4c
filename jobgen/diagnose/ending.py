"""What ended a process: its last exception, or how it left and what it printed before that.

Programs log exceptions that they handle: an optional import, a batch that did not fit, a first
start without a checkpoint. Such a traceback has ended nothing where

- Python says so (a thread's, a destructor's), or another exception was raised after it;
- the process died of a signal, or printed on for a while and then left;
- another process of the job has printed the same, and went on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from jobgen.diagnose.exceptions import (
    FRAME,
    LOGGED,
    OF_GROUPS,
    OF_STARTED,
    TRACED,
    TYPED,
    Raised,
    Traceback,
    find_tracebacks,
    strip_rank,
)
from jobgen.diagnose.reading import Line, drop, keep, read_words
from jobgen.records import NamedTuple

# Python writes a traceback, and is gone within this time: seconds. Any program is within more.
_LEAVES_WITHIN, _SURVIVED = 0.5, 3.0
OF_EXITS = read_words("of exits")
_MILD = read_words("mild")
REFERS = read_words("refers")
NAMES_ERROR = read_words("names error", re.IGNORECASE)
_NAMES_CODE = read_words("names code", re.IGNORECASE)
_OF_STACKS = read_words("of stacks")
_OF_PYTHON = read_words("of python")
_SAYS_IT_ENDS = read_words("says it ends", re.IGNORECASE)
_NOTICED = read_words("noticed")
_ENDS_ITSELF = read_words("ends itself")
_FRAME = re.compile(r"(-|=|\*){20,}$")  # around a message, as MPI's
_STAMPED = re.compile(r".{0,40}\d\d:\d\d|\W*[IWEF]\d")  # before it stands another matter
_PROGRAM = re.compile(r"(?!\w*error:|caused by|fatal)[a-z][\w.-]*:(?= )")
# What a shell says of its own script: what a command said before that has ended nothing
_OF_SHELLS = re.compile(r"[^\s:]+:( -c:)? line \d+: |[^\s:]*sh: ?\d+: ")
_LEADS_ON = re.compile(r":\s*$")
_MOST_LINES = 40
# All nodes say it and end of it, however long the script of one takes, which then is ended.
_OF_PREFLIGHT = re.compile(r"jobgen: preflight: ")
_LAST_WORDS = 10
_WORD = re.compile(r"\w")
_FOLDERS = re.compile(r"(/[^\s/\'\"]+)+/|\btmp\w{6,10}\b")
# By which signals a process ends without an exception: all but SIGABRT and SIGINT.
_KILLED = {*range(-64, 0)} - {-6, -2}
_MISSED = re.compile(r"command not found|: not found$")
_CODE_OF_MISSED = 127


class Ending(NamedTuple):
    """How a process ended; `chain` is empty where no exception did it."""

    chain: tuple[Raised, ...]
    lines: tuple[Line, ...]  # what it printed last, and others did not
    closing: tuple[Line, ...] = ()  # what it logged last after the exception


def normalize(text: str) -> str:
    """Return a text without what differs from process to process: numbers, addresses, folders."""
    return re.sub(r"0x[0-9a-f]+|\d+", "#", _FOLDERS.sub("/", text.strip()))


def normalize_lines(lines: Iterable[Line]) -> set[str]:
    """Return the same of each line, without marks of its process."""
    return {normalize(strip_rank(line).text) for line in lines}


class _Log:
    """What a process printed: its errors, then its output, to which it wrote longer by `quiet`."""

    def __init__(self, lines: Sequence[Line], quiet: float) -> None:
        self.lines, self.quiet = lines, quiet
        tracebacks = find_tracebacks(lines)
        own = [one for one in tracebacks if not one.aside]
        self.tracebacks = own or [one for one in tracebacks if one.handed]
        if keep(lines, OF_STARTED.search):  # several processes share it: who lost another follows
            self.tracebacks.sort(key=lambda one: OF_GROUPS.search(one.words) is None)

    def list_after(self, last: Traceback) -> list[Line]:
        """What was printed to the same file after an exception, until a launcher tells an end."""
        after = (line for line in self.lines[last.end :] if line.file == last.file)
        return list(takewhile(lambda line: not OF_STARTED.search(line.text), after))

    def has_gone_on(self, last: Traceback) -> bool:
        """Whether the process has gone on after its last exception, by what it printed since.

        More paragraphs may belong to the message; a line of a log does not.
        """
        after = self.list_after(last)
        asides = find_tracebacks(after)
        logged = keep(after[asides[-1].end if asides else 0 :], LOGGED.match)
        logged = drop(drop(logged, OF_EXITS.match), _NAMES_CODE.search)
        if drop(logged, _SAYS_IT_ENDS.search):
            return True
        return last.file.suffix == ".err" and self.quiet >= _LEAVES_WITHIN

    def find_end(self, is_past: Callable[[Traceback], object]) -> Traceback | None:
        """The exception that may have ended it: the last of its errors, or else of its output."""
        last = {one.file: one for one in self.tracebacks}.values()
        return next((one for one in last if not (is_past(one) or self.has_gone_on(one))), None)

    def list_last_errors(self) -> list[Line]:
        """What it said last, which it may have been about to end of."""
        if self.quiet >= _LEAVES_WITHIN:
            return []
        last = [line for line in self.lines if line.file.suffix == ".err"][-_LAST_WORDS:]
        return last[_count_survived(last) :]

    def name_whole(self, traceback: Traceback) -> tuple[str, ...]:
        """What tells a traceback from others: its words, its calls, and whether a log has it."""
        own = map(strip_rank, self.lines[traceback.begin : traceback.end])
        calls = [line.text.rpartition("/")[2] for line in keep(own, FRAME.search)]
        before = self.lines[max(0, traceback.begin - 1) : traceback.begin]
        logged = "logged" if keep(before, LOGGED.match) else ""
        return normalize(traceback.words), *calls, logged


class Innocent:
    """What processes printed before they went on: none of it has ended a process."""

    def __init__(self) -> None:
        self.raised: set[tuple[str, ...]] = set()  # exceptions as `_Log.name_whole` names them
        self._lines: set[str] = set()
        self._survived: set[str] = set()

    def add(self, lines: Sequence[Line], *, quiet: float, lived: bool, after: float) -> None:
        """Add a process: what it raised, but for an exception that may have ended it.

        Of one that has `lived`, which has at most lost another, most of its other lines too; and
        all, if it was at work for some seconds `after` its last error, when the first one failed.
        """
        lines = drop(lines, _OF_PREFLIGHT.match)
        log = _Log(lines, quiet)
        # One that has lived says less after that.
        ending = log.find_end(lambda one: lived and _count_survived(log.lines[one.end :]))
        last = lines[ending.begin : ending.end] if ending else log.list_last_errors()
        for one in log.tracebacks:
            # It may have tried more than once, or have processes of its own that raised the same.
            if ending is None or one.words != ending.words:
                self.raised.add(log.name_whole(one))
        if lived:
            if after > _SURVIVED:
                self._survived |= normalize_lines(last)
            self._lines |= normalize_lines(line for line in lines if line not in last)

    def has_printed(self, line: Line, code: int | None) -> bool:
        """Whether a process has gone on after the same line.

        One without an exit `code` may be the one that did.
        """
        text = normalize(line.text)
        return text in self._lines or (code is not None and text in self._survived)


def _count_survived(lines: Sequence[Line]) -> int:
    """After how many of its last lines a process has gone on, by what it printed next.

    What a shell runs next, or a log records, is none of an end.
    """
    count = 0
    for at, (file, _, text) in enumerate(lines):
        if file.suffix != ".err" or _NAMES_CODE.search(text) or _SAYS_IT_ENDS.search(text):
            break
        if TRACED.match(text) or (LOGGED.match(text) and _MILD.search(text)):
            count = at + 1
    return count


def find_ending(
    lines: Sequence[Line], code: int | None, *, quiet: float, innocent: Innocent
) -> Ending:
    """Return how a process ended, by what it printed: its errors, then its output.

    `code` is its exit code, negative of a signal; `quiet` for how many seconds it wrote to its
    output after its last error.
    """
    plain = [strip_rank(line) for line in lines if line.text.strip()]
    printed = [line for line in plain if not innocent.has_printed(line, code)][-_MOST_LINES:]
    log = _Log(lines, quiet)
    marked = [one for one in log.tracebacks if one.uncaught]
    killed = code in _KILLED and not keep(lines, _ENDS_ITSELF.search)
    raised = log.find_end(lambda one: killed or log.name_whole(one) in innocent.raised)
    last = [raised, *marked][-1]
    if last is None:
        return Ending((), tuple(printed))
    logged = keep(log.list_after(last), LOGGED.match)
    return Ending(last.chain, tuple(printed), tuple(select_telling(logged)[:1]))


def find_last_words(lines: Sequence[Line]) -> Line | None:
    """Return the line by which a program of any language says why it leaves.

    That is Python's own word if it has one, or a shell's; else the first of its last errors that
    names more than a code; else its last line that is not of a stack, or the first of a framed
    message. What it wrote to its output counts if it wrote no errors.
    """
    lines = _drop_notices(lines)
    errors = [line for line in lines if line.file.suffix == ".err"]
    if own := keep(errors[-_LAST_WORDS:], _OF_PYTHON.match):
        return own[-1]
    if own := keep(select_telling(lines)[:1], _OF_SHELLS.match):
        return own[0]
    return _find_reason(errors) or _find_reason(lines)


def _find_reason(printed: Sequence[Line]) -> Line | None:
    """The first of the last errors, or else the last line, or the first of a framed message."""
    framed = _find_framed(printed)
    telling = select_telling(framed or printed)
    own = drop(telling, _OF_STACKS.match)
    if not own and not keep(telling, FRAME.search):  # of a traceback that was cut
        own = telling
    wide = keep(own, NAMES_ERROR.search)
    if reasons := drop(wide, _NAMES_CODE.search) or wide:
        return _find_first_of(reasons, printed)
    if framed:
        own.reverse()
    return own[0] if own else None


def _find_framed(printed: Sequence[Line]) -> Sequence[Line]:
    """The message whose frame ends what was printed."""
    frames = [at for at, line in enumerate(printed) if _FRAME.match(line.text)]
    if len(frames) < 2 or frames[-1] != len(printed) - 1:
        return ()
    return printed[frames[-2] + 1 : frames[-1]]


def _drop_notices(printed: Sequence[Line]) -> Sequence[Line]:
    """The same without the framed messages at its end by which mpirun only names an end."""
    grave = drop(printed, _MILD.search)
    framed = _find_framed(grave)
    rest = grave[: -len(framed) - 2]
    return _drop_notices(rest) if rest and keep(framed, _NOTICED.search) else printed


def is_of_other(line: Line, last: Line) -> bool:
    """Whether another program said a line than the one that spoke last, which ended it."""
    own, other = _PROGRAM.match(last.text), _PROGRAM.match(line.text)
    return bool(own and other and own[0] != other[0])


def find_last_said(lines: Sequence[Line], code: int) -> list[Line]:
    """Return the last error that the commands of a shell have said, and what they said last.

    A command that was not found leaves its own code; the shell has gone on after another.
    """
    telling = drop(select_telling(lines), _OF_STACKS.match)
    known = telling if code == _CODE_OF_MISSED else drop(telling, _MISSED.search) or telling
    return list(dict.fromkeys([*keep(known, NAMES_ERROR.search)[:1], *known[:1]]))


def _find_first_of(reasons: Sequence[Line], printed: Sequence[Line]) -> Line:
    """The first of the errors that stand together, the last of them being the last of all."""
    at = printed.index(reasons[0])
    if not (_STAMPED.match(reasons[0].text) or TYPED.match(reasons[0].text)):
        at = _find_first_above(reasons, printed, at)
    leads_on = _LEADS_ON.search(printed[at].text) and at + 1 < len(printed)
    return printed[at + 1] if leads_on else printed[at]


def _find_first_above(reasons: Sequence[Line], printed: Sequence[Line], at: int) -> int:
    """Where the first of them stands, with lines of stacks alone between it and the one at `at`."""
    begins = reasons[0].text.split()[0]
    number = printed[at].number
    for line in reversed(printed[:at]):
        number -= 1  # blank lines may stand between
        if line.number != number:
            break
        if line in reasons and not _STAMPED.match(line.text):
            at = printed.index(line)
        elif not (_OF_STACKS.match(line.text) or line.text.startswith(begins)):
            break
    return at


def select_telling(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that may say why a process left: the last first, and no mild ones.

    One without a word only marks a place in the line above.
    """
    telling = keep(reversed(lines), _WORD.search)
    return drop(drop(telling, OF_EXITS.match), _MILD.search)
