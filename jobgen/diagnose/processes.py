"""Which processes and nodes of a job have ended, why each did, and which failed first."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.diagnose import missing
from jobgen.diagnose.cause import EXCEPTION, LEFT_EARLY
from jobgen.diagnose.ending import Innocent, normalize
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.exceptions import Traceback, find_tracebacks
from jobgen.diagnose.explaining import Explained, explain_failure
from jobgen.diagnose.matching import find_cause
from jobgen.diagnose.reading import MOST_WORDS

# Files that an exception names.
_FILES = re.compile(r"['\"]([^'\"\s]*\w[/.]\w[^'\"\s]*)['\"]")
# Processes that lose each other end within this time.
_TOGETHER = 3.0


class Processes:
    """What ended each of them.

    `failures` are those that failed, the first first; `stopped` those that others stopped, and that
    tell something all the same. What other processes have survived is not a reason.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        guesses = [explain_failure(failure, Innocent()) for failure in evidence.failures]
        failed = {one.failure.rank for one in guesses if not one.cause.symptom}
        innocent = evidence.collect_innocent(evidence.ranks.keys() - failed)
        explained = [explain_failure(failure, innocent) for failure in evidence.failures]
        self.failures = _demote(explained)
        heard = [explain_failure(failure, innocent) for failure in evidence.stopped]
        self.stopped = [one for one in heard if _is_telling(one, self.failures)]

    @property
    def own(self) -> list[Explained]:
        """Those that failed on their own."""
        return [one for one in self.failures if not one.cause.symptom]

    @property
    def ended(self) -> list[Explained]:
        """All that tell something."""
        return [*self.failures, *self.stopped]

    def choose_first(self) -> Explained | None:
        """The first that failed on its own; if that only waited, the first that surely did not."""
        own = self.own
        if not own:
            return self.find_hidden() if self.failures else None
        if own[0].cause.waits:
            own = [one for one in own if not (one.cause.waits or one.doubt)] or own
        return own[0]

    def find_hidden(self) -> Explained | None:
        """Return the first to fail if every known failure is but a lost connection.

        Its launcher may have ended before it noted the exit code, or the code hides that it failed.
        """
        raised = [one for one in self.stopped if one.raised.words and not one.cause.follows]
        first = min(raised, key=lambda one: one.failure.time, default=None)
        if first is None or not self.evidence.has_left(first.failure.rank or 0):
            return first
        words = f"{first.words}; {LEFT_EARLY.title}"
        return first._replace(cause=LEFT_EARLY, words=words)

    def find_elsewhere(self, first: Explained) -> Explained | None:
        """An exception that another process has handled, of a file that `first` has not found."""
        names = _FILES.findall(first.raised.words if first.cause.id == "file-missing" else "")
        for rank, one in self._list_handled():
            if any(name in one.words for name in names):
                line = one.last.message[0]
                cause, _ = find_cause([line], "rank") or (EXCEPTION, line)
                failure = first.failure._replace(node=self.evidence.ranks[rank], rank=rank)
                who = f"rank {first.failure.rank} on {first.failure.node}"
                words = f"{one.words[:MOST_WORDS]}; then {who} failed: {first.title}"
                return Explained(failure, cause, line, tail=(line,), words=words)
        return None

    def _list_handled(self) -> Iterator[tuple[int, Traceback]]:
        """Exceptions, with their ranks, that have ended no process."""
        ends = {normalize(one.raised.words) for one in self.ended}
        for rank, log in self.evidence.logs.items():
            for traceback in find_tracebacks(log):
                if normalize(traceback.words) not in ends:
                    yield rank, traceback

    def has_left(self) -> bool:
        """Whether several failed as one other process had left with exit code 0."""
        if len(self.failures) < 2:
            return False
        absent = missing.find_absent(self.evidence, self.failures)
        return absent is not None and self.evidence.exit_codes.get(absent.rank or 0) == 0


def _is_telling(one: Explained, failures: list[Explained]) -> bool:
    """Whether one that was stopped names a cause, or says what one that failed has said."""
    if one.cause.id != "unknown":
        return True
    if one.key not in {failure.key for failure in failures}:
        return False
    texts = {"", *(failure.line.text for failure in failures)}
    return bool(one.raised.words) or one.line.text in texts


def _demote(explained: list[Explained]) -> list[Explained]:
    """The same, with what follows from another's end where another ended at about that time.

    Who has lost a connection may leave before the process at the other end does.
    """
    own = [one for one in explained if not one.cause.follows]
    least = min((one.doubt for one in own), default=0)
    sure = min((one.failure.time for one in own if one.doubt == least), default=0.0)
    return [
        one._replace(cause=one.cause._replace(symptom=True))
        if one.doubt > least and one.failure.time > sure - _TOGETHER and not one.cause.follows
        else one
        for one in explained
    ]
