"""What the site decides where the spec is silent: queue, CPUs, memory, file systems, modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from jobgen.errors import Problem
from jobgen.plan import limits
from jobgen.plan.cost import count_charged, format_number
from jobgen.plan.decision import Context, Decision
from jobgen.plan.limits import Breach, Size
from jobgen.plan.nodes import count_together, group_nodes
from jobgen.plan.plan import NodeGroup, SiteDefaults
from jobgen.records import NamedTuple
from jobgen.sites import profile as sites
from jobgen.spec.commands import walk_texts
from jobgen.spec.model import JobSpec
from jobgen.spec.units import format_time

_FURTHER = "; to go on in further jobs, add on_walltime: {then: resubmit}"


def decide(context: Context) -> Decision[SiteDefaults]:
    """Decide what the site adds to the spec; its rules that the job breaks are the problems."""
    job = _SiteJob(context)
    defaults = job.decide()
    breaches = list(_find_breaches(job)) if context.limits else []
    notes = [f"warning: {problem} ({doubt})" for problem, doubt in breaches if doubt]
    notes += [*_advise(job), *_advise_filesystems(job)]
    notes += limits.advise(context, job.node, job.groups, about=job.about)
    if defaults.network:
        notes.append(f"note: {defaults.network}")
    problems = [problem for problem, doubt in breaches if not doubt]
    return Decision(defaults, problems=[*problems, *_check_list(context)], notes=notes)


class _Candidate(NamedTuple):
    """A queue that may have the job, and what the job's node and size would be in it."""

    queue: sites.SiteQueue
    node: sites.Node
    size: Size


class _SiteJob:
    """A job on its site: its queue and node there, how large it is, and what the site adds."""

    def __init__(self, context: Context) -> None:
        self.context, self.spec, self.profile = context, context.spec, context.site
        self.gpu_type = self._choose_gpu_type()
        self.queue, self.why_queue = ",".join(self.spec.queue) or None, ""
        # The queue with which the site gives the QoS that the spec names.
        same = (name for name, one in self.profile.queues.items() if one.qos == self.spec.qos)
        self.of_qos = next(same, None) if self.spec.qos else None
        if self.queue is None:
            by_qos = self.of_qos, f"the queue whose QoS is {self.spec.qos}"
            self.queue, self.why_queue = by_qos if self.of_qos else self._choose_queue()
        self.record = _find_queue(self.profile, self.queue)
        self.node, self.about = describe_node(self.profile, self.queue, self.gpu_type)
        self.groups = self.group_on(self.node)
        self.size = self.measure_on(self.node)
        self.filesystems = self._choose_filesystems()

    def group_on(self, node: sites.Node) -> tuple[NodeGroup, ...]:
        """Return the nodes that the scheduler is asked for, if they are like this one."""
        together = count_together(self.context)
        groups = group_nodes(self.context.loaded, self.profile, node)
        return tuple(group.times(together) for group in groups)

    def measure_on(self, node: sites.Node) -> Size:
        """Return what these are in all."""
        return limits.measure(self.group_on(node), self.spec.resources.walltime)

    def _choose_gpu_type(self) -> str | None:
        profile, asked = self.profile, self.spec.resources.gpu_type
        if asked is None:
            return profile.gpu_type if self.measure_on(profile.node).gpus else None
        spellings = {name.casefold(): name for name in profile.gpu_types}
        return spellings.get(asked.casefold(), asked)

    @cached_property
    def candidates(self) -> dict[str, _Candidate]:
        """The queues that have such GPUs, if the job has any."""
        profile, queues = self.profile, {}
        has_gpus = self.measure_on(profile.node).gpus > 0
        for name, queue in profile.queues.items():
            types = queue.gpu_types
            if not types or (has_gpus and self.gpu_type in (*types, None)):
                node, _ = describe_node(profile, name, self.gpu_type)
                queues[name] = _Candidate(queue, node, self.measure_on(node))
        return queues

    def list_taking(self) -> list[str]:
        items = self.candidates.items()
        return [name for name, one in items if limits.accepts(one.queue, one.size)]

    def _choose_queue(self) -> tuple[str | None, str]:
        """Return the queue of a job that names none, the cheapest that takes it, and why.

        A job that asks for a type of GPU may get any queue that has it. If none takes the job, it
        is the one that nearly does: the problem is then reported about it.
        """
        candidates = dict(self._list_choices())
        taking = {name: candidates[name] for name in self.list_taking() if name in candidates}
        if not taking:
            items = candidates.items()
            ranks = {name: limits.rank_nearness(one.queue, one.size) for name, one in items}
            nearest = max(ranks, key=ranks.__getitem__, default=None)
            return nearest, "jobgen's choice, which nearly takes the job"
        prices = {name: self._price(name, one) for name, one in taking.items()}
        name, cheaper = _find_cheapest(prices)
        kind = f" with {self.gpu_type}" if self.gpu_type and taking[name].queue.gpu_types else ""
        order = "cheapest" if cheaper else "first"
        why = f"jobgen's choice, the {order}{kind} that takes the job"
        return name, f"{why} ({cheaper})" if cheaper else why

    def _list_choices(self) -> Iterator[tuple[str, _Candidate]]:
        """Yield the candidates that the site lets jobgen choose, or whose GPUs the job names."""
        asked = {self.gpu_type} if self.spec.resources.gpu_type else set()
        for name, one in self.candidates.items():
            if one.queue.choose or asked.intersection(one.queue.gpu_types):
                yield name, one

    def _price(self, name: str, candidate: _Candidate) -> tuple[float, str] | None:
        charge, node = self.profile.charge_in(name), candidate.node
        if charge is None:
            return None
        number = count_charged(charge, self.group_on(node), node)
        return None if number is None else (number * charge.rate, charge.unit)

    def _choose_filesystems(self) -> tuple[str, ...]:
        """What the spec lists, or where its paths lie if the site wants that listed."""
        listed, named = self.profile.filesystems, self.spec.filesystems
        if listed is not None and limits.is_listed_by_hand(listed, self.spec):
            return ()
        if listed is None or named is not None:
            return named or ()
        return tuple(_list_filesystems(listed, self.spec))

    def decide(self) -> SiteDefaults:
        profile, names = self.profile, (self.queue or "").split(",")
        partitions = (_find_queue(profile, name).partition or name for name in names)
        return SiteDefaults(
            queue=self.queue,
            why_queue=self.why_queue,
            partition=",".join(partitions),
            qos=self.record.qos,
            node=self.node,
            gpu_type=self.gpu_type,
            filesystems=self.filesystems,
            directives=profile.directives + self.record.directives,
            variables=self._choose_variables(),
            network=self._explain_network(),
            fabric=self._choose_fabric(),
            address=self._choose_address(),
        )

    def _choose_fabric(self) -> str | None:
        """What NCCL is to use; sockets are right on Ethernet, and may be the user's choice."""
        network, chosen = self.profile.network, self.spec.environment.named_variables
        if network is None or self.size.nodes == 1 or network.fabric == "ethernet":
            return None
        return None if chosen.get("NCCL_NET") == "Socket" else network.fabric

    def _choose_address(self) -> sites.Address | None:
        launch = self.profile.launch
        if launch is None or self.size.nodes == 1 or self.spec.launch.interface is not None:
            return None
        return launch.address

    def _choose_variables(self) -> dict[str, str]:
        variables: dict[str, str] = {}
        launch, size = self.profile.launch, self.size
        if launch is not None and launch.name_devices and size.widest:
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(size.widest)))
        network: sites.Variables | sites.Network = self.profile.network or sites.Variables()
        if self._has_network():
            network = sites.Variables()
        for groups in (self.profile.variables, network):
            some = groups.one_node if self.size.nodes == 1 else groups.several_nodes
            variables |= {**groups.always, **some}
        interfaces = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
        own = interfaces if self.spec.launch.interface is not None else ()
        return {name: value for name, value in variables.items() if name not in own}

    def _has_network(self) -> bool:
        own, site = self.spec.environment.container, self.profile.container
        if own is None or self.profile.network is None:
            return False
        runtime = own.runtime or (site.runtime if site else None)
        return runtime in self.profile.network.set_by

    def _explain_network(self) -> str:
        """What the user has to know of the network of several nodes; nothing if all is set."""
        network, environment = self.profile.network, self.spec.environment
        if self.size.nodes == 1 or not self.size.gpus or not self.profile.can.batch:
            return ""
        if network is None:
            return "the network of this site is not known to jobgen: NCCL may use TCP"
        contained = environment.container is not None
        finds_plugin: dict[str | None, bool] = {
            "path": True,
            "container": contained,
            "module": not (contained or environment.modules),
            "environment": self._has_network(),
        }
        if finds_plugin.get(network.plugin_from) or not (network.plugin and network.how):
            return ""
        return f"{network.fabric} needs {network.plugin}, or NCCL uses TCP or fails: {network.how}"


def _find_cheapest(prices: dict[str, tuple[float, str] | None]) -> tuple[str, str]:
    """Return the cheapest of some queues, and the price of what it was compared with.

    That is the first, without a price, if one is not known, or if all are the same.
    """
    known = [(price, name) for name, price in prices.items() if price]
    if len(known) < len(prices) or len({unit for (_, unit), _ in known}) > 1:
        return next(iter(prices)), ""
    (cost, unit), name = min(known, key=lambda one: one[0])
    (most, _), dear = max(known, key=lambda one: one[0])
    if cost == most:
        return name, ""
    return name, f"{format_number(cost)} {unit} an hour, {dear} {format_number(most)}"


def _find_breaches(job: _SiteJob) -> Iterator[Breach]:
    context, size = job.context, job.size
    unknown = job.gpu_type not in (None, *job.profile.gpu_types)  # reported by itself
    if size.gpus and job.gpu_type and not unknown:
        yield from _check_queue_has(job, job.gpu_type)
    if job.queue is None and size.gpus and not unknown:
        yield from _require_queue(context)
    if job.of_qos or not _names_qos(context):
        yield from _check_limits(job)
    yield from limits.check_node(context, job.node, size, about=job.about)
    yield from limits.check_lists(
        context, gpu_type=job.gpu_type, gpus=size.gpus, filesystems=job.filesystems
    )


def _check_limits(job: _SiteJob) -> Iterator[Breach]:
    for problem, doubt in limits.check_queue(job.context, job.of_qos or job.queue, job.size):
        others = _offer_others(job)
        given = (others, job.spec.on_walltime, job.spec.array, job.spec.run.body)
        # A time is one word, and a number of nodes is two.
        long = re.fullmatch(r"use at most \w+", problem.hint)
        further = _FURTHER if long and not any(given) else ""
        yield Breach(problem._replace(hint=problem.hint + others + further), doubt)


def _check_queue_has(job: _SiteJob, gpu_type: str) -> Iterator[Breach]:
    has, queues = " or ".join(job.record.gpu_types), job.profile.queues.items()
    having = " or ".join(name for name, one in queues if gpu_type in one.gpu_types)
    ways = f"queue: {having}, or " if having else ""
    facts = {"queue": job.queue, "has": has, "gpu_type": gpu_type, "ways": ways}
    rules = {"gpu_type_queue": has and gpu_type not in job.record.gpu_types}
    yield from limits.find_breaches(job.context, job.context.site.cite(job.record), rules, **facts)


def _offer_others(job: _SiteJob) -> str:
    """Return words for queues with its own's GPUs that take a job, or any if its own names none."""
    own, queues = job.record, {name: job.candidates[name].queue for name in job.list_taking()}
    if job.spec.qos or job.queue in queues or not own.limits:
        return ""
    queues = {name: one for name, one in queues.items() if one.limits and not one.routed_from}
    likes = [name for name, one in queues.items() if own.gpu_types in ((), one.gpu_types)]
    names = " or ".join(likes[:3])
    return f", or write queue: {names}" if names else ""


def _advise(job: _SiteJob) -> Iterator[str]:
    """Say which type of GPU and how much time a job gets that names none, if the site says it."""
    types, gpu_type, resources = job.profile.gpu_types, job.gpu_type, job.spec.resources
    chosen = gpu_type is not None and resources.gpu_type is None
    names = ", ".join(name for name, one in types.items() if name != gpu_type and not one.device)
    yield from job.context.note({"other_types": chosen and names}, gpu_type=gpu_type, others=names)
    holder = job.record if job.record.default_walltime else job.profile.every_queue
    usual, about = holder.default_walltime or 0, job.profile.cite(holder)
    unsaid = resources.walltime is None and usual
    yield from job.context.warn({"default_walltime": unsaid}, time=format_time(usual), about=about)


def _advise_filesystems(job: _SiteJob) -> Iterator[str]:
    """Say which file systems the spec's paths lie on, if the spec asks for others alone."""
    spec, listed = job.spec, job.profile.filesystems
    if listed is None or not (spec.filesystems or limits.is_listed_by_hand(listed, spec)):
        return
    given = str([*(spec.filesystems or ()), *spec.directives])
    known = [name for name in listed.known or () if re.search(rf"['\"]/{name}/", str(spec))]
    lacking = [name for name in [*_list_filesystems(listed, spec), *known] if name not in given]
    place = "filesystems" if spec.filesystems else "directives"
    facts = {"path": place, "listed": listed, "lacking": ", ".join(lacking)}
    yield from job.context.warn({"lacking_filesystems": lacking}, **facts)


def _find_queue(profile: sites.SiteProfile, name: str | None) -> sites.SiteQueue:
    return profile.find_queue(name) or sites.SiteQueue()


def _check_list(context: Context) -> Iterator[Problem]:
    profile, names = context.site, context.spec.queue
    if len(names) < 2 or not profile.can.batch:
        return
    one_qos = profile.can.queue_list and profile.slurm.queue_option == "qos"
    rules = {"one_queue": not profile.can.queue_list, "one_qos": one_qos}
    yield from context.refuse(rules, number=len(names))
    for name in names:
        qos = _find_queue(profile, name).qos
        yield from context.refuse({"queue_qos": qos}, name=name, qos=qos)


def _require_queue(context: Context) -> Iterator[Breach]:
    """Refuse a GPU job without a queue where the site's default takes no such job."""
    spec, profile = context.spec, context.site
    queues = {name: queue for name, queue in profile.queues.items() if _takes_gpus(queue)}
    asks = limits.has_option(spec.directives, "-[qp]", "--qos", "--partition")
    named = spec.reservation or spec.qos or asks
    if queues and not named and not any(queue.default for queue in queues.values()):
        yield from map(Breach, context.refuse({"name_queue": True}, listed=", ".join(queues)))


def _takes_gpus(queue: sites.SiteQueue) -> bool:
    of_cpus = {limit.gpus for limit in queue.limits} == {(0, 0)}
    return not (queue.routed_from or of_cpus)


def _names_qos(context: Context) -> bool:
    """Return whether the job names a QoS, which has its own limits, beside its partition."""
    spec, site = context.spec, context.site
    if not site.can.qos or site.slurm.queue_option != "partition":
        return False
    return spec.qos is not None or limits.has_option(spec.directives, "-q", "--qos")


def describe_node(
    profile: sites.SiteProfile, queue: str | None, gpu_type: str | None
) -> tuple[sites.Node, dict[str, sites.SiteSource]]:
    """Return a node as the queue and the GPU type have it, and the source of each fact."""
    record, types = _find_queue(profile, queue), profile.gpu_types
    values: dict[str, object] = {}
    about: dict[str, sites.SiteSource] = {}
    for node in (profile.node, record.node, types.get(gpu_type or "", sites.Node())):
        of_queue = record if node is record.node else None
        for key, value in node._asdict().items():
            if value is not None:
                values[key] = value
                about[key] = profile.cite(node, of_queue)
    return sites.Node(**values), about  # type: ignore[arg-type]


def _list_filesystems(listed: sites.Filesystems, spec: JobSpec) -> Iterator[str]:
    """Yield the file systems that the paths of a spec lie on, each once, sorted."""
    text = "\n".join(text for _, text in walk_texts((spec.environment, spec.run, spec.roles)))
    names: set[str] = set()
    for start, name in listed.paths.items():
        pattern = rf"(?<![\w./-]){re.escape(start)}([A-Za-z0-9_-]+)"
        names.update(f"{name}/{folder}" for folder in re.findall(pattern, text))
    yield from sorted(names)
