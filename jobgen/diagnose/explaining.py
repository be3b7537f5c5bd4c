"""Why a process or a node failed, by what it printed last and how it left.

Of a process that an exception has ended, the exception's own words count and no other line.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from itertools import takewhile

from jobgen.diagnose.cause import ADVICE, CAUSES, EXCEPTION, EXITS, Cause
from jobgen.diagnose.ending import (
    NAMES_ERROR,
    OF_EXITS,
    REFERS,
    Ending,
    Innocent,
    find_ending,
    find_last_said,
    find_last_words,
    is_of_other,
    normalize,
    select_telling,
)
from jobgen.diagnose.evidence import Failure
from jobgen.diagnose.exceptions import (
    LOGGED,
    NO_EXCEPTION,
    OF_GROUPS,
    OF_STARTED,
    TRACED,
    Raised,
    find_crash,
    find_tracebacks,
    strip_rank,
)
from jobgen.diagnose.matching import Match, find_cause, is_own, read_own_words
from jobgen.diagnose.reading import MOST_WORDS, NO_LINE, Line, drop, keep, read_words
from jobgen.records import NamedTuple

# Whose own advice says less than their words; not of codes that shells and timers leave with.
_ADVISED = re.compile(r"exception|exit (?!12[467]$)\d")
_BEFORE = 60  # characters before what shows a cause
_OF_SRUN = re.compile(r"srun: error: ([\w.-]+): task")
_HELPER = read_words("helper", re.IGNORECASE)
# The signals, by all names that launchers have for them; but for the one by which they stop others.
_SIGNALS = {
    name: -one for one in signal.Signals for name in (str(-one), one.name, signal.strsignal(one))
}
# How it shows that a setup lacks something.
_OF_SETUP = re.compile(
    "|".join(
        one.says
        for one in CAUSES
        if one.says and one.id in ("module-missing", "environment-missing")
    )
)
_CAUSED = re.compile(r"(?i)\s*caused by\b")  # of an error whose own words stand above
_CODE = re.compile(r" {4,}\S")  # a line of the program in a stack
_CRASHED = re.compile(r"(?i)^(?!Fatal Python).*\b(fatal|panic|core dumped|out of memory|killed)\b")
# How a line of a log begins, but for those of the script, of libraries' own errors, and of NCCL.
_BEGINS_ANEW = re.compile(rf"(?!jobgen: |\[?[EF]\d{{3}}|.*NCCL (WARN|INFO) )(?i:{LOGGED.pattern})")
# SIGILL, SIGABRT, SIGFPE, SIGSEGV, SIGALRM, SIGXCPU and SIGXFSZ come of what a program does.
_OF_OTHERS = {*range(-64, 1)} - {-4, -6, -8, -11, -14, -24, -25}
_LOST = read_words("lost", re.IGNORECASE)
MISSED = read_words("missed", re.IGNORECASE)
_NAMED = read_words("named", re.IGNORECASE)
_OWN_WORKERS = re.compile(r"(?i)loader|pool|executor|child|subprocess|thread|queue")
# What the script says where a node's part has ended before the program, and how processes are
# listed there; what torchrun prints, which is no part of the setup.
_NEVER_BEGAN = re.compile(
    r"jobgen: (the program never began on |(error: .* )?(the )?setup (failed|ended))"
)
_ENDS_SETUP = re.compile(rf"(rank|exitcode) : |{_NEVER_BEGAN.pattern}")
_OF_SCRIPTS = re.compile(r"^\S+/attempts/\d+/script: ")
_OF_AGENT = re.compile(r"^jobgen: (error: )?| on \S+; exit code \d+$")
_OF_AGENTS = re.compile(r"torch/distributed/")


def read_ranks(text: str) -> set[int]:
    """Return the ranks that a program names in what it says."""
    if _OWN_WORKERS.search(text):
        return set()
    return {int(named[1]) for named in _NAMED.finditer(text)}


class Explained(NamedTuple):
    """A process or node that failed, and why."""

    failure: Failure
    cause: Cause
    line: Line = NO_LINE  # that shows it
    raised: Raised = NO_EXCEPTION  # that ended it
    tail: tuple[Line, ...] = ()  # what shows it best
    words: str = ""  # what it said of its own end
    place: str = ""  # where in the program: file:line, in function

    @property
    def title(self) -> str:
        """What happened, in the words of the one that did it."""
        return self.cause.title if self.cause.waits or not self.words else self.words

    @property
    def named(self) -> set[int]:
        """The ranks that it names where it says so."""
        return {rank for line in self.tail for rank in read_ranks(line.text)}

    @property
    def doubt(self) -> int:
        """How likely its exception only follows from another's end: 2 if it names another rank."""
        words = self.raised.words
        if MISSED.search(words) and read_ranks(words) - {self.failure.rank}:
            return 2
        return 1 if _LOST.search(words) else 0

    @property
    def key(self) -> str:
        """What those have in common who failed alike: the words of it, if they said any."""
        own = (self.words and self.line.text) or self.cause.id
        if self.failure.where != "rank":  # of a node; its own name is no difference
            how = "signal" if (self.failure.exit_code or 0) < 0 else ""
            own = f"{how} {own.replace(self.failure.node, '')}"
        return normalize(self.raised.words or own)


def find_remedy(explained: Explained) -> str:
    """Return what to do: by the words that were said, where they show no cause of the table."""
    if not _ADVISED.match(explained.cause.id):
        return explained.cause.remedy
    spoken = f"{explained.title}\n{explained.raised.words}\n{explained.line.text}"
    known = (remedy for says, remedy in ADVICE if says.search(spoken))
    return next(known, explained.cause.remedy)


def find_started(lines: Iterable[Line]) -> str | None:
    """Return the only node of which srun tells that a process that it had started there failed."""
    ends = (_OF_SRUN.match(line.text) for line in lines if OF_STARTED.search(line.text))
    nodes = {end[1] for end in ends if end}
    return nodes.pop() if len(nodes) == 1 else None


def collect_ranks(explained: Iterable[Explained]) -> set[int]:
    """Return whose they are, but for those of nodes."""
    return {one.failure.rank for one in explained if one.failure.rank is not None}


def explain_failure(failure: Failure, innocent: Innocent) -> Explained:
    """Return why a process or node failed."""
    if failure.where != "rank" or any(_NEVER_BEGAN.match(line.text) for line in failure.lines):
        return _explain_node(failure)
    signalled = _read_signal(failure.lines) if (failure.exit_code or 0) > 0 else 0
    if not signalled:
        return _explain_process(failure, innocent)
    explained = _explain_process(failure._replace(exit_code=signalled), innocent)
    return explained._replace(words=f"of a process that it had started: {explained.title}")


def _read_signal(lines: Sequence[Line]) -> int:
    """The signal, as a negative code, that ended a process which this one had started; else 0."""
    ends = [end[1].strip() for line in lines if (end := OF_STARTED.search(line.text))]
    return _SIGNALS.get("".join(ends[:1]), 0)


def _explain_process(failure: Failure, innocent: Innocent) -> Explained:
    ending = find_ending(failure.lines, failure.exit_code, quiet=failure.quiet, innocent=innocent)
    if not ending.chain:
        return _explain_exit(failure, ending)
    explained = _explain_exception(failure, ending.chain, innocent)
    # What it said after that, such as why it then left.
    explained = explained._replace(tail=tuple(dict.fromkeys([*explained.tail, *ending.closing])))
    # Another line of the log may say it better.
    refers = explained.cause is EXCEPTION and REFERS.search(ending.chain[-1].words)
    if explained.cause.vague or refers:
        return _find_better(explained, ending)
    return explained


def _find_better(explained: Explained, ending: Ending) -> Explained:
    """The same by another line of the log, if one shows a cause that is certain."""
    match = find_cause(select_telling(ending.lines), "rank")
    if match is None or not match.sure:
        return explained
    tail, words = (match.line, *explained.tail), _add_reason(explained.words, match.line.text)
    return explained._replace(cause=match.cause, line=match.line, tail=tail, words=words)


def _add_reason(words: str, reason: str, *, link: str = "from") -> str:
    return f"{words}, {link} {reason.strip()[:MOST_WORDS]}"


def _explain_exception(failure: Failure, chain: Sequence[Raised], innocent: Innocent) -> Explained:
    """By the last one's own words, or else by those of another that it was raised from.

    One that only says that another process was lost is none that this process made itself, unless
    it comes from one that does not say so. What a program raises of a connection to somewhere else
    is its own.
    """
    known = [(raised, _find_known(raised)) for raised in chain]
    own = [(raised, match) for raised, match in known if not (match and match.cause.follows)]
    lost = [(raised, match) for raised, match in known if match and match.cause.follows]
    if lost[:1] == known[:1]:  # what was raised of a lost process may have other words for it
        last, match = lost[-1]
        return Explained(failure, *match, last, last.message, last.words, last.place)
    root, last = own[0][0], own[-1][0]
    words, match = _tell_both(root, last), _choose_match(own)
    shown = match.shown  # of a long message it may stand far behind
    if shown and shown[0] not in words:
        words = _add_reason(words, match.line.text[max(0, shown.start() - _BEFORE) :])
    tail = tuple(line for one, _ in reversed(own) for line in one.message)
    why = _find_reason_before(failure, last)
    if why and not innocent.has_printed(why, failure.exit_code):
        words, tail = _add_reason(words, why.text, link="after"), (why, *tail)
    return Explained(failure, *match, last, tail, words, last.place)


def _choose_match(own: Sequence[tuple[Raised, Match | None]]) -> Match:
    """By the words of the last exception, or of one that it was raised from."""
    last = own[-1][0]
    for raised, match in reversed(own):
        if match and (raised is last or raised.is_cause):
            return match
    return Match(EXCEPTION, last.message[0])


def _tell_both(root: Raised, last: Raised) -> str:
    words = last.words[:MOST_WORDS]
    if root.words == last.words:
        return words
    return _add_reason(words, root.words, link="from" if root.is_cause else "while handling")


def _find_reason_before(failure: Failure, last: Raised) -> Line | None:
    """What a process had said before an exception that only reports an interrupt or a loss.

    That is of the interrupt; or how a thread, a process or a service beside it ended.
    """
    if not any(says.search(last.words) for says in (_LOST, _HELPER, REFERS)):
        return None
    tracebacks = find_tracebacks(failure.lines)
    begin = next((one.begin for one in tracebacks if one.last == last), 0)
    before = list(map(strip_rank, failure.lines[:begin]))
    # A log tells of something else.
    since = [*takewhile(lambda line: not LOGGED.match(line.text), before[::-1])][::-1]
    raised = [one.last.message[0] for one in tracebacks if one.aside]
    for line in select_telling(since):
        if line in raised or _CRASHED.search(line.text):
            return line
    above = keep(since[-1:], re.compile(r"\w").search)  # a child may print there
    above = drop(drop(above, OF_EXITS.match), _CODE.match)
    if REFERS.search(last.words):
        above = keep(above, NAMES_ERROR.search)
    return above[0] if above else None


def _find_known(raised: Raised) -> Match | None:
    telling = [line for line in raised.message if line.text.strip() in raised.words]
    match = find_cause(telling, "rank")
    if raised.of_group if match is None else not match.sure:
        match = find_cause(raised.message, "rank")
    lost = match is not None and (match.cause.symptom or match.cause.of_group)
    return None if lost and not raised.of_group else match


def _explain_exit(failure: Failure, ending: Ending) -> Explained:
    """By the lines that it printed last, and its exit code."""
    code = failure.exit_code
    tail = tuple(drop(ending.lines, OF_EXITS.match))
    last = None if code in _OF_OTHERS else find_last_words(tail)
    cause, crash = _name_code(code), find_crash(failure.lines)
    if last is None:  # a shell may have told at which of its commands it ended
        shown = tuple(keep(failure.lines, TRACED.match)[-2:]) or tail or failure.lines[-1:]
        return Explained(failure, cause, tail=shown, place=crash)
    match = _find_cause_of_end(last, tail) or Match(cause, last)
    head = match.line if match.sure and not _CAUSED.match(match.line.text) else last
    text = head.text.strip()[:MOST_WORDS]
    words = text.removeprefix("jobgen: ") if is_own(head) else _add_exit(text, code, cause)
    raised = [one.last for one in find_tracebacks(failure.lines)]  # of a child of its own
    places = [one.place for one in raised if one.message[0] == last]
    shown = (match.line, *tail[-3:])
    return Explained(failure, *match, tail=shown, words=words, place=[*places, crash][0])


def _add_exit(words: str, code: int | None, cause: Cause) -> str:
    if code is None:  # its words say more than a code may mean
        return words
    return f"{name_exit(code) if code > 0 else cause.title}, and said: {words}"


def _name_code(code: int | None) -> Cause:
    if code is None:
        return Cause("unknown", "it failed without a word", "look at its log")
    usual = (name_exit(code), "look at what the program does before it says its last words")
    return Cause(f"exit {code}", *EXITS.get(code, usual))


def _find_cause_of_end(last: Line, lines: Sequence[Line]) -> Match | None:
    """By a process's last words, or by all that belongs to them."""
    match = find_cause([last], "rank")
    if match is None or match.cause.vague:
        begin = lines.index(last)  # what a log has told before is another matter
        while begin and not _BEGINS_ANEW.match(lines[begin].text):
            begin -= 1
        own = [line for line in lines[begin:] if not is_of_other(line, last)]
        match = find_cause(select_telling(own), "rank")
    of_another = match and match.cause.of_group and not OF_GROUPS.search(match.line.text)
    return None if of_another else match


def name_exit(code: int) -> str:
    """Say that a process left with a code, or which signal ended it."""
    if code >= 0:
        return f"it left with exit code {code}"
    known = -code in {*signal.Signals}
    name = f" ({signal.Signals(-code).name})" if known else ""
    return f"signal {-code}{name} ended it"


def _explain_node(failure: Failure) -> Explained:
    end = _find_end_of_setup(failure.lines)
    if end is not None:
        return _explain_setup(failure, failure.lines[:end], failure.lines[end])
    raised = find_tracebacks(failure.lines)[-1:]
    match = find_cause(drop(failure.lines, _CODE.match), failure.where)
    if match and not (raised and match.line in raised[0].last.message):
        before = failure.lines[: failure.lines.index(match.line)]
        tail = [line for line in before if not is_own(line)][-2:] if is_own(match.line) else []
        words = read_own_words(match.line)
        return Explained(failure, *match, tail=(*tail, match.line), words=words)
    if raised:
        return _explain_exception(failure, raised[0].chain, Innocent())
    return _explain_exit(failure, Ending((), failure.lines))


def _find_end_of_setup(lines: Sequence[Line]) -> int | None:
    """Where the script says that a node's part ended before the program; best at which command."""
    ends = [at for at, line in enumerate(lines) if _NEVER_BEGAN.match(line.text)]
    if not ends or any(_OF_AGENTS.search(line.text) for line in lines):
        return None
    commands = [at for at in ends if " never began on " not in lines[at].text]
    return (commands or ends)[-1]


def _explain_setup(failure: Failure, lines: Sequence[Line], end: Line) -> Explained:
    """By what was said last before the `end` of a setup: what failed before that ended nothing."""
    printed = [line for line in lines if _is_of_setup(line)]
    # A step that the script itself takes, if that failed.
    own = printed.pop() if printed and is_own(printed[-1]) else None
    last = find_last_said(printed, failure.exit_code or 0)
    shown = [line for line in (own, end, *printed[-1:], *last) if line]
    known = keep(shown, _OF_SETUP.search) or shown
    cause, line = find_cause(known, "agent") or Match(EXCEPTION, end)
    words = _word_setup(failure, own, end, last)
    tail = tuple(dict.fromkeys([*last, *printed[-2:], own or end]))
    return Explained(failure, cause, own or line, tail=tail, words=words)


def _word_setup(failure: Failure, own: Line | None, end: Line, last: Sequence[Line]) -> str:
    """Return how a setup ended, in its own step's words or in those of its command."""
    words = read_own_words(own) if own else _OF_AGENT.sub("", end.text)
    if last:
        return f"{words}{':' if own else ', and said:'} {_quote_commands(last)}"
    return words if own else f"{words}, and {name_exit(failure.exit_code or 0)}"


def _quote_commands(said: Sequence[Line]) -> str:
    return "; ".join(_OF_SCRIPTS.sub("", line.text.strip())[:MOST_WORDS] for line in said)


def _is_of_setup(line: Line) -> bool:
    """Whether a command has printed it, or it is an error of the script; no list of processes."""
    if is_own(line) and not read_own_words(line):
        return False
    return bool(line.text.strip()) and not _ENDS_SETUP.match(line.text)
