"""The code of a job as submitted: what a snapshot copies, and what is said of changes."""

import re
import subprocess
from pathlib import Path

import pytest
from support import jobgen

from jobgen.errors import UsageError
from jobgen.jobs.code import copy_code, read_code


def git(folder: str, *words: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", "-C", folder, *own, *words], check=True, capture_output=True)


def commit(folder: str, file: str, *submodules: str) -> None:
    """Make a repository of one file, with others as its submodules."""
    path = Path(folder, file)
    path.parent.mkdir(parents=True)
    path.write_text("x = 1\n")
    git(folder, "init", "-q")
    for other in submodules:
        git(folder, "submodule", "add", f"../{other}", other)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone, without its submodules, of a repository in which a submodule has another."""
    monkeypatch.chdir(tmp_path)
    commit("deep", "deep.py")
    commit("lib", "package/module.py", "deep")
    commit("first", "src/train.py", "lib")
    git(".", "clone", "first", "work")
    monkeypatch.chdir("work")


def copied(*named: str) -> set[str]:
    copy_code(Path("copy"), named)
    return {str(path.relative_to("copy")) for path in Path("copy").rglob("*") if path.is_file()}


def test_a_snapshot_has_the_files_of_submodules_as_they_are() -> None:
    git(".", "submodule", "update", "--init", "--recursive")
    Path("lib/package/module.py").write_text("x = 2\n")
    Path("lib/new.py").touch()
    modules = {".gitmodules", "lib/.gitmodules"}
    assert copied() == modules | {"src/train.py", "lib/package/module.py", "lib/deep/deep.py"}
    assert Path("copy/lib/package/module.py").read_text() == "x = 2\n"


@pytest.mark.parametrize(
    ("words", "absent"),
    [((), "lib"), (("init",), "lib"), (("update", "--init"), "lib/deep")],
)
def test_a_snapshot_without_a_submodule_is_refused(words: tuple[str, ...], absent: str) -> None:
    if words:
        git(".", "submodule", *words)
    message = f"snapshot: submodules are not checked out: {absent}; type: git submodule update"
    with pytest.raises(UsageError, match=message):
        copied()
    with pytest.raises(UsageError, match=message):
        copied("src")


def test_changes_within_submodules_are_kept_whatever_git_hides() -> None:
    git(".", "submodule", "update", "--init", "--recursive")
    assert read_code().changed == 0
    git(".", "config", "submodule.lib.ignore", "all")
    Path("lib/deep/deep.py").write_text("x = 3\n")
    code = read_code()
    assert code.changed == 1
    assert "+++ b/lib/deep/deep.py\n@@ -1 +1 @@\n-x = 1\n+x = 3\n" in code.diff


def test_the_output_of_jobs_is_no_change_of_the_code() -> None:
    for name in ("gpt-12.out", "gpt-12_3.out", "gpt.o12", "gpt.e12.3"):
        Path(name).touch()
    assert read_code().changed == 0
    Path("new.py").touch()
    assert (read_code().changed, read_code().diff) == (1, "?? new.py\n")


def test_a_snapshot_in_which_the_job_cannot_start_is_refused_before_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")

    def refused(run: str, *, snapshot: str = "true", more: str = "") -> str:
        head = "name: x\nscheduler: local\nresources: {}\n"
        Path("job.yaml").write_text(f"{head}snapshot: {snapshot}\n{run}\n{more}")
        said = [jobgen(*words).err for words in (["check"], ["submit", "--dry-run"])]
        # What is refused, with its place, is refused by both.
        problems = [re.findall(r"^(?:jobgen: error: )?job\.yaml:\d.*", one, re.M) for one in said]
        assert problems[0] == problems[1]
        return "\n".join(problems[0])

    for name in ("train.py", "run.sh", "helper.py"):
        Path(name).write_text("")
    script, body = "run: {script: train.py}", "run: {body: run.sh}"
    assert "git repository; git add them, or name them in a list" in refused(script)
    assert "'train.py' is not in the snapshot" in refused(script, snapshot="[helper.py]")
    git(".", "init", "-q")
    none = (
        "job.yaml:4:11: snapshot: true copies the files that git tracks, and git tracks none here"
    )
    assert none in refused("run: {command: ['true']}")
    git(".", "add", "helper.py")
    out = " is not in the snapshot, as git does not track it below this folder; git add it, or"
    for run, place in ((script, "run.script: 'train.py'"), (body, "run.body: 'run.sh'")):
        assert f"{place}{out}" in refused(run)
    Path("../up.py").touch()
    assert f"run.script: '../up.py'{out}" in refused("run: {script: ../up.py}")
    roles = "roles:\n  one: {nodes: 1, run: {script: train.py}}\n"
    assert f"roles.one.run.script: 'train.py'{out}" in refused(roles)
    assert f"'train.py'{out}" in refused(script, snapshot="[helper.py]")
    for run, more in (
        (script, "environment: {setup: cp $HOME/train.py .}"),
        (script, "environment: {setup: cd src}"),
        (f"run: {{script: {tmp_path}/new/train.py}}", ""),
        ("run: {script: helper.py}", ""),
        ("run: {command: ['true']}", ""),
    ):
        assert not refused(run, more=more)
    assert not refused(script, snapshot="[./train.py]")
    git(".", "add", "train.py")
    assert not refused(script)
