"""How to reach a node of a running PBS job, and use an allocation that the user holds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobgen.errors import RefusedError, SchedulerUnavailableError
from jobgen.schedulers.base import Allocation, Ask, HeldNode
from jobgen.schedulers.pbs import qstat
from jobgen.spec.units import parse_bytes


def _read_nodes(job_id: str, ask: Ask) -> list[HeldNode]:
    """What each host gives, by `exec_host` (`n1/0*4+n2/0`) and `exec_vnode`, in the same order.

    A chunk of `exec_vnode` is `(n1[0]:ncpus=4:ngpus=2:mem=8gb+n1[1]:ncpus=4)`.
    """
    try:
        job = qstat.parse(ask(qstat.argv([job_id]))).get(job_id, {})
    except (RefusedError, SchedulerUnavailableError, ValueError):
        return []
    hosts = [part.partition("/")[0] for part in job.get("exec_host", "").split("+")]
    chunks = re.findall(r"\(([^)]*)\)", job.get("exec_vnode", ""))
    if len(hosts) != len(chunks):
        return []
    given: dict[str, str] = {}
    for host, chunk in zip(hosts, chunks, strict=True):
        given[host] = f"{given.get(host, '')}:{chunk}"
    return [
        HeldNode(host, _count(text, "ncpus"), _count(text, "ngpus"), _measure_memory(text))
        for host, text in given.items()
    ]


def _count(chunks: str, resource: str) -> int:
    return sum(map(int, re.findall(rf"\b{resource}=(\d+)", chunks)))


def _measure_memory(chunks: str) -> int | None:
    """In KiB; None where the job has asked for none."""
    amounts = [parse_bytes(text) for text in re.findall(r"\bmem=(\w+)", chunks)]
    return int(sum(amount or 0 for amount in amounts) // 1024) or None


def shell_argv(
    job_id: str, node: str, words: Sequence[str], ask: Ask, *, terminal: bool
) -> list[str]:
    environment = ["env", f"PBS_JOBID={job_id}"]
    return ["ssh", *(["-t"] if terminal else []), node, shlex.join([*environment, *words])]


def find_allocation(environment: Mapping[str, str], ask: Ask) -> Allocation | None:
    """Return the allocation that a shell is in; only its nodes if qstat does not answer."""
    job_id, file = environment.get("PBS_JOBID"), environment.get("PBS_NODEFILE")
    if not job_id or not file:
        return None
    nodes = _read_nodes(job_id, ask)
    if not nodes:
        nodes = [HeldNode(name) for name in dict.fromkeys(Path(file).read_text().split())]
    return Allocation(job_id, tuple(nodes))


def start_argv(script: str, *, alone: bool, cpus: int | None) -> list[str]:
    return ["env", f"PBS_O_WORKDIR={Path.cwd()}", "bash", script]
