"""`jobgen explain`: who runs where, and where each line of a script comes from."""

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support import EXAMPLES, MINIMAL, SITES, edited, exported, jobgen, load, plan_of

from jobgen import schedulers
from jobgen.errors import Position
from jobgen.plan.resolve import resolve
from jobgen.process import check_syntax
from jobgen.rendering.explain import Explanation, Reason, explain
from jobgen.rendering.render import render
from jobgen.schedulers.base import Directive
from jobgen.sites.profile import SiteProfile
from jobgen.sites.search import list_names as site_names
from jobgen.spec.fields import is_record, read_fields
from jobgen.spec.model import JobSpec

GADI = next(path for path in EXAMPLES if path.stem == "gadi-2x4").read_text()
PORTABLE = next(path for path in EXAMPLES if path.stem == "portable").read_text()
CHOICE = "jobgen's choice, the first"
UNEQUAL = edited(("nodes: 2", "gpus_per_node: [2, 8, 2, 2], cpus_per_node: 16"))
CHAIN = edited(
    ("nodes: 2", "nodes: 2, walltime: 1h"), ("", "on_walltime: {notice: 1m, then: resubmit}\n")
)
INTERFACE = edited(("", "launch: {interface: hsn0}\n"))


def explained(text: str, *overrides: str, **target: Any) -> Explanation:
    """The explanation of a spec."""
    loaded = load(text, *overrides)
    return explain(loaded, resolve(loaded, **target))


def reason(reasons: tuple[Reason, ...], what: str) -> Reason:
    """The one that begins so."""
    (found,) = (reason for reason in reasons if reason.what.startswith(what))
    return found


TEXT = """\
a: 1 node x 8 processes + 3 nodes x 2 processes, for Slurm

Nodes
  node  local ranks  global ranks  devices  CPUs  memory
     0          0-7           0-7  GPU 0-7    16          hosts the rendezvous
     1          0-1           8-9  GPU 0-1    16
     2          0-1         10-11  GPU 0-1    16
     3          0-1         12-13  GPU 0-1    16
  Global ranks follow the nodes' order.
  Rank 0, on the first node of the allocation, hosts the rendezvous.

Cost
  not known: the site's profile does not say what a job costs

Decisions
  scheduler: slurm
      the directives are in its syntax
      from --scheduler
  processes: 1 node x 8 processes + 3 nodes x 2 processes
      one per GPU, or one without GPUs, unless the spec says otherwise
      from job.yaml:3:28: resources.gpus_per_node
"""


def test_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(UNEQUAL)
    code, out, err = jobgen("explain", "--scheduler", "slurm")
    assert (code, err) == (0, "")
    assert out.startswith(TEXT)
    assert not re.search(" $", out, re.MULTILINE)
    assert "from default" not in out
    code, everything, err = jobgen("explain", "--scheduler", "slurm", "--all")
    assert (code, err) == (0, "")
    assert everything.startswith(TEXT)
    hidden = everything.count("from default\n")
    assert out.endswith(
        f"\n{hidden} more have default values; `jobgen explain --all` shows them.\n"
    )
    assert hidden > 5


def test_sentences_fit_a_terminal() -> None:
    text = explained(GADI).as_text(width=60)
    sentences = [line for line in text.splitlines() if re.match(" {6}(?!from )", line)]
    assert len(sentences) > 20
    assert all(len(line) <= 60 for line in sentences)


def test_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(edited(("nodes: 2", "nodes: 2, memory_per_node: 1GB")))
    code, out, err = jobgen("explain", "--json", "--scheduler", "pbs", "--set", "name=b")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data.keys() == set(Explanation._fields)
    assert data["nodes"][1] == {
        "node": 1,
        "local_ranks": [0],
        "global_ranks": [1],
        "gpus": 0,
        "devices": ["CPU"],
        "cpus": None,
        "memory_kib": 1024**2,
        "hosts_rendezvous": False,
    }
    assert data["directives"][0] == {
        "what": "#PBS -N b",
        "why": "the job's name in qstat",
        "origin": ["--set name"],
    }


def test_a_spec_that_is_wrong_is_refused_as_by_render(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(edited(("nodes: 2", "nodes: 0")))
    assert jobgen("explain") == jobgen("render")
    assert jobgen("explain").code == 3


def test_one_node_of_a_batch_job_hosts_no_rendezvous() -> None:
    found = explained(edited(("nodes: 2", "nodes: 1"), ("scheduler: local", "scheduler: slurm")))
    assert "no rendezvous listens" in found.rendezvous
    assert [row.hosts_rendezvous for row in found.nodes] == [False]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        (MINIMAL, [(0,), (1,)]),
        # The first node hosts the rendezvous; only torch knows whose address sorts first.
        (edited(("", "launch: {rendezvous: c10d}\n")), [None, None]),
        (edited(("", "launch: {max_restarts: 1}\n")), [None, None]),
        (edited(("nodes: 2", "nodes: 1"), ("", "launch: {processes_per_node: 3}\n")), [(0, 1, 2)]),
        (
            edited(("nodes: 2", "gpus_per_node: [1, 2]"), ("", "launch: {rendezvous: static}\n")),
            [(0, 1), (2,)],
        ),
    ],
)
def test_global_ranks_are_told_where_they_are_known(
    text: str, ranks: list[tuple[int, ...] | None]
) -> None:
    found = explained(text)
    assert [row.global_ranks for row in found.nodes] == ranks
    assert [row.hosts_rendezvous for row in found.nodes] == [True] + [False] * (len(ranks) - 1)
    assert ("follow the nodes' order" in found.ranks) == (ranks[0] is not None)


MPI = edited(("", "launch: {mode: plain, processes_per_node: 2}\n"))


@pytest.mark.parametrize(
    ("command", "told"),
    [("mpirun, python", True), ("env, A=b, mpiexec.hydra", True), ("pbsdsh", False)],
)
def test_ranks_that_its_own_launcher_deals_are_not_promised(command: str, told: bool) -> None:
    """A launcher of MPI is told the nodes: built without PBS, it would take the first alone."""
    text = re.sub("run: .*", f"run: {{command: [{command}, a.py]}}", MPI)
    found = explained(text, scheduler="pbs")
    assert [row.global_ranks for row in found.nodes] == [None, None]
    assert "own launcher" in found.ranks
    written = exported(render(plan_of(text, scheduler="pbs")))
    listed = {line.what.partition("=")[0] for line in found.variables}
    names = {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"}
    assert names & written == names & listed == (names if told else set())


@pytest.mark.parametrize(
    ("in_spec", "target", "origin"),
    [
        ("scheduler: pbs", {}, "job.yaml:2:12: scheduler"),
        ("site: pbs-generic", {}, "job.yaml:2:7: site"),
        ("site: pbs-generic\nscheduler: pbs", {}, "job.yaml:2:7: site"),
        ("scheduler: local", {"scheduler": "pbs"}, "--scheduler"),
        ("scheduler: local", {"site": "pbs-generic"}, "--site pbs-generic"),
    ],
)
def test_what_decided_the_scheduler(in_spec: str, target: dict[str, str], origin: str) -> None:
    found = explained(edited(("scheduler: local", in_spec)), **target)
    assert reason(found.decisions, "scheduler: pbs").origin == (origin,)


def test_where_directives_come_from() -> None:
    """From the spec, its site, the command line, or from jobgen itself."""
    found = explained(GADI, "resources.nodes=3").directives
    assert reason(found, "#PBS -q").origin == ("job.yaml:7:8: queue",)
    assert reason(found, "#PBS -P").origin == (
        "job.yaml:6:10: account",
        "site nci-gadi: pbs.account_option, docs, as of 2026",
    )
    assert reason(found, "#PBS -l ncpus=144") == Reason(
        "#PBS -l ncpus=144",
        "the whole job's CPUs: 3 x 48",
        (
            "--set resources.nodes",
            "job.yaml:10:18: resources.gpus_per_node",
            "site nci-gadi: queues.gpuvolta.node.cpus_per_gpu, docs, as of 2026",
            "site nci-gadi: pbs.resources, docs, as of 2026",
        ),
    )
    assert reason(found, "#PBS -k oed").origin == ("default",)


def test_what_a_site_chose_is_told_from_what_the_spec_says() -> None:
    chosen = explained(PORTABLE, site="alcf-polaris", limits=False)
    origin = reason(chosen.directives, "#PBS -q").origin
    assert origin == ("site alcf-polaris: queues.debug.choose, docs, as of 2026-08-19",)
    said = explained(PORTABLE, "queue=debug", site="alcf-polaris", limits=False)
    assert reason(said.directives, "#PBS -q").origin == ("--set queue",)
    why = "the job waits and runs there"
    assert reason(said.directives, "#PBS -q").why == why
    assert reason(chosen.directives, "#PBS -q").why == f"{why}; {CHOICE} that takes the job"
    chunk = reason(chosen.directives, "#PBS -l select").origin
    assert "site alcf-polaris: pbs.chunk, docs, as of 2026-08" in chunk


@pytest.mark.parametrize(
    ("site", "overrides", "queue", "why"),
    [
        (
            "alcf-polaris",
            ["resources.nodes=20", "resources.walltime=3h"],
            "#PBS -q prod",
            " that takes the job",
        ),
        (
            "surf-snellius",
            ["resources.gpu_type=h100"],
            "#SBATCH --partition=gpu_h100",
            " with h100 that takes the job",
        ),
    ],
)
def test_why_a_queue_is_jobgens_choice(
    site: str, overrides: list[str], queue: str, why: str
) -> None:
    found = reason(explained(PORTABLE, *overrides, site=site, limits=False).directives, queue)
    assert found.why == f"the job waits and runs there; {CHOICE}{why}"
    assert found.origin[0].startswith(f"site {site}: queues.{queue.split()[-1].split('=')[-1]}.")


@pytest.mark.parametrize(
    ("site", "what", "why"),
    [
        ("alcf-polaris", "network: slingshot, by aws-ofi-nccl", "it carries NCCL"),
        ("ncar-derecho", "network: slingshot, by aws-ofi-nccl", "or NCCL uses TCP or fails: use"),
        ("cineca-leonardo", "network: infiniband", "it carries NCCL between the nodes"),
        ("alliance-rorqual", "network: not known", "not known to jobgen: NCCL may use TCP"),
    ],
)
def test_the_network_of_several_nodes_is_explained(site: str, what: str, why: str) -> None:
    found = explained(PORTABLE, "account=def-a", site=site, limits=False)
    assert why in reason(found.decisions, what).why
    alone = explained(PORTABLE, "account=def-a", "resources.nodes=1", site=site, limits=False)
    assert not [one for one in alone.decisions if one.what.startswith("network")]


def test_a_variable_of_the_site_is_not_called_ones_own() -> None:
    found = explained(PORTABLE, site="alcf-polaris", limits=False)
    theirs = [reason for reason in found.variables if "the site's" in reason.why]
    assert theirs
    for reason_ in theirs:
        assert re.match(r"site alcf-polaris: (network|variables)\.", reason_.origin[0])


@pytest.mark.slow
def test_directives_and_variables_are_those_of_the_script_each_with_a_reason(
    subtests: pytest.Subtests,
) -> None:
    """Of every example on every scheduler, and of one on every known site."""
    overrides: list[tuple[str, ...]] = [(), ("resources.nodes=1",), ("filesystems=[home]",)]
    texts = [*(path.read_text() for path in EXAMPLES), MINIMAL, INTERFACE, CHAIN]
    jobs = [(text, (), site) for text, site in product(texts, SITES)]
    jobs += [(PORTABLE, *each) for each in product(overrides, site_names())]
    for text, more, site in jobs:
        with subtests.test(f"{text.partition(chr(10))[0]}, {site}, {more}"):
            loaded = load(text, *more)
            plan = resolve(loaded, site=site, limits=False)
            found, script = explain(loaded, plan), render(plan)
            written = re.findall("^#(?:PBS|SBATCH) .*", script, re.M)
            assert [reason.what for reason in found.directives] == written
            assert all(reason.why and reason.origin for reason in found.directives)
            names = [reason.what.partition("=")[0] for reason in found.variables]
            assert sorted(names) == sorted(exported(script))
            lines = schedulers.SCHEDULERS[plan.scheduler].directives(plan)
            own = [line for line in lines if not isinstance(line, Directive)]
            assert len(own) == len(plan.requests.directives)
            for key in (key for line in lines if line not in own for key in line.keys):
                assert all(map(leads_somewhere, key.split("|"))), key


def leads_somewhere(path: str) -> bool:
    """Whether a path is one of a spec or, behind `site.`, of a site's profile."""
    keys = path.split(".")
    cls: type | None = SiteProfile if keys[0] == "site" else JobSpec
    keys = keys[1:] if keys[0] == "site" else keys
    while keys:
        if cls is None or keys[0] not in read_fields(cls):
            return False
        (kind, *_) = read_fields(cls)[keys[0]].kinds
        keys = keys[1:]
        if kind.type is dict:
            kind, keys = kind.members[0], keys[1:]
        cls = kind.type if is_record(kind.type) else None
    return True


def test_a_directive_of_ones_own_is_found_where_it_stands() -> None:
    own = 'directives: ["#SBATCH -C a", "#PBS -m e", "#PBS -r n"]\n'
    found = explained(edited(("", own)), scheduler="pbs").directives[-2:]
    assert found == (
        Reason("#PBS -m e", "your own, verbatim", ("job.yaml:5:30: directives[1]",)),
        Reason("#PBS -r n", "your own, verbatim", ("job.yaml:5:43: directives[2]",)),
    )


@pytest.mark.parametrize(
    ("words", "gpus", "scheduler", "set_here"),
    [
        ("accelerate launch t.py", 1, "slurm", False),
        ("apptainer run a torchrun t", 1, "slurm", False),
        ("python t.py", 1, "slurm", True),
        ("python t.py", 4, "slurm", False),
        ("python t.py", 4, "pbs", True),  # which says it to all of a job
    ],
)
def test_threads_are_left_to_a_program_that_starts_its_processes(
    words: str, gpus: int, scheduler: str, set_here: bool
) -> None:
    """Each of its processes would get the threads of all of them."""
    text = f"name: a\nscheduler: {scheduler}\nresources: {{gpus_per_node: {gpus}}}\n"
    text += f"run: {{command: {words}}}\nlaunch: {{mode: plain, processes_per_node: 1}}\n"
    named = [found.what for found in explained(text).variables]
    assert any(what.startswith("OMP_NUM_THREADS") for what in named) == set_here
    check_syntax(render(resolve(load(text))), Position("job"))


def test_a_variable_of_the_spec_takes_the_place_of_jobgens() -> None:
    text = edited(("", "environment: {variables: {OMP_NUM_THREADS: 3}}\n"))
    found = reason(explained(text).variables, "OMP_NUM_THREADS")
    where = "job.yaml:5:44: environment.variables.OMP_NUM_THREADS"
    assert found == Reason("OMP_NUM_THREADS=3", "your own", (where,))


@pytest.mark.parametrize(
    ("resources", "what", "origin"),
    [
        ("{}", "OMP_NUM_THREADS=CPUs of the node / its processes", ("default",)),
        (
            "{cpus_per_node: 8}",
            "OMP_NUM_THREADS=8",
            ("job.yaml:3:28: resources.cpus_per_node",),
        ),
    ],
)
def test_threads(resources: str, what: str, origin: tuple[str, ...]) -> None:
    found = explained(edited(("{nodes: 2}", resources)), scheduler="slurm").variables
    assert reason(found, what).origin == origin


def test_nodes_that_are_one_machine_share_its_cpus() -> None:
    text = edited(("", "launch: {processes_per_node: [2, 1]}\n"))
    found = explained(text, scheduler="local").variables
    assert reason(found, "OMP_NUM_THREADS=CPUs of the machine / all processes")
    for scheduler, among in (("local", 3), ("slurm", 2)):
        assert f"cpus / {among} : 1" in render(plan_of(text, scheduler=scheduler))


def test_what_is_set_up_on_the_nodes_is_among_the_decisions() -> None:
    container = "{image: a.sif, runtime: apptainer}"
    modules = "{first: purge, use: [$A/m], load: [cuda]}"
    text = edited(
        ("", f"environment: {{modules: {modules}, container: {container}, stage: e.tgz}}\n")
    )
    found = {reason.what: reason.origin for reason in explained(text, scheduler="slurm").decisions}
    assert found["modules: purge, use $A/m, cuda"] == ("job.yaml:5:24: environment.modules",)
    assert [origin.partition(": ")[2] for origin in found["container: a.sif"]] == [
        "environment.container.image",
        "environment.container.runtime",
    ]
    assert [origin.partition(": ")[2] for origin in found["stage: e.tgz"]] == ["environment.stage"]
    text = edited(("scheduler: local\n", ""), ("", "environment: {container: {image: a.sif}}\n"))
    site = explained(text, site="olcf-frontier", limits=False).decisions
    (origin,) = [reason.origin for reason in site if reason.what.startswith("modules: ")]
    assert origin[0].startswith("site olcf-frontier: container.modules")


def test_what_is_left_out_is_said() -> None:
    out = explained(edited(("", "account: x\nqueue: y\n"))).as_text()
    assert "\nDirectives\n  none\n" in out
    assert "\nLeft out, because it has no effect here: account, queue\n\nDecisions\n" in out


@pytest.mark.parametrize(
    ("resources", "devices", "words"),
    [
        ("gpus_per_node: 4", ("GPU 0", "GPU 1"), "GPU 0-1 of 4"),
        ("gpus_per_node: 2", ("GPU 0", "GPU 1"), "GPU 0-1"),
        ("gpus_per_node: 1", (), "1 shared by 2"),
        ("nodes: 1", ("CPU", "CPU"), "CPU"),
    ],
)
def test_each_rank_has_a_device(resources: str, devices: tuple[str, ...], words: str) -> None:
    text = edited(("nodes: 2", resources), ("", "launch: {processes_per_node: 2}\n"))
    found = explained(text)
    assert found.nodes[0].devices == devices
    assert f"  {words}  " in found.as_text().splitlines()[4]


def test_what_a_gpu_is_on_the_site() -> None:
    found = explained(PORTABLE, "account=project_1", site="lumi-g", limits=False)
    assert found.device == "a GCD, half an MI250X"
    assert "  A GPU is here a GCD, half an MI250X.\n" in found.as_text()


def test_the_cost_is_walltime_times_size_times_rate() -> None:
    cost = explained(GADI, "resources.walltime=90m").cost
    assert cost.amount == 2 * 48 * 1.5 * 3
    assert (cost.unit, cost.how) == ("SU", "96 CPUs x 01:30:00 x 3 SU a cpu-hour")
    assert cost.origin == ("site nci-gadi: queues.gpuvolta.charge, docs, as of 2026",)
    assert cost.source
    assert "Queue Limits" in cost.source


def test_the_cost_is_of_all_starts_and_tasks() -> None:
    more = ("on_walltime={notice: 1m, then: resubmit, at_most: 3}", "array.tasks=4")
    alone = explained(GADI, more[0]).cost
    assert alone.amount == 24 * 3
    assert alone.how.endswith(" x 3 starts")
    assert explained(GADI, more[1]).cost.amount == 24 * 4
    assert explained(GADI, more[1]).cost.how.startswith("4 tasks x ")


CHARGES = """\
scheduler: slurm
verified: docs
as_of: 2026-01
sources: {prices: https://example.org/prices}
charge: {unit: hours, rate: 0.25, per: PER, note: at night half, source: prices}
queues: {v1.5: {default: true, charge: {unit: h, rate: 2, per: node-hour}}}
"""


@pytest.mark.parametrize(
    ("per", "resources", "amount", "how"),
    [
        ("node-hour", "nodes: 1, walltime: 1h", 0.25, "1 node x 01:00:00 x 0.25 hours a node-hour"),
        (
            "gpu-hour",
            "gpus_per_node: [4, 2], cpus_per_node: 2, walltime: 10h",
            15,
            "6 GPUs x 10:00:00",
        ),
        ("gpu-hour", "nodes: 2, walltime: 10h", 0, "0 GPUs x "),
        ("cpu-hour", "nodes: 3, cpus_per_node: 8, walltime: 30m", 3, "24 CPUs x 00:30:00 x 0.25"),
        ("cpu-hour", "nodes: 3, walltime: 30m", None, "the spec does not say how many CPUs"),
        ("node-hour", "nodes: 3", None, "the spec names no walltime"),
    ],
)
def test_what_is_charged(
    per: str,
    resources: str,
    amount: float | None,
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JOBGEN_SITE_PATH", str(tmp_path))
    (tmp_path / "mine.yaml").write_text(CHARGES.replace("PER", per))
    text = edited(("scheduler: local", "site: mine"), ("nodes: 2", resources))
    found = explained(text)
    assert (found.cost.amount, found.cost.how[: len(how)]) == (amount, how)
    assert (found.cost.note, found.cost.source) == ("at night half", "https://example.org/prices")
    assert how in found.as_text()


def test_a_queue_may_have_a_dot_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBGEN_SITE_PATH", str(tmp_path))
    (tmp_path / "mine.yaml").write_text(CHARGES.replace("PER", "cpu-hour"))
    text = edited(("scheduler: local", "site: mine\nqueue: v1.5"), ("nodes: 2", "walltime: 1h"))
    cost = explained(text).cost
    assert (cost.amount, cost.unit) == (2, "h")
    assert cost.origin == ("site mine: queues.v1.5.charge, docs, as of 2026-01",)


@pytest.mark.parametrize(
    ("ready", "words"),
    [
        ("{http: /health}", "once http://$ONE_ADDR:$ONE_PORT/health answers, within 10m"),
        ("{tcp: true, within: 1m}", "once $ONE_ADDR:$ONE_PORT accepts connections, within 1m"),
        ("{file: started}", "once the file started is newer than the start of the job, within 10m"),
        (
            "{file: $JOBGEN_RUN_DIR/up}",
            "once the file $JOBGEN_RUN_DIR/up is newer than the start of the job, within 10m",
        ),
        ("{log: listening on}", "once its output has 'listening on', within 10m"),
    ],
)
def test_what_shows_that_a_role_is_ready(ready: str, words: str) -> None:
    run = "run: {command: serve}"
    roles = f"{{one: {{nodes: 1, ready: {ready}, {run}}}, two: {{{run}}}}}"
    text = edited(("run: {module: m}", f"roles: {roles}"), ("scheduler: local", "scheduler: slurm"))
    assert f"; is ready {words}; " in explained(text).as_text()
