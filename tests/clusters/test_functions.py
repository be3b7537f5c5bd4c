"""Python functions as jobs: results come back, and exceptions as themselves."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cluster_fixtures import Slurm
from jobs import jobgen
from support import ROOT

MODULE = """
import json
import os

class Odd(ValueError):
    pass

def square(number):
    if number == 3:
        raise Odd("of all numbers", number)
    return number * number, int(os.environ["RANK"])

def add(one, other=1):
    return one + other

def give():
    return lambda: 0
"""
PROGRAM = """
import functools, sys, traceback
import jobgen, mine
from jobgen.errors import JobFailedError, SpecError, UsageError

spec = {
    "scheduler": sys.argv[1],
    "resources": {"nodes": 1, "cpus_per_node": 1, "walltime": "5m"},
    "launch": {"mode": "direct"},
    "report": {"usage": False},
    "array": {"tasks": 1, "at_once": 4},
}
tasks = jobgen.map_function(mine.square, range(6), spec, warn=print)
one = jobgen.submit_function(mine.add, [1], spec | {"name": "a-b"}, kwargs={"other": 2}, warn=print)
assert one.result() == 3
assert one.name == "a-b"
array = jobgen.find(tasks[0].array)
try:
    array.result()
except UsageError as error:
    assert "ask its tasks, such as job.task(0).result()" in str(error)
results = []
for task in tasks:
    try:
        results.append(task.result())
    except mine.Odd as error:
        assert error.args == ("of all numbers", 3)
        text = "".join(traceback.format_exception(error))
        assert 'raise Odd("of all numbers", number)' in text and "in square" in text, text
        results.append("odd")
assert results == [(n * n, 0) if n != 3 else "odd" for n in range(6)], results
try:
    jobgen.submit_function(mine.add, [1], spec | {"launch": {"processes_per_node": [1, 2]}})
except SpecError:
    pass
else:
    raise AssertionError
try:
    jobgen.submit_function(mine.give, spec=spec).result()
except JobFailedError as error:
    assert "its result cannot be pickled" in str(error)
else:
    raise AssertionError
roles = {"roles": {"one": {"nodes": 1, "run": {"command": ["true"]}}}}
try:
    jobgen.submit_function(mine.add, [1], {**spec, **roles})
except UsageError as error:
    assert "add: a function is one program, not roles; leave them out" in str(error), error
else:
    raise AssertionError
for function, args, words in (
    (lambda: 0, (), "define it at the top level of a .py file"),
    (functools.partial(mine.add, 1), (), "is not a function; give a function of a module"),
    (mine.add, [lambda: 0], "cannot be pickled"),
):
    try:
        jobgen.submit_function(function, args, spec)
    except UsageError as error:
        assert words in str(error), error
    else:
        raise AssertionError
"""


def call(scheduler: str, env: Mapping[str, str], cwd: Path) -> None:
    (cwd / "mine.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, scheduler],
        env={**env, "PYTHONPATH": str(ROOT)},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len(list(cwd.glob("runs/*/calls/*"))) == 3
    cleaned = jobgen("clean", "--yes", "square", "a-b", "give", env=env, cwd=cwd)
    assert cleaned.returncode == 0, cleaned.stderr
    assert not list(cwd.glob("runs/*/calls/*"))


@pytest.mark.slow
def test_on_this_machine(tmp_path: Path) -> None:
    call("local", os.environ, tmp_path)


def test_on_slurm(slurm: Slurm, tmp_path: Path) -> None:
    call("slurm", slurm.env, tmp_path)


ITSELF = """
from typing import NamedTuple
import jobgen

SPEC = {"scheduler": "local", "resources": {"nodes": 1}, "launch": {"mode": "direct"}}

class Pair(NamedTuple):
    one: int
    other: int

class Odd(ValueError):
    pass

def swap(pair):
    if pair.one == 13:
        raise Odd("of all numbers")
    return Pair(pair.other, pair.one)

"""
GUARDED = """
if __name__ == "__main__":
    print(jobgen.submit_function(swap, [Pair(1, 2)], SPEC, warn=print).result() == Pair(2, 1))
    try:
        jobgen.submit_function(swap, [Pair(13, 2)], SPEC, warn=print).result()
    except Odd as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [["mine/swap.py"], ["-m", "mine.swap"]])
def test_a_function_of_the_program_that_runs(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "swap.py").write_text(ITSELF + GUARDED)
    (tmp_path / "swap.py").write_text("another of this name is in the folder of submission")
    ended = run_python(words, tmp_path)
    assert (ended.stdout, ended.stderr) == ("True\nof all numbers\n", "")


@pytest.mark.slow
def test_a_program_that_submits_as_it_is_imported_submits_no_more_jobs(tmp_path: Path) -> None:
    line = "jobgen.submit_function(swap, [Pair(1, 2)], SPEC, warn=print).result()\n"
    (tmp_path / "swap.py").write_text(ITSELF + line)
    ended = run_python(["swap.py"], tmp_path)
    assert (
        "whatever imports swap would submit a job; put what submits it below: if __name__"
        in (ended.stderr.splitlines()[-1])
    )
    assert len(list(tmp_path.glob("runs/swap/*/job.json"))) == 1


def run_python(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=cwd,
        capture_output=True,
        text=True,
    )


@pytest.mark.torch
def test_the_notebook_of_the_guide_runs_cell_by_cell(tmp_path: Path) -> None:
    cells = json.loads((ROOT / "docs" / "guides" / "functions.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    program = "\n".join([*code, "print(losses[0] > losses[1] > losses[2])"])
    (tmp_path / "cells.py").write_text(program)
    ended = subprocess.run(
        [sys.executable, "cells.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-2:] == ["-1.0 is not a learning rate", "True"]
