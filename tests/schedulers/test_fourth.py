"""A fourth scheduler needs one folder, one profile and one template: Toy of tests/helpers/toy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, Ended

HELPERS = ROOT / "tests" / "helpers"
SPEC = """\
name: a
scheduler: toy
resources: {nodes: 1, walltime: 30m}
environment: {venv: venv}
run: {module: train}
"""
COMMAND = """#!/bin/bash
case "$(basename "$0") $*" in
    "toysub "*) [[ ! -e closed ]] || { echo "toysub: closed today" >&2; exit 1; } && echo 12 ;;
    "toyq --version") echo "toy 1.2" ;;
    "toyq --where") echo nursery ;;
    "toyq --lines") echo "short long" ;;
    "toyq --mine") echo "12 $TOY_SCRIPT" ;;
    "toyq "*) cat answer ;;
esac
"""


class Toys:
    """`jobgen` on a machine with Toy."""

    def __init__(self, folder: Path) -> None:
        self.templates = folder / "templates"
        shutil.copytree(ROOT / "templates", self.templates)
        (slurm,) = (self.templates / "runtime").rglob("slurm.sh")
        shutil.copy(HELPERS / "toy" / "toy.sh", slurm.with_name("toy.sh"))
        commands, sites = folder / "bin", folder / "sites"
        commands.mkdir()
        for name in ("toysub", "toyq", "toykill"):
            (commands / name).write_text(COMMAND)
            (commands / name).chmod(0o755)
        sites.mkdir()
        shutil.copy(HELPERS / "toy" / "toy-generic.yaml", sites)
        self.env = os.environ | {
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT}:{HELPERS}",
            "JOBGEN_SITE_PATH": str(sites),
        }

    def jobgen(self, *words: str) -> Ended:
        argv = [sys.executable, str(HELPERS / "toy" / "run.py"), str(self.templates), *words]
        ended = subprocess.run(argv, env=self.env, capture_output=True, text=True)
        assert "Traceback" not in ended.stderr, ended.stderr
        return Ended(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toys:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    Path("job.yaml").write_text(SPEC)
    Path("venv/bin").mkdir(parents=True)
    Path("venv/bin/activate").touch()
    return Toys(tmp_path)


@pytest.mark.slow
def test_its_script_is_rendered_and_explained(toys: Toys) -> None:
    code, script, err = toys.jobgen("render")
    assert code == 0, err
    assert "#TOY --called a\n#TOY --rooms 1\n#TOY --minutes 30\n" in script
    assert "submit this file with toysub" in script
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
    code, out, _ = toys.jobgen("explain")
    assert code == 0
    assert "#TOY --rooms 1" in out
    assert "qos" in toys.jobgen("render", "--set", "qos=high").out  # what it cannot do is said
    assert toys.jobgen("render", "--scheduler", "slurm").out.startswith("#!/bin/bash")


@pytest.mark.slow
def test_a_job_is_submitted_watched_and_diagnosed(toys: Toys) -> None:
    assert toys.jobgen("submit")[:2] == (0, "12\n")
    for answer, word in (("12 waits\n", "queued"), ("12 runs\n", "running")):
        Path("answer").write_text(answer)
        assert toys.jobgen("status", "12").out.splitlines()[0] == word
    Path("answer").write_text("12 broken Node failure on n1\n")
    assert toys.jobgen("status", "12").out.splitlines()[0] == "failed"
    code, out, err = toys.jobgen("diagnose", "12")
    assert code == 0, err
    assert "toysub --without n1`" in out  # in its own words


def test_its_refusal_is_one(toys: Toys) -> None:
    Path("closed").touch()
    code, _, err = toys.jobgen("submit")
    assert (code, "toysub: closed today" in err) == (5, True), err


def test_the_doctor_and_a_profile_know_its_cluster(toys: Toys) -> None:
    _, out, _ = toys.jobgen("doctor")
    assert "Toy 1.2, 2 queues of the cluster nursery" in out
    code, out, err = toys.jobgen("sites", "capture", "-o", "lab.yaml")
    assert code == 0, err
    assert "scheduler: toy" in Path("lab.yaml").read_text()


def test_the_schema_of_a_spec_allows_it(toys: Toys) -> None:
    assert '"toy"' in toys.jobgen("schema", "job").out
    code, _, err = toys.jobgen("render", "--set", "scheduler=tay")
    assert code == 3
    assert "toy" in err
