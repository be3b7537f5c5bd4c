"""The tables of reasons: what a script says, and why, by the kinds of job that say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from string import Template

from jobgen import schedulers
from jobgen.plan.plan import Plan
from jobgen.schedulers.base import PROCESSES, cpu_keys
from jobgen.spec.tables import read_rows


def select_rows(
    name: str, kinds: Iterable[str], facts: Mapping[str, object]
) -> Iterator[list[str]]:
    """Yield the rows of a table that a job has, with its facts in the place of each $NAME.

    It is of the `kinds`, and of those that facts which are not empty are named for.
    """
    has = {*kinds, *(fact for fact, value in facts.items() if value)}
    for asked, *cells in read_rows(name, room="rendering"):
        wanted = {kind for kind in asked.split() if kind[0] not in "!-"}
        refused = {kind[1:] for kind in asked.split() if kind[0] == "!"}
        if wanted <= has and not refused & has:
            yield [Template(cell).substitute(facts) for cell in cells]


def list_own_variables(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Name, value, reason and keys of what the templates export; a test holds the two together."""
    launch = plan.launch
    kinds = (launch.mode, launch.launcher, launch.rendezvous, *plan.environment.caches)
    for name, value, why, *keys in select_rows("variables.txt", kinds, _describe(plan)):
        yield name, value, why, *" ".join(keys).split()


def _describe(plan: Plan) -> dict[str, object]:
    """Return what the rows of the table ask of a job, and what their values are made of."""
    launch, pieces = plan.launch, schedulers.SCHEDULERS[plan.scheduler].launch(plan)
    among = "the node / its processes" if plan.can.batch else "the machine / all processes"
    parts = [(f"{one.name}: ", one.plan) for one in plan.roles.members] or [("", plan)]
    threads = [f"{name}{part.nodes.threads or f'CPUs of {among}'}" for name, part in parts]
    numbers = [str(number) for number in plan.array.numbers[:2]]
    by_slurm = bool(pieces.node_lists)
    return {
        "name": plan.name,
        "here": not plan.can.batch,
        "lists_nodes": by_slurm,
        "through_srun": launch.launcher == "srun" or (by_slurm and launch.launcher == "mpiexec"),
        "may_be_openmpi": launch.flavor in (None, "openmpi"),
        "interface": launch.interface,
        "alone": launch.alone,
        "direct": launch.direct,
        "more": plan.starts_more,
        "lone": plan.lone,
        "threads": ", ".join(threads),
        "cpu_keys": " ".join((*cpu_keys(plan), *PROCESSES)),
        "devices": ",".join(map(str, launch.devices or ())),
        "gpus": plan.uses_gpus,
        "tasks": plan.program.number or (f"{', '.join(numbers)}, ..." if numbers else ""),
        "index": plan.task_index,
        "chain": plan.walltime.chain.then,
    }
