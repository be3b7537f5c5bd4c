"""A run, or several, in two or three sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from jobgen.diagnose import Diagnosis
from jobgen.output import format_count, format_names
from jobgen.report.compare import select_counted
from jobgen.report.facts import Comparison, Place, Row, RunFacts, Training
from jobgen.report.figures import format_number, format_span
from jobgen.schedulers.base import ENDED, State

_BEGINNINGS = {
    "queued": "It waits in the queue",
    "done": "It succeeded",
    "failed": "It failed",
    "cancelled": "It was cancelled",
    "timeout": "It reached its walltime",
    "node lost": "It lost a node",
    "unknown": "Its state is not known",
}
_LEAST_WAIT = 60.0  # seconds in the queue that are worth a sentence


def summarise_run(run: RunFacts, state: State) -> str:
    """Return how the run ended, what it trained, and how long it waited."""
    sentences = [_describe_end(run, state)]
    if run.training:
        sentences.append(_describe_training(run.training, run.places))
    if run.waited is not None and run.waited >= _LEAST_WAIT:
        sentences.append(f"It waited {format_span(run.waited)} in the queue.")
    return " ".join(sentences)


def _describe_end(run: RunFacts, state: State) -> str:
    text = _BEGINNINGS.get(state.name, f"It is {state.name}")
    if _stopped_early(state):
        text = "It stopped when asked"
    if run.ran is not None and state.name != "queued":
        span = format_span(run.ran)
        text += f" after {span}" if state.ended else f", for {span} so far"
    if reason := _name_reason(state, run.cause):
        text += f": {reason}"
    return text if text.endswith("?") else text.rstrip(".") + "."


def _name_reason(state: State, cause: Diagnosis | None) -> str:
    if cause and (state.name, cause.cause) == ("timeout", "walltime"):  # which is said already
        return ""
    if cause and cause.cause not in ("unknown", "healthy"):
        return cause.headline
    return "" if _stopped_early(state) else state.reason.partition("\n")[0]


def _stopped_early(state: State) -> bool:
    return state.name == "done" and state.reason.startswith("it stopped early")


def _describe_training(training: Training, places: tuple[Place, ...]) -> str:
    of = f" of {training.all_steps:,}" if training.all_steps else ""
    steps = "step" if training.done_steps == 1 and not of else "steps"
    where = ""
    if ranks := training.ranks or sum(len(place.ranks) for place in places):
        nodes = f" of {format_count(len(places), 'node')}" if places else ""
        where = f" on {format_count(ranks, 'rank')}{nodes}"
    results = ", at ".join(_list_results(training))
    return f"{training.done_steps:,}{of} {steps}{where}{': ' if results else ''}{results}."


def _list_results(training: Training) -> list[str]:
    results = []
    first, last = training.losses.y[:1], training.loss
    if training.diverged is not None:
        whose = "the loss" if last is None else "the validation loss"
        results.append(f"{whose} is not a number from step {training.diverged:,} on")
    elif first and last is not None and first[0] != last:
        verb = "fell" if last < first[0] else "rose"
        results.append(f"the loss {verb} from {format_number(first[0])} to {format_number(last)}")
    if training.speed is not None:
        results.append(f"{format_number(training.speed)} {training.unit}/s")
    return results


def summarise_runs(runs: tuple[RunFacts, ...], comparison: Comparison) -> str:
    """Return how many runs succeeded, which is best, and which is fastest."""
    done = sum(run.state == "done" for run in runs)
    going = Counter(run.state for run in runs if run.state not in (*ENDED, "unknown"))
    left = "".join(f", {count} {state}" for state, count in going.items())
    sentences = [f"{done} of {format_count(len(runs), 'run')} succeeded{left}."]
    counted = select_counted(comparison.rows)
    sentences += _name_best(
        counted, comparison, "Best" if done else "Best of runs that are not done,"
    )
    if diverged := [row.title for row in comparison.rows if row.diverged is not None]:
        sentences.append(f"The loss is not a number at the end of {format_names(diverged)}.")
    speeds = [(row.speed, row.title) for row in counted if row.speed is not None]
    if len(speeds) > 1:
        speed, title = max(speeds)
        sentences.append(f"Fastest: {title}, {format_number(speed)} {_name_unit(runs)}.")
    return " ".join(sentences)


def _name_best(rows: Sequence[Row], comparison: Comparison, word: str) -> Iterator[str]:
    """Yield which run is the best, if one is."""
    if rows[0].diverged is not None:
        return
    validated = comparison.measure == "validation loss"
    values = [row.validation if validated else row.loss for row in rows[:2]]
    if values[0] is not None and values[-1] not in (None, *values[:-1]):
        yield f"{word} by {comparison.measure}: {rows[0].title}, {format_number(values[0])}."


def _name_unit(runs: tuple[RunFacts, ...]) -> str:
    units = {run.training.unit for run in runs if run.training}
    return f"{units.pop()}/s" if len(units) == 1 else "a second"
