"""The walltime: when the program learns of its end, and how the run goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.errors import Problem
from jobgen.plan.decision import Context, Decision
from jobgen.plan.plan import Chain, Plan, TimeLimit
from jobgen.spec.model import OnFailure
from jobgen.spec.units import format_duration

NOTICE = 300
AT_MOST = 10
RESTARTS = 3


def decide(context: Context, plan: Plan) -> Decision[TimeLimit]:
    """Decide the limit, and what the spec's `on_walltime` comes to on this scheduler."""
    asked, can = context.spec.on_walltime, context.site.can
    seconds = context.spec.resources.walltime
    restarts = _count_restarts(context.spec.on_failure)
    refused = list(_refuse_restarts(context)) if restarts else []
    if asked is None:
        return Decision(TimeLimit(seconds, restarts=restarts), problems=refused)
    notice = asked.notice or NOTICE
    then: str = asked.then or "stop"
    if not can.batch:  # there is no queue to go back to
        then = "stop"
    elif then == "resubmit" and not can.submits_from_job:
        then = "held"
    chain = Chain(
        notice=notice,
        last_call=min(60, notice // 2),
        then=then,
        at_most=1 if then == "stop" else (asked.at_most or AT_MOST) + restarts,
        timer=can.notice is None,
    )
    problems = [*_find_conflicts(context, notice), *refused]
    return Decision(TimeLimit(seconds, chain, restarts), problems=problems)


def _count_restarts(asked: OnFailure | None) -> int:
    if asked is None or asked.then != "restart":
        return 0
    return asked.at_most or RESTARTS


def _refuse_restarts(context: Context) -> Iterator[Problem]:
    """Yield what is not started again after a failure."""
    spec, why = context.spec, ""
    if spec.array is not None:
        why = "does not work with an array; run the tasks that failed again by jobgen rerun"
    elif spec.launches_itself:
        own = "run.command" if spec.run.body is None else "run.body"
        why = f"cannot start again what {own} starts itself on other nodes"
    if why:
        yield context.loaded.problem("on_failure", why, "leave it out")


def _find_conflicts(context: Context, notice: int) -> Iterator[Problem]:
    """Yield what cannot be done with the spec's `on_walltime`."""
    loaded, asked = context.loaded, context.spec.on_walltime
    walltime, can = context.spec.resources.walltime, context.site.can
    early = format_duration(notice)
    if walltime is None:
        hint = "add resources.walltime, such as 2h"
        yield loaded.problem("on_walltime", "needs a walltime", hint)
    elif notice >= walltime:
        by_default = "" if asked and asked.notice else ", the default"
        message = f"the notice is {early} before the end{by_default}, and the walltime is no longer"
        yield loaded.problem("on_walltime.notice", message, "write e.g. notice: 1m")
    if can.notice is not None and notice > can.notice:
        message = f"{early} is more than {can.title} takes, {format_duration(can.notice)}"
        yield loaded.problem("on_walltime.notice", message)
    requeues = asked is not None and asked.then == "requeue"
    if requeues and can.batch and not can.requeue:
        message = f"{can.title} lets only operators put a job back into the queue"
        yield loaded.problem("on_walltime.then", message, "write resubmit")
