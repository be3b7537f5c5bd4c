"""What a function's job is made of: its names, its call, and what comes back."""

import functools
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobgen.errors import UsageError
from jobgen.jobs.function import prepare_calls

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
