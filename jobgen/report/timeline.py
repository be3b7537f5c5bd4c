"""The time line of a run's attempts: stretches on one scale."""

from __future__ import annotations

from typing import NamedTuple

from jobgen.report.facts import RunFacts
from jobgen.report.figures import format_count, format_names, format_span

_MOST_ROWS = 50
WIDTH = 1000


class Stretch(NamedTuple):
    """A part of a row: what was done from `x` on, so wide, of `WIDTH`."""

    what: str  # queued, starting or training; or ended, for what no trainer tells of
    x: float
    width: float


class Bar(NamedTuple):
    """One row."""

    label: str
    words: str
    stretches: tuple[Stretch, ...]


class TimeLine(NamedTuple):
    """Rows from `begin` to `end`; `left_out` says how many more attempts there were."""

    begin: float
    end: float
    bars: tuple[Bar, ...]
    left_out: int

    @property
    def kinds(self) -> set[str]:
        """What there is to see."""
        return {stretch.what for bar in self.bars for stretch in bar.stretches}


def draw_timeline(run: RunFacts, *, now: float) -> TimeLine | None:
    """Of the queue and each attempt; None where no attempt has begun."""
    attempts = [attempt for attempt in run.attempts if attempt.began is not None]
    if not attempts:
        return None
    shown = attempts[-_MOST_ROWS:]
    moments = [moment for one in attempts for moment in (one.began, one.ended) if moment]
    goes_on = run.state in ("running", "stopping")
    begin = min([*moments, *([run.submitted] if run.submitted else [])])
    end = max([*moments, *([now] if goes_on else [])])
    whole = (end - begin) or 1.0

    def stretch(what: str, first: float, last: float) -> Stretch:
        x = (first - begin) / whole * WIDTH
        width = max((last - first) / whole * WIDTH, 2.0)  # a line's width can be seen
        return Stretch(what, round(min(x, WIDTH - 2.0), 2), round(min(width, WIDTH - x + 2.0), 2))

    bars = []
    first = attempts[0].began or begin
    if run.submitted and first - run.submitted >= 1:
        bars.append(
            Bar(
                "queue",
                format_span(first - run.submitted),
                (stretch("queued", run.submitted, first),),
            )
        )
    for attempt in shown:
        began = attempt.began or begin
        last = attempt.ended
        if last is None and attempt is attempts[-1] and goes_on:
            last = now
        outcome = attempt.outcome or ("goes on" if last == now else "left no word of its end")
        code = f" {attempt.exit_code}" if attempt.exit_code else ""
        where = f" on {format_count(len(attempt.nodes), 'node')}" if attempt.nodes else ""
        where += f" ({format_names(attempt.nodes)})" if 0 < len(attempt.nodes) <= 3 else ""
        if last is None:
            stretches: tuple[Stretch, ...] = (stretch("ended", began, began),)
        elif attempt.first_step and began <= attempt.first_step <= last:
            stretches = (
                stretch("starting", began, attempt.first_step),
                stretch("training", attempt.first_step, last),
            )
        else:
            stretches = (stretch("ended", began, last),)
        took = "" if last is None else f"{format_span(last - began)}, "
        bars.append(Bar(f"attempt {attempt.number}", f"{took}{outcome}{code}{where}", stretches))
    return TimeLine(begin, end, tuple(bars), len(attempts) - len(shown))
