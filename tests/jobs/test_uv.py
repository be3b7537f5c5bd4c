"""A project of uv, by the real uv, which needs no network for it."""

import os
import subprocess
import sysconfig
import zipfile
from pathlib import Path

import pytest
from support import jobgen

PROJECT = """\
[project]
name = "mine"
version = "0.1"
requires-python = ">=3.10"
dependencies = ["answers"]
[tool.uv.sources]
answers = { path = "answers-1.0-py3-none-any.whl" }
"""
SPEC = """\
name: a
scheduler: local
resources: {nodes: 2, walltime: 5m}
environment: {uv: true}
launch: {mode: plain}
run: {script: train.py}
"""
PROGRAM = "import sys, answers; print(answers.VALUE, sys.prefix)"


def write_wheel(path: Path) -> None:
    """A package of one module."""
    about = "answers-1.0.dist-info"
    files = {
        "answers.py": "VALUE = 42\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: answers\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": f"answers.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


@pytest.mark.slow
def test_the_job_has_what_is_locked_and_an_outgrown_lock_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("uv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    write_wheel(tmp_path / "answers-1.0-py3-none-any.whl")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "job.yaml").write_text(SPEC)
    (tmp_path / "train.py").write_text(PROGRAM)
    subprocess.run(["uv", "lock", "--quiet"], check=True)
    # A shell may put uv's environments elsewhere: the job's is .venv all the same.
    monkeypatch.setenv("UV_PROJECT_ENVIRONMENT", str(tmp_path / "elsewhere"))
    ended = jobgen("submit", "job.yaml", "--wait")
    assert ended.code == 0, ended.err
    (run,) = (path.parent for path in Path("runs/a").glob("*/DONE"))
    outputs = [path.read_text() for path in run.glob("logs/*/*.out")]
    assert outputs == [f"42 {tmp_path / '.venv'}\n"] * 2
    assert not (tmp_path / "elsewhere").exists()

    (tmp_path / "pyproject.toml").write_text(PROJECT.replace('["answers"]', "[]"))
    refused = jobgen("submit", "job.yaml")
    assert (refused.code, refused.out) == (2, "")
    assert "uv sync --locked: " in refused.err
    assert "needs to be updated" in refused.err
    assert [path.parent for path in Path("runs/a").glob("*/job.json")] == [run]
