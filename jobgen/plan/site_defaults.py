"""What the site decides where the spec is silent: queue, CPUs, memory, file systems, modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from jobgen.plan import limits
from jobgen.plan.decision import Context, Decision
from jobgen.plan.limits import Breach, Citation, Size, cite
from jobgen.plan.nodes import group_nodes
from jobgen.plan.plan import SiteDefaults
from jobgen.sites.profile import Address, Filesystems, Node, SiteProfile, SiteQueue
from jobgen.spec.model import JobSpec


def decide(context: Context) -> Decision[SiteDefaults]:
    """Decide what the site adds to the spec; its rules that the job breaks are the problems."""
    loaded, spec, profile = context.loaded, context.spec, context.site

    def measure_on(node: Node) -> Size:
        return limits.measure(group_nodes(loaded, profile, node), spec.resources.walltime)

    has_gpus = measure_on(profile.node).gpus
    asked = _spell_type(profile, spec.resources.gpu_type)
    gpu_type = asked or (profile.gpu_type if has_gpus else None)
    queue, why_queue = spec.queue, ""
    if queue is None:
        queue, why_queue = _choose_queue(profile, gpu_type, measure_on, asked=asked)
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
        breaches += limits.check_node(loaded, node, size, about=about, today=context.today)
        breaches += limits.check_lists(
            loaded,
            profile,
            gpu_type=gpu_type,
            gpus=size.gpus,
            filesystems=filesystems,
            today=context.today,
        )
    record = _find_queue(profile, queue)
    defaults = SiteDefaults(
        queue=queue,
        why_queue=why_queue,
        partition=record.partition or queue,
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
        problems=[problem for problem, doubt in breaches if not doubt],
        notes=[
            *(f"warning: {problem} ({doubt})" for problem, doubt in breaches if doubt),
            *([f"note: {defaults.network}"] if defaults.network else ()),
        ],
    )


def _spell_type(profile: SiteProfile, asked: str | None) -> str | None:
    """A type of GPU as the site spells it, where the spec differs by capitals alone."""
    if asked is None or asked in (profile.gpu_types or {}):
        return asked
    known = {name.casefold(): name for name in profile.gpu_types or {}}
    return known.get(asked.casefold(), asked)


def _find_queue(profile: SiteProfile, name: str | None) -> SiteQueue:
    return profile.find_queue(name) or SiteQueue()


def _choose_queue(
    profile: SiteProfile,
    gpu_type: str | None,
    measure_on: Callable[[Node], Size],
    *,
    asked: str | None,
) -> tuple[str | None, str]:
    """Choose the first queue that takes the job, of those that may be chosen, and say why it is.

    A job that has `asked` for a type of GPU may get any queue that has it. If none takes the job,
    the one that nearly does: the problem is then reported about it.
    """
    nearest, best = None, (False, -1)
    passed: list[str] = []
    for name, queue in (profile.queues or {}).items():
        if gpu_type and queue.gpu_types and gpu_type not in queue.gpu_types:
            continue
        if queue.choose or (asked is not None and asked in (queue.gpu_types or ())):
            size = measure_on(describe_node(profile, name, gpu_type)[0])
            if limits.accepts(queue, size):
                of_type = f" with {gpu_type}" if gpu_type and queue.gpu_types else ""
                why = f"jobgen's choice, the first{of_type} that takes the job"
                return name, f"{why} ({'; '.join(passed)})" if passed else why
            passed += [message for _, message, _ in limits.explain_refusal(name, queue, size)][:1]
            if limits.rank_nearness(queue, size) > best:
                nearest, best = name, limits.rank_nearness(queue, size)
    return nearest, "jobgen's choice, which nearly takes the job" if nearest else ""


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
    longest = [limit.times[1] for limit in queue.limits]
    if longest and None not in longest:
        facts.append(f"to {limits.format_time(max(time for time in longest if time))}")
    return f"{name} ({', '.join(facts)})" if facts else name


def _check_queue(
    context: Context, queue: str | None, size: Size, *, gpu_type: str | None
) -> Iterator[Breach]:
    """Yield what is wrong with the queue."""
    loaded, profile = context.loaded, context.site
    # A QoS has limits of its own, and a directive of the user's may name one.
    own_qos = loaded.spec.qos is not None or any(
        re.search(r"\s(-q\b|--qos\b)", line) for line in loaded.spec.directives
    )
    if profile.can.qos and own_qos and profile.slurm.queue_option == "partition":
        return
    others = []
    if loaded.spec.queue is None:  # what jobgen does not choose by itself
        queues = (profile.queues or {}).items()
        others = [
            name
            for name, other in queues
            if other.limits
            and limits.accepts(other, size)
            and (gpu_type is None or gpu_type in (other.gpu_types or (gpu_type,)))
        ]
    for problem, doubt in limits.check_queue(loaded, profile, queue, size, context.today):
        if others and queue not in others:
            hint = f"{problem.hint}, or write queue: {' or '.join(others)}"
            problem = problem._replace(hint=hint)
        yield Breach(problem, doubt)


def describe_node(
    profile: SiteProfile, queue: str | None, gpu_type: str | None
) -> tuple[Node, dict[str, Citation]]:
    """Return a node as the queue and the GPU type have it, and the citation of each fact."""
    record = _find_queue(profile, queue)
    values: dict[str, object] = {}
    about: dict[str, Citation] = {}
    for node, of_queue in (
        (profile.node, None),
        (record.node, record),
        ((profile.gpu_types or {}).get(gpu_type or "", Node()), None),
    ):
        for key, value in node._asdict().items():
            if value is not None:
                values[key] = value
                about[key] = cite(profile, node, of_queue)
    return Node(**values), about  # type: ignore[arg-type]


def _list_filesystems(listed: Filesystems, spec: JobSpec) -> Iterator[str]:
    """Yield the file systems that the paths of a spec lie on, each once, sorted."""
    environment, run = spec.environment, spec.run
    texts = [environment.stage, environment.venv, environment.conda, environment.setup, run.script]
    texts += [*(environment.variables or {}).values(), *(run.command or ())]
    texts += getattr(environment.modules, "use", ())
    if environment.container is not None:
        texts += (environment.container.image, *environment.container.binds)
    for value in (run.args.values() if isinstance(run.args, dict) else run.args) or ():
        texts += value if isinstance(value, tuple) else [str(value)]
    names: set[str] = set()
    for start, name in (listed.paths or {}).items():
        pattern = rf"(?<![\w./-]){re.escape(start)}([A-Za-z0-9_-]+)"
        for text in texts:
            names.update(f"{name}/{folder}" for folder in re.findall(pattern, text or ""))
    yield from sorted(names)


def _choose_variables(profile: SiteProfile, spec: JobSpec, size: Size) -> dict[str, str]:
    """Return the site's variables, without those for interfaces if the spec names one."""
    variables: dict[str, str] = {}
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
