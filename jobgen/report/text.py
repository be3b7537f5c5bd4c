"""A report for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobgen.output import format_table, make_printable
from jobgen.report.efficiency import describe_use
from jobgen.report.facts import AllReduce, Comparison, Ledger, Report, RunFacts
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
    """Return what the page says, without charts, spec and script."""
    lines = [report.title, report.summary]
    lines += _format_section("Where the time went", list(_describe_ledger(report.ledger)))
    if report.comparison:
        lines += _describe_comparison(report.comparison)
        notes = dict.fromkeys(note for run in report.runs for note in run.notes)
    else:
        lines += _describe_run(report.runs[0])
        notes = dict.fromkeys(report.runs[0].notes)
    lines += _format_section("Not known, and why", [f"- {note}" for note in notes])
    return "\n".join(make_printable(line.replace("\n", " ")) for line in lines) + "\n"


def _describe_run(run: RunFacts) -> Iterator[str]:
    site = f", {run.site}" if run.site else ""
    submitted = format_moment(run.submitted)
    yield f"{run.state}; {run.scheduler}{site}; submitted {submitted}; {run.folder}"
    yield from run.origins
    yield from (f"tracked at {address}" for address in run.tracked)
    for title, rows in (
        ("What went wrong", _describe_cause(run)),
        ("Attempts", _describe_attempts(run)),
        ("Training", _describe_training(run)),
        ("Ranks", _describe_ranks(run)),
        ("Topology", _describe_places(run)),
        ("Asked and used", _describe_uses(run)),
        ("Preflight", _describe_preflight(run)),
        ("Cost", _describe_cost(run)),
    ):
        yield from _format_section(title, list(rows))


def _describe_ledger(ledger: Ledger | None) -> Iterator[str]:
    if ledger is None:
        return
    for kind, seconds in ledger.seconds.items():
        yield f"{kind:<16} {format_share(seconds / ledger.wall):>6}  {format_span(seconds)}"
    yield f"{'productive':<16} {format_share(ledger.ettr):>6}  of the time since the first start"
    kwh = UNKNOWN if ledger.kwh is None else f"{ledger.kwh:.3g} kWh of {ledger.kwh_by}"
    yield f"{'used':<16} {ledger.node_hours:.3g} node hours; energy: {kwh}"


def _describe_cause(run: RunFacts) -> Iterator[str]:
    if run.cause:
        yield from (run.cause.headline, *run.cause.evidence)
        if run.cause.remedy:
            yield f"what to do: {run.cause.remedy}"


def _describe_places(run: RunFacts) -> Iterator[str]:
    rows = [f"{one.name:<16} ranks {format_ranks(one.ranks) or UNKNOWN}" for one in run.places]
    yield from _limit_rows(rows)


def _describe_uses(run: RunFacts) -> Iterator[str]:
    for use in run.uses:
        yield f"{use.what:<11} {describe_use(use)}"
        if use.advice:
            yield f"{'':<11} next time: {use.advice}"


def _describe_preflight(run: RunFacts) -> Iterator[str]:
    for one in run.preflight:
        problem = f"; {one.problem}" if one.problem else ""
        versions = f"Python {one.python or UNKNOWN}, torch {one.torch or UNKNOWN}"
        yield f"{format_names(one.nodes)}: {versions}, {one.devices or 'no GPUs'}{problem}"
    if run.allreduce.speed is not None:
        yield _describe_allreduce(run.allreduce)


def _describe_cost(run: RunFacts) -> Iterator[str]:
    if run.charged is None:
        yield UNKNOWN
        return
    for what, cost in (("for its time", run.charged.used), ("at most", run.charged.most)):
        amount = UNKNOWN if cost.amount is None else f"{format_number(cost.amount)} {cost.unit}"
        yield f"{what:<11} {amount}: {cost.how}"


def _describe_allreduce(found: AllReduce) -> str:
    network = f" by {found.network}" if found.network else ""
    warning = f"; {found.warning}" if found.warning else ""
    return f"all-reduce over the nodes: {format_number(found.speed)} GB/s{network}{warning}"


def _describe_attempts(run: RunFacts) -> Iterator[str]:
    yield f"{'queue':<11} {format_span(run.waited)}"
    for one in run.attempts[-_MOST_ROWS:]:
        took = one.ended - one.began if one.ended and one.began else None
        code = f" {one.exit_code}" if one.exit_code else ""
        outcome = f"{one.outcome or 'no outcome'}{code}"
        nodes = f" on {format_names(one.nodes)}" if one.nodes else ""
        yield f"{f'attempt {one.number}':<11} {format_span(took)}, {outcome}{nodes}"


def _describe_training(run: RunFacts) -> Iterator[str]:
    training = run.training
    if training is None:
        yield "no training steps were recorded, so loss and speed are not known"
        return
    validation = format_number(training.validation)
    yield f"loss        {format_number(training.loss)}, validation {validation}"
    yield f"speed       {format_number(training.speed)} {training.unit}/s"
    yield f"of the peak {format_share(training.mfu)}"
    if times := training.step_times:
        most = f"{format_span(times.p5)} to {format_span(times.p95)} in nine of ten lines"
        whole = f"{format_span(times.least)} to {format_span(times.most)} in all"
        yield f"a step      {format_span(times.median)} (median), {most}, {whole}"
    yield f"data        {format_share(training.waiting)} of a step waiting for it"
    yield f"memory      {format_size(training.memory)} at most on rank 0"


def _describe_ranks(run: RunFacts) -> Iterator[str]:
    if run.ranks is None:
        return
    unit = run.training.unit if run.training else "tokens"
    speeds = [f"{format_number(speed)} {unit}/s" for speed in run.ranks.speed or ()]
    yield from _limit_rows([f"rank {rank:<6} {speed}" for rank, speed in enumerate(speeds)])
    if not speeds:
        yield f"speed by rank: {UNKNOWN}"
    for one in run.ranks.slow[:_MOST_ROWS]:
        times = format_count(one.times, "time")
        yield f"rank {one.rank} on {one.node} was slow, {times}: {one.words}"


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
    yield from _format_section(f"Runs, {comparison.order}", format_table(cells))
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
    """Return the first rows, and how many more there are."""
    more = len(rows) - _MOST_ROWS
    return rows if more <= 0 else [*rows[:_MOST_ROWS], f"and {more:,} more"]
