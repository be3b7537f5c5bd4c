"""A program on Ray: what its script says, and what it cannot be asked for."""

import pytest

from jobgen.errors import SpecError
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.rendering.explain import explain
from jobgen.rendering.render import render
from jobgen.rendering.runtime import split_script
from jobgen.spec.load import load

SPEC = """\
name: ppo
resources: {nodes: 2, gpus_per_node: 8, cpus_per_gpu: 12, walltime: 1h}
launch: {mode: ray}
run: {module: verl.trainer.main_ppo, args: [trainer.nnodes=2]}
"""


def plan(text: str = SPEC, scheduler: str = "slurm") -> Plan:
    return resolve(load(text), scheduler=scheduler)


def test_each_node_has_one_process_and_ray_all_of_its_cpus_and_gpus() -> None:
    for scheduler in ("slurm", "pbs"):
        first, _ = split_script(render(plan(scheduler=scheduler)))
        assert "    start_ray --num-cpus=96 --num-gpus=8\n" in first
        assert "OMP_NUM_THREADS" not in first
        assert "export RANK" not in first
    assert "--ntasks-per-node=1" in render(plan())


def test_nodes_with_different_gpus_say_their_own() -> None:
    script = render(plan(SPEC.replace("gpus_per_node: 8", "gpus_per_node: [8, 4]"), "pbs"))
    assert "local gpus=(8 4)" in script
    assert '--num-gpus="${shares[node_rank]}"' in script


def test_on_this_machine_ray_counts_what_it_sees() -> None:
    assert '    start_ray --num-cpus="$cpus"\n' in render(plan(scheduler="local"))


def test_a_role_that_shares_nodes_has_its_part_of_them() -> None:
    text = SPEC.replace("launch: {mode: ray}\nrun:", "roles:\n  judge:\n    gpus: 2\n    run:")
    text += "  train: {gpus: 6, launch: {mode: ray}, run: {script: a.py}}\n"
    first, runtime = split_script(render(plan(text)))
    assert "start_ray --num-cpus=72 --num-gpus=6" in first
    assert runtime is not None
    assert "start_ray()" in runtime.text


def test_a_script_without_ray_has_nothing_of_it() -> None:
    assert "ray" not in render(plan(SPEC.replace("ray", "plain"))).replace("array", "")


def test_explain_says_where_ray_is_and_names_no_rendezvous() -> None:
    loaded = load(SPEC)
    said = explain(loaded, resolve(loaded, scheduler="slurm")).as_text()
    assert "Ray's head is on the first node of the allocation." in said
    assert "rendezvous" not in said
    assert "RAY_ADDRESS" in said


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mode: ray", "mode: ray, processes_per_node: 8", "launch.processes_per_node: is for mode"),
        ("mode: ray", "mode: ray, max_restarts: 1", "launch.max_restarts: is torchrun's, and mode"),
        ("name: ppo", "name: ppo\npreflight: true", "preflight: compares what torch sees on the"),
        ("nodes: 2", "nodes: {min: 1, max: 2}", "launch.mode: ray needs the number of processes"),
        (
            "module: verl.trainer.main_ppo, args: [trainer.nnodes=2]",
            "command: [ray, job, submit, --, python, a.py]",
            "write launch: {mode: ray}, and the program alone",
        ),
    ],
)
def test_what_ray_cannot_do_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan(SPEC.replace(old, new))
    assert message in str(caught.value)
