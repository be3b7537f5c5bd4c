"""What a job has and asks for, by the words of `review.txt`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from jobgen.output import format_count as count
from jobgen.plan.nodes import advise_on_devices
from jobgen.plan.plan import NodeGroup, Plan
from jobgen.review.roles import describe_role
from jobgen.review.rows import list_rows, read_form
from jobgen.review.settings import list_numbers
from jobgen.review.subject import TASK, Subject, is_here
from jobgen.spec.launchers import find_launcher
from jobgen.spec.tables import read_needs
from jobgen.spec.units import read_number

_GIB = 1024**2  # in KiB


class Facts(dict[str, Any]):
    """What a job has, by the words of the table; its program's text is searched when asked for."""

    def __init__(self, known: Mapping[str, Any], source: str) -> None:
        super().__init__(known)
        self.source = source

    def find(self, name: str) -> Any:
        """Return what a word stands for; None if for nothing here."""
        if name not in self and (form := dict(list_rows("source")).get(name)):
            self[name] = re.search(form, self.source)
        return self.get(name)

    def allow(self, asked: str) -> bool:
        """Whether a job has what a row asks of it."""
        needs, _ = read_needs(asked, frozenset())
        return all(bool(self.find(name)) == wanted for name, wanted in needs.items())


def list_facts(job: Subject) -> dict[str, Any]:
    """Return what is true of a job, and its numbers."""
    spec, plan = job.spec, job.plan
    own, container = spec.environment, plan.environment.container
    runtime = str(getattr(container, "runtime", job.container.runtime))
    return {
        "nodes": plan.nodes.total,
        "spread": plan.nodes.total > 1,
        "processes": plan.nodes.world_size,
        "many": plan.nodes.world_size > 1,
        "batch": plan.can.batch,
        plan.launch.mode: True,
        "agents": plan.launch.mode == "torchrun" and plan.nodes.world_size > plan.nodes.total,
        "chained": plan.walltime.chain.goes_on,
        "requeues": plan.walltime.chain.then == "requeue",
        "plain": plan.launch.plain,
        "static": plan.launch.rendezvous == "static",
        "restarts": spec.launch.max_restarts,
        "body": plan.launch.body,
        "asked_cpus": any((spec.resources.cpus_per_gpu, spec.resources.cpus_per_node)),
        "asked_gpus": "gpu" in str(spec.directives),
        "asked_tasks": any((plan.nodes.tasks_asked, "tasks" in str(spec.directives))),
        "lone": plan.lone,
        "gpus": sum(plan.nodes.gpus_of_each),
        "container": job.container.image,
        runtime.replace("singularity", "apptainer"): True,
        str(plan.can.sign): True,
        "exclusive": plan.requests.exclusive,
        "keyed": any((own.venv, own.conda, own.uv)),
        "modules": own.modules,
        "unbound": not (job.container.binds or job.of_site),
        "mails": plan.requests.mail,
        "relative": any(map(is_here, [spec.run.script or "", *plan.program.command])),
        "offline": plan.site.internet == "none",
        "here": spec.site,
        "site": spec.site or "this site",
        "scheduler": plan.scheduler,
        "chosen": any((spec.scheduler, spec.site)),
        "tasks": len(plan.array.tasks),
        "alike": plan.array.tasks and not parts_tasks(plan),
        "apart": job.whole.resources.nodes != 1,
        "torch": plan.launch.mode in ("torchrun", "direct"),
        **_count_job(job),
        **_count_batches(job),
        **describe_role(job),
    }


def parts_tasks(plan: Plan) -> bool:
    """Whether lines of setup tell the tasks of an array apart, so that each may have its folder."""
    names = "|".join((TASK, *(one for task in plan.array.tasks[:1] for one in task.variables)))
    return re.search(rf"\b({names})\b", plan.environment.setup or "") is not None


def count_node(job: Subject, group: NodeGroup) -> dict[str, Any]:
    """Return what a node of a job has and is asked for: numbers, and what is true of it."""
    spec, processes = job.spec.resources, group.processes
    cpus, memory, disk = group.cpus or 0, spec.memory_per_node or 0, spec.disk_per_node or 0
    variables = {name: (value, path) for path, name, value in job.list_variables()}
    number, path = variables.get("OMP_NUM_THREADS", ("", ""))
    threads = _read_count(number) if processes <= cpus else 0
    return {
        "-": 1,  # is more than "": a row compares nothing
        "": 0,
        "gpus": group.gpus,
        "processes": processes,
        "idle": group.gpus - processes,
        "nodes": -(-group.gpus // 8),
        "cpus": cpus,
        "threads": threads,
        "used": threads * processes,
        "fitting": max(1, cpus // processes),
        "memory": memory,
        "mib": memory // 1024,
        "gib": memory // _GIB,
        "disk": disk // _GIB,
        "least": processes * _GIB,
        "several": processes > 1,
        "of_node": group.cpus and spec.cpus_per_node,  # which only some schedulers give
        "of_gpu": spec.cpus_per_gpu,
        "variable": path,
        "all": count(processes, "process", "processes"),
        "has_cpus": count(cpus, "CPU"),
        "has_gpus": count(group.gpus, "GPU"),
    }


def _read_count(text: str) -> int:
    """Return a number; 0 for other words, such as auto."""
    return int(read_number(text, text=True) or 0)


def _count_job(job: Subject) -> dict[str, Any]:
    """Return what all nodes of a job, and the tasks of its array, have and are asked for."""
    plan, each = job.plan, job.spec.resources.listed_gpus
    notice, seconds = plan.walltime.chain.notice, plan.walltime.seconds or 0
    group = plan.nodes.own[0]
    processes = 0 if plan.launch.plain else group.processes
    world = plan.nodes.world_size
    if find_launcher(job.spec.run.words):  # which starts one for each GPU
        processes, world = group.gpus, plan.nodes.gpus
    return {
        "node_gpus": group.gpus,
        "node_processes": processes,
        "world": world,
        "early": notice,
        "minutes": seconds // 60,
        "hours": -(-seconds // 3600),
        "before": max(0, seconds - notice),
        "share_cpus": (group.cpus or 0) // group.processes,
        "listed": len(each),
        "each": ", ".join(map(str, each)),
        "advice": advise_on_devices(each),
        "whole": plan.defaults.node.whole or plan.requests.exclusive,
        "at_once": plan.array.at_once or 0,
    }


def _count_batches(job: Subject) -> dict[str, Any]:
    """Return what the sizes and batches among a program's options come to."""
    gpus, world = sum(job.plan.nodes.gpus_of_each), job.plan.nodes.world_size
    numbers, is_part = list_numbers(job.settings), read_form("parts").fullmatch
    parts = {name: number for name, _, number in numbers if is_part(name)}
    share = math.prod(parts.values())
    return {
        "job_gpus": gpus,
        "parts": ", ".join(parts),
        "share": share,
        "divides": max(parts.values(), default=0) <= gpus,
        "rest": gpus % max(1, share),
        "groups": max(1, world // max(1, share)),  # each holds a copy of the model
    }
