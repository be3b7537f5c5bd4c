"""A report for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobgen.output import format_table
from jobgen.report.efficiency import describe_use
from jobgen.report.facts import AllReduce, Comparison, Report, RunFacts
from jobgen.report.figures import (
    UNKNOWN,
    format_count,
    format_moment,
    format_names,
    format_number,
    format_ranks,
    format_share,
    format_size,
    format_span,
)

_MOST_ROWS = 16


def format_text(report: Report) -> str:
    """What the page says, but for the spec and the script."""
    lines = [report.title, report.summary]
    if report.comparison:
        lines += _describe_comparison(report.comparison)
        notes = dict.fromkeys(note for run in report.runs for note in run.notes)
    else:
        lines += _describe_run(report.runs[0])
        notes = dict.fromkeys(report.runs[0].notes)
    lines += _format_section("Not known, and why", [f"- {note}" for note in notes])
    return "\n".join(map(_clean_line, lines)) + "\n"


def _describe_run(run: RunFacts) -> Iterator[str]:
    site = f", {run.site}" if run.site else ""
    submitted = format_moment(run.submitted)
    yield f"{run.state}; {run.scheduler}{site}; submitted {submitted}; {run.folder}"
    yield from run.origins
    yield from (f"tracked at {address}" for address in run.tracked)
    if run.cause:
        cause = [run.cause.title, *run.cause.evidence]
        cause += [f"what to do: {run.cause.remedy}"] if run.cause.remedy else []
        yield from _format_section("What went wrong", cause)
    yield from _format_section("Attempts", list(_describe_attempts(run)))
    yield from _describe_training(run)
    yield from _describe_ranks(run)
    nodes = [
        f"{place.node:<16} ranks {format_ranks(place.ranks) or UNKNOWN}" for place in run.places
    ]
    yield from _format_section("Topology", _limit_rows(nodes))
    rows = []
    for use in run.uses:
        rows.append(f"{use.what:<11} {describe_use(use)}")
        rows += [f"{'':<11} next time: {use.advice}"] if use.advice else []
    yield from _format_section("Asked and used", rows)
    yield from _format_section(
        "Preflight",
        [
            f"{format_names(one.nodes)}: Python {one.python or UNKNOWN}, "
            f"torch {one.torch or UNKNOWN}, {one.devices or 'no GPUs'}"
            f"{'; ' + one.problem if one.problem else ''}"
            for one in run.preflight
        ]
        + ([_describe_allreduce(run.allreduce)] if run.allreduce.speed is not None else []),
    )
    costs = []
    if run.charged:
        for what, cost in (("by its time", run.charged.used), ("at most", run.charged.most)):
            amount = UNKNOWN if cost.amount is None else f"{format_number(cost.amount)} {cost.unit}"
            costs.append(f"{what:<11} {amount}: {cost.how}")
    yield from _format_section("Cost", costs or [UNKNOWN])


def _describe_allreduce(found: AllReduce) -> str:
    network = f" by {found.network}" if found.network else ""
    warning = f"; {found.warning}" if found.warning else ""
    return f"all-reduce over the nodes: {format_number(found.speed)} GB/s{network}{warning}"


def _describe_attempts(run: RunFacts) -> Iterator[str]:
    yield f"{'queue':<11} {format_span(run.waited)}"
    for one in run.attempts[-_MOST_ROWS:]:
        took = one.ended - one.began if one.ended and one.began else None
        code = f" {one.exit_code}" if one.exit_code else ""
        outcome = f"{one.outcome or 'no word of its end'}{code}"
        nodes = f" on {format_names(one.nodes)}" if one.nodes else ""
        yield f"{f'attempt {one.number}':<11} {format_span(took)}, {outcome}{nodes}"


def _describe_training(run: RunFacts) -> Iterator[str]:
    training = run.training
    if training is None:
        yield from _format_section(
            "Training", ["no step was written down: loss and speed are not known"]
        )
        return
    validation = format_number(training.validation)
    rows = [
        f"loss        {format_number(training.loss)}, validation {validation}",
        f"speed       {format_number(training.speed)} {training.unit}/s",
        f"of the peak {format_share(training.mfu)}",
    ]
    times = training.step_times
    if times:
        rows.append(
            f"a step      {format_span(times.median)} (median), {format_span(times.p5)} to "
            f"{format_span(times.p95)} in nine of ten lines, {format_span(times.least)} to "
            f"{format_span(times.most)} in all"
        )
    rows.append(f"data        {format_share(training.waiting)} of a step is waiting for it")
    rows.append(f"memory      {format_size(training.memory)}, the most that rank 0 has held")
    yield from _format_section("Training", rows)


def _describe_ranks(run: RunFacts) -> Iterator[str]:
    if run.ranks is None:
        return
    rows = []
    unit = run.training.unit if run.training else "tokens"
    if run.ranks.speed:
        rows += _limit_rows(
            [
                f"rank {rank:<6} {format_number(speed)} {unit}/s"
                for rank, speed in enumerate(run.ranks.speed)
            ]
        )
    else:
        rows.append(f"speed by rank: {UNKNOWN}")
    rows += [
        f"rank {one.rank} on {one.node} was slow, {format_count(one.times, 'time')}: {one.words}"
        for one in run.ranks.slow[:_MOST_ROWS]
    ]
    yield from _format_section("Ranks", rows)


def _describe_comparison(comparison: Comparison) -> Iterator[str]:
    cells = [["run", "state", *comparison.settings, "loss", "validation", "speed", "ran for"]]
    for row in comparison.rows:
        differs = ["-" if value is None else value for value in row.differs]
        figures = [
            format_number(row.loss),
            format_number(row.validation),
            format_number(row.speed),
            format_span(row.ran),
        ]
        cells.append([row.title, row.state, *differs, *figures])
    yield from _format_section(f"Runs, the best first by {comparison.measure}", format_table(cells))
    head = ["values", "runs", "mean", "deviation", "least", "most"]
    groups = [
        [
            group.label,
            str(group.runs),
            format_number(group.mean),
            "-" if group.deviation is None else format_number(group.deviation),
            format_number(group.least),
            format_number(group.most),
        ]
        for group in comparison.groups
    ]
    if groups:
        yield from _format_section("Over seeds", format_table([head, *groups]))


def _format_section(title: str, rows: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {row}" for row in rows)] if rows else []


def _limit_rows(rows: list[str]) -> list[str]:
    """The first of them, and how many there are more."""
    more = len(rows) - _MOST_ROWS
    return rows if more <= 0 else [*rows[:_MOST_ROWS], f"and {more:,} more"]


def _clean_line(line: str) -> str:
    """What logs and names hold must not move the cursor."""
    return "".join(char if char.isprintable() else " " for char in line)
