"""A report for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobgen.report.efficiency import in_words
from jobgen.report.facts import Comparison, Curve, Report, Run
from jobgen.report.words import (
    UNKNOWN,
    count,
    figure,
    moment,
    names,
    ranks,
    share,
    size,
    span,
)

_WIDTH, _HEIGHT = 64, 8
_BLOCKS = " ▁▂▃▄▅▆▇█"
_MOST_ROWS = 16


def text(report: Report) -> str:
    """What the page says, but for the spec and the script."""
    lines = [report.title, report.summary]
    if report.comparison:
        lines += _several(report.comparison)
        notes = dict.fromkeys(note for run in report.runs for note in run.notes)
    else:
        lines += _one(report.runs[0])
        notes = dict.fromkeys(report.runs[0].notes)
    lines += _section("Not known, and why", [f"- {note}" for note in notes])
    return "\n".join(map(_printable, lines)) + "\n"


def _one(run: Run) -> Iterator[str]:
    site = f", {run.site}" if run.site else ""
    yield f"{run.state}; {run.scheduler}{site}; submitted {moment(run.submitted)}; {run.folder}"
    if run.cause:
        cause = [run.cause.title, *run.cause.evidence]
        cause += [f"what to do: {run.cause.remedy}"] if run.cause.remedy else []
        yield from _section("What went wrong", cause)
    yield from _section("Attempts", list(_attempts(run)))
    yield from _training(run)
    yield from _ranks(run)
    nodes = [f"{place.node:<16} ranks {ranks(place.ranks) or UNKNOWN}" for place in run.places]
    yield from _section("Topology", _some(nodes))
    rows = []
    for use in run.uses:
        rows.append(f"{use.what:<11} {in_words(use)}")
        rows += [f"{'':<11} next time: {use.advice}"] if use.advice else []
    yield from _section("Asked and used", rows)
    yield from _section(
        "Preflight",
        [
            f"{names(one.nodes)}: Python {one.python or UNKNOWN}, torch {one.torch or UNKNOWN}, "
            f"{one.devices or 'no GPUs'}{'; ' + one.problem if one.problem else ''}"
            for one in run.preflight
        ],
    )
    costs = []
    if run.charged:
        for what, cost in (("by its time", run.charged.used), ("at most", run.charged.most)):
            amount = UNKNOWN if cost.amount is None else f"{figure(cost.amount)} {cost.unit}"
            costs.append(f"{what:<11} {amount}: {cost.how}")
    yield from _section("Cost", costs or [UNKNOWN])


def _attempts(run: Run) -> Iterator[str]:
    yield f"{'queue':<11} {span(run.waited)}"
    for one in run.attempts[-_MOST_ROWS:]:
        took = one.ended - one.began if one.ended and one.began else None
        code = f" {one.exit_code}" if one.exit_code else ""
        outcome = f"{one.outcome or 'no word of its end'}{code}"
        nodes = f" on {names(one.nodes)}" if one.nodes else ""
        yield f"{f'attempt {one.number}':<11} {span(took)}, {outcome}{nodes}"


def _training(run: Run) -> Iterator[str]:
    training = run.training
    if training is None:
        yield from _section("Training", ["no step was written down: loss and speed are not known"])
        return
    rows = [
        f"loss        {figure(training.loss)}, validation {figure(training.validation)}",
        f"speed       {figure(training.speed)} {training.unit}/s",
        f"of the peak {share(training.mfu)}",
    ]
    times = training.step_times
    if times:
        rows.append(
            f"a step      {span(times.median)} (median), {span(times.p5)} to {span(times.p95)} in "
            f"nine of ten lines, {span(times.least)} to {span(times.most)} in all"
        )
    rows.append(f"data        {share(training.waiting)} of a step is waiting for it")
    rows.append(f"memory      {size(training.memory)}, the most that rank 0 has held")
    yield from _section("Training", rows)
    yield from _section("Loss by step", list(_drawn(training.losses)))
    if times and len(times.counts) > 1:
        bars = [
            (f"{span(low)}", value) for low, value in zip(times.edges, times.counts, strict=False)
        ]
        yield from _section("Time of a step", list(_bars(bars)))


def _ranks(run: Run) -> Iterator[str]:
    if run.ranks is None:
        return
    rows = []
    unit = run.training.unit if run.training else "tokens"
    if run.ranks.speed:
        speeds = [(f"rank {rank}", value) for rank, value in enumerate(run.ranks.speed)]
        rows += _some(list(_bars(speeds, unit=f" {unit}/s")))
    else:
        rows.append(f"speed by rank: {UNKNOWN}")
    rows += [
        f"rank {one.rank} on {one.node} was slow, {count(one.times, 'time')}: {one.words}"
        for one in run.ranks.slow[:_MOST_ROWS]
    ]
    yield from _section("Ranks", rows)


def _several(comparison: Comparison) -> Iterator[str]:
    cells = [["run", "state", *comparison.settings, "loss", "validation", "a second", "ran for"]]
    for row in comparison.rows:
        differs = ["-" if value is None else value for value in row.differs]
        figures = [figure(row.loss), figure(row.validation), figure(row.speed), span(row.ran)]
        cells.append([row.title, row.state, *differs, *figures])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    yield from _section("Runs", rows)
    known = [(row.title, row.loss) for row in comparison.rows if row.loss is not None]
    yield from _section("Loss", list(_bars(known)))


def _section(title: str, rows: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {row}" for row in rows)] if rows else []


def _some(rows: list[str]) -> list[str]:
    """The first of them, and how many there are more."""
    more = len(rows) - _MOST_ROWS
    return rows if more <= 0 else [*rows[:_MOST_ROWS], f"and {more:,} more"]


def _bars(rows: Sequence[tuple[str, float]], *, unit: str = "") -> Iterator[str]:
    """A bar for each value, from zero."""
    most = max((value for _, value in rows), default=0)
    width = max((len(label) for label, _ in rows), default=0)
    for label, value in rows:
        filled = round(40 * value / most) if most > 0 and value > 0 else 0
        yield f"{label:<{width}}  {'█' * filled} {figure(value)}{unit}"


def _drawn(curve: Curve) -> Iterator[str]:
    """The curve as columns, each the mean of its stretch of steps."""
    if len(curve.x) < 2:
        return
    columns: list[list[float]] = [[] for _ in range(_WIDTH)]
    first, last = curve.x[0], curve.x[-1]
    for x, y in zip(curve.x, curve.y, strict=True):
        columns[min(_WIDTH - 1, int((x - first) / (last - first) * _WIDTH))].append(y)
    means: list[float] = []
    for column in columns:
        means.append(sum(column) / len(column) if column else means[-1])
    low, high = min(means), max(means)
    scale = (high - low) or 1.0
    eighths = [1 + round((value - low) / scale * (_HEIGHT * 8 - 1)) for value in means]
    for line in reversed(range(_HEIGHT)):
        label = figure(high) if line == _HEIGHT - 1 else figure(low) if line == 0 else ""
        cells = "".join(_BLOCKS[max(0, min(8, value - 8 * line))] for value in eighths)
        yield f"{label:>9} {cells.rstrip()}".rstrip()
    yield f"{'':9} {f'{first:,.0f}':<{_WIDTH // 2}}{f'{last:,.0f}':>{_WIDTH // 2}}"


def _printable(line: str) -> str:
    """What logs and names hold must not move the cursor."""
    return "".join(char if char.isprintable() else " " for char in line)
