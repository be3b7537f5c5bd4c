"""What a shell completes: commands, options, files, names of sites, jobs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from click.shell_completion import get_completion_class
from support import ROOT, jobgen

from jobgen.cli.main import cli
from jobgen.sites import search


@pytest.fixture(autouse=True)
def _two_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with two jobs in it, and something that is none."""
    monkeypatch.chdir(tmp_path)
    run = "name: a\nresources: {}\nrun: {module: m}\n"
    Path("gadi.yaml").write_text(f"{run}site: nci-gadi\n")
    Path("bad.yaml").write_text(f"{run}site: []\n")
    for job in ("gpt/123", "gpt/20300101-120000-7", "other/129"):
        Path("runs", job).mkdir(parents=True)
        if "other" not in job:
            Path("runs", job, "job.json").write_text("{}")


def completed(words: str, *, begun: str = "") -> list[str]:
    """What fish is answered, as `type,value`, for a line that ends in `begun`."""
    shell = get_completion_class("fish")
    assert shell is not None
    with mock.patch.dict(os.environ, {"COMP_WORDS": f"{words} {begun}", "COMP_CWORD": begun}):
        answer = shell(cli, {}, "jobgen", "_JOBGEN_COMPLETE").complete()
    return [line.split("\t")[0] for line in answer.split("\n") if line]


@pytest.mark.parametrize(
    ("words", "begun", "answers"),
    [
        ("jobgen", "che", ["plain,check"]),
        ("jobgen render", "--out-", ["plain,--out-dir"]),
        ("jobgen render --scheduler", "p", ["plain,pbs"]),
        ("jobgen render --site", "nci", ["plain,nci-gadi"]),
        ("jobgen submit --site", "nowhere", []),
        ("jobgen status", "", ["plain,123", "plain,20300101-120000-7", "plain,gpt"]),
        ("jobgen wait 123", "g", ["plain,gpt"]),
        ("jobgen cancel", "12", ["plain,123"]),
        ("jobgen logs -f", "12", ["plain,123"]),
        ("jobgen logs", "--std", ["plain,--stderr"]),
        ("jobgen render", "job", ["file,job"]),
        ("jobgen render -o", "job", ["file,job"]),
        ("jobgen check --out-dir", "job", ["file,job"]),
        ("jobgen submit", "job", ["file,job"]),
        ("jobgen explain --json", "job", ["file,job"]),
        ("jobgen schema", "", ["plain,job", "plain,site"]),
        ("jobgen sites show", "jsc-ju", ["plain,jsc-jupiter", "plain,jsc-juwels-booster"]),
        ("jobgen lint --site", "lu", ["plain,lumi-g"]),
        ("jobgen render --set", "resources.no", ["plain,resources.nodes="]),
        ("jobgen render --queue", "", []),
        ("jobgen render --site nci-gadi -q", "gpu", ["plain,gpuvolta", "plain,gpuhopper"]),
        ("jobgen explain gadi.yaml --queue", "dg", ["plain,dgxa100"]),
        ("jobgen explain bad.yaml --queue", "dg", []),
    ],
)
def test_words(words: str, begun: str, answers: list[str]) -> None:
    assert completed(words, begun=begun) == answers


def test_every_site_is_offered() -> None:
    answers = completed("jobgen render --site")
    assert answers == [f"plain,{name}" for name in search.list_names()]


def test_a_folder_without_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert completed("jobgen status") == []


def with_jobgen(tmp_path: Path) -> dict[str, str]:
    """An environment in which `jobgen` is this one."""
    Path("bin").mkdir()
    program = Path("bin/jobgen")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m jobgen "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TERM": "dumb"}


@pytest.mark.parametrize(
    ("words", "cursor", "begun", "answers"),
    [
        (["cancel", "1"], 2, "1", ["123"]),
        (["render", "--site", "nci"], 3, "nci", ["nci-gadi"]),
        (["render", "--site", "nci-gadi", "--queue", "gpu"], 5, "gpu", ["gpuvolta", "gpuhopper"]),
    ],
)
def test_bash_completes_by_the_script_that_is_printed(
    words: list[str], cursor: int, begun: str, answers: list[str], tmp_path: Path
) -> None:
    environment = with_jobgen(tmp_path)
    Path("completion").write_text(jobgen("completion", "bash").out)
    typed = " ".join(f"'{word}'" for word in ["jobgen", *words])
    type_tab = f"COMP_WORDS=({typed}) COMP_CWORD={cursor}; _jobgen_completion jobgen '{begun}' x"
    program = f'. ./completion; {type_tab}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    ended = subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True)
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[: len(answers)] == answers


def test_bash_is_told_to_use_it() -> None:
    program = ". /dev/stdin; complete -p jobgen"
    ended = subprocess.run(
        ["bash", "-c", program], input=jobgen("completion", "bash").out,
        capture_output=True, text=True,
    )  # fmt: skip
    assert ended.stdout == "complete -o nosort -F _jobgen_completion jobgen\n"
    assert ended.stderr == ""


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("jobgen cancel 1", ["123"]),
        ("jobgen render --site nci-gadi --queue gpu", ["gpuvolta", "gpuhopper"]),
        ("jobgen render gad", ["gadi.yaml"]),
    ],
)
def test_fish_completes(line: str, answers: list[str], tmp_path: Path) -> None:
    environment = with_jobgen(tmp_path)
    folder = tmp_path / ".config/fish/completions"
    folder.mkdir(parents=True)
    (folder / "jobgen.fish").write_text(jobgen("completion", "fish").out)
    argv = ["fish", "-c", f"complete --do-complete '{line}'"]
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert ended.stderr == ""
    assert sorted(row.split("\t")[0] for row in ended.stdout.splitlines()) == sorted(answers)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
@pytest.mark.parametrize(
    ("words", "answers"),
    [
        ("jobgen cancel 1", "123"),
        ("jobgen render --site nci-gadi --queue gpu", "gpuvolta gpuhopper"),
    ],
)
def test_zsh_completes(words: str, answers: str, tmp_path: Path) -> None:
    """The function that is printed, with `compadd` as what shows its answers."""
    environment = with_jobgen(tmp_path)
    (tmp_path / "_jobgen").write_text(jobgen("completion", "zsh").out)
    program = (
        "compdef() { :; }; compadd() { print -r -- ${completions}; }; . ./_jobgen; "
        f"words=({words}); CURRENT=$#words; _jobgen_completion"
    )
    argv = ["zsh", "-f", "-c", program]
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == (f"{answers}\n", "")


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
