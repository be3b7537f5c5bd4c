"""What the site of a script refuses: its queues' limits, CPUs and memory that go with each GPU.

The rules are those that `jobgen render` checks; the directives are read as `jobgen import` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen import choose, document, header, site
from jobgen.bind import bind
from jobgen.errors import SpecError
from jobgen.importer.directives import settle
from jobgen.importer.draft import Draft
from jobgen.lint.rule import SBATCH, Fault, Rule
from jobgen.loaded import LoadedSpec
from jobgen.nodes import groups_of
from jobgen.profile import SiteProfile
from jobgen.script import Directive, Script
from jobgen.spec import JobSpec
from jobgen.units import parse_memory

# What queues are called everywhere: no site is known by such a name, or one made of several.
_COMMON = re.compile(
    r"(gpus?|cpu|dev|debug|scaling|normal|regular|batch|main|shared|prod|large|small|medium|long"
    r"|short|test|low|high|highmem|preempt(able)?|premium|overrun|interactive|develop|express"
    r"|workq?|queue|xfer|copyq|capacity|demand|extended|standard|default|all|compute|[avg]?h?\d+"
    r"|mi\d+x?)"
)
# Where a rule's key of a spec stands in a script.
_OPTIONS = {
    "cpus": ("--cpus-per-task", "--cpus-per-gpu", "ncpus", "select", "nodes"),
    "memory": ("--mem", "mem", "select", "nodes"),
    "gpus": ("--gpus-per-node", "--gres", "--gpus", "ngpus", "select", "nodes"),
    "walltime": ("--time", "walltime"),
    "nodes": ("--nodes", "select", "nodes"),
    "queue": ("--partition", "--qos", "-q"),
}


def recognised(script: Script) -> str | None:
    """The site that a script is for, by a queue that no other has or by its file systems.

    None for jobgen's own scripts too: their site was asked when they were rendered.
    """
    if header.read(script.text) is not None:
        return None
    queues = {item.value for item in script.directives if item.option in _OPTIONS["queue"]}
    queues = {name for name in queues if not all(map(_COMMON.fullmatch, re.split("[-_]", name)))}
    found = []
    for name in site.names():
        try:
            profile = site.load(name)
        except SpecError:  # somebody's own, and not finished
            continue
        if profile.scheduler == script.scheduler and (
            queues & set(profile.queues or {}) or _lists(script, profile)
        ):
            found.append(name)
    return found[0] if len(found) == 1 else None


def _lists(script: Script, profile: SiteProfile) -> bool:
    """Whether the script lists file systems, as only this site wants and has them."""
    listed = profile.filesystems
    said = script.resource(listed.resource) if listed else None
    if said is None or listed is None:
        return False
    names = set(said.split(listed.separator))
    return bool(names & set(listed.known or ()) - {"home"}) or listed.known is None


def faults(script: Script, name: str | None) -> Iterator[Fault]:
    """What the site called `name` refuses of a script; nothing where it is None.

    Raises SpecError where there is no such site.
    """
    profile = site.load(name) if name else None
    if profile is None or profile.scheduler != script.scheduler:
        return
    try:
        loaded = _spec(script, profile)
    except SpecError:  # what stands there is no number or name; other rules tell
        return
    chosen = choose.choose(
        loaded,
        profile,
        lambda node: groups_of(loaded, profile, node),
        limits=True,
        today="2000-01-01",  # no rule is too old to be told, as each says of when it is
    )
    for problem in chosen.problems:
        place = _place(script, problem.path)
        if place:
            yield place.line, place.column, f"{name}: {problem.message}"


def _spec(script: Script, profile: SiteProfile) -> LoadedSpec:
    """What the directives ask for, as a spec with a program that does not matter."""
    draft = Draft()
    settle(script, draft, nodes=script.nodes or _nodes(script, profile))
    if profile.slurm.queue_option == "qos":
        draft.put("queue", script.value("--qos"))
    for key in ("site", "tasks", "name"):
        draft.values.pop(key, None)
    draft.put("name", "a")
    draft.put("run.module", "a")
    node = document.parse(draft.yaml("a"), file=script.path)
    spec, positions = bind(node, JobSpec)
    return LoadedSpec(spec, script.path, "", positions)


def _nodes(script: Script, profile: SiteProfile) -> int | None:
    """How many nodes the totals of a job fill: as many as its GPUs, CPUs or memory need."""
    queue = (profile.queues or {}).get(script.value("-q") or "")
    counts = []
    for key, total in (("gpus", "ngpus"), ("cpus", "ncpus"), ("memory", "mem")):
        of_queue: int | None = getattr(queue.node, key) if queue else None
        each: int | None = of_queue or getattr(profile.node, key)
        text = script.resource(total) or ""
        try:
            asked = parse_memory(text) if key == "memory" else int(text)
        except ValueError:
            continue
        counts.append(-(-asked // each) if each else 1)
    return max(1, min(1000, max(counts))) if counts else None


def _place(script: Script, path: str) -> Directive | None:
    """The directive that a rule is about; the first where it is about one that is missing."""
    read = [item for item in script.directives if item.read]
    for key, options in _OPTIONS.items():
        if path.removeprefix("resources.").startswith(key):
            for option in options:
                for item in read:
                    words = re.split("[=,: ]", item.value) if item.option == "-l" else ()
                    if item.option == option or option in words:
                        return item
    return read[0] if read else None


RULE = Rule(
    "site-limit",
    "What the site refuses",
    "The queue or node cannot give what is asked for: the scheduler refuses the job, or lets it "
    "wait for ever, or charges for the GPUs that its CPUs or memory keep from others.",
    "ask for what the site has; 'jobgen sites show NAME' prints it with its sources",
    SBATCH,
    lambda script: faults(script, recognised(script)),
)
