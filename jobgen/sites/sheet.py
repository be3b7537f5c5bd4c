"""Show a cluster's profile on one page: tables of queues and nodes, and the rest as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobgen.output import format_table, offer_line
from jobgen.sites.describe import GRADES, write_yaml
from jobgen.sites.profile import Limit, Node, SiteProfile, is_old
from jobgen.sites.search import LoadedProfile
from jobgen.spec.units import format_memory, format_time


def format_sheet(name: str, loaded: LoadedProfile, *, today: str) -> str:
    """Return the page; `today` is YYYY-MM-DD. Each fact stands beside the id of its source."""
    profile = loaded.profile
    rows = [f"{name}: {profile.title or profile.scheduler}", *_list_doubts(profile, today)]
    rest = profile._replace(title=None, queues={}, gpu_types={})
    for title, lines in (
        ("Queues", format_table(list(_list_queues(profile)))),
        ("GPUs and nodes", format_table(list(_list_nodes(profile)))),
        ("Rules and sources", write_yaml(rest).splitlines()),
    ):
        if lines:
            rows += ["", title, *(f"  {line}" for line in lines)]
    line = offer_line("jobgen", "sites", "show", name, "--yaml")
    rows += ["", f"`{line}` prints the profile: {loaded.files[0]}"]
    return "\n".join(rows) + "\n"


def _list_doubts(profile: SiteProfile, today: str) -> Iterator[str]:
    """Yield how good the profile is: its grade and date, old sources, an unknown network."""
    known = (profile.can.title, profile.as_of, GRADES.get(profile.verified or ""))
    yield _join(known, ", ")
    dates = [profile.find_source(key).dated for key in profile.sources]
    if old := [date for date in dates if date == "undated" or is_old(date, today)]:
        number = f"{len(old)} of {len(dates)} sources"
        yield f"{number} have no date or are more than 12 months old; limits may have changed"
    if profile.network is None and profile.can.batch:
        yield "its network is not known to jobgen: NCCL may use TCP"


def count_gpus(node: Node) -> str:
    """Return the GPUs of a node, such as `4 x A100-40`."""
    kind = node.gpu or ("GPUs" if node.gpus else "")
    return f"{node.gpus} x {kind}" if node.gpus else kind


def _label(form: str, value: object) -> str:
    return form.format(value) if value else ""


def _join(texts: Iterable[str | None], between: str) -> str:
    return between.join(filter(None, texts))


def _list_queues(profile: SiteProfile) -> Iterator[tuple[str, ...]]:
    queues = dict(profile.queues)
    if profile.every_queue.limits:
        queues["(any)"] = profile.every_queue
    for name, queue in queues.items():
        gpus = count_gpus(queue.node) or " or ".join(queue.gpu_types)
        ways = (
            _label("routed to from {}", queue.routed_from),
            _label("chosen by jobgen", queue.choose),
            _label("the default", queue.default),
            _label("--qos={}", queue.qos),
            queue.note,
        )
        limits = _join(map(_describe_limit, queue.limits), "; ")
        yield name, gpus, limits, queue.source or "", _join(ways, "; ")


def _describe_limit(limit: Limit) -> str:
    """One range of sizes and its walltime, such as `1-96 CPUs to 48h`."""
    parts = []
    for unit, word in (("nodes", "node"), ("gpus", "GPU"), ("cpus", "CPU")):
        ends = getattr(limit, unit)
        special = {(0, 0): "no GPUs", (1, 1): f"1 {word}"}
        if ends:
            span = f"{ends[0]}-{ends[-1]}" if len(ends) > 1 else f"{ends[0]} or more"
            parts.append(special.get(ends, f"{span} {word}s"))
    if limit.times[1] is not None:
        parts.append(f"to {format_time(limit.times[1])}")
    if limit.node_minutes is not None:
        parts.append(f"({limit.node_minutes / 60:g} node-hours)")
    return " ".join(parts)


def _list_nodes(profile: SiteProfile) -> Iterator[tuple[str, ...]]:
    queues = [(name, queue.node) for name, queue in profile.queues.items()]
    for name, node in (("node", profile.node), *profile.gpu_types.items(), *queues):
        unit = f" ({node.cpu_unit}s)" if node.cpu_unit else ""
        facts = (
            count_gpus(node),
            _label("one is {}", node.device),
            _label(f"{{}} CPUs{unit}", node.cpus),
            _label("{} for each GPU", node.cpus_per_gpu),
            format_memory(node.memory) if node.memory else "",
        )
        if any(facts):
            yield name, _join(facts, ", "), node.source or ""
