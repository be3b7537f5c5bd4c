"""The time line of a run's attempts, on one scale."""

from __future__ import annotations

from jobgen.output import format_count
from jobgen.records import NamedTuple
from jobgen.report.facts import Attempt, RunFacts
from jobgen.report.figures import format_names, format_span

_MOST_ROWS = 50
WIDTH = 1000
_NARROWEST = 2.0  # of a stretch, so that it can be seen


class Stretch(NamedTuple):
    """A part of a row: what happened from `x` on; `WIDTH` is the whole row."""

    what: str  # queued, starting or training; ended if no trainer tells more
    x: float
    width: float


class Bar(NamedTuple):
    """One row."""

    label: str
    words: str
    stretches: tuple[Stretch, ...]


class TimeLine(NamedTuple):
    """Rows from `begin` to `end`; `left_out` counts earlier attempts that are not shown."""

    begin: float
    end: float
    bars: tuple[Bar, ...]
    left_out: int

    @property
    def kinds(self) -> set[str]:
        """The kinds of stretches in it."""
        return {stretch.what for bar in self.bars for stretch in bar.stretches}


def draw_timeline(run: RunFacts, *, now: float) -> TimeLine | None:
    """Return the queue and each attempt on one scale; None if no attempt has begun."""
    attempts = [attempt for attempt in run.attempts if attempt.began is not None]
    if not attempts:
        return None
    last = attempts[-1]
    goes_on = run.state in ("running", "stopping")
    if goes_on and last.ended is None:
        attempts[-1] = last._replace(ended=now, outcome=last.outcome or "goes on")
    moments = [moment for one in attempts for moment in (one.began, one.ended)]
    known = list(filter(None, (*moments, run.submitted, now if goes_on else None)))
    scale = _Scale(min(known), max(known))
    bars = [_draw_attempt(attempt, scale) for attempt in attempts[-_MOST_ROWS:]]
    first = attempts[0].began or scale.begin
    if run.submitted and first - run.submitted >= 1:
        stretch = scale.place("queued", run.submitted, first)
        bars.insert(0, Bar("queue", format_span(first - run.submitted), (stretch,)))
    return TimeLine(scale.begin, scale.end, tuple(bars), max(0, len(attempts) - _MOST_ROWS))


class _Scale(NamedTuple):
    """The moments at both ends of a time line."""

    begin: float
    end: float

    def place(self, what: str, first: float, last: float) -> Stretch:
        """Return a stretch from one moment to another, wide enough to be seen."""
        unit = WIDTH / ((self.end - self.begin) or 1.0)
        x, width = (first - self.begin) * unit, max((last - first) * unit, _NARROWEST)
        width = min(width, WIDTH - x + _NARROWEST)
        return Stretch(what, round(min(x, WIDTH - _NARROWEST), 2), round(width, 2))


def _draw_attempt(attempt: Attempt, scale: _Scale) -> Bar:
    began, last, ready = attempt.began or scale.begin, attempt.ended, attempt.first_step
    stretches = [scale.place("ended", began, last or began)]
    if last and ready and began <= ready <= last:
        stretches = [scale.place("starting", began, ready), scale.place("training", ready, last)]
    took = "" if last is None else f"{format_span(last - began)}, "
    code = f" {attempt.exit_code}" if attempt.exit_code else ""
    where = f" on {format_count(len(attempt.nodes), 'node')}" if attempt.nodes else ""
    where += f" ({format_names(attempt.nodes)})" if 0 < len(attempt.nodes) <= 3 else ""
    words = f"{took}{attempt.outcome or 'left no outcome'}{code}{where}"
    return Bar(f"attempt {attempt.number}", words, tuple(stretches))
