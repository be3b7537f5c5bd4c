"""Explain a script: the nodes and ranks, and each directive and variable with its reason.

The reasons of directives stand with them in `schedulers`; those of the variables, which the
templates set, stand here, and a test holds the two together.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from string import Template
from typing import Any

from jobgen import schedulers
from jobgen.plan.array import TaskRow, list_variables, make_rows
from jobgen.plan.cost import Cost, estimate_cost
from jobgen.plan.plan import Plan
from jobgen.plan.ranks import NodeRow, format_nodes, list_nodes
from jobgen.plan.roles import PORTS
from jobgen.records import NamedTuple
from jobgen.rendering.header import format_title
from jobgen.schedulers.base import NODES, PROCESSES, Directive, cpu_keys
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import Modules
from jobgen.spec.secrets import mask, mask_override
from jobgen.spec.tables import read_needs, read_rows
from jobgen.spec.units import format_duration, format_time

DEFAULT = "default"
_WORDS = {(of, which): words for of, which, words in read_rows("words.txt", room="rendering")}


class Reason(NamedTuple):
    """One fact in a script, its reason, and what decided it."""

    what: str
    why: str
    origin: tuple[str, ...]

    def as_lines(self, width: int) -> list[str]:
        """Return it for people; the sentence is wrapped if lines have a `width`."""
        blank, why = " " * 6, [self.why]
        if width:
            why = textwrap.wrap(self.why, max(20, width - 6), break_long_words=False)
        words = [*why, *(f"from {origin}" for origin in self.origin)]
        return [f"  {self.what}", *(blank + line for line in words)]


class RoleRow(NamedTuple):
    """One of several programs: where it runs, when it starts, and the meaning of its end."""

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
    """The whole explanation of a plan."""

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
        """Return the nodes and their ranks, for people, role by role."""
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
            lines += ["", "Tasks, each a job like this", *(f"  {row}" for row in self.tasks)]
        lines += ["", "Cost", *self._cost()]
        if self.defaults:
            lines += ["", f"Also read: {', '.join(self.defaults)}"]
        if self.left_out:
            lines += ["", f"Left out, because it has no effect here: {', '.join(self.left_out)}"]
        hidden = 0
        for kind in ("decisions", "directives", "variables"):
            reasons: tuple[Reason, ...] = getattr(self, kind)
            shown = [one for one in reasons if defaults or one.origin != (DEFAULT,)]
            hidden += len(reasons) - len(shown)
            written = [line for reason in shown for line in reason.as_lines(width)]
            lines += ["", kind.capitalize(), *(written or ["  none"])]
        if hidden:
            lines += ["", f"{hidden} more have default values; `jobgen explain --all` shows them."]
        return "\n".join(lines) + "\n"

    def _cost(self) -> list[str]:
        cost, lines = self.cost, [f"  {self.cost}"]
        if cost.amount is not None:
            lines += [f"      {cost.note}"] if cost.note else []
            lines += [f"      from {origin}" for origin in (*cost.origin, cost.source) if origin]
        return lines


def explain(loaded: LoadedSpec, plan: Plan) -> Explanation:
    """Explain `plan`, which `loaded` was resolved to."""
    origins = _Origins(loaded, plan)
    nodes = tuple(list_nodes(plan))
    dealt = "body" if plan.launch.body else "agents"
    charge = f"site.queues.{plan.requests.queue}.charge|site.charge"
    mode, meets = plan.launch.mode, plan.launch.rendezvous
    host = mode if ("host", mode) in _WORDS else meets
    return Explanation(
        title=format_title(plan),
        nodes=nodes,
        ranks=_WORDS["ranks", "known" if nodes[0].global_ranks is not None else dealt],
        device=plan.nodes.device,
        rendezvous=_WORDS["host", "lone" if plan.lone else host],
        cost=estimate_cost(plan, origins.found([charge])),
        decisions=tuple(_list_decisions(plan, origins)),
        directives=tuple(_list_directives(loaded, plan, origins)),
        variables=tuple(_list_variables(plan, origins)),
        left_out=plan.left_out,
        tasks=make_rows(plan.array),
        defaults=plan.provenance.defaults,
        roles=tuple(_list_roles(plan)),
    )


def _list_roles(plan: Plan) -> Iterator[RoleRow]:
    waited: list[str] = []
    for waits, role in plan.roles.steps:
        if waits:
            waited.append(role.name)
            continue
        be = "is" if len(waited) == 1 else "are"
        starts = f"starts once {' and '.join(waited)} {be} ready" if waited else "starts first"
        ready = "is ready as soon as it starts"
        if role.test:
            kind, *words = role.test
            own = f"$run_dir/roles/{role.name}/"  # in the words of the spec
            passed = _WORDS["ready", kind].format(*words).replace(own, "$JOBGEN_RUN_DIR/")
            ready = f"is ready once {passed}, within {format_time(role.within)}"
        ends = "may end before the job does" if role.alone else "fails the job if it ends early"
        ends = "the job ends with it" if role == plan.roles.main else ends
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
        """Return those of `keys` that are set somewhere; otherwise the default."""
        return self.found(keys) or (DEFAULT,)

    def found(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Return those of `keys` that are set somewhere."""
        origins = (next(filter(None, map(self._of, key.split("|"))), "") for key in keys)
        return tuple(filter(None, origins))

    def scheduler(self) -> tuple[str, ...]:
        """Return what decided the scheduler."""
        spec = self.loaded.spec
        if self.plan.provenance.site_given:
            return (f"--site {self.site}",)
        if spec.site:
            return self.of(["site"])
        return self.of(["scheduler"]) if spec.scheduler == self.plan.scheduler else ("--scheduler",)

    def _of(self, key: str) -> str:
        if key.startswith("site."):
            return self._of_site(key.removeprefix("site."))
        where = self.loaded.positions.get(key)
        if where is None or key in self.plan.left_out:
            return ""
        return f"{where}: {key}" if where.line else str(where)

    def _of_site(self, path: str) -> str:
        site = self.plan.site
        *_, (value, default) = steps = list(_follow(site, path))
        if value is None or value == default:
            return ""
        own = (getattr(record, "source", None) for record, _ in reversed(steps))
        source = site.find_source(next(filter(None, own), site.cited.get(path)))
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
    yield Reason(
        f"scheduler: {plan.scheduler}", "the directives are in its syntax", origins.scheduler()
    )
    for override in map(mask_override, origins.loaded.overrides):
        if override.startswith("run.args+="):
            what = f"arguments: {override.partition('=')[2]}"
            yield Reason(what, "overriding those of the spec", ("the command line",))
    start, chain = plan.launch, plan.walltime.chain
    kinds = (start.mode, start.launcher, start.rendezvous, chain.then)
    facts = _describe_start(plan) | _describe_rest(plan, origins.loaded)
    for what, why, *keys in _select_rows("decisions.txt", kinds, facts):
        origin = () if keys == ["-"] else origins.of(" ".join(keys).split())
        yield Reason(what, why, origin)


def _describe_start(plan: Plan) -> dict[str, object]:
    """Return what the table asks of nodes, launch and network, and what its values are made of."""
    start, nodes, network = plan.launch, plan.nodes, plan.site.network
    reached = "the IPv4 address that a node's name leads to"
    if start.address and start.address.tail:
        reached = f"NODE{start.address.tail}"
    return {
        **nodes._asdict(),
        **start._asdict(),
        "topology": nodes.topology,
        "node_keys": " ".join(NODES),
        "mode_keys": " ".join(start.decided_by),
        "whose": _WORDS["mpi", str(start.flavor)],
        "bound": " ".join((*start.options, *map("GPU {}".format, start.devices or ()))),
        "address": start.address and reached,
        "networked": network and nodes.total > 1 and nodes.gpus,
        "network": network and ", by ".join(filter(None, (network.fabric, network.plugin))),
        "missing": plan.defaults.network,
        "total": nodes.total,
    }


def _describe_rest(plan: Plan, loaded: LoadedSpec) -> dict[str, object]:
    container, decided = loaded.spec.environment.container, plan.environment
    first, use, load = decided.modules or Modules()
    chain = plan.walltime.chain
    else_where = "otherwise it ends, because on_walltime.then does not continue it"
    if chain.goes_on:
        else_where = "otherwise as after the walltime"
    if chain.then == "held":  # by jobs that cannot leave nodes out
        else_where += f", where {plan.can.title} may assign the bad node again"
    return {
        "modules": ", ".join(filter(None, [first, *(f"use {folder}" for folder in use), *load])),
        "container": container and container.image,
        "by_srun": decided.step_options,
        "stage": decided.stage,
        "notice": format_duration(chain.notice),
        "starts": chain.at_most,
        "chain_keys": "on_walltime.notice|on_walltime on_walltime.then on_walltime.at_most",
        "restarts": plan.walltime.restarts,
        "else_where": else_where,
        "unbounded": plan.site.verified and plan.can.batch and not _knows_walltime(plan),
    }


def _knows_walltime(plan: Plan) -> bool:
    queue = plan.site.find_queue(plan.requests.queue)
    limits = (*(queue.limits if queue else ()), *plan.site.every_queue.limits)
    return any(limit.times[1] or limit.node_minutes for limit in limits)


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
    for name, value, why, *keys in _list_own_variables(plan):
        if name not in plan.environment.variables:
            yield Reason(f"{name}={value}", why, origins.of(keys))
    of_tasks = list_variables(origins.loaded)
    varied = dict.fromkeys(plan.array.variables, "by task")
    for name, value in {**plan.environment.variables, **varied}.items():
        if name in of_tasks:
            path = f"environment.variables.{name}"
            key, why = f"array.values.{path}|array.zip.{path}|array.list", "your own, for each task"
        elif name in origins.loaded.spec.environment.named_variables:
            key, why = f"environment.variables.{name}", "your own"
        else:
            some = "one_node" if plan.nodes.total == 1 else "several_nodes"
            parts = ("network", "variables")
            key = "|".join(
                f"site.{part}.{when}.{name}" for part in parts for when in (some, "always")
            )
            why = "the site's, for libraries that use its network"
        yield Reason(f"{name}={mask(name, value)}", why, origins.of([key]))


def _select_rows(
    name: str, kinds: Iterable[str], facts: Mapping[str, object]
) -> Iterator[list[str]]:
    """Yield the rows of a table that a job has, with its facts in the place of each $NAME.

    It is of the `kinds`, and of those that facts which are not empty are named for.
    """
    has = {*kinds, *(fact for fact, value in facts.items() if value)}
    for asked, *cells in read_rows(name, room="rendering"):
        needs, _ = read_needs(asked, frozenset())
        if all((kind in has) == wanted for kind, wanted in needs.items()):
            yield [Template(cell).substitute(facts) for cell in cells]


def _list_own_variables(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Name, value, reason and keys of what the templates export; a test holds the two together."""
    launch = plan.launch
    kinds = (launch.mode, launch.launcher, launch.rendezvous, *plan.environment.caches)
    for name, value, why, *keys in _select_rows("variables.txt", kinds, _describe_variables(plan)):
        yield name, value, why, *" ".join(keys).split()


def _describe_threads(plan: Plan) -> str:
    among = "the node / its processes" if plan.can.batch else "the machine / all processes"
    parts = [(f"{one.name}: ", one.plan) for one in plan.roles.members] or [("", plan)]
    return ", ".join(f"{name}{part.nodes.threads or f'CPUs of {among}'}" for name, part in parts)


def _describe_variables(plan: Plan) -> dict[str, object]:
    """Return what the rows of the table ask of a job, and what their values are made of."""
    launch, pieces = plan.launch, schedulers.SCHEDULERS[plan.scheduler].launch(plan)
    numbers = [str(number) for number in plan.array.numbers[:2]]
    by_slurm = bool(pieces.node_lists)
    return {
        "name": plan.name,
        "here": not plan.can.batch,
        "lists_nodes": by_slurm,
        "through_srun": launch.launcher == "srun" or (by_slurm and launch.launcher == "mpiexec"),
        "lists_hosts": plan.lists_hosts,
        "may_be_openmpi": launch.flavor in (None, "openmpi"),
        "interface": launch.interface,
        "alone": launch.alone,
        "direct": launch.direct,
        "more": plan.starts_more,
        "lone": plan.lone,
        "threads": _describe_threads(plan),
        "cpu_keys": " ".join((*cpu_keys(plan), *PROCESSES)),
        "devices": ",".join(map(str, launch.devices or ())),
        "gpus": plan.uses_gpus,
        "tasks": plan.program.number or (f"{', '.join(numbers)}, ..." if numbers else ""),
        "index": plan.task_index,
        "chain": plan.walltime.chain.then,
    }
