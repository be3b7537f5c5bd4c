"""What the site decides where the spec is silent: queue, CPUs, memory, file systems, modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from jobgen.errors import Problem
from jobgen.plan import limits, shapes
from jobgen.plan.cost import count_charged, format_number
from jobgen.plan.decision import Context, Decision
from jobgen.plan.limits import Breach, Size
from jobgen.plan.nodes import count_together, group_nodes
from jobgen.plan.plan import NodeGroup, SiteDefaults
from jobgen.sites.profile import Address, Filesystems, Node, SiteProfile, SiteQueue, SiteSource
from jobgen.spec.model import JobSpec
from jobgen.spec.units import format_time


def decide(context: Context) -> Decision[SiteDefaults]:
    """Decide what the site adds to the spec; its rules that the job breaks are the problems."""
    loaded, spec, profile = context.loaded, context.spec, context.site

    def group_on(node: Node) -> tuple[NodeGroup, ...]:
        together = count_together(context)
        return tuple(group.times(together) for group in group_nodes(loaded, profile, node))

    def measure_on(node: Node) -> Size:
        return limits.measure(group_on(node), spec.resources.walltime)

    has_gpus, types = measure_on(profile.node).gpus, profile.gpu_types or {}
    asked, spellings = spec.resources.gpu_type, {name.casefold(): name for name in types}
    asked = asked and spellings.get(asked.casefold(), asked)  # capitals are the site's
    gpu_type = asked or (profile.gpu_type if has_gpus else None)
    queue, why_queue = ",".join(spec.queue) or None, ""
    if queue is None:
        queue, why_queue = _choose_queue(context, gpu_type, asked, group_on)
    node, about = describe_node(profile, queue, gpu_type)
    size = measure_on(node)
    filesystems, listed = spec.filesystems or (), profile.filesystems
    if listed is not None and limits.is_listed_by_hand(listed, spec):
        filesystems = ()
    elif listed is not None and spec.filesystems is None:
        filesystems = tuple(_list_filesystems(listed, spec))
    breaches: list[Breach] = []
    if context.limits:
        if queue is None and size.gpus:
            breaches += _require_queue(context, gpu_type)
        breaches += _check_queue(context, queue, size, gpu_type=gpu_type)
        breaches += shapes.check_node(context, node, size, about=about)
        breaches += limits.check_lists(
            context, gpu_type=gpu_type, gpus=size.gpus, filesystems=filesystems
        )
    record = _find_queue(profile, queue)
    names = (queue or "").split(",")
    partitions = (_find_queue(profile, name).partition or name for name in names)
    defaults = SiteDefaults(
        queue=queue,
        why_queue=why_queue,
        partition=",".join(partitions) or None,
        qos=record.qos,
        node=node,
        gpu_type=gpu_type,
        filesystems=filesystems,
        directives=profile.directives + record.directives,
        variables=_choose_variables(profile, spec, size),
        network=_explain_network(profile, spec, size),
        fabric=_find_fabric(profile, spec, size),
        interface=profile.interface,
        address=_choose_address(profile, spec, size),
    )
    return Decision(
        defaults,
        problems=[
            *(problem for problem, doubt in breaches if not doubt),
            *_check_list(context),
        ],
        notes=[
            *(f"warning: {problem} ({doubt})" for problem, doubt in breaches if doubt),
            *_advise_type(context, gpu_type, asked),
            *_advise_walltime(context, record),
            *_advise_filesystems(context, filesystems),
            *shapes.advise(context, node, group_on(node), about=about),
            *([f"note: {defaults.network}"] if defaults.network else ()),
        ],
    )


def _advise_type(context: Context, gpu_type: str | None, asked: str | None) -> Iterator[str]:
    """Say which type of GPU a job gets that names none, if the site has several."""
    others = [
        name
        for name, node in (context.site.gpu_types or {}).items()
        if name != gpu_type and not node.device
    ]
    if gpu_type is not None and asked is None and others:
        message = f"the job gets {gpu_type}, as it names no type"
        yield f"note: resources.gpu_type: {message}; this site also has {', '.join(others)}"


def _advise_walltime(context: Context, queue: SiteQueue) -> Iterator[str]:
    """Say how long a job may run that asks for no walltime, if the site says it."""
    loaded, every = context.loaded, context.site.every_queue
    holder = queue if queue.default_walltime else every
    if context.spec.resources.walltime is None and holder.default_walltime:
        time, about = format_time(holder.default_walltime), context.site.cite(holder)
        message = f"a job that asks for no walltime gets {time} here{about}"
        yield f"warning: {loaded.problem('resources', message, 'add walltime, such as 4h')}"


def _advise_filesystems(context: Context, filesystems: tuple[str, ...]) -> Iterator[str]:
    """Say which file systems the spec's paths lie on, if the spec asks for others alone."""
    spec, listed = context.spec, context.site.filesystems
    given = [*(spec.filesystems or ()), *spec.directives]
    if listed is None or not (spec.filesystems or limits.is_listed_by_hand(listed, spec)):
        return
    known = [name for name in listed.known or () if re.search(rf"['\"]/{name}/", str(spec))]
    lacking = [
        name for name in [*_list_filesystems(listed, spec), *known] if name not in str(given)
    ]
    if lacking:
        message = f"{listed.resource} leaves out {', '.join(lacking)}, where paths of the spec lie"
        place = "filesystems" if spec.filesystems else "directives"
        yield f"warning: {context.loaded.problem(place, message, 'add it')}"


def _find_queue(profile: SiteProfile, name: str | None) -> SiteQueue:
    return profile.find_queue(name) or SiteQueue()


def _check_list(context: Context) -> Iterator[Problem]:
    """Refuse several queues if the scheduler, or one of the queues, takes one alone."""
    loaded, profile, names = context.loaded, context.site, context.spec.queue
    if len(names) < 2 or not profile.can.batch:
        return
    word, title = profile.can.queue_word, profile.can.title
    hint = f"write one {word}"
    if not profile.can.queue_list:
        message = f"names {len(names)} {word}s, and {title} takes one"
        yield loaded.problem("queue", message, hint)
    elif profile.slurm.queue_option == "qos":
        yield loaded.problem("queue", "names several QoS of this site, and a job has one", hint)
    for name in names:
        if qos := _find_queue(profile, name).qos:
            message = f"{name} goes with the QoS {qos}, so it cannot be one of several"
            yield loaded.problem("queue", message, hint)


def _choose_queue(
    context: Context,
    gpu_type: str | None,
    asked: str | None,
    group_on: Callable[[Node], tuple[NodeGroup, ...]],
) -> tuple[str | None, str]:
    """Return the queue of a job that names none, the cheapest that takes it, and why it is this.

    A job that has `asked` for a type of GPU may get any queue that has it. If none takes the job,
    it is the one that nearly does: the problem is then reported about it.
    """
    profile, has_gpus = context.site, any(group.gpus for group in group_on(context.site.node))
    queues = {
        name: queue
        for name, queue in (profile.queues or {}).items()
        if (queue.choose or asked in (queue.gpu_types or ()))
        and (not queue.gpu_types or (has_gpus and gpu_type in (*queue.gpu_types, None)))
    }
    nodes = {name: describe_node(profile, name, gpu_type)[0] for name in queues}
    walltime = context.spec.resources.walltime
    sizes = {name: limits.measure(group_on(node), walltime) for name, node in nodes.items()}
    taking = [name for name in queues if limits.accepts(queues[name], sizes[name])]
    if not taking:
        ranks = {name: limits.rank_nearness(queues[name], sizes[name]) for name in queues}
        nearest = max(ranks, key=ranks.__getitem__, default=None)
        return nearest, "jobgen's choice, which nearly takes the job" if nearest else ""
    prices = {name: _price(profile, name, group_on(nodes[name]), nodes[name]) for name in taking}
    name, cheaper = _find_cheapest(prices)
    types = queues[name].gpu_types
    of_type = f" with {gpu_type}" if gpu_type and types else ""
    why = f"jobgen's choice, the {'cheapest' if cheaper else 'first'}{of_type} that takes the job"
    passed = [*queues][: [*queues].index(taking[0])]
    refusals = (limits.explain_refusal(one, queues[one], sizes[one]) for one in passed)
    reasons = [message for refusal in refusals for _, message, *_ in [*refusal][:1]]
    reasons += [cheaper] if cheaper else []
    return name, f"{why} ({'; '.join(reasons)})" if reasons else why


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


def _price(
    profile: SiteProfile, name: str, groups: tuple[NodeGroup, ...], node: Node
) -> tuple[float, str] | None:
    """Return what the job costs for an hour in a queue, and in which unit."""
    charge = profile.charge_in(name)
    number = count_charged(charge, groups, node) if charge else None
    return None if charge is None or number is None else (number * charge.rate, charge.unit)


def _require_queue(context: Context, gpu_type: str | None) -> Iterator[Breach]:
    """Refuse a GPU job without a queue where the site's default takes no such job."""
    loaded, profile = context.loaded, context.site
    queues = {
        name: queue
        for name, queue in (profile.queues or {}).items()
        if not (queue.routed_from or {limit.gpus for limit in queue.limits} == {(0, 0)})
    }
    option = re.compile(r"\s(-[qp]\b|--qos\b|--partition\b)")
    named = any(map(option.search, loaded.spec.directives))
    named = named or gpu_type not in (None, *(profile.gpu_types or ()))  # reported by itself
    named = named or loaded.spec.reservation is not None or loaded.spec.qos is not None
    if not queues or named or any(queue.default for queue in queues.values()):
        return
    listed = "; ".join(_describe_queue(profile, name, queue) for name, queue in queues.items())
    message = "a GPU job has to name its queue on this site"
    yield Breach(loaded.problem("queue", message, f"write queue: one of {listed}"))


def _describe_queue(profile: SiteProfile, name: str, queue: SiteQueue) -> str:
    """A queue with its GPUs and longest walltime, such as `a100 (4 x A100-80 a node, to 48h)`."""
    node = describe_node(profile, name, None)[0]
    facts = []
    if node.gpus and node.gpu:
        facts.append(f"{node.gpus} x {node.gpu} a node")
    elif queue.gpu_types:
        facts.append(" or ".join(queue.gpu_types))
    if queue.longest:
        facts.append(f"to {format_time(queue.longest)}")
    return f"{name} ({', '.join(facts)})" if facts else name


def _check_queue(
    context: Context, queue: str | None, size: Size, *, gpu_type: str | None
) -> Iterator[Breach]:
    """Yield what is wrong with the queue."""
    loaded, profile = context.loaded, context.site
    # A QoS has its own limits, and a directive of the user's may name one.
    own_qos = loaded.spec.qos is not None or any(
        re.search(r"\s(-q\b|--qos\b)", line) for line in loaded.spec.directives
    )
    if profile.can.qos and own_qos and profile.slurm.queue_option == "partition":
        return
    others = []
    if not loaded.spec.queue:  # what jobgen does not choose itself
        queues = (profile.queues or {}).items()
        others = [
            name
            for name, other in queues
            if other.limits
            and limits.accepts(other, size)
            and (gpu_type is None or gpu_type in (other.gpu_types or (gpu_type,)))
        ]
    for problem, doubt in limits.check_queue(context, queue, size):
        if others and queue not in others:
            hint = f"{problem.hint}, or write queue: {' or '.join(others)}"
            problem = problem._replace(hint=hint)
        yield Breach(problem, doubt)


def describe_node(
    profile: SiteProfile, queue: str | None, gpu_type: str | None
) -> tuple[Node, dict[str, SiteSource]]:
    """Return a node as the queue and the GPU type have it, and the source of each fact."""
    record = _find_queue(profile, queue)
    values: dict[str, object] = {}
    about: dict[str, SiteSource] = {}
    for node, of_queue in (
        (profile.node, None),
        (record.node, record),
        ((profile.gpu_types or {}).get(gpu_type or "", Node()), None),
    ):
        for key, value in node._asdict().items():
            if value is not None:
                values[key] = value
                about[key] = profile.cite(node, of_queue)
    return Node(**values), about  # type: ignore[arg-type]


def _list_filesystems(listed: Filesystems, spec: JobSpec) -> Iterator[str]:
    """Yield the file systems that the paths of a spec lie on, each once, sorted."""
    text = "\n".join(_list_texts((spec.environment, spec.run, spec.roles)))
    names: set[str] = set()
    for start, name in (listed.paths or {}).items():
        pattern = rf"(?<![\w./-]){re.escape(start)}([A-Za-z0-9_-]+)"
        names.update(f"{name}/{folder}" for folder in re.findall(pattern, text))
    yield from sorted(names)


def _list_texts(value: object) -> Iterator[str]:
    """Yield every text in a part of a spec."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _list_texts(inner)


def _choose_variables(profile: SiteProfile, spec: JobSpec, size: Size) -> dict[str, str]:
    """Return the site's variables, without those for interfaces if the spec names one."""
    variables: dict[str, str] = {}
    if profile.launch is not None and profile.launch.name_devices and size.widest:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(size.widest)))
    for groups in (profile.variables, None if _is_set_up(profile, spec) else profile.network):
        if groups is not None:
            some = groups.one_node if size.nodes == 1 else groups.several_nodes
            variables |= {**(groups.always or {}), **(some or {})}
    if spec.launch.interface is not None:
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            variables.pop(name, None)
    return variables


def _is_set_up(profile: SiteProfile, spec: JobSpec) -> bool:
    """Return whether the container's runtime sets the variables of the network itself."""
    own = spec.environment.container
    if own is None or profile.network is None:
        return False
    runtime = own.runtime or (profile.container.runtime if profile.container else None)
    return runtime in profile.network.set_by


def _explain_network(profile: SiteProfile, spec: JobSpec, size: Size) -> str:
    """Return what the user has to know of the network of several nodes; nothing if all is set."""
    network, environment = profile.network, spec.environment
    if size.nodes == 1 or not size.gpus or not profile.can.batch:
        return ""
    if network is None:
        return "the network of this site is not known to jobgen: NCCL may use TCP"
    if network.plugin is None or network.how is None:
        return ""
    contained = environment.container is not None
    if (
        network.plugin_from == "path"
        or (network.plugin_from == "container" and contained)
        or (network.plugin_from == "module" and not contained and not environment.modules)
        or (network.plugin_from == "environment" and contained and _is_set_up(profile, spec))
    ):
        return ""
    return f"{network.fabric} needs {network.plugin}, or NCCL uses TCP or fails: {network.how}"


def _find_fabric(profile: SiteProfile, spec: JobSpec, size: Size) -> str | None:
    """Return the fabric that NCCL is to use; None where sockets are right, or the user's choice."""
    network, chosen = profile.network, (spec.environment.variables or {}).get("NCCL_NET")
    if network is None or size.nodes == 1 or network.fabric == "ethernet" or chosen == "Socket":
        return None
    return network.fabric


def _choose_address(profile: SiteProfile, spec: JobSpec, size: Size) -> Address | None:
    """Return how several nodes are reached, unless the spec names an interface."""
    if profile.launch is None or size.nodes == 1 or spec.launch.interface is not None:
        return None
    return profile.launch.address
