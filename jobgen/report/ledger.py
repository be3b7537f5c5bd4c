"""Where the time of a run went: each second of it is of exactly one kind.

An attempt is cut at the moments that its files and the trainer's metrics tell, in their order, so
the kinds add up to the wall clock. What no file tells is `not known`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jobgen.jobs.files import get_mtime, read_if_left
from jobgen.report.facts import Attempt, Ledger
from jobgen.report.figures import find_median
from jobgen.spec.units import read_number

#: in the order in which a run has them
KINDS = (
    "queued",
    "starting",
    "rendezvous",
    "preflight",
    "first step",
    "productive",
    "evaluation",
    "checkpoint stall",
    "lost steps",
    "hang",
    "ending",
    "idle to walltime",
    "not known",
)
_TO_THE_LIMIT = 120.0  # seconds before the end of the walltime that count as its end


def keep_ledger(
    attempts: Sequence[Attempt],
    lines: dict[str, list[dict[str, Any]]],
    run_dir: Path,
    *,
    submitted: float | None,
    until: float,
) -> Ledger | None:
    """Return the ledger of a run up to the moment `until`, but its energy.

    None if no attempt has begun.
    """
    begun = [one for one in attempts if one.began is not None]
    if not begun:
        return None
    seconds: defaultdict[str, float] = defaultdict(float)
    node_seconds, at = 0.0, submitted or begun[0].began or 0.0
    for one, following in zip(begun, [*begun[1:], None], strict=True):
        began = max(at, one.began or at)
        seconds["queued"] += began - at
        at = max(began, one.ended or (following and following.began) or until)
        node_seconds += (at - began) * len(one.nodes)
        known = [line for line in _list_lines(lines, one.number) if began <= line["time"] <= at]
        folder = run_dir / "attempts" / str(one.number)
        for kind, span in _split_attempt(one, known, folder, began, at, again=bool(following)):
            seconds[kind] += span
    return _make_ledger(seconds, node_seconds / 3600)


def _make_ledger(seconds: dict[str, float], node_hours: float) -> Ledger:
    kept = {kind: seconds[kind] for kind in KINDS if seconds.get(kind, 0) > 0}
    wall = sum(kept.values())
    ran, productive = wall - kept.get("queued", 0.0), kept.get("productive")
    known = productive is not None and ran > 0
    return Ledger(
        seconds=kept,
        wall=wall,
        ettr=(productive or 0.0) / ran if known else None,
        ettr_queued=(productive or 0.0) / wall if known else None,
        node_hours=node_hours,
        kwh=None,
        kwh_by="",
    )


def _split_attempt(
    one: Attempt,
    lines: list[dict[str, Any]],
    folder: Path,
    began: float,
    ended: float,
    *,
    again: bool,
) -> Iterator[tuple[str, float]]:
    """Yield the spans of an attempt; they add up to the time from `began` to `ended`."""
    at = began
    for until, kind in _list_cuts(folder, lines, ended):
        until = min(max(until, at), ended)
        yield kind, until - at
        at = until
    marks = [line for line in lines if line["kind"] != "start"]
    if not marks:
        failed = min(max(_find_failure(folder), at), ended)
        yield "not known", failed - at
        yield "ending" if failed > at else "not known", ended - failed
        return
    yield from _split_training(marks, at)
    at = max(at, marks[-1]["time"])
    yield from _split_end(one, folder, at, ended, again=again)


def _list_cuts(
    folder: Path, lines: list[dict[str, Any]], ended: float
) -> Iterator[tuple[float, str]]:
    """Yield until when an attempt was what before its first step, in order; 0 if no file tells."""
    yield _find_last(folder.glob("node-*.started")), "starting"
    # Torchrun's first process on each node; a restart by the agent does not change it.
    yield _find_last(folder.glob("reached-*")), "rendezvous"
    answered = _find_last(folder.parent.parent.glob("preflight/*.json"))
    yield answered if answered <= ended else 0.0, "preflight"  # the last start's
    start = next((line for line in lines if line["kind"] == "start"), None)
    if start is not None:
        yield start["time"] - _read(start, "warm_up_s"), "starting"
        yield start["time"], "first step"
    elif lines:  # of a program that tells no more than its steps
        yield lines[0]["time"] - _read(lines[0], "step_s"), "starting"


def _find_last(paths: Iterable[Path]) -> float:
    return max(map(get_mtime, paths), default=0.0)


def _split_training(marks: list[dict[str, Any]], began: float) -> Iterator[tuple[str, float]]:
    """Yield the spans from `began`, when all was ready, to the last line on progress."""
    steps = [line for line in marks if line["kind"] == "step"]
    usual = find_median([_read(line, "step_s") for line in steps]) or 0.0
    saves = any(line["kind"] == "save" for line in marks)  # else the steps tell of them
    longest = max(_read(steps[0], key) for key in ("step_s", "step_max_s")) if steps else 0.0
    slow = max(0.0, longest - usual)  # it compiles
    before, done = began, marks[0]["step"] - 1
    for line in marks:
        span = max(0.0, line["time"] - before)
        evaluated = min(span, _read(line, "val_s"))
        tells = line["kind"] == ("save" if saves else "step")
        stalled = min(span - evaluated, _read(line, "ckpt_s") if tells else 0.0)
        left = span - evaluated - stalled
        first, slow = min(left, slow), max(0.0, slow - left)
        useful = left - first
        if "attempt" not in line:  # what its steps do not account for went elsewhere
            useful = min(useful, usual * max(0.0, line["step"] - done))
        yield "first step", first
        yield "evaluation", evaluated
        yield "checkpoint stall", stalled
        yield "productive", useful
        yield "evaluation" if line["kind"] == "val" else "not known", left - first - useful
        before, done = max(before, line["time"]), line["step"]


def _split_end(
    one: Attempt, folder: Path, at: float, ended: float, *, again: bool
) -> Iterator[tuple[str, float]]:
    """Yield the spans after the last step that counts: what was lost, and how it ended."""
    failed = _find_failure(folder)
    if at <= failed <= ended:
        what = "lost steps" if again else "not known"
        if read_if_left(folder / "verdict").split()[1:2] == ["waited"]:
            what = "hang"
        yield what, failed - at
        yield "ending", ended - failed
        return
    limit = read_number(read_if_left(folder / "end"), text=True)
    at_limit = limit is not None and ended >= limit - _TO_THE_LIMIT
    stopped = one.outcome == "done" or (one.outcome == "continued" and not at_limit)
    if at_limit and not stopped:
        yield "idle to walltime", ended - at
    else:
        yield "ending" if one.outcome else "not known", ended - at


def _find_failure(folder: Path) -> float:
    """When the start failed; the only node of a job leaves no word of that but the verdict."""
    return get_mtime(folder / "failed") or get_mtime(folder / "verdict")


def _list_lines(lines: dict[str, list[dict[str, Any]]], attempt: int) -> list[dict[str, Any]]:
    """Return the lines of an attempt, or of none, that have a step and a moment, in its order."""
    own = [
        line
        for kind in ("start", "step", "save", "val")
        for line in lines.get(kind, [])
        if line.get("attempt", attempt) == attempt
        and read_number(line.get("time")) is not None
        and read_number(line.get("step")) is not None
    ]
    return sorted(own, key=lambda line: line["time"])


def _read(line: dict[str, Any], key: str) -> float:
    return max(0.0, read_number(line.get(key)) or 0.0)


def draw_ledger(ledger: Ledger) -> list[tuple[str, str, float, float]]:
    """Return the kinds with how they look, and where each begins and how wide it is, of 1000."""
    bar, at = [], 0.0
    for kind, span in ledger.seconds.items():
        width = 1000 * span / ledger.wall
        bar.append((kind, f"l{KINDS.index(kind)}", round(at, 2), round(width, 2)))
        at += width
    return bar


def sum_ledgers(ledgers: Iterable[Ledger | None]) -> Ledger | None:
    """Return the ledger of several runs together; kWh only where all of them tell."""
    known = [one for one in ledgers if one is not None]
    if not known:
        return None
    seconds: defaultdict[str, float] = defaultdict(float)
    for one in known:
        for kind, span in one.seconds.items():
            seconds[kind] += span
    ledger = _make_ledger(seconds, sum(one.node_hours for one in known))
    kwh = [one.kwh for one in known if one.kwh is not None]
    if len(kwh) < len(known):
        return ledger
    by = " and ".join(dict.fromkeys(one.kwh_by for one in known))
    return ledger._replace(kwh=sum(kwh), kwh_by=by)
