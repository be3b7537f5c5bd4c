"""What the planner decides: defaults, precedence, groups of nodes, words of the command."""

import pytest
from support import EXAMPLES, MINIMAL, complaint, edited, plan_of

from jobgen.plan.plan import NodeGroup, Plan, ShellPath
from jobgen.sites.profile import PbsDialect

JOB_COSTS = "(https://opus.nci.org.au/spaces/Help/pages/236880942/Job+Costs, as of 2026)"
GADI = next(path for path in EXAMPLES if path.stem == "gadi-2x4").read_text()


def slurm(resources: str, *, launch: str = "{}") -> Plan:
    """A plan for Slurm with these resources."""
    return plan_of(
        edited(("{nodes: 2}", resources), ("", f"launch: {launch}\n")), scheduler="slurm"
    )


def test_defaults() -> None:
    plan = plan_of("name: a\nscheduler: slurm\nresources: {}\nrun: {module: m}\n")
    assert plan.nodes.groups == (NodeGroup(nodes=1, processes=1, gpus=0, cpus=None, memory=None),)
    assert (plan.launch.rendezvous, plan.launch.max_restarts, plan.nodes.world_size) == (
        "file",
        0,
        1,
    )
    assert (
        plan.walltime.seconds
        is plan.requests.account
        is plan.requests.queue
        is plan.nodes.threads
        is None
    )
    assert plan.nodes.topology == "1 node x 1 process"


@pytest.mark.parametrize(
    ("in_spec", "given", "scheduler", "directives"),
    [
        ("scheduler: local", {}, "local", 0),
        ("scheduler: pbs", {}, "pbs", 1),
        ("site: nci-gadi", {}, "pbs", 1),
        ("site: nci-gadi\nscheduler: pbs", {}, "pbs", 1),
        ("scheduler: local", {"scheduler": "slurm"}, "slurm", 1),
        ("scheduler: local", {"site": "nci-gadi"}, "pbs", 1),
        ("site: nci-gadi", {"site": "slurm-generic"}, "slurm", 1),
        ("site: nci-gadi", {"site": "local"}, "local", 0),
        ("site: nci-gadi", {"site": "local", "scheduler": "local"}, "local", 0),
    ],
)
def test_the_command_line_wins_over_the_spec(
    in_spec: str, given: dict[str, str], scheduler: str, directives: int
) -> None:
    text = edited(
        ("scheduler: local", in_spec),
        ("nodes: 2", "memory_per_node: 8GB"),
        ("", 'directives: ["#PBS -m e", "#SBATCH --mail-type=END"]\n'),
    )
    plan = plan_of(text, **given)
    assert (plan.scheduler, len(plan.requests.directives)) == (scheduler, directives)
    assert plan.provenance.site_given == given.get("site")


@pytest.mark.parametrize(
    ("in_spec", "given", "message"),
    [
        (
            "",
            {},
            "job.yaml:1:1: says neither site nor scheduler; "
            "write site: NAME or scheduler: slurm, pbs or local; or give --scheduler",
        ),
        (
            "site: gadi\n",
            {},
            "job.yaml:2:7: site: unknown site 'gadi'; did you mean nci-gadi?",
        ),
        (
            "site: nci-gadi\nscheduler: slurm\n",
            {},
            "job.yaml:2:7: site: nci-gadi runs pbs, not slurm; "
            "leave scheduler out, or name another site, such as slurm-generic",
        ),
        (
            "site: nci-gadi\n",
            {"scheduler": "slurm"},
            "job.yaml:2:7: site: nci-gadi runs pbs, not slurm; "
            "leave --scheduler out, or name another site, such as slurm-generic",
        ),
        (
            "scheduler: slurm\n",
            {"site": "gadi"},
            "gadi: unknown site; did you mean nci-gadi?",
        ),
    ],
)
def test_conflicts_of_site_and_scheduler(in_spec: str, given: dict[str, str], message: str) -> None:
    assert complaint(edited(("scheduler: local\n", in_spec)), **given) == message


@pytest.mark.parametrize(
    ("resources", "launch", "groups", "topology"),
    [
        ("{nodes: 3}", "{}", [(3, 1, 0)], "3 nodes x 1 process"),
        ("{nodes: 2, gpus_per_node: 4}", "{}", [(2, 4, 4)], "2 nodes x 4 processes"),
        (
            "{nodes: 2, gpus_per_node: 4}",
            "{processes_per_node: 1}",
            [(2, 1, 4)],
            "2 nodes x 1 process",
        ),
        ("{gpus_per_node: [4, 4]}", "{}", [(2, 4, 4)], "2 nodes x 4 processes"),
        (
            "{gpus_per_node: [2, 8, 2], cpus_per_gpu: 1}",
            "{}",
            [(1, 8, 8), (2, 2, 2)],
            "1 node x 8 processes + 2 nodes x 2 processes",
        ),
        (
            "{}",
            "{processes_per_node: [2, 1, 1]}",
            [(1, 2, 0), (2, 1, 0)],
            "1 node x 2 processes + 2 nodes x 1 process",
        ),
        (
            "{gpus_per_node: [2, 2, 2]}",
            "{processes_per_node: [2, 1, 2]}",
            [(1, 2, 2), (1, 1, 2), (1, 2, 2)],
            "1 node x 2 processes + 1 node x 1 process + 1 node x 2 processes",
        ),
        (
            "{gpus_per_node: [0, 2], cpus_per_node: 4}",
            "{processes_per_node: [3, 1]}",  # each stays with its node's GPUs
            [(1, 1, 2), (1, 3, 0)],
            "1 node x 1 process + 1 node x 3 processes",
        ),
    ],
)
def test_alike_nodes_form_groups_most_gpus_first(
    resources: str, launch: str, groups: list[tuple[int, int, int]], topology: str
) -> None:
    plan = slurm(resources, launch=launch)
    assert [group[:3] for group in plan.nodes.groups] == groups
    assert plan.nodes.topology == topology
    assert plan.nodes.total == len(plan.nodes.processes) == sum(group[0] for group in groups)
    assert plan.nodes.world_size == sum(plan.nodes.processes)


def test_the_scheduler_sees_no_difference_in_processes() -> None:
    plan = slurm("{gpus_per_node: [2, 2, 2]}", launch="{processes_per_node: [2, 1, 2]}")
    assert [component.nodes for component in plan.components] == [3]


@pytest.mark.parametrize(
    ("resources", "launch", "threads"),
    [
        ("{}", "{}", None),  # counted on the node
        ("{gpus_per_node: 4, cpus_per_gpu: 12}", "{}", 12),
        ("{gpus_per_node: 4, cpus_per_node: 50}", "{}", 12),
        ("{gpus_per_node: 4, cpus_per_node: 2}", "{}", 1),
        ("{gpus_per_node: 4, cpus_per_gpu: 12}", "{processes_per_node: 1}", 48),
        ("{gpus_per_node: [8, 2], cpus_per_node: 16}", "{}", 2),  # one value suits all
    ],
)
def test_threads_of_a_process(resources: str, launch: str, threads: int | None) -> None:
    assert slurm(resources, launch=launch).nodes.threads == threads


@pytest.mark.parametrize(
    ("resources", "scheduler", "message"),
    [
        (
            "{cpus_per_gpu: 4}",
            "slurm",
            "job.yaml:3:27: resources.cpus_per_gpu: there are no GPUs; add gpus_per_node, the "
            "GPUs of each node; for a job without GPUs write cpus_per_node",
        ),
        (
            "{gpus_per_node: [8, 2]}",
            "slurm",
            "job.yaml:3:28: resources.gpus_per_node: unequal nodes on Slurm are parts of a job, "
            "each with its own CPUs; add cpus_per_gpu or cpus_per_node",
        ),
        (
            "{nodes: {min: 2, max: 4}}",
            "pbs",
            "job.yaml:3:20: resources.nodes: PBS gives as many nodes as are asked for, and no "
            "range; write nodes: 4",
        ),
        (
            "{nodes: {min: 2, max: 4}}",
            "local",
            "job.yaml:3:20: resources.nodes: this machine has as many nodes as are asked for, and "
            "no range; write nodes: 4",
        ),
        (
            "{nodes: {min: 4, max: 2}}",
            "slurm",
            "job.yaml:3:34: resources.nodes.max: is less than min, 4; write {min: 2, max: 4}",
        ),
        (
            "{nodes: {min: 2, max: 4}, gpus_per_node: [8, 8]}",
            "slurm",
            "job.yaml:3:53: resources.gpus_per_node: is a list, and the number of nodes is a "
            "range; give one number for all",
        ),
    ],
)
def test_what_a_scheduler_cannot_do(resources: str, scheduler: str, message: str) -> None:
    assert complaint(edited(("{nodes: 2}", resources)), scheduler=scheduler) == message


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("{module: a.b}", ["python3", "-u", "-m", "a.b"]),
        ("{script: a b.py}", ["python3", "-u", "a b.py"]),
        ("{script: -x.py}", ["python3", "-u", "./-x.py"]),
        ("{command: [a, 1, 010, yes, '']}", ["a", "1", "010", "yes", ""]),
        ("{command: [a], args: [b, -c]}", ["a", "b", "-c"]),
        ("{command: [a], args: {lr: 1e-3, n: 010}}", ["a", "--lr", "1e-3", "-n", "010"]),
        ("{command: [a], args: {lr: -1, n: -1}}", ["a", "--lr=-1", "-n=-1"]),
        ("{command: [a], args: {-lr: 1, --x: 2}}", ["a", "-lr", "1", "--x", "2"]),
        ("{command: [a], args: {on: true, off: false, v: TRUE}}", ["a", "--on", "-v"]),
        ("{command: [a], args: {on: 'true', x: 'false'}}", ["a", "--on", "true", "-x", "false"]),
        ("{command: [a], args: {ids: [1, 2], none: []}}", ["a", "--ids", "1", "2", "--none"]),
        (
            "{command: [a], args: {x: 2:00:00, y: 2030-01-01}}",
            ["a", "-x", "2:00:00", "-y", "2030-01-01"],
        ),
    ],
)
def test_words_of_the_command(run: str, words: list[str]) -> None:
    assert list(plan_of(edited(("{module: m}", run))).program.command) == words


@pytest.mark.parametrize("run", ["{script: $HOME/a.py}", "{script: -a.py}"])
def test_only_a_path_expands(run: str) -> None:
    text = edited(("{module: m}", run), ("", "environment: {venv: $HOME/v, variables: {A: $B}}\n"))
    plan = plan_of(text)
    assert isinstance(plan.program.command[-1], ShellPath)
    assert isinstance(plan.environment.venv, ShellPath)
    assert type(plan.environment.variables["A"]) is str


def test_local_leaves_out_what_this_machine_has_no_use_for() -> None:
    text = edited(
        ("nodes: 2", "gpus_per_node: 2, cpus_per_gpu: 4, memory_per_node: 8GB, walltime: 1h"),
        ("", "account: x\nqueue: y\nlaunch: {interface: hsn0}\n"),
        ("", 'environment: {modules: [cuda], venv: v}\ndirectives: ["#PBS -m e"]\n'),
    )
    plan = plan_of(text)
    assert plan.nodes.groups == (NodeGroup(nodes=1, processes=2, gpus=2, cpus=None, memory=None),)
    assert (plan.requests.account, plan.requests.queue, plan.launch.interface) == (None, None, None)
    assert (plan.environment.modules, plan.requests.directives) == (None, ())
    assert (plan.environment.venv, plan.walltime.seconds) == ("v", 3600)
    assert plan.left_out == (
        "resources.cpus_per_gpu",
        "resources.memory_per_node",
        "launch.interface",
        "environment.modules",
        "account",
        "queue",
        "directives of another scheduler (-m e)",
    )


def test_a_cluster_leaves_out_nothing_but_directives_of_another_scheduler() -> None:
    text = edited(("", 'account: x\ndirectives: ["#PBS -m e", "#SBATCH -C gpu"]\n'))
    left_out = ("directives of another scheduler (-C gpu)",)
    assert plan_of(text, scheduler="pbs").left_out == left_out
    assert plan_of(GADI).left_out == ()


def test_gadi_gives_12_cpus_with_each_gpu() -> None:
    plan = plan_of(GADI)
    assert plan.nodes.groups == (NodeGroup(2, processes=4, gpus=4, cpus=48, memory=180 * 1024**2),)
    assert (plan.nodes.threads, plan.site.pbs) == (12, PbsDialect("totals", "-P", disk="jobfs"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "nodes: 2",
            "cpus_per_gpu: 8",
            "job.yaml:9:17: resources.cpus_per_gpu: 32 CPUs for 4 GPUs a node: there are 12 with "
            f"each GPU, no other number {JOB_COSTS}; leave cpus_per_gpu out",
        ),
        (
            "gpus_per_node: 4",
            "gpus_per_node: [4, 2]",
            "job.yaml:10:18: resources.gpus_per_node: 2 GPUs, but a job on several nodes has all "
            f"4 of each {JOB_COSTS}; write gpus_per_node: 4\n"
            "job.yaml:10:18: resources.gpus_per_node: this site takes totals of the whole job, "
            "so all nodes must be alike",
        ),
    ],
)
def test_what_gadi_refuses(old: str, new: str, message: str) -> None:
    assert complaint(edited((old, new), text=GADI), today="2026-06-01") == message


def test_gadi_takes_the_number_of_cpus_that_it_gives() -> None:
    assert plan_of(edited(("nodes: 2", "cpus_per_node: 48"), text=GADI)).nodes.groups[0].cpus == 48


def test_every_conflict_is_told_at_once() -> None:
    text = edited(
        ("memory_per_node: 180GB", "cpus_per_gpu: 8\n  memory_per_node: 999GB"), text=GADI
    )
    lines = complaint(text, today="2026-06-01").splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "resources.cpus_per_gpu",
        "resources.memory_per_node",
    ]


def test_the_plan_knows_how_it_was_asked_for() -> None:
    plan = plan_of(MINIMAL, "resources.nodes=3", "name=b", site="pbs-generic")
    assert plan.provenance.overrides == ("resources.nodes=3", "name=b")
    assert (plan.provenance.site_given, plan.provenance.source) == ("pbs-generic", "job.yaml")


def test_a_range_of_nodes_is_for_the_scheduler_to_fill() -> None:
    plan = slurm("{nodes: {min: 2, max: 4}, gpus_per_node: 8, cpus_per_gpu: 4}")
    assert (plan.nodes.fewest, plan.nodes.total) == (2, 4)
    assert plan.nodes.topology == "2 to 4 nodes x 8 processes"
    assert slurm("{nodes: 4}").nodes.fewest is None
