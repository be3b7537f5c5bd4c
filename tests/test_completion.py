"""What a shell completes: commands, options, files, names of sites, jobs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, jobgen

from jobgen import site as sites


@pytest.fixture(autouse=True)
def _two_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with two jobs in it, and something that is none."""
    monkeypatch.chdir(tmp_path)
    for job in ("gpt/123", "gpt/20300101-120000-7", "other/129"):
        Path("runs", job).mkdir(parents=True)
        if "other" not in job:
            Path("runs", job, "job.json").write_text("{}")


def completed(words: str, *, begun: str = "") -> list[str]:
    """What fish is answered, as `type,value`, for a line that ends in `begun`."""
    asked = {"COMP_WORDS": f"{words} {begun}", "COMP_CWORD": begun}
    ended = subprocess.run(
        [sys.executable, "-m", "jobgen"],
        env={**asked, "_JOBGEN_COMPLETE": "fish_complete", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return [line.split("\t")[0] for line in ended.stdout.split("\n") if line]


@pytest.mark.parametrize(
    ("words", "begun", "answers"),
    [
        ("jobgen", "che", ["plain,check"]),
        ("jobgen render", "--out-", ["plain,--out-dir"]),
        ("jobgen render --scheduler", "p", ["plain,pbs"]),
        ("jobgen render --site", "nci", ["plain,nci-gadi"]),
        ("jobgen submit --site", "nowhere", []),
        ("jobgen status", "", ["plain,123", "plain,20300101-120000-7"]),
        ("jobgen cancel", "12", ["plain,123"]),
        ("jobgen render", "job", ["file,job"]),
        ("jobgen render -o", "job", ["file,job"]),
        ("jobgen check --out-dir", "job", ["file,job"]),
        ("jobgen submit", "job", ["file,job"]),
        ("jobgen explain --json", "job", ["file,job"]),
        ("jobgen schema", "", ["plain,job", "plain,site"]),
    ],
)
def test_words(words: str, begun: str, answers: list[str]) -> None:
    assert completed(words, begun=begun) == answers


def test_every_site_is_offered() -> None:
    answers = completed("jobgen render --site")
    assert answers == [f"plain,{name}" for name in sites.names()]


def test_a_folder_without_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert completed("jobgen status") == []


def test_bash_completes_by_the_script_that_is_printed(tmp_path: Path) -> None:
    Path("bin").mkdir()
    program = Path("bin/jobgen")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m jobgen "$@"\n')
    program.chmod(0o755)
    Path("completion").write_text(jobgen("completion", "bash").out)
    type_tab = "COMP_WORDS=(jobgen cancel 1) COMP_CWORD=2; _jobgen_completion jobgen"
    ended = subprocess.run(
        ["bash", "-c", f'. ./completion; {type_tab}; echo "${{COMPREPLY[@]}}"; complete -p jobgen'],
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (ended.stdout, ended.stderr) == (
        "123\ncomplete -o nosort -F _jobgen_completion jobgen\n",
        "",
    )


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("zsh", "#compdef jobgen"),
        ("fish", 'complete --no-files --command jobgen --arguments "(_jobgen_completion)";'),
    ],
)
def test_scripts_for_other_shells(shell: str, line: str) -> None:
    code, out, err = jobgen("completion", shell)
    assert (code, err) == (0, "")
    assert line in out.splitlines()
    assert f"_JOBGEN_COMPLETE={shell}_complete" in out


def test_a_shell_that_nobody_knows() -> None:
    assert jobgen("completion", "tcsh").code == 2
