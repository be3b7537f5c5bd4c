"""torchrun's --numa-binding: given where torch and the node can, said where they cannot."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from golden import rendered
from support import ROOT

RUNTIME = ROOT / "templates" / "runtime"


def find_binding(folder: Path, *, knows: bool, numactl: bool) -> str:
    """What the script says, and then the options that torchrun gets, on such a node."""
    torch = folder / "torch"
    (torch / "numa").mkdir(parents=True)
    (torch / "__init__.py").touch()
    if knows:
        (torch / "numa" / "binding.py").touch()
    tools = folder / "bin"
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    if numactl:
        (tools / "numactl").write_text("#!/bin/sh\n")
        (tools / "numactl").chmod(0o755)
    program = f". {RUNTIME}/core.sh; . {RUNTIME}/numa_binding.sh; node=n1\n"
    program += 'find_binding exclusive; echo "${#binding[@]}" "${binding[@]}"'
    ended = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", program],
        env={"PATH": str(tools), "PYTHONPATH": str(folder), "USER": "a", "LOGNAME": "a"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_it_is_asked_for_where_torch_and_numactl_can(tmp_path: Path) -> None:
    assert find_binding(tmp_path, knows=True, numactl=True) == "1 --numa-binding=exclusive\n"


@pytest.mark.parametrize(
    ("knows", "numactl", "why"),
    [(False, True, "torch is too old"), (True, False, "there is no numactl")],
)
def test_it_is_left_out_with_a_word_where_one_is_missing(
    tmp_path: Path, knows: bool, numactl: bool, why: str
) -> None:
    said, options = find_binding(tmp_path, knows=knows, numactl=numactl).splitlines()
    assert said.startswith(f"jobgen: {why}")
    assert options == "0"


@pytest.mark.parametrize("nodes", [1, 2])
def test_whole_nodes_of_a_site_that_documents_it_get_it(nodes: int) -> None:
    script = rendered("lumi-g", f"resources.nodes={nodes}")
    assert "    find_binding exclusive\n" in script
    assert re.search(r'"\$\{binding\[@\]\}"(?: \\\n *)? --no-python bash', script)


@pytest.mark.parametrize(
    "override",
    [
        "launch.processes_per_node=4",
        "environment.variables={ROCR_VISIBLE_DEVICES: '0,1,2,3,4,5,6,7'}",
        "launch.mode=direct",
    ],
)
def test_who_deals_gpus_in_another_way_does_not(override: str) -> None:
    assert "find_binding" not in rendered("lumi-g", override)


def test_a_part_of_a_node_does_not() -> None:
    part = rendered("lumi-g", "resources.gpus_per_node=2", "queue=small-g")
    assert "find_binding" not in part


@pytest.mark.torch
def test_the_torch_here_has_the_option() -> None:
    from torch.distributed.run import get_args_parser

    arguments = get_args_parser().parse_args(["--numa-binding=exclusive", "a.py"])
    assert arguments.numa_binding == "exclusive"
    import torch

    assert os.path.exists(os.path.join(os.path.dirname(torch.__file__), "numa", "binding.py"))
