"""What one holds of nodes in a shell, as schedulers tell it."""

from collections.abc import Sequence
from pathlib import Path

from jobgen import schedulers
from jobgen.errors import SchedulerUnavailableError
from jobgen.schedulers.base import HeldNode

SHOWN = (
    "JobId=7 JobName=bash NumNodes=3 NumCPUs=14 TRES=cpu=14,mem=20G,node=3,gres/gpu=5 "
    "JOB_GRES=gpu:5 Nodes=n[1-2] CPU_IDs=0-3,8 Mem=4000 GRES=gpu:a100:2(IDX:0-1) "
    "Nodes=n3 CPU_IDs=0-3 Mem=0 GRES=gpu:1(IDX:0) MinCPUsNode=1 Gres=(null)\n"
)
JOB = (
    "Job Id: 7.login|Job_Name=a|exec_host=n1/0*4+n2/0*8+n1/1|exec_vnode=(n1:ncpus=4:ngpus=2:"
    "mem=2097152kb)+(n2[0]:ncpus=4:mem=1gb+n2[1]:ncpus=4:mem=1gb)+(n1:ncpus=1)\n"
)


def test_an_allocation_of_slurm() -> None:
    def ask(argv: Sequence[str]) -> str:
        return {"job": SHOWN, "n[1-2]": "n1\nn2\n", "n3": "n3\n"}[
            argv[-2] if "job" in argv else argv[-1]
        ]

    find = schedulers.SCHEDULERS["slurm"].access.find_allocation
    held = find({"SLURM_JOB_ID": "7"}, ask)
    assert held is not None
    assert held.nodes == (
        HeldNode("n1", 5, 2, 4000 * 1024),
        HeldNode("n2", 5, 2, 4000 * 1024),
        HeldNode("n3", 4, 1, None),
    )

    for shown, node in (
        ("Nodes=n3 CPU_IDs=6-11 Mem=24576 GRES_IDX=gpu(IDX:0-1)", (6, 2, 24576 * 1024)),
        ("Nodes=n3 CPU_IDs=0-1 Mem=15856 GRES=", (2, 0, 15856 * 1024)),
        ("Nodes=n3 CPU_IDs=0 Mem=1024 GRES=gpu:a100(IDX:2),gpu:h100:1(IDX:0)", (1, 2, 1 << 20)),
        ("NumNodes=1", (None, None, None)),
    ):
        answer = f"JobId=7 NodeList=n3 BatchHost=n3 {shown} MinCPUsNode=1 Gres=gpu:9\n"
        held = find({"SLURM_JOB_ID": "7"}, lambda argv: answer if "job" in argv else "n3\n")  # noqa: B023
        assert held is not None
        assert held.nodes == (HeldNode("n3", *node),)


def test_an_allocation_of_pbs_with_and_without_an_answer(tmp_path: Path) -> None:
    def refuse(argv: Sequence[str]) -> str:
        raise SchedulerUnavailableError("qstat is not here")

    (tmp_path / "nodes").write_text("n1\nn1\nn2\n")
    around = {"PBS_JOBID": "7.login", "PBS_NODEFILE": str(tmp_path / "nodes")}
    find = schedulers.SCHEDULERS["pbs"].access.find_allocation
    held = find(around, lambda _: JOB)
    assert held is not None
    assert held.nodes == (HeldNode("n1", 5, 2, 2 << 20), HeldNode("n2", 8, 0, 2 << 20))
    held = find(around, refuse)
    assert held is not None
    assert held.nodes == (HeldNode("n1"), HeldNode("n2"))
