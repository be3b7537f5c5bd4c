"""Is this machine ready to submit from: the checks, each with a verdict and a remedy.

What is asked has a few seconds in all: what does not answer by then is unknown.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from jobgen.capabilities import get_capabilities
from jobgen.errors import JobgenError
from jobgen.machine import cluster as live
from jobgen.machine.checks import Check, check_folder, check_paths, check_torch, compare_clocks
from jobgen.machine.cluster import Deadline, get_host_name, recognise
from jobgen.plan.plan import Plan

SECONDS = 4.0
_ASK = "ask again, or your administrators, if it stays so"


def check_machine(plan: Plan | None, site: str | None) -> list[Check]:
    """Look at scheduler, site, folder and Python; of `plan` also at queue, account and paths.

    `site` is the one that the plan is for, where it names one.
    """
    end = time.monotonic() + SECONDS
    clock = Deadline(end)
    cluster = plan is None or plan.can.batch
    parts: dict[str, Callable[[], Iterable[Check]]] = {
        "torch": lambda: check_torch(plan, timeout=clock.left),
        "shared folder": lambda: check_folder(".", several_machines=_needs_sharing(plan)),
    }
    if cluster:
        parts = {"scheduler": lambda: _check_scheduler(plan, site, clock), **parts}
    if plan is not None:
        parts["paths"] = lambda: check_paths(plan)
    checks = list(_run_together(parts, end))
    if plan is not None and plan.defaults.network:
        checks.append(Check("network", "warn", plan.defaults.network))
    return checks


def _run_together(parts: dict[str, Callable[[], Iterable[Check]]], end: float) -> Iterator[Check]:
    """All at once. One that hangs, as a file system may, is left behind when the time is over."""
    workers = [_Worker(name, part) for name, part in parts.items()]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0.0, end + 0.5 - time.monotonic()))
        yield from worker.checks
        if worker.error is not None:
            raise worker.error
        if worker.is_alive():
            yield Check(worker.name, "unknown", f"no answer within {SECONDS:g} s", _ASK)


class _Worker(threading.Thread):
    """One part of the checks, with its checks so far."""

    def __init__(self, name: str, part: Callable[[], Iterable[Check]]) -> None:
        super().__init__(name=name, daemon=True)
        self.part = part
        self.checks: list[Check] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Look; the thread that waits raises what is raised here."""
        try:
            for check in self.part():
                self.checks.append(check)
        except BaseException as error:
            self.error = error


def _needs_sharing(plan: Plan | None) -> bool:
    """Whether compute nodes have to see the folder."""
    if plan is not None:
        return plan.can.batch
    return any(shutil.which(command) for command in ("sbatch", "qsub"))


# --- scheduler, site, queue, account ---------------------------------------------------


def _check_scheduler(plan: Plan | None, site: str | None, clock: Deadline) -> Iterator[Check]:
    here = live.detect_scheduler(timeout=clock.left)
    silent = "; ".join(here.silent)
    wanted = plan.scheduler if plan else None
    cluster = None
    queues: dict[str, bool] | None = None  # by name: whether it is the default
    config: dict[str, str] = {}
    if here.name is None:
        remedy = "go to a login node of the cluster, or load its module"
        message = f"no scheduler answers here{f': {silent}' if silent else ''}"
        yield Check("scheduler", "fail" if wanted or silent else "warn", message, remedy)
    elif wanted not in (None, here.name):
        message = (
            f"{get_capabilities(here.name).title} {here.version} is here, the job is for {wanted}"
        )
        yield Check(
            "scheduler", "fail", message, f"give --scheduler {here.name}, or another --site"
        )
    else:
        can = get_capabilities(here.name)
        missing = [name for name in can.commands if not shutil.which(name)]
        message = f"{can.title} {here.version}"
        if missing:
            yield Check(
                "scheduler", "fail", f"{message} lacks {', '.join(missing)}", "see your PATH"
            )
        try:
            cluster, queues, config = _ask_scheduler(here.name, clock)
            count = f"{len(queues)} queue{'' if len(queues) == 1 else 's'}"
            yield Check(
                "scheduler", "ok", f"{message}, {count} at {cluster or 'a nameless cluster'}"
            )
        except JobgenError as error:
            words = " ".join(str(error).split())
            yield Check("scheduler", "fail", f"{message} does not answer: {words}", _ASK)
        if "job history" in config:
            kept = config["job history"] == "True"
            words = "PBS keeps ended jobs" if kept else "PBS forgets a job at its end"
            unset = (
                "" if kept else " (job_history_enable is unset); the run folder tells how it was"
            )
            yield Check("job history", "ok", words + unset)
        if "asked at" in config:
            there = time.mktime(time.strptime(config["asked at"], "%Y-%m-%dT%H:%M:%S"))
            yield compare_clocks("the scheduler's", there - time.time())
    yield _check_site(site, cluster, clock)
    if queues is not None and (plan is None or here.name == wanted):
        yield from _check_queue(plan, queues)
        if plan is not None:
            yield _check_account(plan, config, clock)


# The cluster's name, whether each of its queues is the default, and what is configured.
ClusterFacts = tuple[str | None, dict[str, bool], dict[str, str]]


def _ask_scheduler(name: str, clock: Deadline) -> ClusterFacts:
    return {"slurm": _ask_slurm, "pbs": _ask_pbs}[name](clock)


def _ask_pbs(clock: Deadline) -> ClusterFacts:
    server = live.ask_pbs("Server", timeout=clock.left)
    cluster, facts = next(iter(server.items()), (None, {}))
    default = facts.get("default_queue")
    names = live.ask_pbs("Queue", timeout=clock.left)
    history = str(facts.get("job_history_enable"))
    return cluster, {queue: queue == default for queue in names}, {"job history": history}


def _ask_slurm(clock: Deadline) -> ClusterFacts:
    partitions = live.ask_slurm("partitions", timeout=clock.left)
    queues = {queue: facts.get("Default") == "YES" for queue, facts in partitions.items()}
    try:
        config = live.ask_slurm_config(timeout=clock.left)
    except JobgenError:
        config = {}
    return config.get("ClusterName"), queues, config


def _check_site(wanted: str | None, cluster: str | None, clock: Deadline) -> Check:
    host = get_host_name(timeout=clock.left)
    known = recognise(host=host, cluster=cluster, environment=os.environ)
    if known.unreadable:
        message = f"the profile {known.unreadable[0]} cannot be read"
        return Check("site", "warn", message, f"jobgen sites show {known.unreadable[0]} says why")
    names = [site.name for site in known.sites]
    if not names:
        message = f"no profile knows this machine, {host}"
        remedy = (
            "`jobgen sites` lists those there are; `jobgen sites capture --name NAME` makes one"
        )
        return Check("site", "unknown", message, "" if wanted else remedy)
    first = known.sites[0]
    message = f"{first.name}, as {first.how}"
    if wanted is not None and wanted not in names and not wanted.endswith("-generic"):
        return Check("site", "warn", f"the job is for {wanted}, this is {message}", "give --site")
    also = f"; so does {', '.join(names[1:])}" if names[1:] else ""
    return Check("site", "ok", message + also)


def _check_queue(plan: Plan | None, queues: dict[str, bool]) -> Iterator[Check]:
    default = next((name for name, chosen in queues.items() if chosen), None)
    known = ", ".join(queues)
    name = plan.requests.queue if plan else None
    if name and plan and plan.site.slurm.queue_option == "qos":
        yield Check("queue", "unknown", f"{name} is a QoS here, and no partition")
    elif name is not None and name not in queues:
        yield Check("queue", "fail", f"{name} does not exist", f"write queue: one of {known}")
    elif name is not None:
        yield Check("queue", "ok", f"{name} is there")
    elif default is not None:
        yield Check("queue", "ok", f"{default}, where a job names none; there are {known}")
    elif plan is not None:
        remedy = f"write queue: one of {known}"
        yield Check("queue", "warn", "the job names none, and the scheduler has no default", remedy)


def _check_account(plan: Plan, config: dict[str, str], clock: Deadline) -> Check:
    account = plan.requests.account
    if not plan.can.lists_accounts:
        message = f"{account or 'none given'}; {plan.can.title} does not tell which there are"
        return Check("account", "unknown", message)
    try:
        accounts = live.list_own_accounts(timeout=clock.left)
    except JobgenError as error:
        message = f"{account or 'none given'}; {' '.join(str(error).split())}"
        return Check("account", "unknown", message)
    known = f"yours are {', '.join(accounts)}"
    if account is None:
        return Check("account", "ok", f"none given, so your default; {known}")
    if account in accounts:
        return Check("account", "ok", f"{account} is yours")
    enforced = "associations" in config.get("AccountingStorageEnforce", "")
    return Check("account", "fail" if enforced else "warn", f"{account} is not yours; {known}")
