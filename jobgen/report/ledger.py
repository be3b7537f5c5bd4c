"""Where the time of a run went: each second has exactly one kind.

An attempt is cut at the moments that its files and the trainer's metrics tell, in their order, so
the kinds add up to the wall clock. What no file tells is `not known`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jobgen.jobs.files import get_mtime, read_if_left
from jobgen.report.facts import Attempt, Ledger
from jobgen.report.figures import find_median
from jobgen.spec.units import read_number

#: in the order in which a run has them
KINDS = (
    *("queued", "starting", "rendezvous", "preflight", "first step", "productive", "evaluation"),
    *("checkpoint stall", "lost steps", "hang", "ending", "idle to walltime", "not known"),
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
    starts = [one.began or 0.0 for one in begun]
    node_seconds, at = 0.0, submitted or starts[0]
    for one, start, following in zip(begun, starts, [*starts[1:], until], strict=True):
        began = max(at, start)
        seconds["queued"] += began - at
        at = max(began, one.ended or following)
        node_seconds += (at - began) * len(one.nodes)
        split = _Attempt(seconds, one, run_dir / "attempts" / str(one.number), began, at)
        split.split(_list_lines(lines, one.number), again=one is not begun[-1])
    return _make_ledger(seconds, node_seconds / 3600)


class _Attempt:
    """Adds the time of an attempt to `seconds`; `at` is the moment up to which it is counted."""

    def __init__(
        self, seconds: dict[str, float], told: Attempt, folder: Path, began: float, ended: float
    ) -> None:
        self.seconds, self.told, self.folder = seconds, told, folder
        self.at, self.ended = began, ended

    def go_on(self, until: float, kind: str) -> None:
        """Count the time up to a later moment as this kind."""
        until = min(max(until, self.at), self.ended)
        self.seconds[kind] += until - self.at
        self.at = until

    def take(self, left: float, most: float, kind: str) -> float:
        """Count that much of the time that is left, if available; return the rest."""
        taken = min(left, most)
        self.seconds[kind] += taken
        return left - taken

    def split(self, lines: list[dict[str, Any]], *, again: bool) -> None:
        """Count the whole attempt, from its files and its lines of metrics."""
        known = [line for line in lines if self.at <= line["time"] <= self.ended]
        marks = [line for line in known if line["kind"] != "start"]
        self._split_start(known)
        self._split_training(marks)
        # The only node of a job leaves no word of a failure but the verdict.
        failed = get_mtime(self.folder / "failed") or get_mtime(self.folder / "verdict")
        has_failed = self.at <= failed <= self.ended
        end = "not known"
        if marks:
            end = self._name_loss(again=again) if has_failed else self._name_end()
        self.go_on(failed if has_failed else self.ended, end)
        self.go_on(self.ended, "ending")

    def _split_start(self, lines: list[dict[str, Any]]) -> None:
        """Count the time before the first step, as far as files show it."""
        self.go_on(_find_last(self.folder.glob("node-*.started")), "starting")
        # Torchrun's first process on each node; a restart by the agent does not change it.
        self.go_on(_find_last(self.folder.glob("reached-*")), "rendezvous")
        answered = _find_last(self.folder.parent.parent.glob("preflight/*.json"))
        if answered <= self.ended:  # else a later start's
            self.go_on(answered, "preflight")
        start = next((line for line in lines if line["kind"] == "start"), None)
        if start is not None:
            self.go_on(start["time"] - _read(start, "warm_up_s"), "starting")
            self.go_on(start["time"], "first step")
        elif lines:  # of a program that tells no more than its steps
            self.go_on(lines[0]["time"] - _read(lines[0], "step_s"), "starting")

    def _split_training(self, marks: list[dict[str, Any]]) -> None:
        """Count the time to the last line on progress."""
        kinds = {line["kind"] for line in marks}
        tells_of_saves = "save" if "save" in kinds else "step"
        usual, slow = _measure_steps([line for line in marks if line["kind"] == "step"])
        done = marks[0]["step"] - 1 if marks else 0
        for line in marks:
            left = self.take(max(0.0, line["time"] - self.at), _read(line, "val_s"), "evaluation")
            if line["kind"] == tells_of_saves:
                left = self.take(left, _read(line, "ckpt_s"), "checkpoint stall")
            useful = rest = self.take(left, slow, "first step")
            slow = max(0.0, slow - left)
            if "attempt" not in line:  # what its steps do not account for went elsewhere
                useful = usual * max(0.0, line["step"] - done)
            rest = self.take(rest, useful, "productive")
            self.seconds["evaluation" if line["kind"] == "val" else "not known"] += rest
            self.at, done = max(self.at, line["time"]), line["step"]

    def _name_loss(self, *, again: bool) -> str:
        """Return the kind of the time between the last step that counts and the failure."""
        if read_if_left(self.folder / "verdict").split()[1:2] == ["waited"]:
            return "hang"
        return "lost steps" if again else "not known"

    def _name_end(self) -> str:
        """Return the kind of the time after the last step of an attempt that has not failed."""
        outcome = self.told.outcome
        limit = read_number(read_if_left(self.folder / "end"), text=True)
        if outcome != "done" and self.ended >= (limit or math.inf) - _TO_THE_LIMIT:
            return "idle to walltime"
        return "ending" if outcome else "not known"


def _make_ledger(seconds: dict[str, float], node_hours: float) -> Ledger:
    kept = {kind: seconds[kind] for kind in KINDS if seconds.get(kind, 0) > 0}
    wall = sum(kept.values())
    ran, productive = wall - kept.get("queued", 0.0), kept.get("productive")
    ledger = Ledger(kept, wall, None, None, node_hours, kwh=None, kwh_by="")
    if productive is None or ran <= 0:
        return ledger
    return ledger._replace(ettr=productive / ran, ettr_queued=productive / wall)


def _find_last(paths: Iterable[Path]) -> float:
    return max(map(get_mtime, paths), default=0.0)


def _measure_steps(steps: list[dict[str, Any]]) -> tuple[float, float]:
    """Return the usual seconds of a step, and how much longer the first took: it compiles."""
    usual = find_median([took for line in steps if (took := _read(line, "step_s"))]) or 0.0
    first = steps[0] if steps else {}
    longest = max(_read(first, "step_s"), _read(first, "step_max_s"))
    return usual, max(0.0, longest - usual)


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
    """Return the kinds with their look, and the beginning and width of each, out of 1000."""
    bar, at = [], 0.0
    for kind, span in ledger.seconds.items():
        width = 1000 * span / ledger.wall
        bar.append((kind, f"l{KINDS.index(kind)}", round(at, 2), round(width, 2)))
        at += width
    return bar


def sum_ledgers(ledgers: Iterable[Ledger | None]) -> Ledger | None:
    """Return the ledger of several runs together, with kWh only if all of them have it."""
    known = [one for one in ledgers if one is not None]
    if not known:
        return None
    seconds = {kind: sum(one.seconds.get(kind, 0.0) for one in known) for kind in KINDS}
    ledger = _make_ledger(seconds, sum(one.node_hours for one in known))
    kwh = dict.fromkeys(one.kwh_by for one in known)
    if "" in kwh:  # one that does not tell
        return ledger
    return ledger._replace(kwh=sum(one.kwh or 0.0 for one in known), kwh_by=" and ".join(kwh))
