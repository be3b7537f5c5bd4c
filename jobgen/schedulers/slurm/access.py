"""How to reach a node of a running Slurm job, and use an allocation that the user holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jobgen.schedulers.base import Allocation, Ask, HeldNode
from jobgen.spec.units import parse_ranges

# `Nodes=n[1-2] CPU_IDs=0-3,8 Mem=4000 GRES=gpu:a100:2(IDX:0-1)`, for nodes that are given alike.
# Before 20.11 it is `GRES_IDX=gpu(IDX:0-1)`.
_ALIKE = re.compile(r"\bNodes=(\S+) CPU_IDs=(\S*) Mem=(\d+) GRES(?:_IDX)?=(\S*)")
_GPUS = re.compile(r"\bgpu\b([^(,]*)(?:\(IDX:([0-9,-]+))?")


def _count(numbers: str) -> int:
    """Count the numbers in `0-3,8`."""
    return len(parse_ranges(numbers)) if numbers else 0


def _count_gpus(amount: str, numbers: str) -> int:
    """How many `gpu:a100:2(IDX:0-1)` are, of which either may be missing."""
    count = amount.rpartition(":")[2]
    return int(count) if count.isdecimal() else _count(numbers)


def shell_argv(
    job_id: str, node: str, words: Sequence[str], ask: Ask, *, terminal: bool
) -> list[str]:
    """Return the command that runs another on a node of the job.

    A task of an array has its own id; the parts of a job of unequal nodes have numbers.
    """
    asked = ["squeue", "--noheader", "--format=%A %i", f"--jobs={job_id}"]
    lines = ask([*asked, f"--nodelist={node}"]).splitlines() or [""]
    own, _, shown = lines[0].partition(" ")
    whole, plus, number = shown.partition("+")
    step = ["srun", f"--jobid={whole if plus else own or job_id}", "--overlap"]
    step += [f"--het-group={number}"] if plus else []
    step += ["--nodes=1", "--ntasks=1"]
    return [*step, f"--nodelist={node}", *(["--pty"] if terminal else []), *words]


def find_allocation(environment: Mapping[str, str], ask: Ask) -> Allocation | None:
    job_id = environment.get("SLURM_JOB_ID")
    if not job_id:
        return None
    shown = ask(["scontrol", "--oneliner", "--details", "show", "job", job_id])
    nodes: list[HeldNode] = []
    for names, cpus, memory, gres in _ALIKE.findall(shown):
        for name in ask(["scontrol", "show", "hostnames", names]).split():
            gpus = sum(_count_gpus(*words) for words in _GPUS.findall(gres))
            held = (_count(cpus), gpus, int(memory) * 1024 or None)  # 0: all there is
            nodes.append(HeldNode(name, *held))
    if not nodes:
        for names in re.findall(r"\bNodeList=([^\s(]+)", shown):
            listed = ask(["scontrol", "show", "hostnames", names]).split()
            nodes += [HeldNode(name) for name in listed]
    return Allocation(job_id, tuple(nodes))


def start_argv(script: str, *, alone: bool, cpus: int | None) -> list[str]:
    """Return the command that starts a job script in the allocation.

    The shell of an allocation may be on the login node, where a script for one node must not
    run its processes.
    """
    if not alone:
        return ["bash", script]
    step = ["srun", "--overlap", "--nodes=1", "--ntasks=1", "--cpu-bind=none"]
    return [*step, *([] if cpus is None else [f"--cpus-per-task={cpus}"]), "bash", script]
