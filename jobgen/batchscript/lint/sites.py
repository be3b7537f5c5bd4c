"""What a site refuses: its queues' limits, CPUs and memory that go with each GPU.

The rules are those that `jobgen render` checks; the directives are read as `jobgen import` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.directives import settle
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.lint.rule import SBATCH, Fault, mark, rule
from jobgen.batchscript.reader import DirectiveOption, Script
from jobgen.errors import Problem, SpecError
from jobgen.plan import site_defaults
from jobgen.plan.decision import Context
from jobgen.sites import search
from jobgen.sites.profile import SiteProfile
from jobgen.spec.load import LoadedSpec

# What a directive says that asks for a rule's key of a spec.
_ASKS = {
    "cpus": r"cpus|select=|nodes=",
    "memory": r"mem|select=|nodes=",
    "gpus": r"gpu|--gres|select=|nodes=",
    "walltime": r"time",
    "nodes": r"--nodes|select=|nodes=",
    "queue": r"--partition|--qos|-q",
}


@rule("site-limit", "What the site refuses", SBATCH)
def _find_site_faults(script: Script) -> Iterator[Fault]:
    """The queue or node cannot give what is asked for: the scheduler refuses the job, or lets it
    wait forever, or charges for the GPUs that its CPUs or memory keep from others.

    Fix: ask for what the site has; 'jobgen sites show NAME' prints it with its sources
    """
    profile = search.load(script.site) if script.site else None
    if profile is None or profile.scheduler != script.scheduler:
        return
    seen = set()
    for problem in _list_problems(script, profile):
        place = _find_place(script, problem.path)
        if place and (place, problem.path) not in seen:  # one finding of one cause
            seen.add((place, problem.path))
            yield mark(place, f"{script.site}: {problem.message}")


def _list_problems(script: Script, profile: SiteProfile) -> list[Problem]:
    try:
        loaded = _make_spec(script, profile)
    except SpecError:  # what stands there is no number or name; other rules tell
        return []
    # No rule is too old to be told, as each says of when it is.
    problems = site_defaults.decide(Context(loaded, profile, today="2000-01-01")).problems
    if loaded.spec.resources.gpus_per_node:
        return list(problems)
    # What a profile says of nodes is said of those with GPUs; others have CPUs of their own.
    of_gpus = ("resources.cpus", "resources.gpus")
    return [problem for problem in problems if not problem.path.startswith(of_gpus)]


def _make_spec(script: Script, profile: SiteProfile) -> LoadedSpec:
    """What the directives ask for, as a spec with a program that does not matter."""
    draft = Draft()
    settle(script, draft)
    if profile.slurm.queue_option == "qos":
        draft.put("queue", script.value("--qos"))
    draft.values.pop("site", None)
    queue = profile.find_queue(draft.values.get("queue"))
    if queue is not None and queue.chunk == "gpu":
        draft.put("resources.gpus_per_node", draft.values.pop("resources.nodes", 1))
    draft.put("name", "a")
    draft.put("run.module", "a")
    return draft.load()


def _find_place(script: Script, path: str) -> DirectiveOption | None:
    key = path.removeprefix("resources.")
    asks = next((form for name, form in _ASKS.items() if key.startswith(name)), "")
    items = [
        item for item in script.read_directives if re.search(asks, f"{item.option} {item.value}")
    ]
    return next(iter(items or script.read_directives), None)
