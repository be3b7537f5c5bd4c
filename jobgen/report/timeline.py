"""The timeline of a run's attempts, on one scale."""

from __future__ import annotations

from jobgen.output import format_count, format_names
from jobgen.records import NamedTuple
from jobgen.report.facts import Attempt, RunFacts
from jobgen.report.figures import format_span

_MOST_ROWS = 50
_WIDTH = 1000
_NARROWEST = 2.0  # of a stretch, so that it can be seen
# How a run has ended where its script knows only of the signal.
_ENDS = {"timeout": "reached its walltime", "node lost": "lost a node"}
# Queued, starting or training, or ended if no trainer tells more; and its first and last moment.
Stretch = tuple[str, float, float]
_Row = tuple[str, str, list[Stretch]]


class TimeLine(NamedTuple):
    """Rows from `begin` to `end`: of each the label, the words and its stretches.

    `left_out` counts earlier attempts that are not shown.
    """

    begin: float
    end: float
    rows: list[_Row]
    left_out: int

    @property
    def kinds(self) -> set[str]:
        """The kinds of stretches in it."""
        return {what for _, _, stretches in self.rows for what, _, _ in stretches}

    def place(self, first: float, last: float) -> tuple[float, float]:
        """Return where a stretch begins, and a width in which it can be seen, of 1000."""
        unit = _WIDTH / ((self.end - self.begin) or 1.0)
        x, width = (first - self.begin) * unit, max((last - first) * unit, _NARROWEST)
        width = min(width, _WIDTH - x + _NARROWEST)
        return round(min(x, _WIDTH - _NARROWEST), 2), round(width, 2)


def draw_timeline(run: RunFacts, *, now: float) -> TimeLine | None:
    """Return the queue and each attempt on one scale; None if no attempt has begun."""
    attempts = [attempt for attempt in run.attempts if attempt.began is not None]
    if not attempts:
        return None
    moments = [run.submitted]
    if run.state in ("running", "stopping"):
        moments.append(now)
        if attempts[-1].ended is None:
            attempts[-1] = attempts[-1]._replace(ended=now, outcome="goes on")
    if end := _ENDS.get(run.state):
        attempts[-1] = attempts[-1]._replace(outcome=end, exit_code=None)
    moments += [moment for attempt in attempts for moment in (attempt.began, attempt.ended)]
    known = list(filter(None, moments))
    rows = _draw_queue(run.submitted or now, attempts[0].began or 0.0)
    rows += [_draw_attempt(attempt) for attempt in attempts[-_MOST_ROWS:]]
    return TimeLine(min(known), max(known), rows, max(0, len(attempts) - _MOST_ROWS))


def _draw_queue(submitted: float, began: float) -> list[_Row]:
    waited = began - submitted
    stretch = ("queued", submitted, began)
    return [("queue", format_span(waited), [stretch])] if waited >= 1 else []


def _draw_attempt(attempt: Attempt) -> _Row:
    began, last, ready = attempt.began or 0.0, attempt.ended, attempt.first_step
    stretches = [("ended", began, last or began)]
    if last and ready and began <= ready <= last:
        stretches = [("starting", began, ready), ("training", ready, last)]
    took = "" if last is None else f"{format_span(last - began)}, "
    code = f" with exit code {attempt.exit_code}" if attempt.exit_code else ""
    words = f"{took}{attempt.outcome or 'left no outcome'}{code}{_name_nodes(attempt.nodes)}"
    return f"start {attempt.number + 1}", words, stretches


def _name_nodes(nodes: tuple[str, ...]) -> str:
    names = f" ({format_names(nodes)})" if len(nodes) <= 3 else ""
    return f" on {format_count(len(nodes), 'node')}{names}" if nodes else ""
