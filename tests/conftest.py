"""Fixtures for all tests, the tiers they fall into, and how hard hypothesis tries.

Plain `pytest` leaves out what is marked; CONTRIBUTING.md has the commands for the rest.
"""

import gc
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

# Before any test imports torch: threads that wait for each other on busy cores take far longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The list of folders that jobs were submitted from is a file of the user's own.
os.environ["XDG_STATE_HOME"] = os.path.join(tempfile.gettempdir(), f"jobgen-state-{os.getpid()}")

# What is imported and collected lives to the end: to look for garbage among it takes seconds.
gc.disable()

# Python keeps 512 patterns and forgets the oldest; jobgen has 2,000, which one process hardly looks
# for twice, but tests again and again.
re._MAXCACHE = 10_000  # type: ignore[attr-defined]

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every machine: `benchmarks/fuzz.py` is for those that nobody has seen.
settings.register_profile("quick", max_examples=20, deadline=None, derandomize=True)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.load_profile("quick")

pytest_plugins = ["browsers", "cluster_fixtures"]


# The tier of what asks for one of these fixtures.
TIERS = {"slurm": "cluster", "pbs": "cluster", "cluster": "cluster", "start": "torch"}


# What a file says that may have tests of a tier; another's name is after `mark.`.
WORDS = {
    "cluster": ("mark.cluster", "cluster_fixtures"),
    "torch": ("mark.torch", "start: Start"),
    "slow": ("mark.slow",),
    "hypothesis": ("hypothesis",),
}


@cache
def mentions(path: Path, tier: str) -> bool:
    """Whether a file may have tests of a tier."""
    text = path.read_text()
    return any(word in text for word in WORDS.get(tier, (f"mark.{tier}",)))


@cache
def read_whole_tier(path: Path) -> str | None:
    """Read the tier of all tests of a file: its `pytestmark`."""
    mark = re.search(r"^pytestmark = \[?pytest\.mark\.(\w+)", path.read_text(), re.M)
    return mark and mark[1]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave unread what has no test of the tiers that are asked for.

    Listing all tests takes each worker ten seconds of processor time.
    """
    if not collection_path.is_file() or not collection_path.name.startswith("test_"):
        return None
    expression = config.option.markexpr
    if (whole := read_whole_tier(collection_path)) and f"not {whole}" in expression:
        return True
    asked = re.sub(r"\bnot \w+", "", expression)
    tiers = set(re.findall(r"\w+", asked)) - {"and", "or"}
    return True if tiers and not any(mentions(collection_path, tier) for tier in tiers) else None


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than cores: tests wait for the processes that they start."""
    return (os.cpu_count() or 1) + 1


def pytest_unconfigure() -> None:
    """Remove the list of folders that this process made."""
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a cluster, or starts the trainer, by the fixtures it asks for.

    What takes seconds comes first, so that no worker is left alone with it at the end.
    """
    for item in items:
        for fixture in TIERS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(TIERS[fixture])
        for tier in WORDS:
            if item.get_closest_marker(tier) and not mentions(item.path, tier):
                raise pytest.UsageError(f"{item.path}: `-m {tier}` needs one of {WORDS[tier]}")
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("cluster", "torch", "slow"))))


def pytest_collection_finish() -> None:
    """Look for garbage from now on, among what tests make."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the cluster's own logs beside a failed test: they go with the cluster."""
    report = yield
    for fixture in getattr(item, "funcargs", {}).values() if report.failed else ():
        folder = getattr(fixture, "run_folder", None)
        logs = sorted(folder.glob("log/*.log")) if isinstance(folder, Path) else ()  # not a job's
        for log in logs:
            end = "".join(log.read_text(errors="replace").splitlines(keepends=True)[-20:])
            report.sections.append((log.name, end))
    return report
