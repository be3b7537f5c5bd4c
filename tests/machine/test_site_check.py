"""`jobgen sites check`: what a profile says, held against the cluster."""

from pathlib import Path

import pytest
from cluster_fixtures import Pbs, Slurm
from jobs import jobgen as command
from saved_clusters import replayed
from support import jobgen

# Three things that are not so on either of the clusters: a walltime, a size, a queue.
SLURM_PROFILE = """\
scheduler: slurm
queues:
  main: {limits: [{nodes: [1, 8], walltime: 48h}]}
  debug: {limits: [{nodes: [1, 1], walltime: 10m}]}
  gone: {limits: [{walltime: 1h}]}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a profile of its own."""
    folder = tmp_path / "work" / ".jobgen" / "sites"
    folder.mkdir(parents=True)
    (tmp_path / "work" / ".git").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("JOBGEN_SITE_PATH", raising=False)
    return tmp_path


def write_profile(home: Path, text: str, name: str = "lab") -> None:
    (home / "work" / ".jobgen" / "sites" / f"{name}.yaml").write_text(text)


def test_what_a_cluster_says_itself_does_not_differ(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("slurm-mixed", "openpbs"):
        with replayed(name, home, monkeypatch):
            write_profile(home, jobgen("sites", "capture").out, name)
            ended = jobgen("sites", "check", name)
        assert ended.code == 0, ended.out
        assert ended.out.startswith(f"{name}: the profile matches this cluster (checked 20")


def test_each_difference_is_named_with_what_to_change(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profile(
        home,
        "scheduler: slurm\nnode: {gpus: 8}\nmodules: {use: [/no/such/folder]}\nqueues:\n"
        "  gpu: {limits: [{nodes: [1, 9], walltime: 24h}]}\n  old: {limits: [{walltime: 1h}]}\n",
    )
    with replayed("slurm-mixed", home, monkeypatch):
        ended = jobgen("sites", "check", "lab")
    assert ended.code == 8
    for words in (
        "queues.gpu.limits: walltime: the profile says 24h, the cluster 48h",
        "queues.gpu.limits: nodes: the profile says 9, the cluster 4",
        "queues.gpu.node.gpus: the profile says 8, the cluster 4",
        "queues.old: the profile has it, the cluster does not",
        "queues.large: the cluster has it, with GPUs; the profile does not",
        "path /no/such/folder: does not exist here",
        "# .jobgen/sites/lab.yaml",
        "extends: lab",
        "the form 'A cluster that jobgen was run on'",
    ):
        assert words in ended.out, words


def test_a_site_is_recognised_or_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with replayed("slurm-mixed", home, monkeypatch):
        ended = jobgen("sites", "check")
        assert ended.code == 2
        assert "no profile recognises this machine; name one: sites check NAME" in ended.err
        write_profile(home, "scheduler: slurm\nrecognise: {cluster: mixed}\n")
        assert jobgen("sites", "check").out.startswith("lab: ")
        assert jobgen("sites", "check", "nosuch").code == 3


def test_three_planted_differences_on_a_live_slurm(slurm: Slurm, home: Path) -> None:
    write_profile(home, SLURM_PROFILE)
    ended = command("sites", "check", "lab", cwd=home / "work", env=slurm.env)
    assert ended.returncode == 8, ended.stderr
    for words in (
        "queues.main.limits: walltime: the profile says 48h, the cluster 24h",
        "queues.main.limits: nodes: the profile says 8, the cluster 3",
        "queues.gone: the profile has it, the cluster does not",
    ):
        assert words in ended.stdout
    assert "queues.debug.limits" not in ended.stdout


def test_three_planted_differences_on_an_emulated_pbs(pbs: Pbs, home: Path) -> None:
    write_profile(
        home,
        "scheduler: pbs\nnode: {gpus: 8}\nqueues:\n"
        "  gpu: {limits: [{walltime: 10h}]}\n  gone: {limits: [{walltime: 1h}]}\n",
    )
    attributes = {"gpu": {"queue_type": "Execution", "resources_max": {"walltime": "05:00:00"}}}
    with pbs.settings(queues=["gpu"], queue_attributes=attributes):
        ended = command("sites", "check", "lab", cwd=home / "work", env=pbs.env)
    assert ended.returncode == 8, ended.stderr
    for words in (
        "queues.gpu.limits: walltime: the profile says 10h, the cluster 5h",
        "queues.gpu.node.gpus: the profile says 8, the cluster 4",
        "queues.gone: the profile has it, the cluster does not",
    ):
        assert words in ended.stdout, ended.stdout
