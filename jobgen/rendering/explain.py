"""Why a script is as it is: who runs where, and each directive and variable with what decided it.

The reasons of directives stand with them in `schedulers`; those of the variables, which the
templates set, stand here, and a test holds the two together.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from jobgen import schedulers
from jobgen.plan.array import TaskRow, list_variables, make_rows
from jobgen.plan.cost import Cost, estimate_cost
from jobgen.plan.plan import Plan
from jobgen.plan.ranks import NodeRow, format_nodes, list_nodes
from jobgen.plan.roles import PORTS
from jobgen.records import NamedTuple
from jobgen.rendering.header import format_title
from jobgen.rendering.variables import list_own_variables
from jobgen.schedulers.base import NODES, Directive
from jobgen.spec.load import LoadedSpec
from jobgen.spec.secrets import mask, mask_override
from jobgen.spec.units import format_time

DEFAULT = "default"
# It need not be the node of rank 0 under c10d, as `Explanation.ranks` says.
_HOSTS = {
    "plain": "There is no rendezvous; MASTER_ADDR is the first node of the allocation.",
    "ray": "Ray's head is on the first node of the allocation.",
    "body": "There is no rendezvous; the script starts its own programs.",
    "roles": "A role that has a rendezvous has its own, on its first node.",
    "c10d": "The agent on the first node of the allocation hosts the rendezvous.",
    "static": "Rank 0, on the first node of the allocation, hosts the rendezvous.",
    "env": "Rank 0, on the first node of the allocation, hosts the rendezvous.",
    "file": "The processes meet by a file on the node's own disk; no rendezvous listens.",
}


class Reason(NamedTuple):
    """One thing that a script says, why, and what decided it."""

    what: str
    why: str
    origin: tuple[str, ...]


class RoleRow(NamedTuple):
    """One of several programs: where it runs, when it starts, and what its end means."""

    name: str
    mode: str
    nodes: tuple[NodeRow, ...]  # their ranks are the role's own
    port: str
    starts: str
    ready: str
    ends: str

    def as_lines(self) -> list[str]:
        """For people."""
        about = f"  {self.starts}; {self.ready}; {self.ends}"
        return ["", f"Role {self.name}", *format_nodes(self.nodes), about, f"  port: {self.port}"]


class Explanation(NamedTuple):
    """All that is to be said of a plan."""

    title: str
    nodes: tuple[NodeRow, ...]
    ranks: str  # how the global ranks are dealt
    device: str | None  # what a GPU is here, where it is no whole one
    rendezvous: str  # who hosts it
    cost: Cost
    decisions: tuple[Reason, ...]
    directives: tuple[Reason, ...]
    variables: tuple[Reason, ...]
    left_out: tuple[str, ...]
    tasks: tuple[TaskRow, ...]  # of an array; each is a job of this form
    defaults: tuple[str, ...]  # files that were read though nobody has named them
    roles: tuple[RoleRow, ...] = ()  # several programs; `nodes` then has all that runs on each

    def list_places(self) -> list[str]:
        """Return who runs where, for people: the nodes and their ranks, of each role by itself."""
        lines = [line for role in self.roles for line in role.as_lines()]
        if not self.roles:
            lines += ["", "Nodes", *format_nodes(self.nodes), f"  {self.ranks}"]
            lines.append(f"  {self.rendezvous}")
        return lines + ([f"  A GPU is here {self.device}."] if self.device else [])

    def as_text(self, *, defaults: bool = True, width: int = 0) -> str:
        """For people; nodes in a row that are alike share a line.

        What the user has to check comes first. Without `defaults`, only what somebody has decided
        is shown; sentences are wrapped where lines have a `width`.
        """
        lines = [self.title, *self.list_places()]
        if self.tasks:
            lines += ["", "Tasks, each a job of this form", *(f"  {row}" for row in self.tasks)]
        lines += ["", "Cost", *self._cost()]
        if self.defaults:
            lines += ["", f"Read beside the spec: {', '.join(self.defaults)}"]
        if self.left_out:
            lines += ["", f"Left out, of no use here: {', '.join(self.left_out)}"]
        hidden = 0
        for heading, reasons in (
            ("Decisions", self.decisions),
            ("Directives", self.directives),
            ("Variables", self.variables),
        ):
            shown = [one for one in reasons if defaults or one.origin != (DEFAULT,)]
            hidden += len(reasons) - len(shown)
            lines += ["", heading, *([] if shown else ["  none"])]
            for reason in shown:
                lines.append(f"  {reason.what}")
                lines += _wrap(reason.why, width)
                lines += [f"      from {origin}" for origin in reason.origin]
        if hidden:
            lines += [
                "",
                f"{hidden} more have default values; `jobgen explain --all` shows them.",
            ]
        return "\n".join(lines) + "\n"

    def _cost(self) -> list[str]:
        cost, lines = self.cost, [f"  {self.cost}"]
        if cost.amount is None:
            return lines
        lines += [f"      {cost.note}"] if cost.note else []
        return lines + [f"      from {origin}" for origin in (*cost.origin, cost.source) if origin]


def _wrap(sentence: str, width: int) -> list[str]:
    indent = " " * 6
    if not width:
        return [indent + sentence]
    return textwrap.wrap(
        sentence, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )


def explain(loaded: LoadedSpec, plan: Plan) -> Explanation:
    """The reasons of `plan`, which `loaded` was resolved to."""
    origins = _Origins(loaded, plan)
    nodes = tuple(list_nodes(plan))
    if nodes[0].global_ranks is not None:
        ranks = "Global ranks follow the nodes' order."
    else:
        # torch.distributed.elastic sorts its _NodeDesc: address, process id, a number.
        ranks = (
            "Global ranks: torch deals them by the nodes' addresses as text, then by process id."
        )
    charge = f"site.queues.{plan.requests.queue}.charge|site.charge"
    return Explanation(
        title=format_title(plan),
        nodes=nodes,
        ranks=ranks,
        device=plan.nodes.device,
        rendezvous=_HOSTS.get(plan.launch.mode) or _HOSTS[plan.launch.rendezvous],
        cost=estimate_cost(plan, origins.found([charge])),
        decisions=tuple(_list_decisions(plan, origins)),
        directives=tuple(_list_directives(loaded, plan, origins)),
        variables=tuple(_list_variables(plan, origins)),
        left_out=plan.left_out,
        tasks=make_rows(plan.array),
        defaults=plan.provenance.defaults,
        roles=tuple(_list_roles(plan)) if plan.roles else (),
    )


def _list_roles(plan: Plan) -> Iterator[RoleRow]:
    """Yield what is to be said of each role."""
    assert plan.roles
    waited: list[str] = []
    for waits, role in plan.roles.steps:
        if waits:
            waited.append(role.name)
            continue
        be = "is" if len(waited) == 1 else "are"
        starts = f"starts once {' and '.join(waited)} {be} ready" if waited else "starts first"
        ready = "is ready as soon as it is started"
        if role.test:
            ready = f"is ready by its {' '.join(role.test)}, within {format_time(role.within)}"
        ends = "may end before the job does" if role.alone else "fails the job if it ends early"
        ends = "its end is the job's" if role == plan.roles.main else ends
        first = plan.roles.members.index(role) * PORTS
        port = f"20000 + the job's number modulo 250, times 40, plus {first}"
        nodes, mode = tuple(list_nodes(role.plan)), role.plan.launch.mode
        yield RoleRow(role.name, mode, nodes, port, starts, ready, ends)


class _Origins:
    """Where values come from: the spec, with the place in it; the site; the command line."""

    def __init__(self, loaded: LoadedSpec, plan: Plan) -> None:
        self.loaded = loaded
        self.plan = plan
        self.site = plan.provenance.site_given or loaded.spec.site or plan.can.generic_site

    def of(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Those of `keys` that are written somewhere; else that it is the default."""
        return self.found(keys) or (DEFAULT,)

    def found(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Those of `keys` that are written somewhere."""
        origins = (next(filter(None, map(self._of, key.split("|"))), "") for key in keys)
        return tuple(filter(None, origins))

    def scheduler(self) -> tuple[str, ...]:
        """What decided the scheduler."""
        spec = self.loaded.spec
        if self.plan.provenance.site_given:
            return (f"--site {self.site}",)
        if spec.site:
            return self.of(["site"])
        return self.of(["scheduler"]) if spec.scheduler == self.plan.scheduler else ("--scheduler",)

    def _of(self, key: str) -> str:
        if not key.startswith("site."):
            where = self.loaded.positions.get(key)
            return "" if where is None else f"{where}: {key}" if where.line else str(where)
        path = key.removeprefix("site.")
        site = self.plan.site
        *_, (value, default) = steps = list(_follow(site, path))
        if value is None or value == default:
            return ""
        own = (getattr(record, "source", None) for record, _ in reversed(steps))
        source = site.find_source(next(filter(None, own), (site.cited or {}).get(path)))
        dated = source.dated
        about = [source.grade, f"as of {dated}" if dated and dated != "undated" else dated]
        return f"site {self.site}: {path}" + "".join(f", {word}" for word in about if word)


def _follow(record: Any, path: str) -> Iterator[tuple[Any, Any]]:
    """Yield each value along a path of a profile, and what is assumed of any site there."""
    while path and record is not None:
        if isinstance(record, dict):  # its keys may have dots
            key = next((key for key in record if f"{path}.".startswith(f"{key}.")), path)
            record, default = record.get(key), None
        else:
            key = path.partition(".")[0]
            default = type(record)._field_defaults.get(key)
            record = getattr(record, key, None)
        path = path[len(key) + 1 :]
        yield record, default


def _list_decisions(plan: Plan, origins: _Origins) -> Iterator[Reason]:
    yield Reason(f"scheduler: {plan.scheduler}", "whose syntax the script has", origins.scheduler())
    for override in map(mask_override, origins.loaded.overrides):
        if override.startswith("run.args+="):
            what = f"arguments: {override.partition('=')[2]}"
            yield Reason(what, "over those of the spec", ("the command line",))
    why = "one for each GPU, or one if there is none, unless the spec says otherwise"
    yield Reason(f"processes: {plan.nodes.topology}", why, origins.of(NODES))
    yield from _explain_start(plan, origins)
    if plan.roles:
        yield from _explain_network(plan, origins)
        yield from _list_software(plan, origins)
        return
    yield from _explain_meeting(plan, origins)
    yield from _list_software(plan, origins)
    if plan.launch.mode == "torchrun":
        why = "how often torchrun starts failed processes again"
        keys = ["launch.max_restarts"]
        yield Reason(f"restarts: {plan.launch.max_restarts}", why, origins.of(keys))
    if plan.nodes.fewest is not None:
        why = "as many as the scheduler has; ranks and batches differ from start to start"
        what = f"nodes: {plan.nodes.fewest} to {plan.nodes.total}"
        yield Reason(what, why, origins.of(["resources.nodes"]))
    if plan.nodes.preflight:
        why = "a difference between nodes is cheaper to find before the program starts"
        yield Reason("preflight: the nodes are compared", why, origins.of(["preflight"]))
    if plan.walltime.chain:
        what, why = plan.walltime.chain.in_words
        keys = ["on_walltime.notice|on_walltime", "on_walltime.then", "on_walltime.at_most"]
        yield Reason(f"before the limit: {what}", why, origins.of(keys))
    yield from _explain_restarts(plan, origins)
    if plan.site.verified and plan.can.batch and not _knows_walltime(plan):
        why = "the profile has no limit on it; the scheduler refuses what is too long"
        yield Reason("longest walltime: not known", why, ())


_MODES = {
    "torchrun": "one agent on each node starts its processes and watches them",
    "direct": "each process starts by itself, with RANK and the like from what starts it",
    "plain": "each process starts by itself; no torch is asked for",
    "ray": "one Ray of all nodes, whose head is on the first, where the program runs once",
    "body": "the script runs once, on the first node, and starts its own programs",
    "roles": "several programs, each on some of the nodes; the last one's end is the job's",
}
_FLAVORS = {
    "pals": "PALS",
    "hydra": "MPICH's Hydra",
    "openmpi": "Open MPI",
    "ibrun": "TACC's ibrun in its place",
}
_MEETINGS = {
    "c10d": "agents meet at a store on the first node, in any order; it unpickles messages,"
    " its own classes alone, and whoever reaches its port can end the job",
    "static": "agents get their numbers, in the order of the allocation",
    "file": "the agent is alone",
    "env": "processes get their numbers, and the address and port of the first",
}


def _explain_start(plan: Plan, origins: _Origins) -> Iterator[Reason]:
    """What starts the processes, and on which cores and GPUs."""
    start = plan.launch
    yield Reason(f"mode: {start.mode}", _MODES[start.mode], origins.of(start.decided_by))
    why = "what starts it on the nodes"
    if start.launcher == "mpiexec":
        why += f"; whose it is: {_FLAVORS.get(start.flavor or '', 'the job finds out')}"
    launcher_keys = ("launch.launcher|site.launch.launcher",)
    yield Reason(f"launcher: {start.launcher}", why, origins.of(launcher_keys))
    if start.cores or start.devices:
        why = "so that each process runs on the cores, and drives the GPU, that are near each other"
        keys = [f"site.launch.{key}" for key in ("options", "devices")]
        yield Reason("binding: as the table of nodes has it", why, origins.of(keys))
    if start.numa_binding:
        why = "torchrun keeps each process to CPUs beside its GPU, if torch (2.9) and numactl can"
        keys = ["site.launch.numa_binding"]
        yield Reason(f"binding: --numa-binding={start.numa_binding}", why, origins.of(keys))


def _explain_meeting(plan: Plan, origins: _Origins) -> Iterator[Reason]:
    """How the processes find one another: rendezvous, address, network, port."""
    start = plan.launch
    if not start.ray:
        why = _MEETINGS[start.rendezvous]
        yield Reason(f"rendezvous: {start.rendezvous}", why, origins.of(["launch.rendezvous"]))
    if start.address is not None:
        tail = start.address.tail
        what = f"NODE{tail}" if tail else "the IPv4 address that a node's name leads to"
        why = "how the nodes of this site are reached; launch.interface would win over it"
        yield Reason(f"address: {what}", why, origins.of(["site.launch.address"]))
    yield from _explain_network(plan, origins)
    why = "it follows from the job's id, so that two jobs on a node do not meet"
    yield Reason("port: 20000 + the job's number modulo 10000", why, (DEFAULT,))


def _explain_restarts(plan: Plan, origins: _Origins) -> Iterator[Reason]:
    """Which failure leads to another start, where that is, and what spare nodes are for."""
    chain, restarts, spare = plan.walltime.chain, plan.walltime.restarts, plan.nodes.spare
    if restarts:
        else_where = "else it ends, as there is no on_walltime.then to go on by"
        if chain is not None and chain.goes_on:
            else_where = "else as after the walltime"
        if chain is not None and chain.held:  # by jobs that cannot leave nodes out
            else_where += f", where {plan.can.title} may give the bad node again"
        why = (
            "a lost node, a GPU's own error, the network, a dead file system: again, without the "
            "node; a hang, a kill, an unclear end: again once; the program's own error: it ends; "
            f"in this allocation while it has good nodes, {else_where}"
        )
        keys = ["on_failure.at_most|on_failure"]
        yield Reason(f"after a failure: up to {restarts} restarts", why, origins.of(keys))
    if spare:
        why = f"paid for, and idle until one of the other {plan.nodes.total} fails"
        yield Reason(f"spare nodes: {spare}", why, origins.of(["resources.spare_nodes"]))


def _knows_walltime(plan: Plan) -> bool:
    """Whether the profile limits the walltime of the job's queue."""
    queue = plan.site.find_queue(plan.requests.queue)
    limits = (*(queue.limits if queue else ()), *plan.site.every_queue.limits)
    return any(limit.times[1] or limit.node_minutes for limit in limits)


def _explain_network(plan: Plan, origins: _Origins) -> Iterator[Reason]:
    """What carries NCCL between nodes, and what the user has to bring for it."""
    network, missing = plan.site.network, plan.defaults.network
    if network is not None and plan.nodes.total > 1 and plan.nodes.gpus:
        plugin = f", by {network.plugin}" if network.plugin else ""
        why = missing or "what carries NCCL between the nodes"
        yield Reason(f"network: {network.fabric}{plugin}", why, origins.of(["site.network.fabric"]))
    elif missing:
        yield Reason("network: not known", missing, ())


def _list_software(plan: Plan, origins: _Origins) -> Iterator[Reason]:
    """Modules, container and archive; the rest of the environment is as the spec says it."""
    own, decided = origins.loaded.spec.environment, plan.environment
    if decided.modules is not None:
        first, use, load = decided.modules
        words = [first or "", *(f"use {folder}" for folder in use), *load]
        keys = [
            "environment.modules|site.modules.load"
            if own.container is None
            else "environment.modules",
            *(["site.container.modules"] if own.container else []),
        ]
        why = "in this order, on each node" + (", outside the container" if own.container else "")
        yield Reason(f"modules: {', '.join(filter(None, words))}", why, origins.of(keys))
    if own.container is not None:
        runtime = "environment.container.runtime|site.container.runtime"
        how = "by srun, with a task" if decided.step_options else "by a command on each node"
        why = f"entered {how}; the agent and what it starts run inside"
        what = f"container: {own.container.image}"
        yield Reason(what, why, origins.of(["environment.container.image", runtime]))
    if decided.stage is not None:
        why = "unpacked on each node's own disk before it is activated, and gone with the job"
        yield Reason(f"stage: {decided.stage}", why, origins.of(["environment.stage"]))


def _list_directives(loaded: LoadedSpec, plan: Plan, origins: _Origins) -> Iterator[Reason]:
    written = enumerate(loaded.spec.directives)
    own = (number for number, line in written if line in plan.requests.directives)
    for line in schedulers.SCHEDULERS[plan.scheduler].directives(plan):
        if isinstance(line, Directive):
            yield Reason(line, line.reason, origins.of(line.keys))
        else:
            yield Reason(line, "your own, verbatim", origins.of([f"directives[{next(own)}]"]))


def _list_variables(plan: Plan, origins: _Origins) -> Iterator[Reason]:
    """The script's own but those that the site or the spec sets, whose values win; then theirs."""
    for name, value, why, *keys in list_own_variables(plan):
        if name not in plan.environment.variables:
            yield Reason(f"{name}={value}", why, origins.of(keys))
    of_tasks = list_variables(origins.loaded)
    varied = dict.fromkeys(plan.array.variables if plan.array else (), "by task")
    for name, value in {**plan.environment.variables, **varied}.items():
        if name in of_tasks:
            path = f"environment.variables.{name}"
            key, why = f"array.values.{path}|array.zip.{path}|array.list", "your own, of each task"
        elif name in (origins.loaded.spec.environment.variables or {}):
            key, why = f"environment.variables.{name}", "your own"
        else:
            some = "one_node" if plan.nodes.total == 1 else "several_nodes"
            parts = ("network", "variables")
            key = "|".join(
                f"site.{part}.{when}.{name}" for part in parts for when in (some, "always")
            )
            why = "the site's, for the libraries that use its network"
        yield Reason(f"{name}={mask(name, value)}", why, origins.of([key]))
