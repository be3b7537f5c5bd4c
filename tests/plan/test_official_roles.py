"""Jobs of several programs that projects publish: the same programs on as many nodes, as specs.

What the originals do was read in their files; the names of the files are the sources. A server of
open-r1 has the last node there, and the first one here, where the last role ends the job.
"""

from typing import NamedTuple

import pytest
from support import ROOT

from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.spec.load import load


class Program(NamedTuple):
    """One program of an original: on how many nodes, with how many processes on each, on Ray."""

    words: tuple[str, ...]  # among those of its command line
    nodes: int
    processes: int
    ray: bool = False  # then it runs once, beside the head, and `nodes` are those of Ray
    knows: str = ""  # the variable with the other's address, by the name that it has in the spec


# By example: the original, its GPUs a node, its programs.
ORIGINALS = {
    "verl": (
        "github.com/volcengine/verl: examples/slurm/ray_on_slurm.slurm",
        4,
        [Program(("-m", "verl.trainer.main_ppo", "trainer.nnodes=2"), 2, 1, ray=True)],
    ),
    "openrlhf": (
        "github.com/OpenRLHF/OpenRLHF: examples/scripts/train_ppo_llama_ray_slurm.sh",
        8,
        [Program(("--actor_num_gpus_per_node", "8", "--ref_num_nodes"), 2, 1, ray=True)],
    ),
    "nemo-rl": (
        "github.com/NVIDIA-NeMo/RL: ray.sub",
        8,
        [Program(("examples/run_grpo_math.py",), 2, 1, ray=True)],
    ),
    "open-r1": (
        "github.com/huggingface/open-r1: slurm/train.slurm",
        8,
        [
            Program(("trl", "vllm-serve", "--model"), 1, 1),
            Program(("--vllm_server_host", "$VLLM_ADDR"), 2, 8, knows="VLLM_ADDR"),
        ],
    ),
}


def list_programs(plan: Plan) -> list[Plan]:
    return [role.plan for role in plan.roles.members] if plan.roles else [plan]


@pytest.mark.parametrize("name", ORIGINALS)
@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_the_programs_of_an_original_start_on_as_many_nodes(name: str, scheduler: str) -> None:
    _, gpus, programs = ORIGINALS[name]
    path = ROOT / "examples" / "roles" / f"{name}.yaml"
    assert len(path.read_text().splitlines()) <= 25
    plan = resolve(load(str(path)), scheduler=scheduler)
    assert {group.gpus for group in plan.nodes.groups} == {gpus}
    assert plan.nodes.total == sum(program.nodes for program in programs)
    script = render(plan)
    for program, own in zip(programs, list_programs(plan), strict=True):
        assert set(program.words) <= set(own.program.command)
        assert own.nodes.total == program.nodes
        assert set(own.nodes.processes) == {program.processes}
        assert own.launch.ray == program.ray
        if program.ray:
            assert f"--num-gpus={gpus}" in script
        if program.knows:
            assert f'"${{{program.knows}}}"' in script
