"""What a job costs in the site's units, as far as its profile says it."""

from __future__ import annotations

from collections.abc import Iterable

from jobgen.output import format_count
from jobgen.plan.limits import measure
from jobgen.plan.plan import NodeGroup, Plan
from jobgen.records import NamedTuple
from jobgen.sites.profile import Charge, Node
from jobgen.spec.units import format_duration


class Cost(NamedTuple):
    """The most that a job can be charged: for all of its walltime, starts and tasks of its array.

    `amount` is None if unknown.

    `how` is the arithmetic, or why there is none; `source` the address that the rate is from.
    """

    amount: float | None
    unit: str | None
    how: str
    note: str | None = None
    source: str | None = None
    origin: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.amount is None:
            return f"not known: {self.how}"
        return f"at most {format_number(self.amount)} {self.unit}: {self.how}"


def estimate_cost(plan: Plan, origin: tuple[str, ...] = ()) -> Cost:
    """The charge of `plan`: walltime x size x rate; `origin` says where the rate stands."""
    charge = plan.site.charge_in(plan.requests.queue)
    if charge is None:
        return Cost(None, None, "the site's profile does not say what a job costs")
    address = plan.site.cite(charge).address or None
    cost = Cost(None, charge.unit, "", charge.note, address, origin)
    if plan.walltime.seconds is None:
        return cost._replace(how="the spec names no walltime")
    count = count_charged(charge, plan.nodes.asked, plan.defaults.node)
    if count is None:
        return cost._replace(how="the spec does not say how many CPUs")
    thing = {"node-hour": "node", "gpu-hour": "GPU", "cpu-hour": "CPU"}[charge.per]
    starts = plan.walltime.chain.at_most
    amount = count * plan.walltime.seconds / 3600 * charge.rate * starts
    rate = f"{format_number(charge.rate)} {charge.unit} a {charge.per}"
    tasks = ""
    if plan.array.tasks:
        amount *= plan.array.jobs
        called = "tasks" if plan.nodes.together == 1 else f"jobs of {plan.nodes.together} tasks"
        tasks = f"{plan.array.jobs} {called} x "
    how = f"{tasks}{format_count(count, thing)} x {format_duration(plan.walltime.seconds)} x {rate}"
    if starts > 1:
        how += f" x {starts} starts"
    return cost._replace(amount=amount, how=how)


def count_charged(charge: Charge, groups: Iterable[NodeGroup], node: Node) -> int | None:
    """How many nodes, GPUs or CPUs are charged; None if the CPUs are not known.

    A job that has its nodes to itself pays for all that they have.
    """
    key, size = f"{charge.per.removesuffix('-hour')}s", measure(groups, None)
    all_of_them = getattr(node, key, None) if node.whole else None
    number: int | None = size.nodes * all_of_them if all_of_them else getattr(size, key)
    return number


def format_number(value: float) -> str:
    """With thousands apart, and at most two digits after the point."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")
