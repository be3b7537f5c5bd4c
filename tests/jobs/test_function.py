"""What a function's job is made of: its names, its call, and what comes back."""

import functools
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import jobgen
from jobgen.errors import JobFailedError, UsageError
from jobgen.jobs.function import RemoteError, check_call, prepare_calls, read_result
from jobgen.jobs.record import JobRecord

MODULE = """
import functools

def f(x):
    return "old", x

g = f

def f(x):
    return "new", x

def wrapped(x):
    return x

original = wrapped

@functools.wraps(original)
def wrapped(x):
    return original(x)

def local():
    def inner(x):
        return x
    return inner

class Model:
    def fit(self, x=1):
        return x

    @classmethod
    def make(cls, x=1):
        return cls.__name__, x

    @staticmethod
    def count(x=1):
        return x

    def __call__(self, x):
        return x

class Larger(Model):
    pass

@functools.cache
def kept(x):
    return x

short = lambda x: x

class Halt(BaseException):
    pass

def place():
    return __file__

def end(error):
    raise error

def give(x):
    return x
"""
LOCAL = {"scheduler": "local"}


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of functions in the current folder."""
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import mine  # type: ignore[import-not-found]

    yield mine
    del sys.modules["mine"]


def test_a_function_that_its_name_does_not_lead_back_to_is_refused(mine: Any) -> None:
    other = "is not what {} is, which a job would call; give that, with its object as"
    for function, words in (
        (mine.Model().fit, "Model.fit: this method " + other.format("mine.Model.fit")),
        (mine.Larger.make, "Model.make: this method " + other.format("mine.Model.make")),
        (mine.Larger().make, other.format("mine.Model.make")),
        (mine.g, "f: this function " + other.format("mine.f")),
        (mine.original, other.format("mine.wrapped")),
        (random.randint, other.format("random.Random.randint")),
        (mine.local(), "local.<locals>.inner: a job cannot import it; define it at the top level"),
        (mine.short, "<lambda>: a job cannot import it"),
        ([].append, "list.append: a job cannot import it"),
        (functools.partial(mine.f, 1), "a partial object is not a function; give a function"),
        (mine.Model(), "a Model object is not a function"),
    ):
        with pytest.raises(UsageError) as refusal:
            prepare_calls(function, [((1,), {})], LOCAL)
        assert words in str(refusal.value)
    assert not os.path.exists("runs")


def test_what_its_name_leads_back_to_is_sent(mine: Any) -> None:
    for function in (
        mine.f,
        mine.wrapped,
        mine.kept,
        mine.Model,
        mine.Model.fit,
        mine.Model.make,
        mine.Model().make,
        mine.Larger.count,
        len,
        os.path.join,
    ):
        assert prepare_calls(function, [((1,), {})], LOCAL).text


def call(
    function: Any, *args: Any, rank: int = 0, folder: str = ".", **keys: Any
) -> tuple[int, JobRecord]:
    """Make a call as the job's process would, in a folder; return its exit code, and the job."""
    ready = prepare_calls(function, [(args, {})], LOCAL | keys)
    (script,) = re.findall(r"exec python3 -u (\S+)", ready.text)
    job = JobRecord("7", function.__name__, "local", os.getcwd(), 0.0, ())
    job.run_dir.mkdir(parents=True, exist_ok=True)
    around = {**os.environ, "JOBGEN_RUN_DIR": str(job.run_dir), "RANK": str(rank)}
    ended = subprocess.run([sys.executable, script], env=around, cwd=folder, capture_output=True)
    return ended.returncode, job


def test_a_function_that_does_not_return_is_not_done_and_does_not_end_who_asks(mine: Any) -> None:
    for error in (SystemExit(), SystemExit(0), SystemExit(5), SystemExit("text"), mine.Halt(1)):
        code, job = call(mine.end, error)
        assert code == (5 if error.args == (5,) else 1)
        with pytest.raises(JobFailedError) as failed:
            read_result(job, "failed")
        assert str(failed.value) == f"job 7: its function has not returned: {error!r}"
        cause = failed.value.__cause__
        assert (type(cause), getattr(cause, "args", ())) == (type(error), error.args)
        assert isinstance(cause and cause.__cause__, RemoteError)
        assert "in end" in str(cause and cause.__cause__)
    code, job = call(mine.give, SystemExit(0))
    assert (code, type(read_result(job, "done"))) == (0, SystemExit)
    code, job = call(mine.end, ValueError(3))
    with pytest.raises(ValueError, match="3"):
        read_result(job, "failed")
    assert call(mine.end, SystemExit(0), rank=1)[0] == 0  # its result is not the job's


def test_a_call_is_found_from_another_folder_and_its_module_in_a_snapshot(
    mine: Any, tmp_path: Path
) -> None:
    Path("copy").mkdir()
    assert read_result(call(mine.place, folder="copy")[1], "done") == str(tmp_path / "mine.py")
    shutil.copy("mine.py", "copy")
    code, job = call(mine.place, folder="copy", snapshot=["mine.py"])
    assert (code, read_result(job, "done")) == (0, str(tmp_path / "copy" / "mine.py"))


def test_a_folder_that_reads_as_a_variable_is_no_part_of_a_path(mine: Any) -> None:
    Path("a$b c").mkdir()
    os.chdir("a$b c")
    assert read_result(call(mine.give, 3)[1], "done") == 3


def test_an_array_says_how_the_tasks_of_a_map_run_and_the_values_which_there_are(mine: Any) -> None:
    calls: list[Any] = [((x,), {}) for x in range(3)]
    spec: dict[str, Any] = {"scheduler": "slurm", "resources": {"walltime": "1h"}}
    for array, directive in (
        ({"at_once": 2}, "--array=0-2%2"),
        ({"at_once": 2, "tasks": 9}, "--array=0-2%2"),
        ({"at_once": 1, "zip": {"lr": [1, 2]}, "numbers": [4, 5]}, "--array=0-2%1"),
        ({}, "--array=0-2"),
    ):
        ready = prepare_calls(mine.f, calls, spec | {"array": array})
        assert directive in ready.text.split()
        assert ready.about.tasks == 3
    assert "--array=0-2" in prepare_calls(mine.f, calls, spec).text.split()
    shared = {"together": 3, "at_once": 3}
    assert prepare_calls(mine.f, calls, spec | {"array": shared}).about.together == 3
    assert prepare_calls(mine.f, calls[:1], spec | {"array": shared}).about.tasks == 0


def test_what_is_no_list_of_arguments_is_refused(mine: Any) -> None:
    for args, kind in (("abc", "str"), (b"abc", "bytes"), (1, "int"), ({"x": 1}, "dict")):
        with pytest.raises(UsageError, match=f"^f: args is a {kind}, and not a list of arguments"):
            prepare_calls(mine.f, [(args, {})], LOCAL)  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r"^f: kwargs is a list, and not a dict"):
        prepare_calls(mine.f, [([], [1])], LOCAL)  # type: ignore[list-item]
    for several in ([1], (1,), range(1), iter([1])):
        assert prepare_calls(mine.f, [(several, {})], LOCAL).text  # type: ignore[list-item]


def test_a_job_that_calls_no_function_has_no_result(mine: Any) -> None:
    _, job = call(mine.give, 3)
    check_call(job)  # its script is not there
    other = jobgen.prepare(LOCAL | {"name": "x", "resources": {}, "run": {"command": ["true"]}})
    (job.run_dir / "script").write_text(other.text)
    for one in (job, replace(job, id="7_0", array="7"), replace(job, tasks=2)):
        with pytest.raises(UsageError, match=r"^job 7(_0)? calls no function, and has no result"):
            check_call(one)
    (job.run_dir / "script").write_text(prepare_calls(mine.give, [((3,), {})], LOCAL).text)
    check_call(job)
    with pytest.raises(UsageError, match=r"job 7 is an array; ask its tasks"):
        check_call(replace(job, tasks=2))
