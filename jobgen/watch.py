"""Look at jobs again and again, with few questions to their schedulers, until they have ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from jobgen import status
from jobgen.runs import Job
from jobgen.status import Look

# Sites ask scripts to leave a minute between questions to the scheduler, and never less than half;
# files may be read freely.
POLL_SECONDS = 60.0
LEAST_SECONDS = 30.0


class Watch:
    """Some jobs, and what was seen of them last."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self._seen: Look | None = None
        self._marks: list[tuple[int, str]] = []
        self._asked = self._due = 0.0
        self._unknown = [0] * len(jobs)

    def look(self) -> Look:
        """How they stand now; as long as it is too soon to ask, by what they write themselves."""
        now = time.monotonic()
        marks = status.marks(self.jobs)
        new = {word for mark, (_, word) in zip(self._marks, marks, strict=False) if mark[1] != word}
        self._marks = marks
        if new & {"failed", "cancelled", "continued"}:  # only the scheduler knows what that means
            self._due = min(self._due, self._asked + LEAST_SECONDS)
        if self._seen is None or now >= self._due:
            self._seen = status.look(self.jobs)
            self._asked, self._due = now, now + POLL_SECONDS
            if not self._seen.silences:
                for index, standing in enumerate(self._seen.found):
                    unknown = standing.state.name == "unknown"
                    self._unknown[index] = self._unknown[index] + 1 if unknown else 0
        else:
            again = status.look(self.jobs, before=self._seen)
            self._seen = again._replace(silences=self._seen.silences)
        return self._seen

    def over(self, index: int) -> bool:
        """Whether there is nothing to wait for: it has ended, or twice nobody has known it."""
        assert self._seen is not None
        return self._seen.found[index].state.ended or self._unknown[index] > 1

    def until_over(self) -> Iterator[Look]:
        """Every look, the last of which finds all of them over."""
        while True:
            yield self.look()
            if all(map(self.over, range(len(self.jobs)))):
                return
            time.sleep(1 if len(self._marks) < 20 else 5)
