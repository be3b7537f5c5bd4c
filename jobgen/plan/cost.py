"""What a job costs in the site's units, as far as its profile says it."""

from __future__ import annotations

from typing import NamedTuple

from jobgen.plan.plan import Plan
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


def estimate_cost(plan: Plan, origin: tuple[str, ...] = ()) -> Cost:
    """The charge of `plan`: walltime x size x rate; `origin` says where the rate stands."""
    charge = plan.site.charge_in(plan.requests.queue)
    if charge is None:
        return Cost(None, None, "the site's profile does not say what a job costs")
    address = (plan.site.sources or {}).get(charge.source or "")

    def unknown(why: str) -> Cost:
        return Cost(None, charge.unit, why, charge.note, address, origin)

    if plan.walltime.seconds is None:
        return unknown("the spec names no walltime")
    count, things = plan.nodes.total, "node"
    if charge.per == "gpu-hour":
        count, things = plan.nodes.gpus, "GPU"
    elif charge.per == "cpu-hour":
        if any(group.cpus is None for group in plan.nodes.groups):
            return unknown("the spec does not say how many CPUs")
        count, things = sum(group.nodes * (group.cpus or 0) for group in plan.nodes.groups), "CPU"
    starts = plan.walltime.chain.at_most if plan.walltime.chain else 1
    amount = count * plan.walltime.seconds / 3600 * charge.rate * starts
    things += "" if count == 1 else "s"
    rate = f"{format_number(charge.rate)} {charge.unit} a {charge.per}"
    if plan.array:
        amount *= len(plan.array.tasks)
    tasks = f"{len(plan.array.tasks)} tasks x " if plan.array else ""
    how = f"{tasks}{count} {things} x {format_duration(plan.walltime.seconds)} x {rate}"
    how += f" x {starts} starts" if starts > 1 else ""
    return Cost(amount, charge.unit, how, charge.note, address, origin)


def format_number(value: float) -> str:
    """With thousands apart, and at most two digits after the point."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")
