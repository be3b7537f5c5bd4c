"""Tracebacks in what a process printed: whole chains, with the place in the program's own code.

A traceback alone does not say whether the exception ended the process: programs log those that they
handle in the same form. `ending.py` decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from jobgen.diagnose.reading import Line, keep, read_words
from jobgen.records import NamedTuple

# What an exception's message holds that is another's traceback, such as that of a notebook's cell.
_ANOTHER = re.compile(r"Traceback \(most recent call last\)")
_BEGINS = re.compile(r"(?<!Original )Traceback \(most recent call last\)( ─+╮|:$)")
_CALL = re.compile(r' +File ".+", line \d+, in ')
#: how an exception's own line begins where nothing else tells that it is one
TYPED = re.compile(r"[\w.]*(Error|Exception|Interrupt|Exit)\b(: |:?$)")
_SYNTAX = re.compile(r'  File ".+", line \d+$')  # how the error of a file's own syntax begins
_GROUP = re.compile(r"^\s*[|+](-\+)?[- ]?")
_RANK = re.compile(r"\[rank\d+\]:\s?")
_OTHERS = read_words("of others")
_MARK = re.compile(f"{_RANK.pattern}|{_OTHERS.pattern}|{read_words('of launchers').pattern}")
_OWN_MARKS = re.compile(f"(?:{_RANK.pattern}|{_OTHERS.pattern})*")
_OF_TRACES = re.compile(
    rf" *(?={TYPED.pattern})|(?=Traceback|The above|During| {{2,3}}File | {{4,5}}\S| +[~^]+ *$)"
)
_LINKS = ("During handling of the above", "The above exception was the direct")
_ASIDE = read_words("aside")
# Cython names the place after the traceback and not before it, and in quotes.
_ASIDE_AFTER = re.compile("Exception ignored in: '")
LOGGED = read_words("logged", re.IGNORECASE)
#: how a shell names what it does, with `set -x`
TRACED = re.compile(r"\++ \S")
#: how a process begins its stacks whose own timer of Python is over, and ends it
TIMED = re.compile(r"Timeout \(\d+:\d\d:\d\d(\.\d+)?\)!$")
_THREAD = re.compile(r"(Current t|T)hread 0x")
#: a call in a traceback
FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+)(?:,? in (?P<name>.+))?')
# How an exception's own line begins: by its type. What others print in between does not.
_NAME = re.compile(r"[^\W\d][\w.]*(: |:?$)")
_LEADS_ON = read_words("leads on")
# After its own version and the kind of its error NCCL says what happened.
_LAST_ERROR = "Last error:"
_BARE, _SOURCE = re.compile(r"AssertionError"), re.compile(r"    \S*\w")
FOREIGN = read_words("foreign")
OF_STARTED = read_words("of started")
_LISTED = re.compile(rf"{OF_STARTED.pattern}|^ +(host|rank|exitcode) +: ")
# How torchrun frames its list of them, and names in it the one that failed first.
_FRAME_OF_LIST, _FIRST_OF_LIST = re.compile(r"={60,}$"), "Root Cause (first observed failure):"
# What torch raises in the process that started another, of which the reason was printed before.
_LAUNCHERS = re.compile(r"[\w.]+\.(ChildFailedError|ProcessExitedException)\b")
OF_GROUPS = read_words("of groups")
# A call as the C library lists it: LIBRARY(FUNCTION+0xOFFSET) [0xADDRESS].
_NATIVE = re.compile(r"(?<!\S)(\S+)\((?!__libc|main|_start)(\w+)\+0x[0-9a-f]+\)")


class Raised(NamedTuple):
    """One exception: its message, and the innermost place in the program's own code."""

    message: tuple[Line, ...]
    place: str  # file:line, in function; empty if unknown
    of_group: bool  # raised of the group that the processes are, by its words and its frames
    is_cause: bool = False  # the next one was raised `from` it, and not just while handling it
    source: str = ""  # the program's line there

    @property
    def words(self) -> str:
        """The line that says most: that of a worker process where it holds another traceback."""
        own = [line.text.strip() for line in self.message if re.search(r"\w", line.text)]
        if keep(self.message, _ANOTHER.search):
            return own[-1]
        if _LAST_ERROR in own[:-1]:
            return own[0].partition(": ")[0] + ": " + own[own.index(_LAST_ERROR) + 1]
        telling = next((at for at, text in enumerate(own[:2]) if not _LEADS_ON.search(text)), 2)
        return " ".join(own[: telling + 1])


#: where no exception did it; it has no words
NO_EXCEPTION = Raised((), "", of_group=False)


class Traceback(NamedTuple):
    """A chain of exceptions, the first that was raised first."""

    chain: tuple[Raised, ...]
    begin: int  # the numbers of its first line and of the line after it, among those given
    end: int
    aside: bool  # printed of a thread, a destructor or a task, which end no process
    handed: bool  # printed by another process, whose output this one hands on
    uncaught: bool  # printed by torch, which does so only as an exception ends the process

    @property
    def last(self) -> Raised:
        """The one that was raised last."""
        return self.chain[-1]

    @property
    def words(self) -> str:
        """What that says."""
        return self.last.words

    @property
    def file(self) -> Path:
        """Where it was printed."""
        return self.last.message[-1].file


def strip_rank(line: Line) -> Line:
    """Return a line without marks of processes; of launchers and logs, if of a traceback."""
    begin = 0
    while mark := _MARK.match(line.text, begin):
        begin = mark.end()
    if trace := _OF_TRACES.match(line.text, begin):
        return line._replace(text=line.text[trace.end() :])
    return line._replace(text=_OWN_MARKS.sub("", line.text, count=1))


def find_tracebacks(lines: Sequence[Line]) -> list[Traceback]:
    """Return the tracebacks among the lines of a process, in their order."""
    plain = [strip_rank(line) for line in lines]
    tracebacks = []
    at = 0
    while at < len(plain):
        if not (_begins(plain, at) or _begins_headless(plain, at)):
            at += 1
            continue
        begin = at
        chain, at = _read_chain(plain, begin)
        marks = lines[begin].text  # of another process, or torch's of one that it ends
        handed, uncaught = bool(_OTHERS.match(marks)), bool(_RANK.match(marks))
        aside = handed or _is_aside(plain, begin, at)
        if chain:
            tracebacks.append(Traceback(tuple(chain), begin, at, aside, handed, uncaught))
    return tracebacks


def drop_launcher(lines: list[Line]) -> list[Line]:
    """Return the lines without what a launcher raised of a process that it had started."""
    ends = [at for at, line in enumerate(lines) if _LAUNCHERS.match(strip_rank(line).text)]
    ends = ends or _find_list(lines)
    if not ends:
        return lines
    tracebacks = find_tracebacks(lines)
    begin = next((one.begin for one in tracebacks if one.begin < ends[0] < one.end), ends[0])
    file = lines[begin].file
    after = [one for one in lines[begin:] if one.file != file or _LISTED.search(one.text)]
    return lines[:begin] + after


def _find_list(lines: Sequence[Line]) -> list[int]:
    """Where torchrun's list of its processes begins, of which the log has lost the exception."""
    first = [at for at, line in enumerate(lines) if line.text.startswith(_FIRST_OF_LIST)][:1]
    before = lines[: first[0]] if first else ()
    return [at for at, line in enumerate(before) if _FRAME_OF_LIST.match(line.text)][-1:] or first


def _is_aside(lines: Sequence[Line], begin: int, end: int) -> bool:
    """Whether the line before a traceback, or after it, says that it ends no process."""
    before, after = lines[max(0, begin - 1) : begin], lines[end : end + 1]
    return bool(keep(before, _ASIDE.match) or keep(after, _ASIDE_AFTER.match))


def _read_chain(lines: Sequence[Line], begin: int) -> tuple[list[Raised], int]:
    """Return the exceptions of the traceback that begins at a line, and the line after it."""
    chain: list[Raised] = []
    at: int | None = begin
    while at is not None:
        raised, end = _read_one(lines, at)
        if raised.message:
            chain.append(raised)
        at = _find_linked(lines, end)
        if at is not None and chain:
            direct = any(line.text.startswith(_LINKS[1]) for line in lines[end:at])
            chain[-1] = chain[-1]._replace(is_cause=direct)
    return chain, end


def _begins(lines: Sequence[Line], at: int) -> bool:
    text = lines[at].text
    return bool(_BEGINS.search(text) or _SYNTAX.match(text))


def _begins_headless(lines: Sequence[Line], at: int) -> bool:
    """Whether frames begin, of a traceback whose first line the log has not kept."""
    if not _CALL.match(lines[at].text):
        return False
    after = (line.text for line in lines[at:] if line.text[:1].strip())
    return TYPED.match(next(after, "")) is not None


def _find_linked(lines: Sequence[Line], at: int) -> int | None:
    """Where the next exception of a chain begins, if the lines at `at` lead to one."""
    while at < len(lines) and not lines[at].text.strip():
        at += 1
    if at == len(lines) or not lines[at].text.startswith(_LINKS):
        return None
    return next((i for i in range(at + 1, min(at + 4, len(lines))) if _begins(lines, i)), None)


def _read_one(lines: Sequence[Line], at: int) -> tuple[Raised, int]:
    """Return the exception whose traceback begins at a line, and the number of the line after."""
    read = _read_group if "Exception Group Traceback" in lines[at].text else _read_plain
    frames, message, end = read(lines, at)
    if len(message) == 1 and _BARE.fullmatch(message[0].text):  # its line says more
        calls = [line.text.strip() for line in frames if _SOURCE.match(line.text)]
        message[0] = message[0]._replace(text=": ".join([message[0].text, *calls[-1:]]))
    of_group = any(OF_GROUPS.search(line.text) for line in (*frames, *message))
    place = find_place(frames)
    source = next((line.text.strip() for line in _list_after(frames, place)), "")
    return Raised(tuple(message), place, of_group, source=source), end


def _read_group(lines: Sequence[Line], at: int) -> tuple[list[Line], list[Line], int]:
    """The first line of a group of exceptions, its and their messages, and the line after it."""
    message: list[Line] = []
    end = at + 1
    while end < len(lines) and lines[end].file == lines[at].file and _GROUP.match(lines[end].text):
        text = _GROUP.sub("", lines[end].text, count=1)
        if text[:1].strip() and not text.startswith(("-", "Traceback")):
            message.append(lines[end]._replace(text=text))
        end += 1
    return [lines[at]], message, end


def _read_plain(lines: Sequence[Line], at: int) -> tuple[list[Line], list[Line], int]:
    """The frames of one exception, the lines of its message, and the number of the line after."""
    frames = [lines[at]]
    message: list[Line] = []
    end = at + 1
    while end < len(lines) and lines[end].file == lines[at].file:
        line = lines[end]
        if not message and not _NAME.match(line.text):
            frames.append(line)
        elif message and _ends_message(lines, end):
            if line.text.strip() or not _leads_on(message):
                break
        else:
            message.append(line)
        end += 1
    return frames, message, end


def _leads_on(message: list[Line]) -> bool:
    """Whether the next paragraph says what it was."""
    if keep(message, _ANOTHER.search):
        return True
    return len(message) == 1 and _LEADS_ON.search(message[0].text) is not None


def _list_after(frames: Sequence[Line], place: str) -> Sequence[Line]:
    """The lines after the last frame that stands at a place."""
    at = [number for number, line in enumerate(frames) if place and find_place([line]) == place]
    return frames[at[-1] + 1 :] if at else ()


def _ends_message(lines: Sequence[Line], at: int) -> bool:
    text = lines[at].text
    return (
        not text.strip()
        or _begins(lines, at)
        or text.startswith(_LINKS)
        or bool(_ASIDE.match(text) or LOGGED.match(text) or TRACED.match(text))
    )


def find_crash(lines: Sequence[Line]) -> str:
    """Return where Python's fault handler says that a process crashed, or its time was over.

    Of several threads it is the current one, or the last, which is the program's first. Without
    one it is the first function on the C library's own list of calls that is not of that library.
    """
    for at, line in enumerate(lines):
        if line.text.startswith("Fatal Python error: ") or TIMED.match(line.text):
            threads = read_threads(lines[at:])
            current = [thread for thread in threads if thread[0].text.startswith("Current")]
            return find_place([*current, *threads[-1:], []][0])
    called = filter(None, (_NATIVE.search(line.text) for line in lines))
    return next((f"{call[2]}, in {call[1]}" for call in called), "")


def read_threads(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the head and the frames of each thread by Python's fault handler, outermost first."""
    threads: list[list[Line]] = []
    for line in lines:
        if _THREAD.match(line.text):
            threads.append([line])
        elif threads and line.text.startswith("  File "):
            threads[-1].insert(1, line)
    return threads


def find_place(frames: Sequence[Line]) -> str:
    """Return the innermost place in the program's own code, as `file:line, in function`."""
    place = ""
    for line in frames:
        frame = FRAME.search(line.text)
        if frame and not FOREIGN.search(frame["file"]):
            place = f"{frame['file']}:{frame['line']}"
            place += f", in {frame['name']}" if frame["name"] else ""
    return place
