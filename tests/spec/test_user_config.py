"""Defaults that nobody has named count only if they are the user's own, root's, or trusted."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import MINIMAL, jobgen

Give = Callable[[Path], None]
REFUSED = re.compile(
    r"^(?P<file>\S+): belongs to \S+( \d+)?; jobgen does not use their defaults; "
    r"if you trust it, write `trust: \[(?P<folder>\S+)\]` into (?P<config>\S+)$",
    re.MULTILINE,
)


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Give a file to another user; who is not root becomes another user instead."""

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, 65534, -1, follow_symlinks=False)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 65534)

    return give


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec in a folder of a project that has defaults."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("JOBGEN_SITE_PATH", raising=False)
    (tmp_path / "config/jobgen").mkdir(parents=True)
    here = tmp_path / "scratch/mine"
    here.mkdir(parents=True)
    (here / ".git").mkdir()
    (here / "job.yaml").write_text(MINIMAL)
    (here / ".jobgen.yaml").write_text("environment: {setup: echo PLANTED}\n")
    monkeypatch.chdir(here)
    return here


def trust(project: Path, folder: str) -> None:
    (project.parents[1] / "config/jobgen/config.yaml").write_text(f"trust: [{folder}]\n")


def test_ones_own_defaults_are_read_and_named(project: Path) -> None:
    code, out, err = jobgen("render")
    assert (code, err) == (0, "read beside job.yaml: .jobgen.yaml\n")
    assert "echo PLANTED" in out
    assert "\nAlso read: .jobgen.yaml\n" in jobgen("explain").out
    (project / ".jobgen.yaml").unlink()
    assert jobgen("render").err == ""


def test_what_submit_cannot_read_is_refused_by_check_beside_a_script_too(project: Path) -> None:
    assert jobgen("render", "-o", "job.sbatch").code == 0
    (project.parents[1] / "config/jobgen/config.yaml").write_text("queue: gpu\n")
    code, out, err = jobgen("check")
    assert (code, out) == (3, "")
    assert "config.yaml:1:1: queue: unknown key; the choices are\n" in err


def test_defaults_of_a_stranger_are_refused_until_they_are_trusted(
    project: Path, give: Give
) -> None:
    give(project / ".jobgen.yaml")
    for command in ("render", "explain", "check", "submit"):
        code, out, err = jobgen(command)
        assert (code, "PLANTED" in out) == (3, False)
        match = REFUSED.search(err)
        assert match, err
        assert match["folder"] == str(project)
    trust(project, str(project.parent / "other"))
    assert jobgen("render").code == 3
    trust(project, str(project.parent))
    assert "PLANTED" in jobgen("render").out
    trust(project, str(project.parent)[:-1])
    assert jobgen("render").code == 3


def test_a_strangers_link_to_a_file_of_ones_own_is_refused(project: Path, give: Give) -> None:
    (project / ".jobgen.yaml").rename(project / "mine.yaml")
    (project / ".jobgen.yaml").symlink_to("mine.yaml")
    assert jobgen("render").code == 0
    give(project / ".jobgen.yaml")
    assert REFUSED.search(jobgen("render").err)


def test_defaults_that_everybody_can_change_are_refused(project: Path) -> None:
    (project / ".jobgen.yaml").chmod(0o666)
    code, _, err = jobgen("render")
    assert code == 3
    assert ".jobgen.yaml: can be changed by everyone on this machine; if you trust it" in err
    trust(project, str(project))
    assert jobgen("render").code == 0


def test_defaults_that_another_group_can_change_are_refused(project: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root")
    file = project / ".jobgen.yaml"
    file.chmod(0o664)
    assert jobgen("render").code == 0  # of one's own group
    os.chown(file, -1, 54321)
    code, _, err = jobgen("render")
    assert code == 3
    assert ".jobgen.yaml: can be changed by group 54321, which you are not in" in err
    file.chmod(0o644)
    assert jobgen("render").code == 0


@pytest.mark.parametrize("where", ["project", "variable", "file"])
def test_profiles_of_a_stranger_are_refused(
    project: Path, give: Give, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".jobgen.yaml").unlink()
    folder = project / ".jobgen/sites" if where != "variable" else project.parent / "sites"
    folder.mkdir(parents=True)
    if where == "variable":
        monkeypatch.setenv("JOBGEN_SITE_PATH", str(folder))
    profile = folder / "slurm-generic.yaml"
    profile.write_text("extends: slurm-generic\nvariables: {always: {LD_PRELOAD: /tmp/evil.so}}\n")
    words = ("render", "--scheduler", "slurm")
    code, out, err = jobgen(*words)
    assert (code, "LD_PRELOAD" in out) == (0, True)
    assert err == f"read beside job.yaml: {profile}\n"
    give(profile if where == "file" else folder)
    for command in (words, ("sites",), ("sites", "show", "slurm-generic")):
        code, out, err = jobgen(*command)
        assert (code, "LD_PRELOAD" in out) == (3, False), command
        assert REFUSED.search(err), err
    trust(project, str(folder))
    assert "LD_PRELOAD" in jobgen(*words).out
