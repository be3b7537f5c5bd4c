"""What starts the processes, and which cores and GPU each gets."""

import pytest
from support import EXAMPLES, complaint, load, plan_of

from jobgen.errors import SpecError
from jobgen.plan.ranks import list_nodes
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render

PORTABLE = next(path for path in EXAMPLES if path.stem == "portable").read_text()


def start_on(site: str, *overrides: str) -> tuple[tuple[str, ...], str]:
    """Devices of the processes on the first node of a job on a site, and its launcher's options."""
    plan = resolve(load(PORTABLE, *overrides), site=site, limits=False)
    return next(iter(list_nodes(plan))).devices, " ".join(plan.launch.options)


def test_each_process_has_the_gpu_and_the_cores_that_the_site_documents() -> None:
    assert "list:4-7:8-11" in start_on("alcf-aurora", "resources.gpus_per_node=12")[1]
    devices, options = start_on("alcf-polaris", "resources.gpus_per_node=4")
    assert devices == ("GPU 3", "GPU 2", "GPU 1", "GPU 0")
    assert options == "--depth=8 --cpu-bind depth"


def test_the_cores_that_a_node_gives_anyway_may_be_named_and_are_left_out() -> None:
    resources = "resources={nodes: 2, gpus_per_node: 4, walltime: 1h%s}"
    more = ["filesystems=[home]", "account=a", "queue=debug"]
    for key in (", cpus_per_gpu: 8", ", cpus_per_node: 32", ""):
        plan = resolve(load(PORTABLE, *more, resources % key), site="alcf-polaris")
        assert not plan.nodes.cpus_asked


def test_the_memory_of_a_whole_node_may_be_named_where_it_is_not_asked_for() -> None:
    resources = "resources={nodes: 2, gpus_per_node: 4, walltime: 1h, memory_per_node: %s}"
    more = ["filesystems=[home]", "account=a", "queue=debug"]
    plan = resolve(load(PORTABLE, *more, resources % "512GB"), site="alcf-polaris")
    assert [group.memory for group in plan.nodes.groups] == [None]
    with pytest.raises(SpecError, match="the memory follows"):
        resolve(load(PORTABLE, *more, resources % "500GB"), site="alcf-polaris")


def test_a_node_of_which_a_part_is_asked_for_has_its_gpus_in_order() -> None:
    devices, options = start_on("alcf-polaris", "resources.gpus_per_node=2")
    assert devices == ("GPU 0", "GPU 1")
    assert options == "--depth=8 --cpu-bind depth"


@pytest.mark.parametrize("launch", ["{}", "{mode: torchrun}"])
def test_torchruns_agents_leave_the_cores_to_torch(launch: str) -> None:
    assert start_on("lumi-g", f"launch={launch}", "resources.gpus_per_node=8")[1] == ""


def test_a_table_of_cores_is_for_whole_nodes_alone() -> None:
    """On a part of a node srun would refuse the mask, or bind to cores that are not the job's."""
    direct = "launch={mode: direct}"
    whole = start_on("lumi-g", direct, "resources.gpus_per_node=8")[1]
    assert whole.startswith("--cpu-bind=mask_cpu:")
    assert start_on("lumi-g", direct, "resources.gpus_per_node=2", "queue=small-g")[1] == ""


def test_a_plain_program_is_one_process_a_node_whatever_its_gpus() -> None:
    text = """\
name: prepare
scheduler: slurm
resources: {nodes: 2, gpus_per_node: 4, walltime: 1h}
launch: {mode: plain}
run: {command: [./prepare, --all]}
"""
    plan = plan_of(text)
    assert [(group.nodes, group.processes, group.gpus) for group in plan.nodes.groups] == [
        (2, 1, 4)
    ]
    script = render(plan)
    assert "there is no torch" not in script
    assert "there is no python3" not in script
    assert not any("torch" in note for note in plan.notes)
    many = plan_of(text, "launch.processes_per_node=3")
    assert many.nodes.world_size == 6
    agent = "run.command=[accelerate, launch, train.py]"
    assert plan_of(text, agent, "resources.nodes=1").launch.plain
    alone = "run.command: accelerate launch starts on each of 2 nodes, but they never join"
    assert alone in complaint(text, agent)
    steps = plan_of(text, "run.command=[mpirun, -np, 6, ./a]", "launch.processes_per_node=3")
    assert (steps.launch.body, steps.nodes.world_size) == (True, 6)
    assert "mpirun on the first of 2 nodes" in render(steps)
    assert "launch.launcher: has no effect with run.command" in complaint(
        text, "run.command=[srun, ./a]", "launch.launcher=mpiexec"
    )
    assert "preflight: compares what torch sees" in complaint(text, "preflight=true")
    assert "launch.max_restarts: is torchrun's" in complaint(text, "launch.max_restarts=1")
