"""The walltime: when the program learns of its end, and how the run goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.errors import Problem
from jobgen.plan.decision import Context, Decision
from jobgen.plan.plan import Chain, Plan, TimeLimit
from jobgen.spec.model import JobSpec, OnWalltime
from jobgen.spec.units import format_duration

NOTICE = 300
AT_MOST = 10
RESTARTS = 3


def decide(context: Context, plan: Plan) -> Decision[TimeLimit]:
    """Decide the limit, and what the spec's `on_walltime` comes to on this scheduler."""
    asked, can = context.spec.on_walltime, context.site.can
    seconds, restarts = context.spec.resources.walltime, count_restarts(context.spec)
    refused = _refuse_restarts(context)
    if asked is None:
        return Decision(TimeLimit(seconds, restarts=restarts), problems=refused)
    notice = asked.notice or NOTICE
    held = asked.then == "resubmit" and not can.submits_from_job
    then = "held" if held else asked.then or "stop"
    chain = Chain(
        notice=notice,
        last_call=min(60, notice // 2),
        then=then,
        at_most=1 if then == "stop" else (asked.at_most or AT_MOST) + restarts,
        timer=can.notice is None,
    )
    problems = [*_find_conflicts(context, asked, notice), *refused]
    return Decision(TimeLimit(seconds, chain, restarts), problems=problems)


def count_restarts(spec: JobSpec) -> int:
    """Return how often a job may start again after a failure."""
    asked = spec.on_failure
    return (asked.at_most or RESTARTS) if asked and asked.then == "restart" else 0


def _refuse_restarts(context: Context) -> Iterator[Problem]:
    spec = context.spec
    own = "run.command" if spec.run.body is None else "run.body"
    refused = count_restarts(spec) and (spec.array or spec.launches_itself)
    return context.refuse({"restart_array" if spec.array else "restart_own": refused}, own=own)


def _find_conflicts(context: Context, asked: OnWalltime, notice: int) -> Iterator[Problem]:
    walltime, can = context.spec.resources.walltime, context.site.can
    rules = {
        "needs_walltime": walltime is None,
        "late_notice": walltime is not None and notice >= walltime,
        "early_notice": can.notice is not None and notice > can.notice,
        "no_requeue": asked.then == "requeue" and not can.requeue,
    }
    early, most = format_duration(notice), format_duration(can.notice or 0)
    by_default = "" if asked.notice else ", the default"
    return context.refuse(rules, early=early, by_default=by_default, most=most)
