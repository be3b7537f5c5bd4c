"""What the site decides where the spec is silent: queue, CPUs, memory, file systems, modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from jobgen import rules
from jobgen.limits import (
    Finding,
    Ground,
    Group,
    Size,
    check_queue,
    fits,
    ground,
    nearness,
    size_of,
)
from jobgen.loaded import LoadedSpec
from jobgen.profile import Address, Choice, Filesystems, Node, Queue, SiteProfile
from jobgen.spec import JobSpec


def choose(
    loaded: LoadedSpec,
    profile: SiteProfile,
    groups_on: Callable[[Node], Iterable[Group]],
    *,
    limits: bool,
    today: str | None,
) -> Choice:
    """What `profile` adds to the spec, and with `limits` what it refuses.

    `groups_on` says which nodes the job has where those of the site have a given shape.
    """
    spec = loaded.spec

    def size_on(node: Node) -> Size:
        return size_of(groups_on(node), spec.resources.walltime)

    gpu_type = spec.resources.gpu_type or (profile.gpu_type if size_on(profile.node).gpus else None)
    queue = spec.queue or _queue(loaded, profile, gpu_type, size_on)
    node, about = node_in(profile, queue, gpu_type)
    size = size_on(node)
    filesystems, listed = spec.filesystems or (), profile.filesystems
    if listed is not None and rules.listed_by_hand(listed, spec):
        filesystems = ()
    elif listed is not None and spec.filesystems is None:
        filesystems = tuple(_listed(listed, spec))
    found: list[Finding] = []
    if limits:
        found += _findings(loaded, profile, queue, size, today=today)
        found += rules.check_node(loaded, node, size, about=about, today=today)
        found += rules.check_lists(
            loaded,
            profile,
            gpu_type=gpu_type,
            gpus=size.gpus,
            filesystems=filesystems,
            today=today,
        )
    warnings = [f"warning: {problem} ({doubt})" for problem, doubt in found if doubt]
    return Choice(
        queue=queue,
        node=node,
        gpu_type=gpu_type,
        filesystems=filesystems,
        directives=profile.directives + _queue_record(profile, queue).directives,
        variables=_variables(profile, spec, size),
        interface=profile.interface,
        address=_address(profile, spec, size),
        notes=tuple(warnings),
        problems=tuple(finding.problem for finding in found if not finding.doubt),
    )


def _queue_record(profile: SiteProfile, name: str | None) -> Queue:
    return (profile.queues or {}).get(name or "") or Queue()


def _queue(
    loaded: LoadedSpec,
    profile: SiteProfile,
    gpu_type: str | None,
    size_on: Callable[[Node], Size],
) -> str | None:
    """The first queue that takes the job, of those that may be chosen.

    Where none does, the one that nearly does: what is wrong is then said of it.
    """
    nearest, best = None, (False, -1)
    for name, queue in (profile.queues or {}).items():
        if queue.choose:
            size = size_on(node_in(profile, name, gpu_type)[0])
            if fits(queue, size):
                return name
            if nearness(queue, size) > best:
                nearest, best = name, nearness(queue, size)
    return nearest


def _findings(
    loaded: LoadedSpec, profile: SiteProfile, queue: str | None, size: Size, *, today: str | None
) -> Iterator[Finding]:
    """What is wrong with the queue."""
    # A QoS has limits of its own, and a directive of the user's may name one.
    own_qos = loaded.spec.qos is not None or any(
        re.search(r"\s(-q\b|--qos\b)", line) for line in loaded.spec.directives
    )
    if profile.scheduler == "slurm" and own_qos and profile.slurm.queue_option == "partition":
        return
    others = []
    if loaded.spec.queue is None:  # what jobgen does not choose by itself
        queues = (profile.queues or {}).items()
        others = [name for name, found in queues if found.limits and fits(found, size)]
    for problem, doubt in check_queue(loaded, profile, queue, size, today):
        if others and queue not in others:
            hint = f"{problem.hint}, or write queue: {' or '.join(others)}"
            problem = problem._replace(hint=hint)
        yield Finding(problem, doubt)


def node_in(
    profile: SiteProfile, queue: str | None, gpu_type: str | None
) -> tuple[Node, dict[str, Ground]]:
    """A node as the queue and the type of GPU have it, and what each fact of it stands on."""
    found = _queue_record(profile, queue)
    values: dict[str, object] = {}
    about: dict[str, Ground] = {}
    for node, of_queue in (
        (profile.node, None),
        (found.node, found),
        ((profile.gpu_types or {}).get(gpu_type or "", Node()), None),
    ):
        for key, value in node._asdict().items():
            if value is not None:
                values[key] = value
                about[key] = ground(profile, node, of_queue)
    return Node(**values), about  # type: ignore[arg-type]


def _listed(listed: Filesystems, spec: JobSpec) -> Iterator[str]:
    """The file systems that the paths of a spec lie on, each once, sorted."""
    environment, run = spec.environment, spec.run
    texts = [environment.stage, environment.venv, environment.conda, environment.setup, run.script]
    texts += [*(environment.variables or {}).values(), *(run.command or ())]
    texts += getattr(environment.modules, "use", ())
    if environment.container is not None:
        texts += (environment.container.image, *environment.container.binds)
    for value in (run.args.values() if isinstance(run.args, dict) else run.args) or ():
        texts += value if isinstance(value, tuple) else [str(value)]
    found: set[str] = set()
    for start, name in (listed.paths or {}).items():
        pattern = rf"(?<![\w./-]){re.escape(start)}([A-Za-z0-9_-]+)"
        for text in texts:
            found.update(f"{name}/{folder}" for folder in re.findall(pattern, text or ""))
    yield from sorted(found)


def _variables(profile: SiteProfile, spec: JobSpec, size: Size) -> dict[str, str]:
    """The site's variables; the ones for interfaces not where the spec names an interface."""
    groups = profile.variables
    if groups is None:
        return {}
    some = groups.one_node if size.nodes == 1 else groups.several_nodes
    found = {**(groups.always or {}), **(some or {})}
    if spec.launch.interface is not None:
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            found.pop(name, None)
    return found


def _address(profile: SiteProfile, spec: JobSpec, size: Size) -> Address | None:
    """How the site's nodes are reached; not of one node, nor where the spec names an interface."""
    if profile.launch is None or size.nodes == 1 or spec.launch.interface is not None:
        return None
    return profile.launch.address
