"""Check whether this machine is ready to submit jobs: each check has a verdict and a remedy.

What is asked has a few seconds in all: what does not answer by then is unknown.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress

from jobgen.capabilities import list_capabilities
from jobgen.errors import JobgenError
from jobgen.machine.checks import (
    Check,
    Verdict,
    check_folder,
    check_paths,
    check_torch,
    compare_clocks,
)
from jobgen.machine.cluster import Deadline, detect_scheduler, get_host_name, recognise
from jobgen.output import format_count, offer_line
from jobgen.plan.decision import Context
from jobgen.plan.limits import LATER
from jobgen.plan.plan import Plan
from jobgen.plan.site_defaults import decide
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import ClusterFacts
from jobgen.sites.profile import SiteProfile
from jobgen.spec.load import LoadedSpec

SECONDS = 4.0
_ASK = "try again; if it persists, ask your administrators"


def check_machine(
    plan: Plan | None, site: str | None, loaded: LoadedSpec | None = None
) -> list[Check]:
    """Look at scheduler, site, folder and Python; of `plan` also at queue, account and paths.

    `site` is the one that the plan is for, where it names one. Where no profile has the cluster's
    limits, the spec is compared with what the scheduler reports.
    """
    clock = Deadline(SECONDS)
    cluster = plan is None or plan.can.batch
    parts: dict[str, Callable[[], Iterable[Check]]] = {
        "torch": lambda: check_torch(plan, timeout=clock.left),
        "shared folder": lambda: check_folder(".", several_machines=_needs_sharing(plan)),
    }
    if cluster:
        parts = {"scheduler": lambda: _check_scheduler(plan, site, clock), **parts}
    if plan and loaded and plan.can.batch and plan.site == SiteProfile(plan.scheduler):
        parts["limits"] = lambda: _check_limits(loaded, plan, clock)
    if plan is not None:
        parts["paths"] = lambda: check_paths(plan)
    network = plan.defaults.network if plan else ""
    warning = [Check("network", "warn", network)] if network else []
    return [*_run_together(parts, clock.end), *warning]


def _run_together(parts: dict[str, Callable[[], Iterable[Check]]], end: float) -> Iterator[Check]:
    """Run all at once; leave behind one that hangs, as a file system may, when the time is over."""
    checks: dict[str, list[Check]] = {name: [] for name in parts}
    errors: list[BaseException] = []

    def look(name: str) -> None:
        try:
            for check in parts[name]():
                checks[name].append(check)
        except BaseException as error:
            errors.append(error)  # it is raised where all are waited for

    threads = [threading.Thread(target=look, args=(name,), daemon=True) for name in parts]
    for thread in threads:
        thread.start()
    for name, thread in zip(parts, threads, strict=True):
        thread.join(max(0.0, end + 0.5 - time.monotonic()))
        yield from checks[name]
        if errors:
            raise errors[0]
        if thread.is_alive():
            yield Check(name, "unknown", f"no answer within {SECONDS:g} s", _ASK)


def _needs_sharing(plan: Plan | None) -> bool:
    if plan is not None:
        return plan.can.batch
    return any(shutil.which(can.commands[0]) for can in list_capabilities() if can.batch)


# --- scheduler, site, queue, account ---------------------------------------------------


def _check_scheduler(plan: Plan | None, site: str | None, clock: Deadline) -> Iterator[Check]:
    facts = yield from _ask_cluster(plan.scheduler if plan else None, clock)
    yield _check_site(site, facts.name if facts else None, clock)
    if facts is None:
        return
    if plan is None:
        yield from _describe_queues(facts.queues)
    else:
        yield from _check_queue(plan, facts)
        yield _check_account(plan, facts, clock)


def _ask_cluster(
    wanted: str | None, clock: Deadline
) -> Generator[Check, None, ClusterFacts | None]:
    """Yield the checks of the scheduler; return the facts about its cluster."""
    here = detect_scheduler(timeout=clock.left, wanted=wanted)
    if here.name is None:
        verdict: Verdict = "fail" if wanted or here.silent else "warn"
        message = ": ".join(filter(None, ("no scheduler answers here", "; ".join(here.silent))))
        remedy = "go to a login node of the cluster, or load its module"
        yield Check("scheduler", verdict, message, remedy)
        return None
    scheduler = SCHEDULERS[here.name]
    title = f"{scheduler.can.title} {here.version}"
    if wanted not in (None, here.name):
        remedy = f"give --scheduler {here.name}, or another --site"
        yield Check("scheduler", "fail", f"{title} is here, the job is for {wanted}", remedy)
        return None
    missing = [name for name in scheduler.can.commands if not shutil.which(name)]
    if missing:
        message = f"{title}, without {', '.join(missing)}"
        yield Check("scheduler", "fail", message, "check your PATH")
    try:
        facts = scheduler.cluster.ask_facts(clock.ask)
    except JobgenError as error:
        message = f"{title} does not answer: {' '.join(str(error).split())}"
        yield Check("scheduler", "fail", message, _ASK)
        return None
    yield from _describe_cluster(title, facts)
    return facts


def _describe_cluster(title: str, facts: ClusterFacts) -> Iterator[Check]:
    count, name = format_count(len(facts.queues), "queue"), facts.name
    of = f" of the cluster {name}" if name else ""
    yield Check("scheduler", "ok", f"{title}, {count}{of}")
    yield from (Check(what, "ok", message) for what, message in facts.notes)
    if facts.clock:
        there = time.mktime(time.strptime(facts.clock, "%Y-%m-%dT%H:%M:%S"))
        yield compare_clocks("scheduler's", there - time.time())


def _check_site(wanted: str | None, cluster: str | None, clock: Deadline) -> Check:
    host = get_host_name(timeout=clock.left)
    known = recognise(host=host, cluster=cluster, environment=os.environ)
    if known.unreadable:
        name = known.unreadable[0]
        remedy = f"{offer_line('jobgen', 'sites', 'show', name)} says why"
        return Check("site", "warn", f"the profile {name} cannot be read", remedy)
    if not known.sites:
        message = f"no site profile matches this machine, {host}"
        capture = "`jobgen sites capture --name NAME` makes one"
        remedy = f"`jobgen sites` lists the known sites; {capture}"
        return Check("site", "unknown", message, "" if wanted else remedy)
    first, *others = [site.name for site in known.sites]
    message = f"{first}, as {known.sites[0].how}"
    if wanted not in (None, first, *others) and not str(wanted).endswith("-generic"):
        return Check("site", "warn", f"the job is for {wanted}, this is {message}", "give --site")
    also = f"; so does {', '.join(others)}" if others else ""
    return Check("site", "ok", message + also)


def _describe_queues(queues: dict[str, bool]) -> Iterator[Check]:
    if default := _find_default(queues):
        known = ", ".join(queues)
        yield Check("queue", "ok", f"{default} is the default; the queues are {known}")


def _find_default(queues: dict[str, bool]) -> str:
    return next((name for name, default in queues.items() if default), "")


def _check_queue(plan: Plan, facts: ClusterFacts) -> Iterator[Check]:
    name, queues = plan.requests.queue, facts.queues
    remedy = f"write queue: one of {', '.join(queues)}"
    used = name or _find_default(queues)
    if used in facts.closed:
        yield Check("queue", "warn", f"{used} {facts.closed[used]}", remedy)
    elif name is None:
        message = "the job names no queue, and there is no default"
        yield from [*_describe_queues(queues)] or [Check("queue", "warn", message, remedy)]
    elif plan.site.slurm.queue_option == "qos":
        yield Check("queue", "unknown", f"{name} is a QoS here, not a partition")
    elif name not in queues:
        yield Check("queue", "fail", f"{name} does not exist", remedy)
    else:
        yield Check("queue", "ok", f"{name} exists")


def _check_limits(loaded: LoadedSpec, plan: Plan, clock: Deadline) -> Iterator[Check]:
    """Yield what the job asks for that the cluster does not have, as its scheduler reports."""
    with suppress(JobgenError):  # another check says that it does not answer
        site = SCHEDULERS[plan.scheduler].cluster.capture("", clock.ask)
        for problem in decide(Context(loaded, site)).problems:
            if not problem.path.startswith("queue"):
                message = problem.message.replace("captured: ", "")
                yield Check(problem.path, "warn", message, problem.hint)


def _check_account(plan: Plan, facts: ClusterFacts, clock: Deadline) -> Check:
    account, given = plan.requests.account, plan.requests.account or "none given"
    if any(LATER in note for note in plan.notes):
        remedy = "write account: NAME, or submit it with -A NAME"
        return Check("account", "fail", "none given, and every job here needs one", remedy)
    if not plan.can.lists_accounts:
        why = f"{plan.can.title} does not list accounts"
        return Check("account", "unknown", f"{given}; {why}")
    try:
        accounts = SCHEDULERS[plan.scheduler].cluster.list_accounts(clock.ask)
    except JobgenError as error:
        return Check("account", "unknown", f"{given}; {' '.join(str(error).split())}")
    known = f"your accounts are {', '.join(accounts)}"
    if account is None:
        return Check("account", "ok", f"not given, so the job charges your default; {known}")
    if account in accounts:
        return Check("account", "ok", f"you can charge {account}")
    verdict: Verdict = "fail" if facts.enforces_accounts else "warn"
    return Check("account", verdict, f"you cannot charge {account}; {known}")
