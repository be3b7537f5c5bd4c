"""What lint once got wrong on public scripts, each as a small script of the same shape.

The numbers are those of the findings, L1 to L8; L3 was of a rule that is gone.
"""

import pytest
from importing import make_script

from jobgen.batchscript.lint import check
from jobgen.batchscript.reader import Script

TWO_NODES = ("#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2 --cpus-per-task=32",)


def rules_of(body: str, *directives: str) -> list[str]:
    findings = check(make_script(body, *directives))
    return [finding.rule.id for finding in findings]


@pytest.mark.parametrize(
    "body",
    [
        'ARGS="--kill-on-bad-exit=1 --cpus-per-task=32"\nsrun $ARGS python t.py',
        'ARGS=(--kill-on-bad-exit=1 -c 32)\nsrun "${ARGS[@]}" python t.py',
        "srun $SITE_ARGS python t.py",
    ],
)
def test_l1_options_in_variables_are_not_missing(body: str) -> None:
    assert rules_of(body, *TWO_NODES) == []


def test_l2_directives_of_an_inner_script_are_its_own() -> None:
    body = "N=2\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes=$N\ntorchrun --nnodes=$N t.py\nEOF"
    script = Script("submit.sh", f"#!/bin/bash\n{body}\n")
    assert script.directives == []
    # The inner job has several nodes, and starts torchrun on one.
    assert [(item.line, item.rule.id) for item in check(script)] == [(6, "first-node-only")]


def test_l4_counting_nodes_needs_no_order() -> None:
    text = "#!/bin/bash\n#PBS -l select=2\nsort $PBS_NODEFILE | uniq | wc -l\n"
    assert check(Script("a.pbs", text)) == []


def test_l5_one_node_without_saying_so() -> None:
    body = "torchrun --nnodes=1:2 --nproc-per-node=4 --rdzv_endpoint=localhost:0 t.py"
    assert rules_of(body, "#SBATCH --gres=gpu:4") == []


def test_l6_a_program_in_a_variable() -> None:
    body = (
        "export TORCHRUN=./venv/bin/torchrun\nsrun -K1 -c 32 ${TORCHRUN} --nnodes=2 --node_rank=1 "
        "--nproc-per-node=2 --rdzv_backend=c10d --rdzv_endpoint=$H:29500 t.py"
    )
    assert rules_of(body, *TWO_NODES) == ["fixed-port"]


def test_l7_accelerate_has_ports_too() -> None:
    body = 'L="accelerate launch --main_process_port 29500"\nsrun -K1 -c 32 bash -c "$L t.py"'
    assert rules_of(body, *TWO_NODES) == ["fixed-port"]


def test_l8_prose_is_no_directive() -> None:
    assert rules_of("true", "# PBS test driver \u2014 for every machine") == []


def test_a_comment_switches_a_rule_off() -> None:
    body = "export MASTER_PORT=29500  # jobgen: ignore=fixed-port"
    asked = "#SBATCH --gres=gpu:1"
    assert rules_of(body, asked) == []
    assert rules_of(body.replace("fixed-port", "srun-kill"), asked) == ["fixed-port"]
