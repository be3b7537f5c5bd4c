"""The ledger of a run: every second is of one kind, and planted spans are found."""

import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.report.facts import Attempt, Ledger
from jobgen.report.gpu_use import measure_energy, read_samples
from jobgen.report.ledger import KINDS, draw_ledger, keep_ledger, sum_ledgers

Lines = dict[str, list[dict[str, Any]]]
BEGAN = 1_000_000.0


def touch(path: Path, moment: float, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (moment, moment))


def keep(run: Path, attempts: list[Attempt], lines: Lines, until: float = 0.0) -> Ledger:
    found = keep_ledger(attempts, lines, run, submitted=BEGAN - 100, until=until or BEGAN)
    assert found
    return found


spans = st.floats(0, 5000, allow_nan=False)
moments = st.floats(BEGAN - 500, BEGAN + 20_000)
attempt_lists = st.lists(
    st.tuples(spans, spans, st.sampled_from(["done", "failed", "continued", None])),
    min_size=1,
    max_size=4,
)
written = st.lists(
    st.tuples(
        st.sampled_from(["start", "step", "save", "val"]),
        st.integers(0, 3),
        st.integers(0, 500),
        moments,
        spans,
    ),
    max_size=40,
)


@given(attempt_lists, written, moments)
def test_the_kinds_add_up_to_the_wall_clock_whatever_is_on_record(
    tmp_path_factory: pytest.TempPathFactory,
    planted: list[tuple[float, float, str | None]],
    told: list[tuple[str, int, int, float, float]],
    odd: float,
) -> None:
    run, at, attempts = tmp_path_factory.mktemp("run"), BEGAN, []
    for number, (gap, took, outcome) in enumerate(planted):
        at += gap
        attempts.append(
            Attempt(number, ("n1", "n2"), at, at + took if outcome else None, outcome, 0)
        )
        at += took
        touch(run / f"attempts/{number}/failed", odd)
        touch(run / f"attempts/{number}/node-0.started", odd + number)
    lines: Lines = {}
    for kind, attempt, step, time, span in told:
        line = {"kind": kind, "attempt": attempt, "step": step, "time": time}
        lines.setdefault(kind, []).append(
            line | {"step_s": span / 10, "val_s": span, "ckpt_s": span / 3, "step_max_s": span / 5}
        )
    ledger = keep(run, attempts, lines, until=at)
    ends = [one.ended for one in attempts]
    wall = (at if ends[-1] is None else ends[-1]) - (BEGAN - 100)
    assert sum(ledger.seconds.values()) == pytest.approx(wall, rel=1e-6, abs=1e-3)
    assert set(ledger.seconds) <= set(KINDS)
    assert all(span >= 0 for span in ledger.seconds.values())
    assert math.isclose(sum(width for *_, width in draw_ledger(ledger)), 1000, abs_tol=0.1)


def test_planted_spans_are_found(tmp_path: Path) -> None:
    """A start that is lost after 30 steps, and one that does the rest."""
    lines: Lines = {
        "start": [
            {"kind": "start", "attempt": 0, "step": 0, "time": BEGAN + 40},
            {"kind": "start", "attempt": 1, "step": 20, "time": BEGAN + 400},
        ],
        "step": [
            {"attempt": 0, "step": 10, "time": BEGAN + 80, "step_s": 2.0, "ckpt_s": 0},
            {"attempt": 0, "step": 20, "time": BEGAN + 105, "step_s": 2.0, "ckpt_s": 5},
            {"attempt": 1, "step": 30, "time": BEGAN + 420, "step_s": 2.0, "ckpt_s": 0},
            {"attempt": 1, "step": 40, "time": BEGAN + 447, "step_s": 2.0, "ckpt_s": 0},
        ],
        "val": [{"kind": "val", "attempt": 1, "step": 40, "time": BEGAN + 446, "val_s": 7.0}],
    }
    lines["step"][0]["step_max_s"] = 22.0
    for line in lines["step"]:
        line["kind"] = "step"
    touch(tmp_path / "attempts/0/node-0.started", BEGAN + 10)
    touch(tmp_path / "attempts/0/reached-n1", BEGAN + 15)
    touch(tmp_path / "attempts/0/reached-n2", BEGAN + 28)
    touch(tmp_path / "attempts/0/failed", BEGAN + 125, "1 1\n")
    attempts = [
        Attempt(0, ("n1", "n2"), BEGAN, BEGAN + 130, "continued", 1),
        Attempt(1, ("n1", "n3"), BEGAN + 380, BEGAN + 450, "done", 0),
    ]
    ledger = keep(tmp_path, attempts, lines)
    assert ledger.seconds == pytest.approx(
        {
            "queued": 100 + 250,
            "starting": 10 + 12 + 20,
            "rendezvous": 18,
            "first step": 20,
            "productive": 20 + 20 + 20 + 20,
            "checkpoint stall": 5,
            "lost steps": 20,
            "evaluation": 7,
            "ending": 5 + 3,
        }
    )
    assert ledger.ettr == pytest.approx(80 / 200)
    assert ledger.ettr_queued == pytest.approx(80 / 550)
    assert ledger.node_hours == pytest.approx(2 * 200 / 3600)
    both = sum_ledgers([ledger, None, ledger])
    assert both
    assert (both.wall, both.ettr) == pytest.approx((2 * ledger.wall, ledger.ettr))


def test_compiling_before_the_first_step_is_part_of_it(tmp_path: Path) -> None:
    start = {"kind": "start", "attempt": 0, "step": 0, "time": BEGAN + 60, "warm_up_s": 45.0}
    step = {"kind": "step", "attempt": 0, "step": 10, "time": BEGAN + 80, "step_s": 2.0}
    touch(tmp_path / "attempts/0/node-0.started", BEGAN + 5)
    one = Attempt(0, ("n1",), BEGAN, BEGAN + 81, "done", 0)
    ledger = keep(tmp_path, [one], {"start": [start], "step": [step]})
    assert ledger.seconds == {
        "queued": 100,
        "starting": 15,
        "first step": 45,
        "productive": 20,
        "ending": 1,
    }


def test_a_program_that_tells_its_steps_alone_was_productive_in_them(tmp_path: Path) -> None:
    """Its first line tells a step that compiled; a pause has no word, and is not known."""
    told = [(1, 50, 13.0), (11, 70, 2.0), (21, 90, 2.0), (31, 140, 2.0), (41, 160, 2.0)]
    lines: Lines = {
        "step": [
            {"kind": "step", "step": step, "time": BEGAN + at, "step_s": took}
            for step, at, took in told
        ],
        "val": [{"kind": "val", "step": 41.0, "time": BEGAN + 168}],
    }
    one = Attempt(0, ("n1",), BEGAN, BEGAN + 170, "done", 0)
    touch(tmp_path / "attempts/0/node-0.started", BEGAN + 5)
    assert keep(tmp_path, [one], lines).seconds == {
        "queued": 100,
        "starting": 5 + 32,
        "first step": 11,
        "productive": 2 + 4 * 20,
        "evaluation": 8,
        "ending": 2,
        "not known": 30,
    }


def test_a_hang_and_idle_time_are_told_apart(tmp_path: Path) -> None:
    lines: Lines = {
        "start": [{"kind": "start", "attempt": 0, "step": 0, "time": BEGAN}],
        "step": [{"kind": "step", "attempt": 0, "step": 5, "time": BEGAN + 10, "step_s": 2.0}],
    }
    touch(tmp_path / "attempts/0/failed", BEGAN + 1810, "0 1\n")
    touch(tmp_path / "attempts/0/verdict", BEGAN + 1811, "unknown waited 0 \nTimed out\n")
    one = Attempt(0, ("n1",), BEGAN, BEGAN + 1820, "failed", 1)
    assert keep(tmp_path, [one], lines).seconds["hang"] == 1800
    for name in ("failed", "verdict"):
        (tmp_path / "attempts/0" / name).unlink()
    touch(tmp_path / "attempts/0/end", BEGAN, f"{BEGAN + 1820:.0f}\n")
    assert keep(tmp_path, [one], lines).seconds["idle to walltime"] == 1810
    lines = {}
    found = keep(tmp_path, [one._replace(outcome=None, ended=None)], lines, until=BEGAN + 60)
    assert found.seconds == {"queued": 100, "not known": 60}
    assert found.ettr is None


def test_energy_is_the_integral_of_the_power(tmp_path: Path) -> None:
    """Of two GPUs, whose power goes up evenly, then a pause, and a steady stretch."""
    lines = []
    for second in [*range(0, 3600, 30), *range(7200, 10_801, 30)]:
        power = 100 + second / 36 if second < 3600 else 300
        clock = f"2026/03/01 {second // 3600 + 1:02}:{second // 60 % 60:02}:{second % 60:02}.000"
        lines += [f"{clock}, {gpu}, 90, 1000, 80000, {power:.2f}" for gpu in (0, 1)]
    touch(tmp_path / "usage/n1.csv", BEGAN, "\n".join(lines) + "\n")
    # Watts times hours: 150 on average over 3570 s, then 300 for an hour.
    expected = 2 * (149.6 * 3570 / 3600 + 300) / 1000
    assert measure_energy(read_samples([tmp_path])) == pytest.approx(expected, rel=0.05)
    assert measure_energy(read_samples([tmp_path / "none"])) is None


def test_roles_that_share_a_node_note_its_gpus_once(tmp_path: Path) -> None:
    line = "2026/03/01 01:{:02}:00.000, 0, 90, 1000, 80000, 300\n"
    for role, minutes in (("server", 60), ("train", 30)):
        path = tmp_path / role / "usage/n1.csv"
        touch(path, BEGAN, "".join(line.format(minute) for minute in range(minutes)))
    touch(tmp_path / "train/usage/n2.csv", BEGAN, line.format(0) + line.format(1))
    samples = read_samples([tmp_path / "server", tmp_path / "train"])
    assert [len(node) for node in samples] == [60, 2]
    assert measure_energy(samples) == pytest.approx(0.3 * 60 / 60)
