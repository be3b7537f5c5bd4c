"""Show a cluster's profile on one page, for people, each fact with its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobgen.output import format_table
from jobgen.sites.profile import Account, Filesystems, Limit, Node, SiteProfile, SiteQueue, is_old
from jobgen.sites.search import LoadedProfile
from jobgen.spec.units import format_memory, format_time

Marks = dict[str | None, str]  # of sources
GRADES = {
    "docs": "from documentation",
    "scripts": "from users' scripts, so uncertain",
    "captured": "captured on the cluster",
    "ran": "from jobs that ran there",
    None: "of unknown origin",
}


def format_sheet(name: str, loaded: LoadedProfile, *, today: str) -> str:
    """Return the page; `today` is YYYY-MM-DD. Numbers in brackets lead to the sources."""
    profile = loaded.profile
    sources = profile.sources
    marks: Marks = {key: f"[{index}]" for index, key in enumerate(sources, 1)}
    rows = [f"{name}: {profile.title or profile.scheduler}"]
    dated = f", as of {profile.as_of}" if profile.as_of else ""
    rows.append(f"{profile.can.title}, {GRADES[profile.verified]}{dated}")
    if old := list_old_sources(profile, today):
        number = f"{len(old)} of {len(sources)} sources"
        rows.append(
            f"{number} have no date or are more than 12 months old; limits may have changed"
        )
    for title, lines in (
        ("Queues", format_table(list(_list_queues(profile, marks)))),
        ("GPUs and nodes", format_table(list(_list_nodes(profile, marks)))),
        ("Network", format_table(list(_describe_network(profile, marks)))),
        ("Rules", format_table(list(_list_rules(profile, marks)))),
        ("Notes", profile.notes),
        ("Sources", [f"{marks[key]} {_describe_source(profile, key)}" for key in sources]),
    ):
        if lines:
            rows += ["", title, *(f"  {line}" for line in lines)]
    rows += ["", f"`jobgen sites show {name} --yaml` prints the profile: {loaded.files[0]}"]
    return "\n".join(rows) + "\n"


def list_old_sources(profile: SiteProfile, today: str) -> list[str]:
    """Return the sources without a date, and those that are more than a year old."""
    dates = {key: profile.find_source(key).dated for key in profile.sources}
    return [key for key, date in dates.items() if date == "undated" or is_old(date, today)]


def _describe_source(profile: SiteProfile, key: str) -> str:
    """Return its address, then its grade and date if they differ from the profile's."""
    source = profile.find_source(key)
    facts = [source.dated if source.dated != profile.as_of else ""]
    if source.grade != profile.verified and source.grade:
        facts.append(GRADES[source.grade].partition(",")[0])
    more = ", ".join(filter(None, facts))
    return f"{source.address} ({more})" if more else source.address


def describe_network(profile: SiteProfile) -> str:
    """Return the fabric, and the library that carries NCCL on it."""
    network = profile.network
    if network is None:
        return "not known"
    places: dict[str | None, str] = {
        "module": " of the site's module",
        "path": " at the site's path",
        "container": " of a container",
        "environment": " of the job's environment",
    }
    place = places.get(network.plugin_from, "")
    return f"{network.fabric}, by {network.plugin or 'what NCCL has itself'}{place}"


def describe_binding(profile: SiteProfile) -> str:
    """Return which cores and GPU a process gets; empty if the profile does not decide."""
    launch = profile.launch
    if launch is None:
        return ""
    order = ",".join(map(str, launch.devices or ()))
    parts = (
        _label("GPUs {}", order),
        " ".join(text for text in launch.options if "bind" in text or "depth" in text),
        _label("torchrun --numa-binding={}", launch.numa_binding),
    )
    return _join(parts, "; ")


def count_gpus(node: Node) -> str:
    """Return the GPUs of a node, such as `4 x A100-40`."""
    kind = node.gpu or ("GPUs" if node.gpus else "")
    return f"{node.gpus} x {kind}" if node.gpus else kind


def _label(form: str, value: object) -> str:
    return form.format(value) if value else ""


def _join(texts: Iterable[str | None], between: str) -> str:
    return between.join(filter(None, texts))


def _list_queues(profile: SiteProfile, marks: Marks) -> Iterator[tuple[str, ...]]:
    for name, queue in profile.queues.items():
        gpus = count_gpus(queue.node) or " or ".join(queue.gpu_types)
        ways = (
            _label("routed to from {}", queue.routed_from),
            _label("chosen by jobgen", queue.choose),
            _label("the default", queue.default),
            _label("--qos={}", queue.qos),
            queue.note,
        )
        source = marks.get(queue.source, "")
        yield name, gpus, _describe_limits(queue), source, _join(ways, "; ")
    if profile.every_queue.limits:
        every = profile.every_queue
        source = marks.get(every.source, "")
        yield "(any)", "", _describe_limits(every), source, every.note or ""


def _describe_limits(queue: SiteQueue) -> str:
    return _join(map(_describe_limit, queue.limits), "; ")


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


def _list_nodes(profile: SiteProfile, marks: Marks) -> Iterator[tuple[str, ...]]:
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
            yield name, _join(facts, ", "), marks.get(node.source, "")


def _describe_network(profile: SiteProfile, marks: Marks) -> Iterator[tuple[str, ...]]:
    network = profile.network
    if network is None:
        if profile.can.batch:
            yield ("not known to jobgen: NCCL may use TCP",)
        return
    yield describe_network(profile), marks.get(network.source, "")
    if network.how:
        yield network.how, ""
    for group in (network.always, network.one_node, network.several_nodes):
        for key, value in group.items():
            yield f"{key}={value}", ""


def _describe_account(account: Account) -> str:
    if account == Account():
        return ""
    need = "needed" if account.required else "optional"
    return _join((need, account.meaning), ": ")


def _describe_filesystems(listed: Filesystems | None) -> str:
    if listed is None:
        return ""
    need = "needed" if listed.required else "those that the job uses"
    return _join((need, ", ".join(listed.known or ())), ": ")


def _list_rules(profile: SiteProfile, marks: Marks) -> Iterator[tuple[str, ...]]:
    account, listed, launch = profile.account, profile.filesystems, profile.launch
    cited, node = profile.cited, profile.node
    needs_type = _label("needed", profile.gpu_type_required)
    for title, text, source in (
        ("account", _describe_account(account), account.source),
        ("file systems", _describe_filesystems(listed), listed and listed.source),
        ("walltime", _label("needed", profile.walltime_required), cited.get("walltime_required")),
        ("type of GPU", needs_type, cited.get("gpu_type_required")),
        ("memory", _label("must not be asked for", node.memory_rule == "forbidden"), node.source),
        ("launch", _describe_launch(profile), launch and launch.source),
        ("binding", describe_binding(profile), launch and launch.source),
        ("e-mail", _label("sends none", profile.mail == "none"), cited.get("mail")),
        ("internet", profile.internet, cited.get("internet")),
    ):
        if text:
            yield title, text, marks.get(source, "")


def _describe_launch(profile: SiteProfile) -> str:
    """Return what starts on each node, and the launcher; empty if the profile does not say."""
    if profile.launch is None:
        return ""
    agents = profile.launch.family != "direct"
    what = "one torchrun agent per node" if agents else "one process per GPU"
    return f"{what}, by {profile.launch.launcher}"
