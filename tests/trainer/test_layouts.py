"""Every task, on every layout of processes, under both ways to start them, learns the same.

A job runs all tasks one after the other in one allocation, each in two halves, of which the second
continues the first. Its ranks are forked from a process that has imported torch.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import skip_without
from forked import MODULES, Server, ask_by, run_server
from jobs import submit

skip_without("torch", "sklearn")

from .conftest import ROOT, TEXT, TOY  # noqa: E402

pytestmark = pytest.mark.torch

TEXT_FLAGS = ("--context", "16", "--batch-tokens", "192")
TASKS = {
    "gpt": TEXT_FLAGS,
    "digits": ("--model", "cnn", "--batch-samples", "12"),
    "toy": ("--batch-samples", "12"),
}
# Tasks of one's own.
FILES = {
    "digits": str(ROOT / "examples" / "digits_task.py"),
    "toy": TOY,
}
IMPORTED = (*MODULES, "sklearn.datasets")
COMMON = ("--log-every", "1", "--warmup-steps", "1", "--val-items", "12")


def losses(folder: Path, processes: list[int], mode: str, server: Server) -> dict[str, list[float]]:
    """Run a job; the losses of each task's steps, and of the validations at the end."""
    folder.mkdir(parents=True)
    (folder / "text.txt").write_text(TEXT)
    runs = []
    for task, flags in TASKS.items():
        own = ["--task", FILES.get(task, task), "--out", str(folder / task), *flags, *COMMON]
        own += ["--data", str(folder / "text.txt")] if flags is TEXT_FLAGS else []
        runs += [[*own, "--steps", "3"], [*own, "--steps", "6"]]
    script = str(Path(__file__).with_name("several.py"))
    # A port for each run: processes of pytest are numbered one after the other.
    arguments = [str(21_000 + os.getpid() % 700 * 10), json.dumps(runs)]
    content = {
        "name": "tasks",
        "resources": {"nodes": len(processes), "cpus_per_node": 2, "walltime": "10m"},
        "launch": {"processes_per_node": processes, "mode": mode},
        "environment": {"venv": sys.prefix, "variables": {"PYTHONPATH": str(ROOT)}},
        "run": {"command": ask_by(server, script, *arguments)},
    }
    job = submit(content, scheduler="local", cwd=folder)
    assert job.wait(600) == "done 0", job.everything()  # of five tasks, twice each
    found = {}
    for task in TASKS:
        lines = [json.loads(x) for x in (folder / task / "metrics.jsonl").read_text().splitlines()]
        starts = [line for line in lines if line["kind"] == "start"]
        assert [line["step"] for line in starts] == [0, 3], job.everything()
        assert len(starts[1]["micro_batches"]) == sum(processes)
        steps = [line for line in lines if line["kind"] == "step"]
        assert [line["step"] for line in steps] == list(range(1, 7))
        found[task] = [line["loss"] for line in [*steps, lines[-1]] if "loss" in line]
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """What ranks on this machine are forked from."""
    yield from run_server(IMPORTED)


@pytest.fixture(scope="module")
def alone(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """What one process finds."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    return losses(folder, [1], "direct", server)


def all_pairs() -> Iterator[Any]:
    """Each layout in one mode; `tests/trainer/test_slurm.py` has both modes on a Slurm."""
    for number, processes in enumerate([[2, 2], [2, 2, 2], [2, 1, 1]]):
        mode = "direct" if number % 2 else "torchrun"
        yield pytest.param(processes, mode, id=f"{processes}-{mode}")


@pytest.mark.parametrize(("processes", "mode"), list(all_pairs()))
def test_every_task_trains_resumes_and_learns_the_same(
    processes: list[int],
    mode: str,
    alone: dict[str, list[float]],
    server: Server,
    tmp_path: Path,
) -> None:
    found = losses(tmp_path / "run", processes, mode, server)
    for task, expected in alone.items():
        assert found[task] == pytest.approx(expected, abs=1e-5), task
