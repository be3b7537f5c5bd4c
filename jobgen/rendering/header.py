"""The comment lines at the head of a script: what it is, and what it was rendered from.

The last of them is for programs: one JSON object, which the script also leaves in its run folder as
plan.json. It ties a committed script to its spec; `read` gets out of it what `write_lines` put in.
"""

from __future__ import annotations

import json
import os

from jobgen.capabilities import get_capabilities
from jobgen.output import offer_line
from jobgen.plan.plan import NodeGroup, Plan
from jobgen.records import NamedTuple
from jobgen.schedulers.registry import PACKAGES
from jobgen.spec.load import SPEC
from jobgen.spec.value_types import NAME

_MARK = "# jobgen: {"
_RENDERED = "rendered by jobgen from: "


class Header(NamedTuple):
    """A script's facts about itself, for programs. `spec` is a file name without a folder."""

    name: str
    spec: str
    digest: str
    scheduler: str
    site: str | None = None
    overrides: tuple[str, ...] = ()
    limits: bool = True
    task: int | None = None  # which one of the spec's array it is alone
    tasks: int = 0  # how many the script is for; 0 if it is no array
    together: int = 1  # of them in one job
    groups: tuple[NodeGroup, ...] = ()  # of nodes that are alike
    fewest_nodes: int | None = None
    mode: str = "torchrun"
    walltime: int | None = None  # seconds
    notice: int | None = None  # seconds before its end
    then: str | None = None  # what follows the walltime
    at_most: int | None = None  # starts in all
    fabric: str | None = None  # with which preflight compares what NCCL has chosen
    roles: tuple[str, ...] = ()  # several programs, each with a folder of its own

    @property
    def jobs(self) -> int:
        """The number of jobs that are submitted together."""
        return (self.at_most or 1) if self.then == "held" else 1


def format_title(plan: Plan) -> str:
    """Describe the job in one line."""
    tasks = f"{len(plan.array.tasks)} tasks, each of " if plan.array.tasks else ""
    if plan.nodes.together > 1:
        tasks = tasks.replace(",", f", {plan.nodes.together} on a node,")
    nodes = plan.nodes.topology
    if plan.launch.body:
        what = "a script" if plan.program.script else os.path.basename(plan.program.command[0])
        first = f"the first of {plan.nodes.total} nodes" if plan.nodes.total > 1 else "one node"
        nodes = f"{what} on {first}"
    if plan.roles.members:
        parts = (f"{role.name} on {role.plan.nodes.topology}" for role in plan.roles.members)
        nodes = ", ".join(parts)
    return f"{plan.name}: {tasks}{nodes}, for {get_capabilities(plan.scheduler).title}"


def describe_plan(plan: Plan) -> Header:
    """Return the header's facts about `plan`, for programs."""
    provenance, chain, array = plan.provenance, plan.walltime.chain, plan.array
    return Header(
        name=plan.name,
        spec=provenance.source,
        digest=provenance.digest,
        scheduler=plan.scheduler,
        site=provenance.site_given,
        overrides=provenance.overrides,
        limits=provenance.limits,
        task=int(plan.program.task or 0) if plan.program.task_given else None,
        tasks=array.size,
        together=array.together,
        groups=plan.nodes.groups,
        fewest_nodes=plan.nodes.fewest,
        mode=plan.launch.mode,
        walltime=plan.walltime.seconds,
        notice=chain.notice or None,
        then=chain.then or None,
        at_most=chain.at_most if chain.goes_on else None,
        fabric=plan.defaults.fabric if plan.nodes.preflight else None,
        roles=tuple(role.name for role in plan.roles.members),
    )


def write_lines(plan: Plan) -> list[str]:
    """Return the header of `plan`'s script, without comment signs."""
    lines = [format_title(plan), f"{_RENDERED}{plan.provenance.source}"]
    if plan.provenance.source != SPEC:  # a file has it
        lines.append(f"to render it again: {offer_line(*_list_command(plan))}")
    if not plan.provenance.limits:
        lines.append("limits of the site: not checked, by --no-limits")
    if plan.defaults.network:
        lines.append(f"network: {plan.defaults.network}")
    if plan.left_out:
        lines.append(f"left out, of no use here: {', '.join(plan.left_out)}")
    return lines


def write_json(header: Header) -> str:
    """Return one line, without default values."""
    usual = Header._field_defaults
    fields = {key: value for key, value in header._asdict().items() if value != usual.get(key)}
    fields["groups"] = [
        {key: value for key, value in group._asdict().items() if value} for group in header.groups
    ]
    return json.dumps(fields)


def read(script: str) -> Header | None:
    """Return the header of a script; None if jobgen did not render it."""
    for line in script.splitlines()[1:]:
        if line.startswith(_MARK):
            return read_json(line[len(_MARK) - 1 :])
        if not line.startswith("#"):
            break
    return None


def read_json(text: str) -> Header | None:
    """Read what `write_json` wrote, without keys from later versions; None for anything else."""
    try:
        fields = json.loads(text)
        known = {key: fields[key] for key in Header._fields if key in fields}
        known["groups"] = tuple(
            NodeGroup(**{key: group[key] for key in NodeGroup._fields if key in group})
            for group in fields["groups"]
        )
        for key in ("overrides", "roles"):
            known[key] = tuple(fields.get(key, ()))
        header = Header(**known)
        return header if _is_sound(header) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_sound(header: Header) -> bool:
    """Whether somebody's edits have left what the rest of jobgen may rely on.

    Raises TypeError where a number or a role is of another type.
    """
    texts = (*header[:4], *header.overrides, header.site or "")
    numbers = [header.task, header.walltime, header.notice, header.at_most, header.fewest_nodes]
    numbers += [number for group in header.groups for number in group]
    sound = (
        all(isinstance(text, str) for text in texts),
        all(isinstance(number, int | None) for number in numbers),
        all(map(str.isidentifier, header.roles)),
        header.tasks >= 0,
        header.together > 0,
        header.groups,
        header.scheduler in PACKAGES,
        NAME.matches(header.name),  # it becomes a folder's
    )
    return all(sound)


def _list_command(plan: Plan) -> list[str]:
    provenance = plan.provenance
    words = ["jobgen", "render", provenance.source]
    if not provenance.states_scheduler:
        words += ["--scheduler", plan.scheduler]
    if provenance.site_given:
        words += ["--site", provenance.site_given]
    if not provenance.limits:
        words.append("--no-limits")
    if plan.program.task_given:
        words += ["--task", str(plan.program.task)]
    for override in provenance.overrides:
        words += ["--set", override]
    return words
