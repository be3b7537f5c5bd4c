"""What the site of a script refuses: its queues' limits, CPUs and memory that go with each GPU.

The rules are those that `jobgen render` checks; the directives are read as `jobgen import` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.directives import settle
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.lint.rule import SBATCH, Fault, rule
from jobgen.batchscript.reader import DirectiveOption, Script
from jobgen.errors import SpecError
from jobgen.plan import site_defaults
from jobgen.plan.decision import Context
from jobgen.rendering import header
from jobgen.sites import search
from jobgen.sites.profile import SiteProfile
from jobgen.spec.load import LoadedSpec

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


def recognise_site(script: Script) -> tuple[str, tuple[str, ...]] | None:
    """The site that a script is for, and the two or more signs of it that the script has.

    None for jobgen's own scripts too: their site was asked when they were rendered.
    """
    if header.read(script.text) is not None:
        return None
    sites = []
    for name, loaded in search.list_profiles():
        if loaded and loaded.profile.scheduler == script.scheduler:
            signs = tuple(_list_signs(script, name, loaded.profile))
            if len(signs) > 1:
                sites.append((name, signs))
    sites.sort(key=lambda item: -len(item[1]))
    if len(sites) > 1 and len(sites[0][1]) == len(sites[1][1]):
        return None
    return sites[0] if sites else None


def _list_signs(script: Script, name: str, profile: SiteProfile) -> Iterator[str]:
    """What in a script speaks for one site: its queue, account, GPUs, or name."""
    queues = {item.value for item in script.directives if item.option in _OPTIONS["queue"]}
    queues = {queue for queue in queues if not all(map(_COMMON.fullmatch, re.split("[-_]", queue)))}
    if known := sorted(queues & set(profile.queues or {})):
        yield f"queue {known[0]}"
    account = script.value("--account", "-A", "-P")
    about = profile.account
    if account and about and about.pattern and about.takes(account):
        yield f"account {account}"
    asked = script.value("--gres", "--gpus-per-node", "--gpus") or ""
    for kind in sorted(set(re.findall(r"[A-Za-z][\w-]*", asked)) & set(profile.gpu_types or {}))[
        :1
    ]:
        yield f"GPU type {kind}"
    body = "\n".join(line for line in script.lines if not re.match(r"\s*#", line))
    for part in name.split("-"):
        if len(part) > 3 and re.search(rf"\b{part}\b", body, re.IGNORECASE):
            yield f"the word {part}"


def find_site_faults(script: Script, name: str | None) -> Iterator[Fault]:
    """What the site called `name` refuses of a script; nothing if it is None.

    Raises SpecError if there is no such site.
    """
    profile = search.load(name) if name else None
    if profile is None or profile.scheduler != script.scheduler:
        return
    try:
        loaded = _make_spec(script, profile)
    except SpecError:  # what stands there is no number or name; other rules tell
        return
    # No rule is too old to be told, as each says of when it is.
    decision = site_defaults.decide(Context(loaded, profile, today="2000-01-01"))
    # What a profile says of nodes is said of those with GPUs; others have CPUs of their own.
    on_cpus = not loaded.spec.resources.gpus_per_node
    seen = set()
    for problem in decision.problems:
        if on_cpus and problem.path.startswith(("resources.cpus", "resources.gpus")):
            continue
        place = _find_place(script, problem.path)
        if place and (place, problem.path) not in seen:  # one finding of one cause
            seen.add((place, problem.path))
            yield Fault(place.line, place.column, f"{name}: {problem.message}")


def _make_spec(script: Script, profile: SiteProfile) -> LoadedSpec:
    """What the directives ask for, as a spec with a program that does not matter."""
    draft = Draft()
    settle(script, draft)
    if profile.slurm.queue_option == "qos":
        draft.put("queue", script.value("--qos"))
    for key in ("site", "name"):
        draft.values.pop(key, None)
    queue = (profile.queues or {}).get(draft.values.get("queue", ""))
    if queue is not None and queue.chunk == "gpu":
        draft.put("resources.gpus_per_node", draft.values.pop("resources.nodes", 1))
    draft.put("name", "a")
    draft.put("run.module", "a")
    return draft.load()


def _find_place(script: Script, path: str) -> DirectiveOption | None:
    """The directive that a rule is about; the first where it is about one that is missing."""
    read = [item for item in script.directives if item.read]
    key = path.removeprefix("resources.")
    options = next((some for name, some in _OPTIONS.items() if key.startswith(name)), ())
    for item in read:
        words = re.split("[=,: ]", item.value) if item.option == "-l" else ()
        if {item.option, *words} & set(options):
            return item
    return read[0] if read else None


@rule("site-limit", "What the site refuses", SBATCH)
def find_recognised_faults(script: Script) -> Iterator[Fault]:
    """The queue or node cannot give what is asked for: the scheduler refuses the job, or lets it
    wait forever, or charges for the GPUs that its CPUs or memory keep from others.

    Fix: ask for what the site has; 'jobgen sites show NAME' prints it with its sources
    """
    site = recognise_site(script)
    if site is None:
        return
    name, signs = site
    for fault in find_site_faults(script, name):
        how = f"{name}, known by {' and '.join(signs)}"
        yield fault._replace(message=fault.message.replace(f"{name}:", f"{how}:", 1))
