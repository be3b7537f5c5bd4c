"""From a spec to its plan: every part decided in turn, all problems reported at once."""

from __future__ import annotations

import os
from collections.abc import Iterator

from jobgen.capabilities import get_capabilities
from jobgen.errors import SpecError
from jobgen.plan import array, environment, launch, nodes, program, requests, roles, walltime
from jobgen.plan.decision import Context, Decision, Parts, decide_parts
from jobgen.plan.left_out import leave_out, list_left_out
from jobgen.plan.plan import Plan, Provenance, SiteDefaults
from jobgen.sites import search
from jobgen.sites.profile import Node, SiteProfile
from jobgen.spec.load import LoadedSpec
from jobgen.spec.secrets import list_warnings
from jobgen.spec.tables import explain


def decide_defaults(context: Context, plan: Plan) -> Decision[SiteDefaults]:
    """Decide what the site adds; of a generic one nothing is known, so nothing is imported."""
    spec, site = context.spec, context.site
    if site == SiteProfile(site.scheduler) and (site.can.queue_list or len(spec.queue) < 2):
        defaults = SiteDefaults(",".join(spec.queue) or None, gpu_type=spec.resources.gpu_type)
        return Decision(defaults, notes=_advise_cpus(context))
    from jobgen.plan import site_defaults

    return site_defaults.decide(context)


def _advise_cpus(context: Context) -> Iterator[str]:
    resources = context.spec.resources
    asked = resources.cpus_per_gpu or resources.cpus_per_node or resources.exclusive
    if context.site.can.one_cpu and resources.gpus_per_node and not asked:
        from jobgen.plan import limits

        groups = list(nodes.group_nodes(context.loaded, context.site, Node()))
        yield from limits.advise(context, Node(), groups, about={})


# In this order: each part may ask the plan for those above it.
PARTS: Parts = {
    "defaults": decide_defaults,
    "nodes": nodes.decide,
    "array": array.decide,
    "roles": roles.decide,
    "program": program.decide,
    "launch": launch.decide,
    "environment": environment.decide,
    "walltime": walltime.decide,
    "requests": requests.decide,
}


def resolve(
    loaded: LoadedSpec,
    *,
    scheduler: str | None = None,
    site: str | None = None,
    limits: bool = True,
    today: str | None = None,
    task: int | None = None,
) -> Plan:
    """Decide `loaded` for a scheduler and site; those given here win over the spec's.

    With `task`, only that task of the spec's array, as a separate job; UsageError without one.
    `today` (YYYY-MM-DD) is the day by which a site's limits are old; without `limits` they are not
    checked. Raises SpecError with every conflict, and with the warnings.
    """
    profile, files = find_site(loaded, scheduler=scheduler, site=site)
    context = Context(loaded, profile, limits=limits, today=today, task=task)
    own = [file for file in files if os.path.dirname(file) != search.BUILT_IN]
    given, spec = None if site == loaded.spec.site else site, loaded.spec
    provenance = Provenance(
        source=os.path.basename(loaded.file),
        digest=loaded.digest,
        site_given=given,
        overrides=loaded.overrides,
        limits=limits,
        states_scheduler=bool(given or spec.site or spec.scheduler == profile.scheduler),
        defaults=(*loaded.defaults, *own),
    )
    plan = Plan(profile, provenance, left_out=tuple(dict.fromkeys(list_left_out(context))))
    context = context._replace(loaded=leave_out(loaded, plan.left_out))
    decided = decide_parts(context, plan, PARTS)
    notes = [*dict.fromkeys((*list_warnings(loaded), *decided.notes))]  # some are of each role
    if provenance.defaults:
        notes.insert(0, f"read beside {provenance.source}: {', '.join(provenance.defaults)}")
    plan = decided.value._replace(notes=tuple(notes))
    if decided.problems:
        problems = dict.fromkeys(decided.problems)
        raise SpecError(problems, (one for one in notes if one.startswith("warning: ")), plan)
    return plan


def find_site(
    loaded: LoadedSpec, *, scheduler: str | None, site: str | None
) -> search.LoadedProfile:
    """Find the profile of the site that the command line names, else of the spec's."""
    name, option = site or loaded.spec.site, "--" if scheduler else ""
    scheduler = scheduler or (None if site else loaded.spec.scheduler)
    if name is None:
        if scheduler is None:
            raise SpecError([loaded.problem(*explain("no_scheduler", {}, "plan"))])
        name = get_capabilities(scheduler).generic_site
    try:
        chosen = search.find(name)
    except SpecError:
        if site or search.exists(name):
            raise
        problem = loaded.problem("site", f"unknown site {name!r}", search.suggest(name))
        raise SpecError([problem]) from None
    if scheduler not in (None, chosen.profile.scheduler):
        facts = {"name": name, "runs": chosen.profile.scheduler, "other": scheduler}
        fault = explain("other_scheduler", facts | {"option": option}, "plan")
        raise SpecError([loaded.problem(*fault)])
    return chosen
