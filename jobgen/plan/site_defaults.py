"""What the site decides where the spec is silent: queue, CPUs, memory, file systems, modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from jobgen.errors import Problem
from jobgen.plan import limits, shapes
from jobgen.plan.cost import count_charged, format_number
from jobgen.plan.decision import Context, Decision
from jobgen.plan.limits import Breach, Size
from jobgen.plan.nodes import count_together, group_nodes
from jobgen.plan.plan import NodeGroup, SiteDefaults
from jobgen.records import NamedTuple
from jobgen.sites.profile import (
    Address,
    Filesystems,
    Network,
    Node,
    SiteProfile,
    SiteQueue,
    SiteSource,
    Variables,
)
from jobgen.spec.model import JobSpec
from jobgen.spec.units import format_time


def decide(context: Context) -> Decision[SiteDefaults]:
    """Decide what the site adds to the spec; its rules that the job breaks are the problems."""
    spec, profile = context.spec, context.site
    gpu_type = _choose_gpu_type(context)
    queue, why_queue = ",".join(spec.queue) or None, ""
    if queue is None:
        queue, why_queue = _choose_queue(context, gpu_type)
    node, about = describe_node(profile, queue, gpu_type)
    size = _measure_on(context, node)
    record = _find_queue(profile, queue)
    names = (queue or "").split(",")
    partitions = (_find_queue(profile, name).partition or name for name in names)
    defaults = SiteDefaults(
        queue=queue,
        why_queue=why_queue,
        partition=",".join(partitions),
        qos=record.qos,
        node=node,
        gpu_type=gpu_type,
        filesystems=_choose_filesystems(context),
        directives=profile.directives + record.directives,
        variables=_choose_variables(profile, spec, size),
        network=_explain_network(profile, spec, size),
        fabric=_find_fabric(profile, spec, size),
        interface=profile.interface,
        address=_choose_address(profile, spec, size),
    )
    breaches = list(_find_breaches(context, defaults, about)) if context.limits else []
    return Decision(
        defaults,
        problems=[
            *(problem for problem, doubt in breaches if not doubt),
            *_check_list(context),
        ],
        notes=[
            *(f"warning: {problem} ({doubt})" for problem, doubt in breaches if doubt),
            *_advise_type(context, gpu_type),
            *_advise_walltime(context, record),
            *_advise_filesystems(context, defaults.filesystems),
            *shapes.advise(context, node, _group_on(context, node), about=about),
            *([f"note: {defaults.network}"] if defaults.network else ()),
        ],
    )


def _group_on(context: Context, node: Node) -> tuple[NodeGroup, ...]:
    """Return the nodes that the scheduler is asked for, if they are like this one."""
    together = count_together(context)
    groups = group_nodes(context.loaded, context.site, node)
    return tuple(group.times(together) for group in groups)


def _measure_on(context: Context, node: Node) -> Size:
    return limits.measure(_group_on(context, node), context.spec.resources.walltime)


def _choose_gpu_type(context: Context) -> str | None:
    """Return the type of GPU that the job asks for, as the site spells it, or the site's."""
    profile, asked = context.site, context.spec.resources.gpu_type
    if asked is None:
        return profile.gpu_type if _measure_on(context, profile.node).gpus else None
    spellings = {name.casefold(): name for name in profile.gpu_types or ()}
    return spellings.get(asked.casefold(), asked)


def _choose_filesystems(context: Context) -> tuple[str, ...]:
    """Return what the spec lists, or where its paths lie if the site wants that listed."""
    spec, listed = context.spec, context.site.filesystems
    if listed is not None and limits.is_listed_by_hand(listed, spec):
        return ()
    if listed is None or spec.filesystems is not None:
        return spec.filesystems or ()
    return tuple(_list_filesystems(listed, spec))


def _find_breaches(
    context: Context, defaults: SiteDefaults, about: dict[str, SiteSource]
) -> Iterator[Breach]:
    """Yield the rules of the site that the job breaks; `about` has the sources of its node."""
    gpu_type, size = defaults.gpu_type, _measure_on(context, defaults.node)
    unknown = gpu_type not in (None, *(context.site.gpu_types or ()))  # reported by itself
    if defaults.queue is None and size.gpus and not unknown:
        yield from _require_queue(context)
    if not _names_qos(context):
        breaches = list(limits.check_queue(context, defaults.queue, size))
        others = _list_others(context, defaults) if breaches else []
        for problem, doubt in breaches:
            if others:
                hint = f"{problem.hint}, or write queue: {' or '.join(others)}"
                problem = problem._replace(hint=hint)
            yield Breach(problem, doubt)
    yield from shapes.check_node(context, defaults.node, size, about=about)
    yield from limits.check_lists(
        context, gpu_type=gpu_type, gpus=size.gpus, filesystems=defaults.filesystems
    )


def _list_others(context: Context, defaults: SiteDefaults) -> list[str]:
    """List the queues that take a job which names none, if the one that it gets does not."""
    if context.spec.queue:
        return []
    taking = [
        name
        for name, (queue, _, size) in _find_candidates(context, defaults.gpu_type).items()
        if queue.limits and limits.accepts(queue, size)
    ]
    return [] if defaults.queue in taking else taking


def _advise_type(context: Context, gpu_type: str | None) -> Iterator[str]:
    """Say which type of GPU a job gets that names none, if the site has several."""
    others = [
        name
        for name, node in (context.site.gpu_types or {}).items()
        if name != gpu_type and not node.device
    ]
    if gpu_type is not None and context.spec.resources.gpu_type is None and others:
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


class _Candidate(NamedTuple):
    """A queue that may have the job, and what the job's node and size would be in it."""

    queue: SiteQueue
    node: Node
    size: Size


def _choose_queue(context: Context, gpu_type: str | None) -> tuple[str | None, str]:
    """Return the queue of a job that names none, the cheapest that takes it, and why it is this.

    A job that asks for a type of GPU may get any queue that has it. If none takes the job, it is
    the one that nearly does: the problem is then reported about it.
    """
    asks = context.spec.resources.gpu_type is not None
    candidates = {
        name: one
        for name, one in _find_candidates(context, gpu_type).items()
        if one.queue.choose or (asks and gpu_type in (one.queue.gpu_types or ()))
    }
    taking = [name for name, one in candidates.items() if limits.accepts(one.queue, one.size)]
    if not taking:
        ranks = {
            name: limits.rank_nearness(one.queue, one.size) for name, one in candidates.items()
        }
        nearest = max(ranks, key=ranks.__getitem__, default=None)
        return nearest, "jobgen's choice, which nearly takes the job"
    name, cheaper = _find_cheapest({one: _price(context, one, candidates[one]) for one in taking})
    reasons = [*_explain_passing(candidates, taking[0]), *([cheaper] if cheaper else ())]
    of_type = f" with {gpu_type}" if gpu_type and candidates[name].queue.gpu_types else ""
    why = f"jobgen's choice, the {'cheapest' if cheaper else 'first'}{of_type} that takes the job"
    return name, f"{why} ({'; '.join(reasons)})" if reasons else why


def _find_candidates(context: Context, gpu_type: str | None) -> dict[str, _Candidate]:
    """Return the queues that have such GPUs, if the job has any."""
    profile, candidates = context.site, {}
    has_gpus = _measure_on(context, profile.node).gpus > 0
    for name, queue in (profile.queues or {}).items():
        types = queue.gpu_types or ()
        if not types or (has_gpus and gpu_type in (*types, None)):
            node, _ = describe_node(profile, name, gpu_type)
            candidates[name] = _Candidate(queue, node, _measure_on(context, node))
    return candidates


def _explain_passing(candidates: dict[str, _Candidate], first: str) -> Iterator[str]:
    """Yield what each queue before the first that takes the job refuses."""
    for name, (queue, _, size) in candidates.items():
        if name == first:
            return
        for _, message, *_ in islice(limits.explain_refusal(name, queue, size), 1):
            yield message


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


def _price(context: Context, name: str, candidate: _Candidate) -> tuple[float, str] | None:
    """Return what the job costs for an hour in a queue, and in which unit."""
    charge, node = context.site.charge_in(name), candidate.node
    if charge is None:
        return None
    number = count_charged(charge, _group_on(context, node), node)
    return None if number is None else (number * charge.rate, charge.unit)


def _require_queue(context: Context) -> Iterator[Breach]:
    """Refuse a GPU job without a queue where the site's default takes no such job."""
    spec, profile = context.spec, context.site
    queues = {name: queue for name, queue in (profile.queues or {}).items() if _takes_gpus(queue)}
    option = re.compile(r"\s(-[qp]\b|--qos\b|--partition\b)")
    named = spec.reservation or spec.qos or any(map(option.search, spec.directives))
    if queues and not named and not any(queue.default for queue in queues.values()):
        listed = "; ".join(_describe_queue(profile, name, queues[name]) for name in queues)
        message = "a GPU job has to name its queue on this site"
        hint = f"write queue: one of {listed}"
        yield Breach(context.loaded.problem("queue", message, hint))


def _takes_gpus(queue: SiteQueue) -> bool:
    """Return whether jobs with GPUs may name the queue."""
    of_cpus = {limit.gpus for limit in queue.limits} == {(0, 0)}
    return not (queue.routed_from or of_cpus)


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


def _names_qos(context: Context) -> bool:
    """Return whether the job names a QoS, which has its own limits, beside its partition."""
    spec, site = context.spec, context.site
    if not site.can.qos or site.slurm.queue_option != "partition":
        return False
    named = any(re.search(r"\s(-q\b|--qos\b)", line) for line in spec.directives)
    return named or spec.qos is not None


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
    variables |= _pick_variables(profile.variables, size)
    if not _is_set_up(profile, spec):
        variables |= _pick_variables(profile.network, size)
    if spec.launch.interface is not None:
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            variables.pop(name, None)
    return variables


def _pick_variables(groups: Variables | Network | None, size: Size) -> dict[str, str]:
    """Return those of every job, and those of one node or of several."""
    if groups is None:
        return {}
    some = groups.one_node if size.nodes == 1 else groups.several_nodes
    return {**(groups.always or {}), **(some or {})}


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
    finds_plugin: dict[str | None, bool] = {
        "path": True,
        "container": contained,
        "module": not (contained or environment.modules),
        "environment": _is_set_up(profile, spec),
    }
    if finds_plugin.get(network.plugin_from):
        return ""
    return f"{network.fabric} needs {network.plugin}, or NCCL uses TCP or fails: {network.how}"


def _find_fabric(profile: SiteProfile, spec: JobSpec, size: Size) -> str | None:
    """Return the fabric that NCCL is to use; None where sockets are right, or the user's choice."""
    network, chosen = profile.network, (spec.environment.variables or {}).get("NCCL_NET")
    if network is None or size.nodes == 1:
        return None
    return None if network.fabric == "ethernet" or chosen == "Socket" else network.fabric


def _choose_address(profile: SiteProfile, spec: JobSpec, size: Size) -> Address | None:
    """Return how several nodes are reached, unless the spec names an interface."""
    if profile.launch is None or size.nodes == 1 or spec.launch.interface is not None:
        return None
    return profile.launch.address
