"""`jobgen check --all`, and the hook of pre-commit that runs it, on a repository of many files."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml
from support import MINIMAL, ROOT, edited, jobgen

HOOK = next(
    hook
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    if hook["id"] == "jobgen-check"
)


def git(*words: str) -> int:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout, done.stderr)  # which pytest shows of a test that fails
    return done.returncode


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three specs with scripts, one by `extends`, one below a project file; and what is others'."""
    monkeypatch.chdir(tmp_path)
    for name in ("exp", "k8s", "by-hand"):
        Path(name).mkdir()
    Path("quickstart.yaml").write_text(MINIMAL)
    Path("base.yaml").write_text("scheduler: slurm\nresources: {nodes: 2}\nrun: {module: m}\n")
    Path(".jobgen.yaml").write_text("account: ours\n")
    Path("exp/job.yaml").write_text("extends: ../base.yaml\nname: a\n")
    Path("k8s/job.yaml").write_text(
        "apiVersion: batch/v1\nkind: Job\nname: x\nrun: 1\nresources: 2\n"
    )
    Path("by-hand/job.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\nsrun -K python a.py\n")
    assert jobgen("render", "quickstart.yaml", "-o", "quickstart.sh").code == 0
    assert jobgen("render", "exp/job.yaml", "-o", "exp/job.sbatch").code == 0
    git("init", "-q")
    hook = Path(".git/hooks/pre-commit")
    command = HOOK["entry"].replace("jobgen", f"exec {sys.executable} -m jobgen")
    hook.write_text(f"#!/bin/sh\nPYTHONPATH={ROOT} {command}\n")
    hook.chmod(0o755)
    assert (HOOK["pass_filenames"], HOOK["always_run"]) == (False, True)
    assert git("add", ".") == 0
    assert git("commit", "-qm", "all") == 0
    return tmp_path


def change(path: str, old: str, new: str) -> None:
    Path(path).write_text(edited((old, new), text=Path(path).read_text()))


@pytest.fixture
def pre_commit(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The same with pre-commit itself, which installs jobgen from a repository of this tree."""
    if importlib.util.find_spec("pre_commit") is None:
        assert not os.environ.get("CI"), "pre-commit is not installed"
        pytest.skip("pre-commit is not installed")
    source = tmp_path_factory.mktemp("jobgen")
    for name in ("jobgen", "templates", "docs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".pre-commit-hooks.yaml", "pyproject.toml", "hatch_build.py"):
        shutil.copy(ROOT / name, source)
    for name in ("README.md", "LICENSE", "SKILL.md"):
        shutil.copy(ROOT / name, source)
    git("-C", str(source), "init", "-q")
    git("-C", str(source), "add", ".")
    assert git("-C", str(source), "commit", "-qm", "jobgen") == 0
    revision = (source / ".git" / "HEAD").read_text().split()[-1]
    config = {
        "repo": str(source),
        "rev": (source / ".git" / revision).read_text().strip(),
        "hooks": [{"id": "jobgen-check"}, {"id": "jobgen-lint"}],
    }
    Path(".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [config]}))
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path_factory.mktemp("pre-commit")))
    # The hook's libraries, and hatchling, are those of this Python: nothing is downloaded.
    monkeypatch.setenv("PYTHONPATH", sysconfig.get_path("purelib"))
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # pip's way to say that there is none
    for name in ("PIP_NO_DEPS", "PIP_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    Path(".git/hooks/pre-commit").unlink()
    install = [sys.executable, "-m", "pre_commit", "install", "--install-hooks"]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    git("add", ".")
    assert git("commit", "-qm", "hooks") == 0
    return repository


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["repository", "pre_commit"])
def test_what_makes_a_script_stale_is_blocked_and_else_let_through(
    hook: str, request: pytest.FixtureRequest, subtests: pytest.Subtests
) -> None:
    request.getfixturevalue(hook)
    blocked = {
        "a changed spec of any name": lambda: change("quickstart.yaml", "nodes: 2", "nodes: 3"),
        "a changed base": lambda: change("base.yaml", "nodes: 2", "nodes: 3"),
        "changed defaults of the project": lambda: change(".jobgen.yaml", "ours", "theirs"),
        "a deleted spec": lambda: git("rm", "-q", "quickstart.yaml"),
        "an edited local script": lambda: change("quickstart.sh", "job_name=a", "job_name=b"),
        "an edited batch script": lambda: change("exp/job.sbatch", "--nodes=2", "--nodes=4"),
        "a spec that is wrong": lambda: change("exp/job.yaml", "name: a", "name: a b"),
    }
    passed = {
        "a hand-written script": lambda: change("by-hand/job.sbatch", "-N 2", "-N 3"),
        "a job of Kubernetes": lambda: change("k8s/job.yaml", "run: 1", "run: 3"),
        "a spec with its script": lambda: (
            change("exp/job.yaml", "name: a", "name: b"),
            jobgen("render", "exp/job.yaml", "-o", "exp/job.sbatch"),
        ),
        "what git does not know": lambda: Path("job.yaml").write_text(
            "name: a b\nrun: 1\nresources: 2\n"
        ),
    }
    if hook == "pre_commit":  # which runs the same check, and lints, too
        lint = {"a fault in a script": lambda: change("by-hand/job.sbatch", "-K ", "")}
        blocked = {name: blocked[name] for name in ("a changed base", "a deleted spec")} | lint
        passed = {"a spec with its script": passed["a spec with its script"]}
    for cases, code in ((blocked, 1), (passed, 0)):
        for name, act in cases.items():
            with subtests.test(name):
                act()
                git("add", "-u")
                assert git("commit", "--allow-empty", "-qm", name) == code
            git("reset", "-q", "--hard", "HEAD" if code else "HEAD~1")
            Path("job.yaml").unlink(missing_ok=True)


@pytest.mark.usefixtures("repository")
def test_annotations_name_the_place() -> None:
    change("exp/job.yaml", "name: a", "name: a b")
    change("quickstart.yaml", "nodes: 2", "nodes: 3")
    code, out, _ = jobgen("check", "--all", "--format", "github")
    assert code == 3
    lines = out.splitlines()
    assert lines[0].startswith("::error file=exp/job.yaml,line=2,col=7::exp/job.yaml:2:7: name: ")
    assert lines[1] == "::error file=quickstart.sh::quickstart.sh: stale; render it again"
    os.unlink("exp/job.yaml")
    code, out, err = jobgen("check", "--all", "exp", "--format", "github")
    assert code == 4
    assert "exp/job.sbatch: its spec exp/job.yaml does not exist" in out
    code, _, err = jobgen("check", "--all", "--out-dir", "x")
    assert code == 2
    assert "--all and --out-dir exclude each other" in err


def test_a_folder_without_git_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/a/7", "specs", ".venv"):
        Path(name).mkdir(parents=True)
    for name in ("runs/a/7/job.yaml", ".venv/job.yaml"):
        Path(name).write_text("name: a b\nrun: {}\nresources: {}\n")
    Path("specs/any.yaml").write_text(MINIMAL)
    assert jobgen("check", "--all") == (0, "", "")
    Path("specs/any.yaml").write_text(edited(("nodes: 2", "nodes: 0")))
    place = "specs/any.yaml:3:20: resources.nodes"
    assert jobgen("check", "--all").err == f"{place}: 0 is less than 1; write 1 or more\n"


def test_a_spec_with_a_slip_in_its_outermost_keys_is_checked_and_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    slips = {
        "run.yaml": ("run:", "ruN:"),
        "resources.yaml": ("resources:", "resource:"),
        "name.yaml": ("name:", "# name:"),
        "yaml.yaml": ("nodes: 2", "nodes: [2"),
    }
    for name, slip in slips.items():
        Path(name).write_text(edited(slip))
    Path("roles.yaml").write_text(MINIMAL.partition("run:")[0] + "roles: {a: {nodez: 1}}\n")
    Path("doubtful.yaml").write_text("name: a\nrun: {script: a.py}\n")
    Path("conf.yaml").write_text("scheduler: cosine\nname: a\n")  # another tool's
    git("add", ".")
    Path("a new.yaml").write_text(MINIMAL)
    code, _, err = jobgen("check", "--all")
    named = [line.partition(":")[0] for line in err.splitlines()]
    assert (code, {*named}) == (3, {*slips, "roles.yaml", "doubtful.yaml", "a new.yaml"})
    assert "a new.yaml: is not checked: git does not know it" in err
    assert "to have it checked: git add 'a new.yaml'\n" in err
    assert "doubtful.yaml: is not checked: it has neither resources nor scheduler" in err
