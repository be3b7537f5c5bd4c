"""Every rule of every shipped profile, found by a walk through the profiles, and broken.

What is said of it names the key, the value, the limit, and on whose word that is. `test_limits` has
the whole text of many of these messages.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
import yaml
from golden import SITES
from support import load

from jobgen.errors import SpecError
from jobgen.plan import limits
from jobgen.plan.resolve import resolve
from jobgen.sites import search
from jobgen.sites.profile import Account, Limit, Node, SiteProfile, SiteQueue
from jobgen.spec.units import split_memory

TODAY = "2026-09-01"
JOB = {"name": "a", "run": {"module": "m"}}


class Broken(NamedTuple):
    """A rule, a job that breaks it, and what must be said: where, and the words of it."""

    rule: str
    job: dict[str, Any]
    path: str
    words: tuple[str, ...]
    source: str
    as_of: str


def shape(profile: SiteProfile, queue: str | None, gpu_type: str | None) -> Node:
    """A node, with what differs in the queue and for the type of GPU."""
    found = dict(profile.node._asdict())
    for other in (
        (profile.queues or {})[queue].node if queue else Node(),
        (profile.gpu_types or {})[gpu_type] if gpu_type else Node(),
    ):
        found |= {key: value for key, value in other._asdict().items() if value is not None}
    return Node(**found)


class Walk:
    """The rules of one site."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.profile = search.load(site)
        given = load(yaml.safe_dump(JOB | {"resources": {}}), *SITES[site]).spec
        self.top = {key: getattr(given, key) for key in ("account", "queue") if getattr(given, key)}
        if given.filesystems:
            self.top["filesystems"] = list(given.filesystems)
        self.gpu_type = given.resources.gpu_type

    def job(self, resources: dict[str, Any], **top: Any) -> dict[str, Any]:
        """A job of the site; a value of None takes a key out."""
        types = self.profile.gpu_types
        if types and resources.get("gpus_per_node", 1) and "gpu_type" not in resources:
            queue = (self.profile.queues or {}).get(top.get("queue") or "", SiteQueue())
            kind = (queue.gpu_types or (self.gpu_type,))[0] or next(iter(types))
            resources = resources | {"gpu_type": kind}
        found = JOB | self.top | {"resources": resources} | top
        resources = {key: value for key, value in resources.items() if value is not None}
        return {key: value for key, value in found.items() if value is not None} | {
            "resources": resources
        }

    def about(self, record: Any, queue: SiteQueue | None = None) -> tuple[str, str]:
        """The address and date that a fact of `record` stands on."""
        source = getattr(record, "source", None) or (queue.source if queue else None)
        found = self.profile.find_source(source)
        assert found.address, f"{self.site}: {record} has no source"
        assert found.dated
        return found.address, found.dated

    def basis(self, queue: str | None, gpu_type: str | None = None) -> dict[str, Any]:
        """Resources that the shape of a node allows: one node, all its GPUs."""
        node = shape(self.profile, queue, gpu_type or self.gpu_type)
        found: dict[str, Any] = {"nodes": 1, "gpus_per_node": node.gpus or 1, "walltime": "10m"}
        return found

    def rules(self) -> Iterator[Broken]:
        profile = self.profile
        for name, queue in (("every queue", profile.every_queue), *(profile.queues or {}).items()):
            yield from self.of_queue(name, queue)
        for queue_name in [None, *(profile.queues or {})]:
            node = (profile.queues or {})[queue_name].node if queue_name else profile.node
            yield from self.of_node(node, queue_name, None)
        for gpu_type, node in (profile.gpu_types or {}).items():
            yield from self.of_node(node, None, gpu_type)
        yield from self.of_the_site()

    # --- queues ------------------------------------------------------------------------

    def of_queue(self, name: str, queue: SiteQueue) -> Iterator[Broken]:
        chosen = None if name == "every queue" else name
        if queue.routed_from:
            job = self.job(self.basis(None), queue=name)
            words = (f"{name} takes no jobs itself", f"queue: {queue.routed_from}")
            yield Broken(f"{name}.routed_from", job, "queue", words, *self.about(queue))
        for index, limit in enumerate(queue.limits):
            rule = f"{name}.limits[{index}]"
            resources = self.within(limit, chosen)
            if limit.walltime is not None:
                least, most = limit.times
                for seconds, word in ((most, "exceeds"), (least, "is less than")):
                    if not seconds:
                        continue
                    wrong = seconds + 60 if word == "exceeds" else seconds - 60
                    job = self.job(resources | {"walltime": f"{wrong}s"}, queue=chosen)
                    words = (clock(wrong), word, f"{name}'s {clock(seconds)}")
                    path = "resources.walltime"
                    yield Broken(
                        f"{rule}.walltime {word}", job, path, words, *self.about(limit, queue)
                    )
            most_nodes = (limit.nodes or (1,))[-1]
            longest = limit.times[1]
            if limit.node_minutes is not None and not (
                longest and longest * most_nodes <= limit.node_minutes * 60
            ):
                if longest:  # so many nodes that the product is what the job breaks
                    resources["nodes"] = limit.node_minutes * 60 // longest + 1
                minutes = limit.node_minutes // resources["nodes"] + 1
                job = self.job(resources | {"walltime": f"{minutes}m"}, queue=chosen)
                product = resources["nodes"] * minutes
                words = (f"{product} node-minutes", f"more than {name}'s {limit.node_minutes}")
                path = "resources.walltime"
                yield Broken(f"{rule}.node_minutes", job, path, words, *self.about(limit, queue))
        for unit, word in (("nodes", "node"), ("gpus", "GPU"), ("cpus", "CPU")):
            ranges = [getattr(limit, unit) for limit in queue.limits]
            if not ranges or None in ranges:
                continue
            if all(len(ends) == 2 for ends in ranges):
                most = max(ends[1] for ends in ranges)
                job, number = self.beyond(unit, most, chosen)
                nodes = [limit.nodes for limit in queue.limits]
                bound = max(ends[-1] if ends else 10**9 for ends in nodes)
                if unit != "nodes" and job["resources"]["nodes"] > bound:
                    continue  # the limit on nodes is told first
                words = (f"{number:,} {word}s", f"more than {name}'s {most:,} {word}")
                rule = f"{name}.{unit} most"
                yield Broken(rule, job, "resources.nodes", words, *self.about(limit, queue))
            least = min(ends[0] for ends in ranges)
            if least > 1 or (unit == "gpus" and least == 1):
                gpus = 0 if unit == "gpus" else self.basis(chosen)["gpus_per_node"]
                size = {"nodes": max(1, least - 1), "gpus_per_node": gpus}
                job = self.job(self.basis(chosen) | size, queue=chosen)
                words = (f"less than {name}'s least of {least} {word}",)
                rule = f"{name}.{unit} least"
                yield Broken(rule, job, "resources.nodes", words, *self.about(limit, queue))

    def within(self, limit: Limit, queue: str | None) -> dict[str, Any]:
        """The resources of a job that a limit is for."""
        node = shape(self.profile, queue, self.gpu_type)
        most = node.gpus or 1
        starts = {1, *(ends[0] for ends in limit[:3] if ends)}
        each = node.cpus_per_gpu or 1
        counts = sorted({-(-start // part) for start in starts for part in (1, most, most * each)})
        for nodes in counts:
            for gpus in (most, 1, 0, *(start for start in starts if 1 < start < most)):
                cpus = gpus * each if gpus else 1
                totals = {"nodes": nodes, "gpus": nodes * gpus, "cpus": nodes * cpus}
                if nodes and all(
                    ends is None or ends[0] <= totals[unit] <= (*ends, 10**9)[1]
                    for unit, ends in zip(("nodes", "gpus", "cpus"), limit[:3], strict=True)
                ):
                    size = {"nodes": nodes, "gpus_per_node": gpus}
                    if not gpus:
                        size["cpus_per_node"] = cpus
                    return self.basis(queue) | size
        raise AssertionError(f"{self.site}: no job is within {limit}")

    def beyond(self, unit: str, most: int, queue: str | None) -> tuple[dict[str, Any], int]:
        """A job that has more of a unit than a queue takes, and how much."""
        node = shape(self.profile, queue, self.gpu_type)
        gpus = node.gpus or 4
        size: dict[str, Any] = {"gpus_per_node": gpus}
        each = {"nodes": 1, "gpus": gpus, "cpus": gpus * (node.cpus_per_gpu or 0)}[unit]
        if not each:
            size, each = {"gpus_per_node": 0, "cpus_per_node": 2}, 2
        nodes = most // each + 1
        return self.job(self.basis(queue) | size | {"nodes": nodes}, queue=queue), nodes * each

    # --- nodes -------------------------------------------------------------------------

    def of_node(self, own: Node, queue: str | None, gpu_type: str | None) -> Iterator[Broken]:
        """The rules that `own` says, in the whole shape that they are part of."""
        if (queue is None and gpu_type is None) and own == Node():
            return
        found = (self.profile.queues or {}).get(queue or "")
        node = shape(self.profile, queue, gpu_type)
        basis = self.basis(queue, gpu_type) | ({"gpu_type": gpu_type} if gpu_type else {})
        at = f"{queue or gpu_type or 'node'}."
        gpus = basis["gpus_per_node"]

        def broken(rule: str, key: str, words: tuple[str, ...], **resources: Any) -> Broken:
            top = {"queue": queue} if queue else {}
            job = self.job(basis | resources, **top)
            path = f"resources.{key}" if key else "resources"
            return Broken(at + rule, job, path, words, *self.about(own, found))

        if own.gpus is not None:
            words = (f"{own.gpus + 1} GPUs", f"more than the {own.gpus} of a node")
            yield broken("gpus", "gpus_per_node", words, gpus_per_node=own.gpus + 1)
        if own.full is not None and node.gpus:
            words = (limits.count(node.gpus - 1, "GPU"), f"has all {node.gpus} of each")
            size = {"gpus_per_node": node.gpus - 1, "nodes": 2}
            yield broken("full", "gpus_per_node", words, **size)
        if own.job_gpus is not None:
            nodes = own.job_gpus // gpus + 1
            words = (f"{nodes * gpus} GPUs in all", f"more than the {own.job_gpus} that a job")
            yield broken("job_gpus", "gpus_per_node", words, nodes=nodes)
        if own.cpus_rule is not None:
            cpus = (node.cpus_per_gpu or 1) + 1
            asked = f"{cpus * gpus} CPUs for {limits.count(gpus, 'GPU')}"
            limit = {
                "implied": "the CPUs follow from the nodes or GPUs here",
                "exact": f"there are {node.cpus_per_gpu} with each GPU, no other number",
                "most": f"more than {node.cpus_per_gpu} with each GPU",
            }[own.cpus_rule]
            yield broken("cpus_rule", "cpus_per_gpu", (asked, limit), cpus_per_gpu=cpus)
        if own.cpus is not None and node.cpus_rule != "implied":
            words = (f"{own.cpus + 1} CPUs", f"more than the {own.cpus} of a node")
            size = {"gpus_per_node": 0, "cpus_per_node": own.cpus + 1, "cpus_per_gpu": None}
            yield broken("cpus", "cpus_per_node", words, **size)
        if own.memory is not None and node.memory_rule != "forbidden":
            wrong = f"{own.memory // 1024**2 + 1}GB"
            number, unit = split_memory(own.memory)
            words = (f"{wrong}, more than the {number}{unit}B of a node",)
            yield broken("memory", "memory_per_node", words, memory_per_node=wrong)
        if own.disk is not None:
            wrong, most = f"{own.disk // 1024**2 + 1}GB", f"{own.disk // 1024**2}GB"
            yield broken("disk", "disk_per_node", (wrong, most), disk_per_node=wrong)
        if own.memory_rule == "forbidden":
            words = ("8GB", "the memory follows from the nodes or GPUs here")
            yield broken("memory_rule", "memory_per_node", words, memory_per_node="8GB")
        elif own.memory_rule == "most":
            each = (node.memory_per_gpu or 0) // 1024**2
            words = (f"{each + 1}GB", f"more than {each}GB for each GPU")
            size = {"gpus_per_node": 1, "memory_per_node": f"{each + 1}GB"}
            yield broken("memory_rule", "memory_per_node", words, **size)

    # --- the whole site ----------------------------------------------------------------

    def of_the_site(self) -> Iterator[Broken]:
        profile = self.profile
        queues = (profile.queues or {}).items()
        basis = self.basis(next((name for name, queue in queues if queue.choose), None))
        cited = {key: profile.find_source(to) for key, to in (profile.cited or {}).items()}
        if profile.walltime_required:
            job = self.job(basis | {"walltime": None})
            words = ("every job must say its walltime",)
            source = cited["walltime_required"]
            assert source is not None
            about = (source.address, source.dated or "")
            yield Broken("walltime_required", job, "resources", words, *about)
        if (account := profile.account) != Account():
            about = self.about(account)
            if account.required:
                job = self.job(basis, account=None)
                words = ("every job here needs an account",)
                yield Broken("account.required", job, "", words, *about)
            if account.pattern:
                job = self.job(basis, account="no.such")
                words = ("'no.such' is not an account of this site", account.meaning or "?")
                yield Broken("account.pattern", job, "account", words, *about)
        if (listed := profile.filesystems) is not None:
            about = self.about(listed)
            job = self.job(basis, filesystems=None)
            words = ("must name the file systems" if listed.required else "must be listed",)
            yield Broken("filesystems", job, "", words, *about)
            if listed.known:
                job = self.job(basis, filesystems=["nosuch"])
                words = ("'nosuch' is not a file system of this site", ", ".join(listed.known))
                yield Broken("filesystems.known", job, "filesystems[0]", words, *about)
        if types := profile.gpu_types:
            about = self.about(next(iter(types.values())))
            job = self.job(basis | {"gpu_type": "k80"})
            words = ("'k80' is not a GPU of this site", ", ".join(types))
            yield Broken("gpu_types", job, "resources.gpu_type", words, *about)
            if profile.gpu_type_required and profile.gpu_type is None:
                job = self.job(basis | {"gpu_type": None})
                words = ("every GPU job must name the type", ", ".join(types))
                yield Broken("gpu_type_required", job, "resources", words, *about)


def date_words(dated: str) -> str:
    return dated if dated == "undated" else f"as of {dated}"


def clock(seconds: int) -> str:
    """As messages have it: 5h, 4m, 5h1m."""
    hours, minutes = divmod(seconds // 60, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")


def told(job: dict[str, Any], site: str) -> list[str]:
    """All that is said of a job, errors and warnings, without the place in the file."""
    loaded = load(yaml.safe_dump(job, sort_keys=False))
    try:
        lines = list(resolve(loaded, site=site, today=TODAY).notes)
    except SpecError as error:
        lines = [str(problem) for problem in error.problems]
    return [re.sub(r"^(warning: )?job.yaml:\d+:\d+: ", "", line) for line in lines]


@cache
def list_rules() -> list[tuple[str, Broken]]:
    return [(site, broken) for site in SITES for broken in Walk(site).rules()]


@pytest.mark.slow
def test_a_broken_rule_is_told_with_key_value_limit_and_source(subtests: pytest.Subtests) -> None:
    for site, broken in list_rules():
        begin = f"{broken.path}: " if broken.path else ""
        words = (*broken.words, f"({broken.source}, {date_words(broken.as_of)})")
        with subtests.test(f"{site}: {broken.rule}"):
            lines = told(broken.job, site)
            hits = [line for line in lines if all(word in line for word in words)]
            assert [line.startswith(begin) for line in hits] == [True], (broken, lines)


def test_the_walk_finds_the_rules_of_every_site() -> None:
    """So that a profile that the walk does not understand is seen."""
    without = set(SITES) - {site for site, _ in list_rules()}
    assert without == {"local", "slurm-generic", "pbs-generic"}
    assert len(list_rules()) > 200
