"""What the job of a spec has of its script: its nodes and their shares."""

from __future__ import annotations

from jobgen.batchscript.convert.straight import NotStraightError
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.reader import Script
from jobgen.errors import SpecError
from jobgen.plan.resolve import resolve
from jobgen.schedulers import SCHEDULERS


def refuse_loss(script: Script, draft: Draft) -> None:
    """Raise NotStraightError where jobgen refuses a spec, or its job asks for another share."""
    try:
        written = render_directives(draft)
    except SpecError as error:
        problem = error.problems[0]
        refused = f"jobgen refuses the spec: {problem.path} {problem.message}"
        raise NotStraightError(script.body_line, refused) from None
    asked, gets = script.request, written.request
    for name, wanted, given in (
        ("nodes", asked.nodes, gets.nodes),
        ("GPUs of a node", asked.gpus, gets.gpus),
        ("CPUs of a node", asked.cpus, gets.cpus),
        ("tasks of a node", asked.tasks if draft.load().spec.launches_itself else 0, gets.tasks),
    ):
        if wanted and wanted != given:
            reason = f"a spec of it asks for {given or 'other'} {name}, not {wanted}"
            raise NotStraightError(1, reason)


def render_directives(draft: Draft) -> Script:
    """Return the directives of the job of a draft, as a script; SpecError where it is refused."""
    plan = resolve(draft.load(), limits=False)
    lines = SCHEDULERS[plan.scheduler].directives(plan)
    return Script("job", "\n".join(["#!/bin/bash", *lines, ""]))
