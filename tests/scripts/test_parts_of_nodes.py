"""A job on a part of a node leaves the GPUs of others alone, or says that it cannot tell them."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from support import EXAMPLES, ROOT, plan_of

from jobgen.rendering.render import render

SPEC = next(path for path in EXAMPLES if path.stem == "slurm-2x8").read_text()


def write_smi(folder: Path, gpus: int) -> None:
    """Write an nvidia-smi that lists so many GPUs, with -L by their names."""
    smi = folder / "nvidia-smi"
    numbers = " ".join(map(str, range(gpus)))
    listed = f'for n in {numbers}; do [ "$1" = -L ] && echo "GPU $n: NVIDIA A100" || echo $n; done'
    smi.write_text(f"#!/bin/sh\n{listed}\n")
    smi.chmod(0o755)


def own_gpus(folder: Path, *overrides: str, seen: int, index: int = 0, visible: str = "") -> str:
    """What a PBS node with so many GPUs says, and then what its CUDA_VISIBLE_DEVICES is."""
    script = render(plan_of(SPEC, *overrides, site="pbs-generic"))
    asks = re.search(
        r"^(    unset CUDA.*\n)?    local gpus=(.*\n)+?.* in the spec\"\n", script, re.M
    )
    body = asks[0] if asks else ":\n"
    write_smi(folder, seen)
    program = f'die() {{ echo "$*"; exit 1; }}; node=n2 node_rank={index}\n'
    program += f"part() {{\n{body}}}\nset +e\npart"
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f'{program}\necho "${{CUDA_VISIBLE_DEVICES-unset}}"'],
        env={"PATH": f"{folder}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": visible},
        capture_output=True,
        text=True,
    )
    return ended.stdout + ended.stderr


@pytest.mark.parametrize(("asked", "seen"), [(4, 4), (8, 8), (4, 0)])
def test_all_that_a_node_shows_is_the_jobs(tmp_path: Path, asked: int, seen: int) -> None:
    assert own_gpus(tmp_path, f"resources.gpus_per_node={asked}", seen=seen) == "\n"


def test_a_part_that_pbs_does_not_tell_is_refused(tmp_path: Path) -> None:
    said = own_gpus(tmp_path, "resources.gpus_per_node=4", seen=8)
    assert said.startswith("n2 shows 8 GPUs, the job has 4 of them, and PBS does not say which: ")


def test_a_part_of_the_second_node_is_its_own_number(tmp_path: Path) -> None:
    unequal = "resources={gpus_per_node: [8, 2], cpus_per_gpu: 8}"
    assert own_gpus(tmp_path, unequal, seen=8) == "\n"
    assert "the job has 2 of them" in own_gpus(tmp_path, unequal, seen=8, index=1)


def test_what_the_cgroups_hook_gives_is_kept_where_each_node_has_its_own(tmp_path: Path) -> None:
    uuids = "GPU-1,GPU-2"
    assert own_gpus(tmp_path, seen=8, visible=uuids) == f"{uuids}\n"


def test_a_value_that_mpiexec_may_have_brought_from_another_node_is_not(tmp_path: Path) -> None:
    options = ("launch.launcher=mpiexec", "resources.gpus_per_node=2")
    assert "does not say which" in own_gpus(tmp_path, *options, seen=8, visible="GPU-1,GPU-2")
    assert own_gpus(tmp_path, *options, seen=2, visible="GPU-1,GPU-2") == "unset\n"


@pytest.mark.parametrize(
    "override",
    ["environment={variables: {CUDA_VISIBLE_DEVICES: '0,1'}}", "resources.exclusive=true"],
)
def test_who_names_devices_or_has_the_node_is_not_asked(override: str) -> None:
    assert "PBS without" not in render(plan_of(SPEC, override, site="pbs-generic"))


@pytest.mark.parametrize(
    ("here", "spec", "expected"),
    [
        (2, "processes_per_node: 2", "0,1"),
        (1, "processes_per_node: 2", "wanted: 2; so the processes run on the CPU\n"),
        (1, "gpus_per_node: 1, processes_per_node: 2", "0"),  # which the processes share
        (4, "gpus_per_node: 4, mode: plain", "0,1,2,3"),
        (1, "gpus_per_node: 4, mode: plain", "wanted: 4; so the processes run on the CPU\n"),
        (4, "nodes: 2, gpus_per_node: 2, mode: plain", "2,3"),
        (4, "gpus_per_node: [3, 1], processes_per_node: [1, 1]", "3"),
    ],
)
def test_a_node_of_this_machine_has_the_gpus_it_asks_for(
    tmp_path: Path, here: int, spec: str, expected: str
) -> None:
    resources = [each for each in re.split(r", (?=\w+:)", spec) if each.startswith(("no", "gp"))]
    launch = [each for each in re.split(r", (?=\w+:)", spec) if each.startswith(("pr", "mo"))]
    job = f"name: a\nscheduler: local\nrun: {{command: [a]}}\nresources: {{{', '.join(resources)}}}"
    plan = plan_of(f"{job}\nlaunch: {{{', '.join(launch)}}}\n")
    script = render(plan)
    function = re.search(r"^share_gpus\(\) \{.*?^\}", script, re.M | re.S)
    call = re.search(r"^    share_gpus.*", script, re.M)
    values = re.search(r"^processes=.*", script, re.M)
    assert function
    assert call
    assert values
    write_smi(tmp_path, here)
    program = f'say() {{ echo "$*"; }}; node_rank={plan.nodes.total - 1}\n{values[0]}\n'
    program += f'{function[0]}\n{call[0]}\necho "$CUDA_VISIBLE_DEVICES"'
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(["bash", "-euc", program], env=env, capture_output=True, text=True)
    assert said.stdout.strip().endswith(expected.strip()), said


@pytest.mark.parametrize(
    ("scheduler", "visible", "expected"),
    [
        ("slurm", "4,5,6,7", ["4,5,6", "7"]),
        ("slurm", None, ["0,1,2", "3"]),  # of a node that the job has alone
        ("local", None, ["0,1,2", "3"]),
        ("local", "1,2", ["", ""]),  # too few
    ],
)
def test_roles_on_one_node_have_gpus_of_their_own(
    tmp_path: Path, scheduler: str, visible: str | None, expected: list[str]
) -> None:
    plan = plan_of((ROOT / "examples/roles/evaluate.yaml").read_text(), scheduler=scheduler)
    script = render(plan)
    functions = re.findall(r"^share_gpus\(\) \{.*?^\}", script, re.M | re.S)
    calls = re.findall(r"^    (?:.*share_gpus .*|IFS=, read -ra devices .*\n.*)", script, re.M)
    write_smi(tmp_path, 4)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    env |= {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    seen = []
    for call in calls:
        program = "\n".join(["say() { :; }; node_rank=0", *functions, call])
        program += '\necho "$CUDA_VISIBLE_DEVICES"'
        said = subprocess.run(["bash", "-euc", program], env=env, capture_output=True, text=True)
        seen += said.stdout.splitlines()
    assert seen == expected
