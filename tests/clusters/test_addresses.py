"""How the nodes of a site reach each other, where not by the names that the scheduler gives."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_fixtures import Cluster, Pbs, Slurm, skip_without
from jobs import Job, spec, submit
from support import jobgen, load, shellcheck, working_in

from jobgen.capabilities import get_capabilities
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.rendering.explain import explain
from jobgen.rendering.render import render

JOB = """\
name: a
resources: {nodes: 2, gpus_per_node: 4}
run: {module: m}
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the profiles `suffix`, `domain`, `resolve` of a site; and their scheduler."""
    monkeypatch.setenv("JOBGEN_SITE_PATH", str(tmp_path / "sites"))
    return write(tmp_path / "sites", "slurm")


def write(folder: Path, scheduler: str, **forms: str) -> Path:
    folder.mkdir(exist_ok=True)
    forms = forms or {"suffix": "i", "domain": "hsn.example", "resolve": "ipv4"}
    launcher = get_capabilities(scheduler).launcher
    for key, value in forms.items():
        (folder / f"{key}.yaml").write_text(
            f"scheduler: {scheduler}\nsources: {{a: https://a}}\n"
            f"launch: {{family: torchrun, launcher: {launcher}, source: a, "
            f"address: {{{key}: {value}, source: a}}}}\n"
        )
    return folder


def plan(site: str, *overrides: str) -> Plan:
    return resolve(load(JOB, *overrides), site=site)


def reached_at(site: str, node: str, *, hosts: dict[str, str], tmp_path: Path) -> tuple[int, str]:
    """Where a script's own functions reach a node, if the resolver knows only `hosts`.

    It is the node's address as the first of the job, and under c10d as any of its nodes.
    """
    elastic = plan(site, "launch.rendezvous=c10d")
    (first,) = re.findall(r"(?m)^ *(MASTER_ADDR=\$\(address_.*\))$", render(plan(site)))
    (line,) = re.findall(r"(?m)^ *(address=\$\(address_.*\))$", render(elastic))
    functions = "\n".join(re.findall(r"(?ms)^address_\w+\(\) \{.*?^\}", render(elastic)))
    assert functions == "\n".join(re.findall(r"(?ms)^address_\w+\(\) \{.*?^\}", render(plan(site))))
    lines = [f"{name}) echo '{address} STREAM {name}' ;;" for name, address in hosts.items()]
    fake = tmp_path / "bin" / "getent"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text("#!/bin/bash\ncase $2 in\n" + "\n".join([*lines, "*) exit 2 ;;", "esac\n"]))
    fake.chmod(0o755)
    program = f'set -euo pipefail\nPATH={fake.parent}:$PATH\ndie() {{ echo "$*" >&2; exit 1; }}\n'
    program += f"uname() {{ echo here; }}\n{functions}\nnode={node} names=({node} other)\n"
    program += f'{first}\n{line}\n[[ $address == "$MASTER_ADDR" ]] && echo "$address"'
    ended = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    return ended.returncode, (ended.stdout or ended.stderr).strip()


@pytest.mark.parametrize(
    ("site", "node", "hosts", "address"),
    [
        ("suffix", "jwb0001", {"jwb0001i": "10.0.0.1"}, "jwb0001i"),
        ("suffix", "jwb0001.juwels", {"jwb0001i": "10.0.0.1"}, "jwb0001i"),
        ("domain", "x1", {"x1.hsn.example": "10.0.0.1"}, "x1.hsn.example"),
        ("domain", "x1.lan", {"x1.hsn.example": "10.0.0.1"}, "x1.hsn.example"),
        ("resolve", "x1", {"x1": "10.0.0.1"}, "10.0.0.1"),
    ],
)
@pytest.mark.usefixtures("lab")
def test_the_address_of_a_node(
    site: str, node: str, hosts: dict[str, str], address: str, tmp_path: Path
) -> None:
    assert reached_at(site, node, hosts=hosts, tmp_path=tmp_path) == (0, address)


@pytest.mark.parametrize(
    ("site", "hosts", "message"),
    [
        ("suffix", {"n1": "1.2.3.4"}, "here knows no host n1i, as the site's profile calls a node"),
        ("domain", {}, "here knows no host n1.hsn.example, as the site's profile calls a node"),
        ("resolve", {}, "on here, n1 leads to no address for others"),
        ("resolve", {"n1": "127.0.1.1"}, "on here, n1 leads to no address for others"),
    ],
)
@pytest.mark.usefixtures("lab")
def test_an_address_that_leads_nowhere_ends_the_job_and_names_the_way_out(
    site: str, hosts: dict[str, str], message: str, tmp_path: Path
) -> None:
    told = reached_at(site, "n1", hosts=hosts, tmp_path=tmp_path)
    assert told == (1, f"{message}; set launch.interface")


@pytest.mark.usefixtures("lab")
def test_one_node_or_an_interface_of_the_users_own_needs_no_such_address() -> None:
    assert plan("suffix").launch.address is not None
    assert plan("suffix", "resources.nodes=1").launch.address is None
    own = plan("suffix", "launch={interface: hsn0}")
    assert (own.launch.address, own.launch.interface) == (None, "hsn0")
    assert "$(address_by_name" not in render(own)


@pytest.mark.parametrize("site", ["suffix", "domain", "resolve"])
@pytest.mark.usefixtures("lab")
def test_the_scripts_are_right_and_explained(site: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(render(plan(site)))
    subprocess.run(["bash", "-n", script], check=True)
    assert shellcheck(script) == ""
    loaded = load(JOB)
    (found,) = [
        reason
        for reason in explain(loaded, resolve(loaded, site=site)).decisions
        if reason.what.startswith("address: ")
    ]
    assert found.origin == (f"site {site}: launch.address",)
    names = {"suffix": "NODEi", "domain": "NODE.hsn.example", "resolve": "the IPv4 address that"}
    assert names[site] in found.what


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("{}", "launch.address: has none of suffix, domain and resolve; give exactly one of them"),
        (
            "{suffix: i, domain: d}",
            "launch.address.domain: is given together with suffix; give exactly one of",
        ),
        ("hostname", "launch.address: expected keys and values, got text ('hostname')"),
    ],
)
def test_a_profile_gives_one_form(form: str, message: str, tmp_path: Path) -> None:
    text = f"scheduler: slurm\nlaunch: {{family: torchrun, launcher: srun, address: {form}}}\n"
    (tmp_path / "lab.yaml").write_text(text)
    assert message in jobgen("sites", "test", tmp_path / "lab.yaml").err


# --- on clusters -----------------------------------------------------------------------


@pytest.fixture
def aliases(slurm: Slurm) -> Iterator[Slurm]:
    """The Slurm with a second name, such as n1i, for each node, on every node."""
    before = {node: slurm.on(node, "cat", "/etc/hosts") for node in slurm.nodes}
    for node, text in before.items():
        for name in slurm.nodes:
            text = re.sub(rf"(?m)^(\S+) {name}$", rf"\1 {name} {name}i", text)
        assert "n1i" in text
        slurm.on(node, "sh", "-c", f"cat >/etc/hosts <<'END'\n{text}END")
    yield slurm
    for node, text in before.items():
        slurm.on(node, "sh", "-c", f"cat >/etc/hosts <<'END'\n{text}END")


def run(cluster: Cluster, folder: Path, site: str, **launch: str) -> Job:
    """An all-reduce over two nodes, with a profile of that name in ./sites."""
    skip_without("torch")
    env = {**cluster.env, "JOBGEN_SITE_PATH": str(folder / "sites")}
    content = spec(resources={"nodes": 2, "cpus_per_node": 2, "walltime": "5m"})
    content["launch"] |= launch
    with working_in(folder):
        return submit(content, "--site", site, scheduler=cluster.kind, cwd=folder, env=env)


def rendezvous(job: Job) -> set[str]:
    """Where the nodes were told that the rendezvous is."""
    logs = [path.read_text() for path in job.run_dir.glob("logs/*/agent.log")]
    assert len(logs) == 2
    return {found for log in logs for found in re.findall(r"the rendezvous is at (\S+):", log)}


@pytest.mark.parametrize(("site", "mode"), [("suffix", "torchrun"), ("resolve", "direct")])
def test_nodes_meet_at_the_address_that_the_site_forms(
    aliases: Slurm, site: str, mode: str, tmp_path: Path
) -> None:
    write(tmp_path / "sites", "slurm")
    job = run(aliases, tmp_path, site, mode=mode)
    assert job.wait() == "done 0", job.everything()
    assert {rank["sum"] for rank in job.ranks().values()} == {10.0}
    (head,) = rendezvous(job)
    assert head == "n1i" if site == "suffix" else re.fullmatch(r"10\.[0-9.]+", head)


def test_nodes_of_pbs_meet_in_a_domain(pbs: Pbs, tmp_path: Path) -> None:
    write(tmp_path / "sites", "pbs", domain="cluster.test")
    with pbs.settings(domain="cluster.test"):
        job = run(pbs, tmp_path, "domain", mode="direct")
        assert job.wait() == "done 0", job.everything()
    assert rendezvous(job) == {"n1.cluster.test"}


def test_a_job_whose_first_node_is_not_called_so_ends_at_once(pbs: Pbs, tmp_path: Path) -> None:
    write(tmp_path / "sites", "pbs", suffix="i")
    job = run(pbs, tmp_path, "suffix")
    pbs.wait(job.id)
    assert job.outcome() == "failed 1"
    (output,) = tmp_path.glob("reduce.o*")
    assert "error: n1 knows no host n1i, as the site's profile calls a node;" in output.read_text()
