"""`jobgen sites capture`: a profile from the live cluster, or from what odd ones once said."""

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Pbs, Slurm
from jobs import jobgen as command
from saved_clusters import SAVED, replayed, saved
from support import jobgen

from jobgen.sites import search
from jobgen.sites.profile import Limit, Node, Recognise, SiteProfile


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without profiles, in a folder of its own."""
    (tmp_path / "work" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("JOBGEN_SITE_PATH", raising=False)
    return tmp_path


def captured(name: str | Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> SiteProfile:
    """The profile of a saved cluster, which `sites test` has nothing to say of."""
    file = home / f"{name}.yaml"
    with replayed(name, home, monkeypatch):
        ended = jobgen("sites", "capture", "-o", file, "--force")
    assert (ended.code, ended.out) == (0, ""), ended.err
    return checked(file)


def checked(file: str | Path) -> SiteProfile:
    found = search.read(str(file)).profile
    said = jobgen("sites", "test", file)
    assert (said.code, said.out) == (0, f"{file}: valid, for {found.scheduler}\n")
    assert found.verified == "captured"
    assert found.as_of == time.strftime("%Y-%m-%d")
    assert all(one.address.startswith("captured: ") for one in (found.sources or {}).values())
    return found


GB = 1024**2


def addresses(profile: SiteProfile) -> dict[str, str]:
    return {key: source.address for key, source in (profile.sources or {}).items()}


def test_a_slurm_of_many_kinds(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = captured("slurm-mixed", home, monkeypatch)
    assert (found.scheduler, found.title) == ("slurm", "mixed, Slurm 20.11.9")
    assert addresses(found) == {
        "config": "captured: scontrol show config",
        "partitions": "captured: scontrol --oneliner show partition",
        "nodes": "captured: scontrol --oneliner show node",
    }
    assert found.recognise == Recognise(cluster="mixed", source="config")
    assert found.slurm.gpus == "gres"  # select/cons_res knows no --gpus-per-node
    queues = found.queues or {}
    assert list(queues) == ["gpu", "large", "mig", "cpu"]
    assert [name for name, queue in queues.items() if queue.choose] == ["gpu"]
    assert {name: queue.limits for name, queue in queues.items()} == {
        "gpu": (Limit(nodes=(1, 4), walltime=48 * 3600),),
        "large": (Limit(nodes=(2, 4)),),
        "mig": (Limit(nodes=(1, 1), walltime=8 * 3600),),
        "cpu": (Limit(nodes=(1, 1), walltime=1800),),
    }
    assert {name: queue.note for name, queue in queues.items()} == {
        "gpu": None,
        "large": "AllowAccounts=ml,physics; its QoS large may have its own limits",
        "mig": "its state was DOWN; for jobs of a reservation",
        "cpu": None,
    }
    memory = 512000 * 1024
    big = Node(4, "a100", cpus=128, cpu_unit="thread", memory=memory, cpus_per_gpu=32)
    assert queues["large"].node == big._replace(source="nodes", whole=True)
    # Of nodes that differ: the most that there is, and the CPUs that every GPU has.
    several = {"4": 4, "2": 2}
    assert queues["gpu"].node == big._replace(gpu=None, hosts=several, source="nodes")
    assert queues["mig"].node.gpus == 10
    assert queues["cpu"].node == Node(
        cpus=48, cpu_unit="core", memory=192000 * 1024, source="nodes"
    )
    types = found.gpu_types or {}
    assert {name: (node.gpus, node.cpus_per_gpu) for name, node in types.items()} == {
        "a100": (4, 32),
        "v100": (2, 48),
    }


def test_a_slurm_whose_gpus_have_no_type(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = (SAVED / "slurm-mixed" / "scontrol--oneliner-show-node").read_text()
    plain = re.sub(r"gpu:[a-z]\w*:", "gpu:", shown)
    folder = saved(home, **{"scontrol--oneliner-show-node": plain})
    found = captured(folder, home, monkeypatch)
    assert (found.gpu_types, found.queues["gpu"].node.gpus) == ({}, 4)


def test_a_slurm_none_of_whose_partitions_takes_jobs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = (SAVED / "slurm-mixed" / "scontrol--oneliner-show-partition").read_text()
    closed = shown.replace("RootOnly=NO", "RootOnly=YES")
    found = captured(
        saved(home, **{"scontrol--oneliner-show-partition": closed}), home, monkeypatch
    )
    assert found.queues == {}


def test_a_real_openpbs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = captured("openpbs", home, monkeypatch)
    assert (found.scheduler, found.title) == ("pbs", "login, PBS 23.06.06")
    assert addresses(found) == {
        "server": "captured: qstat -B -f -F json",
        "queue": "captured: qstat -Q -f -F json",
        "nodes": "captured: pbsnodes -a -F json",
    }
    assert found.recognise == Recognise(cluster="login", source="server")
    shape = Node(4, cpus=16, memory=128 * GB, cpus_per_gpu=4, default_cpus=1, source="nodes")
    assert found.node == shape._replace(hosts={"4": 2, "2": 1})
    assert found.every_queue.limits == (Limit(nodes=(1, 3)),)
    queues = found.queues or {}
    assert [name for name, queue in queues.items() if queue.choose] == ["workq"]
    assert queues["gpu"].limits == (
        Limit(nodes=(1, 10), gpus=(1, 8), cpus=(1, 960), walltime=(300, 48 * 3600)),
    )
    assert queues["gpu"].routed_from == "prod"
    assert queues["gpu"].note == "for some groups or users"
    assert (queues["prod"].limits, queues["prod"].note) == ((), "leads to gpu")
    assert queues["closed"].note == "it took no jobs"


def test_an_old_pbs_that_knows_no_json(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = captured("pbs-old", home, monkeypatch)
    assert found.title == "pbs01, PBS PBSPro_13.1.3"
    # Two vnodes are one host; one that never was up says nothing.
    assert found.every_queue.limits == (Limit(nodes=(1, 2)),)
    assert found.node == Node(4, cpus=72, memory=2 * 98566052, cpus_per_gpu=9, source="nodes")
    queues = found.queues or {}
    assert {name: queue.routed_from for name, queue in queues.items()} == {
        "route": None,
        "small": "route",
        "big": "route",
        "gpu": None,
    }
    assert queues["small"].limits == (Limit(cpus=(1, 72), walltime=48 * 3600),)
    assert queues["small"].note == "resources_max.mem=512gb"
    # 250000 CPUs are more than a profile can say.
    assert queues["big"].limits == (Limit(nodes=(2, 64), cpus=(73,), walltime=(600, 24 * 3600)),)
    assert queues["gpu"].limits == (Limit(gpus=(1,)),)
    assert queues["gpu"].note == "it took no jobs; for some groups or users"
    assert [name for name, queue in queues.items() if queue.choose] == ["route"]


def test_json_that_cannot_be_read_is_asked_for_as_text(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = home / "broken"
    shutil.copytree(SAVED / "pbs-old", broken)
    for name in ("qstat-Q-f", "qstat-B-f", "pbsnodes-a"):
        (broken / f"{name}-F-json").write_text('{"Queue": {"a": {"x": 1,}')
    assert captured(broken, home, monkeypatch) == captured("pbs-old", home, monkeypatch)


def test_what_it_knows_is_refused_like_any_other_limit(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with replayed("slurm-mixed", home, monkeypatch):
        ended = jobgen("sites", "capture", "--name", "our-lab")
    assert ended.code == 0
    assert ended.err.startswith(
        f"{home}/config/jobgen/sites/our-lab.yaml: written from mixed, Slurm "
    )
    Path("job.yaml").write_text(
        "name: a\nsite: our-lab\nresources: {nodes: 5, gpus_per_node: 4, walltime: 1h}\n"
        "run: {module: m}\n"
    )
    today = time.strftime("%Y-%m-%d")
    assert jobgen("render").err == (
        "job.yaml:3:20: resources.nodes: 5 nodes: more than gpu's 4 nodes "
        f"(captured: scontrol --oneliner show partition, as of {today}); use at most 4 nodes\n"
        "job.yaml:3:20: resources.nodes: 5 nodes with 4 GPUs each; only 4 have that many "
        f"(captured: scontrol --oneliner show node, as of {today}); use at most 4, or fewer GPUs on"
        " each\n"
    )
    script = jobgen("render", "--set", "resources.nodes=4").out
    assert "#SBATCH --partition=gpu\n" in script
    assert "#SBATCH --cpus-per-task=128\n" in script
    assert "#SBATCH --gres=gpu:4\n" in script


@pytest.mark.parametrize(
    ("nodes", "gpus", "fits"), [(3, 4, False), (2, 4, True), (3, 2, True), (3, 3, False)]
)
def test_nodes_of_different_shapes_are_kept_apart(
    home: Path, monkeypatch: pytest.MonkeyPatch, nodes: int, gpus: int, fits: bool
) -> None:
    """This PBS has two nodes of 4 GPUs, and one of 2."""
    with replayed("openpbs", home, monkeypatch):
        assert jobgen("sites", "capture", "--name", "our-lab").code == 0
    Path("job.yaml").write_text(
        f"name: a\nsite: our-lab\nresources: {{nodes: {nodes}, gpus_per_node: {gpus}}}\n"
        "run: {module: m}\n"
    )
    code, _, err = jobgen("render")
    assert code == (0 if fits else 3)
    assert fits or f"{nodes} nodes with {gpus} GPUs each; only 2 have that many" in err


def test_a_profile_that_is_there_is_not_replaced(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("lab.yaml").write_text("mine\n")
    with replayed("slurm-mixed", home, monkeypatch):
        refused = jobgen("sites", "capture", "-o", "lab.yaml")
        assert (refused.code, refused.out) == (2, "")
        assert "lab.yaml already exists; --force overwrites it" in refused.err
        assert Path("lab.yaml").read_text() == "mine\n"
        assert jobgen("sites", "capture", "-o", "lab.yaml", "--force").code == 0
        printed = jobgen("sites", "capture")
    assert printed.code == 0
    assert printed.out == Path("lab.yaml").read_text()
    checked("lab.yaml")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".a"])
def test_a_name_is_no_path(home: Path, name: str) -> None:
    ended = jobgen("sites", "capture", "--name", name)
    assert (ended.code, ended.out) == (2, "")
    assert "cannot name a site" in ended.err


def test_where_there_is_no_scheduler(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home / "nothing"))
    ended = jobgen("sites", "capture")
    assert (ended.code, ended.out) == (6, "")
    assert ended.err == (
        "neither Slurm nor PBS answers here; is this a login node of the cluster?\n"
    )


def test_a_scheduler_that_is_installed_and_silent_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = home / "silent"
    silent.mkdir()
    (silent / "scontrol-x").write_text("")
    with replayed(silent, home, monkeypatch):
        ended = jobgen("sites", "capture")
    assert ended.code == 6
    assert "scontrol failed with exit code 2: scontrol: illegal option -- --version" in ended.err


# --- on clusters -----------------------------------------------------------------------


def live(cluster: Slurm | Pbs, home: Path) -> SiteProfile:
    env = {**cluster.env, "XDG_CONFIG_HOME": str(home / "config")}
    file = home / f"{cluster.kind}.yaml"
    done = command("sites", "capture", "-o", str(file), env=env, cwd=home / "work")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return checked(file)


def test_a_live_slurm(slurm: Slurm, home: Path) -> None:
    found = live(slurm, home)
    assert found.recognise == Recognise(cluster="jobgen", source="config")
    assert found.slurm.gpus == "gpus-per-node"
    # The queues' nodes are alike in the most that they give: 4 GPUs, and 8 of 32 CPUs for each.
    shape = Node(4, cpus=32, cpu_unit="core", memory=128000 * 1024, cpus_per_gpu=8, source="nodes")
    assert found.node == shape
    queues = found.queues or {}
    assert list(queues) == ["main", "debug", "low"]
    assert queues["main"].choose
    assert queues["main"].node.hosts == {"4": 2, "2": 1}
    assert queues["main"].limits == (Limit(nodes=(1, 3), walltime=24 * 3600),)
    assert queues["debug"].limits == (Limit(nodes=(1, 1), walltime=600),)


def test_a_live_pbs_shows_its_queues_as_the_real_one_does(pbs: Pbs, home: Path) -> None:
    real = json.loads((SAVED / "openpbs" / "qstat-Q-f-F-json").read_text())["Queue"]
    attributes: dict[str, Any] = {
        name: {
            key: value for key, value in queue.items() if key not in ("total_jobs", "state_count")
        }
        for name, queue in real.items()
    }
    with pbs.settings(queues=list(real), queue_attributes=attributes):
        shown = pbs.run("qstat", "-Q", "-f", "-F", "json").stdout
        assert json.loads(shown)["Queue"] == real
        assert list(json.loads(shown)["Queue"]["gpu"]) == list(real["gpu"])  # also in order
        unknown = pbs.run("qstat", "-Q", "-f", "nosuch", check=False)
        assert (unknown.returncode, unknown.stderr) == (170, "qstat: Unknown queue nosuch\n")
        found = live(pbs, home)
    with pytest.MonkeyPatch.context() as patch:
        assert found.queues == captured("openpbs", home, patch).queues
    shape = Node(4, cpus=16, memory=64 * GB, cpus_per_gpu=4, default_cpus=1, source="nodes")
    assert found.node == shape._replace(hosts={"4": 2, "2": 1})
    assert found.every_queue.limits == (Limit(nodes=(1, 3)),)
