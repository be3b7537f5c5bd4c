"""Jobs of several programs that projects publish: the same programs on as many nodes, as specs.

What the originals do was read in their files; the names of the files are the sources. A server of
open-r1 has the last node there, and the first one here, where the last role ends the job.
"""

from typing import NamedTuple

import pytest
from support import ROOT

from jobgen.plan.plan import Plan
from jobgen.plan.ranks import list_nodes
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.spec.load import load


class Program(NamedTuple):
    """One program of an original: its nodes, how many processes on each, its GPUs of each."""

    words: tuple[str, ...]  # among those of its command line
    nodes: range  # of those of the job, in their order there but for open-r1's server
    processes: int = 1
    gpus: int = 8
    ray: bool = False  # then it runs once, beside the head, and `nodes` are those of Ray
    knows: tuple[str, ...] = ()  # the variables with addresses, by the names of the spec


# By example: the original, and its programs.
ORIGINALS = {
    "verl": (
        "github.com/volcengine/verl: examples/slurm/ray_on_slurm.slurm",
        [Program(("-m verl.trainer.main_ppo", "trainer.nnodes=2"), range(2), gpus=4, ray=True)],
    ),
    "openrlhf": (
        "github.com/OpenRLHF/OpenRLHF: examples/scripts/train_ppo_llama_ray_slurm.sh",
        [Program(("--actor_num_gpus_per_node 8", "--ref_num_nodes"), range(2), ray=True)],
    ),
    "nemo-rl": (
        "github.com/NVIDIA-NeMo/RL: ray.sub",
        [Program(("examples/run_grpo_math.py",), range(2), ray=True)],
    ),
    "skyrl": (
        "github.com/NovaSky-AI/SkyRL/pull/766: slurm_multi_node/slurm_multinode_sapo.sh",
        [Program(("-m examples.algorithms.dapo.main_dapo",), range(2), ray=True)],
    ),
    "alcf-vllm": (
        "github.com/argonne-lcf/user-guides: docs/aurora/data-science/inference/"
        "setup_ray_cluster.sh, for PBS, and vllm.md beside it",
        [
            Program(
                ("vllm serve", "--tensor-parallel-size 8 --pipeline-parallel-size 2"),
                range(2),
                gpus=12,
                ray=True,
            )
        ],
    ),
    "open-r1": (
        "github.com/huggingface/open-r1: slurm/train.slurm",
        [
            Program(("trl vllm-serve --model",), range(1)),
            Program(("--vllm_server_host",), range(1, 3), 8, knows=("VLLM_ADDR",)),
        ],
    ),
    "open-r1-generate": (
        "github.com/huggingface/open-r1: slurm/generate.slurm",
        [
            Program(
                ("vllm serve", "--tensor-parallel-size 8 --pipeline-parallel-size 2"),
                range(2),
                ray=True,
            ),
            Program(("python -u", "--vllm-server-url"), range(1), gpus=0, knows=("VLLM_ADDR",)),
        ],
    ),
    "open-r1-serve": (
        "github.com/huggingface/open-r1: slurm/serve_r1.slurm",
        [Program(("python -m sglang.launch_server", "--tp 16 --nnodes 2"), range(2))],
    ),
    "prime-rl": (
        "github.com/PrimeIntellect-ai/prime-rl: src/prime_rl/templates/multi_node_rl.sbatch.j2",
        [
            Program(("inference @", "--server.port"), range(1)),
            Program(("vllm-router",), range(1), gpus=0, knows=("INFERENCE_ADDR",)),
            Program(("-m prime_rl.trainer.rl.train @",), range(1, 3), 8),
            Program(
                ("orchestrator @", "--student.client.admin-base-url"),
                range(1, 2),
                gpus=0,
                knows=("ROUTER_ADDR", "INFERENCE_ADDR"),
            ),
        ],
    ),
    "openthoughts-datagen": (
        "github.com/open-thoughts/OpenThoughts-Agent: data/sbatches/run_curator_datagen.sbatch",
        [
            Program(("-m vllm.entrypoints.openai.api_server",), range(1), gpus=4),
            Program(("--base-url",), range(1), gpus=0, knows=("VLLM_ADDR", "VLLM_PORT")),
        ],
    ),
}


def list_programs(plan: Plan) -> list[Plan]:
    return [role.plan for role in plan.roles.members] or [plan]


@pytest.mark.parametrize("name", ORIGINALS)
@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_the_programs_of_an_original_start_on_the_same_nodes(name: str, scheduler: str) -> None:
    _, programs = ORIGINALS[name]
    path = ROOT / "examples" / "roles" / f"{name}.yaml"
    assert len(path.read_text().splitlines()) <= 25
    plan = resolve(load(str(path)), scheduler=scheduler)
    assert plan.nodes.total == max(program.nodes.stop for program in programs)
    script = render(plan)
    for program, own in zip(programs, list_programs(plan), strict=True):
        command = " ".join(own.program.command)
        assert [words for words in program.words if words not in command] == []
        rows = list(list_nodes(own))
        assert [row.node for row in rows] == list(program.nodes)
        assert {(len(row.local_ranks), row.gpus) for row in rows} == {
            (program.processes, program.gpus)
        }
        assert own.launch.ray == program.ray
        if program.ray:
            assert f"--num-gpus={program.gpus}" in script
        for variable in program.knows:
            assert f"${{{variable}}}" in script
            assert f"${variable}" in command
