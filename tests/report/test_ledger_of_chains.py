"""Fifty chains with planted faults, as the trainer and the script leave them on disk.

A chain is played against a clock: what each second went into is known before it is written down.
"""

import json
import math
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jobgen.jobs.record import JobRecord
from jobgen.report.facts import Ledger
from jobgen.report.gather import read_ledger

BEGAN = 1_790_000_000.0
FAULTS = ("crash", "crash", "hang", "walltime", "stop")
LOG_EVERY, SAMPLE_EVERY, GPUS = 10, 10, 2


class Chain:
    """A run that is played: its files, and in `truth` the seconds by kind."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.now, self.truth, self.joules = BEGAN, Counter[str](), 0.0
        self.job = JobRecord(
            id=str(seed), name="x", scheduler="slurm", folder=str(folder), submitted=BEGAN, argv=()
        )
        self.job.save()
        self.run = self.job.run_dir
        self.lines: list[dict[str, Any]] = []
        self.samples: list[str] = []
        self.steps, self.saved = draw.randint(400, 1200), 0
        self.pace, self.save_every = draw.uniform(0.5, 4), draw.choice((20, 37, 50, 100))
        self.agents = seed % 2 == 0
        faults = draw.randint(0, 4)
        for number in range(faults):
            self.attempt(number, draw.choice(FAULTS))
        self.attempt(faults, "")
        (self.run / "metrics.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in self.lines))
        (self.run / "usage").mkdir()
        (self.run / "usage/n1.csv").write_text("".join(self.samples))

    def spend(self, kind: str, span: float, watts: float = 100) -> None:
        """Let time pass, while the GPUs take power; a sample is a line for each of them."""
        if kind != "queued":
            begin = math.ceil(self.now / SAMPLE_EVERY) * SAMPLE_EVERY
            for moment in range(begin, math.ceil(self.now + span), SAMPLE_EVERY):
                clock = time.strftime("%Y/%m/%d %H:%M:%S.000", time.gmtime(moment))
                row = f"{clock}, {{}}, 90, 1000, 80000, {watts:.2f}\n"
                self.samples += [row.format(gpu) for gpu in range(GPUS)]
            self.joules += GPUS * watts * span
        self.truth[kind] += span
        self.now += span

    def touch(self, name: str, text: str = "") -> None:
        path = self.folder / name
        path.write_text(text)
        os.utime(path, (self.now, self.now))

    def write(self, kind: str, step: int, **values: float) -> None:
        told = {"kind": kind, "attempt": self.number, "step": step, "time": self.now}
        self.lines.append({**told, **values})

    def attempt(self, number: int, fault: str) -> None:
        """Play a start that goes on after what is saved, until a fault or the last step."""
        draw, self.number = self.draw, number
        self.folder = self.run / "attempts" / str(number)
        self.folder.mkdir(parents=True)
        elsewhere = number == 0 or fault == "walltime"
        self.spend("queued", draw.uniform(60, 3000) if elsewhere else draw.uniform(0.5, 3))
        self.touch("script")
        self.touch("nodes", "n1\nn2\n")
        self.spend("starting", draw.uniform(5, 20))
        self.touch("node-0.started")
        if self.agents:
            self.spend("rendezvous", draw.uniform(5, 60))
            self.touch("reached-n1")
            self.spend("rendezvous", draw.uniform(0, 20))
            self.touch("reached-n2")
        self.spend("starting", draw.uniform(10, 120))
        # The trainer drops what an earlier start has written beyond the checkpoint.
        self.lines = [line for line in self.lines if line["step"] <= self.saved]
        self.write("start", self.saved)
        last = self.steps if not fault else draw.randint(self.saved, self.steps - 1)
        self.train(last, saves=fault in ("", "stop"))
        if fault == "crash":
            self.spend("lost steps", draw.uniform(0, self.pace))
            self.touch("failed", "1 1\n")
        elif fault == "hang":
            self.spend("hang", draw.uniform(300, 1800), watts=80)
            self.touch("failed", "1 1\n")
            self.touch("verdict", "unknown waited - \nTimed out\n")
        elif fault == "walltime":
            self.spend("idle to walltime", draw.uniform(5, 60))
            (self.folder / "end").write_text(f"{self.now:.0f}\n")
        self.spend("ending", draw.uniform(1, 10))
        self.touch("outcome", "continued 1\n" if fault else "done 0\n")

    def train(self, last: int, *, saves: bool) -> None:
        """Take steps; a line is written a step later than its step, or before a checkpoint."""
        draw, spans, since, blocked = self.draw, [], 0.0, 0.0
        due: dict[str, Any] | None = None
        slow = draw.uniform(5, 60)  # the first step compiles
        for step in range(self.saved + 1, last + 1):
            span = self.pace * draw.uniform(0.95, 1.05)
            self.spend("step", span, watts=400 + 100 * math.sin(step / 40))
            self.spend("first step", slow)
            since += span
            spans.append(span + slow)
            slow = 0.0
            if due:
                self.write(**due)
            due = None
            if step % LOG_EVERY == 0:
                due = {"kind": "step", "step": step, "step_s": sum(spans) / len(spans)}
                due["step_max_s"] = max(spans)
                due["ckpt_s"], blocked = blocked, 0.0
                spans.clear()
            if step % self.save_every == 0 or (saves and step == last):
                if due:
                    self.write(**due)
                    due = None
                took = draw.uniform(1, 15)
                self.spend("checkpoint stall", took, watts=150)
                blocked += took
                self.write("save", step, save_s=took, ckpt_s=took)
                self.truth["productive"] += since
                self.saved, since = step, 0.0
            if step % 100 == 0:
                if due:
                    self.write(**due)
                    due = None
                took = draw.uniform(5, 30)
                self.spend("evaluation", took, watts=300)
                self.write("val", step, val_s=took)
        self.truth["lost steps"] += since
        del self.truth["step"]

    def read(self) -> Ledger:
        ledger = read_ledger(self.job, ended=True, now=self.now)
        assert ledger
        return ledger


@pytest.mark.slow
def test_fifty_chains_add_up_and_their_shares_are_those_that_were_planted(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for seed in range(50):
        chain = Chain(tmp_path / str(seed), seed)
        ledger, truth = chain.read(), chain.truth
        wall = chain.now - BEGAN
        share = truth["productive"] / (wall - truth["queued"])
        with subtests.test(f"chain {seed}"):
            assert sum(truth.values()) == pytest.approx(wall)
            assert sum(ledger.seconds.values()) == pytest.approx(wall, rel=0.01)
            met = ledger.seconds.get("rendezvous", 0)
            assert met == pytest.approx(truth["rendezvous"], rel=0.01)
            assert ledger.ettr == pytest.approx(share, rel=0.01)
            assert ledger.ettr_queued == pytest.approx(truth["productive"] / wall, rel=0.01)
            assert ledger.kwh == pytest.approx(chain.joules / 3.6e6, rel=0.05)
