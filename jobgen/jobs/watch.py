"""Poll jobs until they have ended, with few queries to their schedulers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from jobgen.jobs import status
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import read_traces
from jobgen.jobs.status import StatusReport

# Sites ask scripts to leave a minute between questions to the scheduler, and never less than half;
# files may be read freely.
POLL_SECONDS = 60.0
LEAST_SECONDS = 30.0
# The end of a script is worth one question, a moment later: then the scheduler has noticed it too.
_AFTER_END_SECONDS = 3.0


class Watch:
    """Some jobs, and the last report on their state."""

    def __init__(self, jobs: Sequence[JobRecord]) -> None:
        self.jobs = jobs
        self._seen: StatusReport | None = None
        self._words: list[str] = []  # by which the scripts said last that they have ended
        self._asked = self._due = 0.0
        self._unknown = [0] * len(jobs)
        self.silent = 0  # questions in a row that a scheduler has not answered

    def look(self) -> StatusReport:
        """Return the jobs' state now; between queries, judge by the files that they write."""
        now = time.monotonic()
        self._hasten(now)
        if self._seen is not None and now < self._due:
            self._seen = status.look_again(self._seen)
            return self._seen
        self._seen = status.look(self.jobs)
        self._asked, self._due = now, now + POLL_SECONDS
        self.silent = self.silent + 1 if self._seen.silences else 0
        if not self._seen.silences:
            for index, each in enumerate(self._seen.jobs):
                unknown = each.state.name == "unknown"
                self._unknown[index] = self._unknown[index] + 1 if unknown else 0
        return self._seen

    def _hasten(self, now: float) -> None:
        """Bring the next query forward if a script has ended meanwhile."""
        words = [read_traces(part).word for job in self.jobs for part in job.parts]
        new = {word for old, word in zip(self._words, words, strict=False) if old != word}
        self._words = words
        if new & {"failed", "cancelled"}:  # only the scheduler knows if it starts the job again
            self._due = min(self._due, now + _AFTER_END_SECONDS)
        elif "continued" in new:
            self._due = min(self._due, self._asked + LEAST_SECONDS)

    def over(self, index: int) -> bool:
        """Return whether a job ended, will never start, or was unknown twice."""
        assert self._seen is not None
        state = self._seen.jobs[index].state
        return state.ended or state.hopeless or self._unknown[index] > 1

    def until_over(self) -> Iterator[StatusReport]:
        """Yield every report until all jobs are over."""
        while True:
            yield self.look()
            if all(map(self.over, range(len(self.jobs)))):
                return
            # An end on disk is known within 5 s, the question to the scheduler included.
            pause = 1.0 if len(self._words) < 20 else 1.5
            time.sleep(min(pause, max(0.1, self._due - time.monotonic())))
