"""Is this machine ready to submit from: the checks, each with a verdict and a remedy.

What is asked has a few seconds in all: what does not answer by then is unknown.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from jobgen import live
from jobgen.errors import JobgenError
from jobgen.folder import apart, check_folder
from jobgen.live import Clock
from jobgen.plan import Plan
from jobgen.prerequisites import check_paths, check_torch
from jobgen.recognise import host_name, recognise
from jobgen.verdict import Check

SECONDS = 4.0
_TITLES = {"slurm": "Slurm", "pbs": "PBS"}
_COMMANDS = {"slurm": ("sbatch", "srun", "scontrol", "scancel"), "pbs": ("qsub", "qstat", "qdel")}
_ASK = "ask again, or your administrators, if it stays so"


def examine(plan: Plan | None, site: str | None) -> list[Check]:
    """Look at scheduler, site, folder and Python; of `plan` also at queue, account and paths.

    `site` is the one that the plan is for, where it names one.
    """
    end = time.monotonic() + SECONDS
    clock = Clock(end)
    cluster = not (plan is not None and plan.scheduler == "local")
    parts: dict[str, Callable[[], Iterable[Check]]] = {
        "torch": lambda: check_torch(plan, timeout=clock.left),
        "shared folder": lambda: check_folder(".", several_machines=_several(plan)),
    }
    if cluster:
        parts = {"scheduler": lambda: _scheduler(plan, site, clock), **parts}
    if plan is not None:
        parts["paths"] = lambda: check_paths(plan)
    return list(_together(parts, end))


def _together(parts: dict[str, Callable[[], Iterable[Check]]], end: float) -> Iterator[Check]:
    """All at once. One that hangs, as a file system may, is left behind when the time is over."""
    workers = [_Worker(name, part) for name, part in parts.items()]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0.0, end + 0.5 - time.monotonic()))
        yield from worker.found
        if worker.error is not None:
            raise worker.error
        if worker.is_alive():
            yield Check(worker.name, "unknown", f"no answer within {SECONDS:g} s", _ASK)


class _Worker(threading.Thread):
    """One part of the checks, with what it has found so far."""

    def __init__(self, name: str, part: Callable[[], Iterable[Check]]) -> None:
        super().__init__(name=name, daemon=True)
        self.part = part
        self.found: list[Check] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Look; what is raised is for the one who asked."""
        try:
            for check in self.part():
                self.found.append(check)
        except BaseException as error:
            self.error = error


def _several(plan: Plan | None) -> bool:
    """Whether compute nodes have to see the folder."""
    if plan is not None:
        return plan.scheduler != "local"
    return any(shutil.which(command) for command in ("sbatch", "qsub"))


# --- scheduler, site, queue, account ---------------------------------------------------


def _scheduler(plan: Plan | None, site: str | None, clock: Clock) -> Iterator[Check]:
    here = live.scheduler(timeout=clock.left)
    silent = "; ".join(here.silent)
    wanted = plan.scheduler if plan else None
    cluster = None
    queues: dict[str, bool] | None = None  # by name: whether it is the default
    config: dict[str, str] = {}
    if here.name is None:
        remedy = "go to a login node of the cluster, or load its module"
        said = f"no scheduler answers here{f': {silent}' if silent else ''}"
        yield Check("scheduler", "fail" if wanted or silent else "warn", said, remedy)
    elif wanted not in (None, here.name):
        said = f"{_TITLES[here.name]} {here.version} is here, the job is for {wanted}"
        yield Check("scheduler", "fail", said, f"give --scheduler {here.name}, or another --site")
    else:
        missing = [name for name in _COMMANDS[here.name] if not shutil.which(name)]
        said = f"{_TITLES[here.name]} {here.version}"
        if missing:
            yield Check("scheduler", "fail", f"{said} lacks {', '.join(missing)}", "see your PATH")
        try:
            cluster, queues, config = _asked(here.name, clock)
            count = f"{len(queues)} queue{'' if len(queues) == 1 else 's'}"
            yield Check("scheduler", "ok", f"{said}, {count} at {cluster or 'a nameless cluster'}")
        except JobgenError as error:
            words = " ".join(str(error).split())
            yield Check("scheduler", "fail", f"{said} does not answer: {words}", _ASK)
        if "asked at" in config:
            there = time.mktime(time.strptime(config["asked at"], "%Y-%m-%dT%H:%M:%S"))
            yield apart("the scheduler's", there - time.time())
    yield _site(site, cluster, clock)
    if queues is not None and (plan is None or here.name == wanted):
        yield from _queue(plan, queues)
        if plan is not None:
            yield _account(plan, config, clock)


def _asked(name: str, clock: Clock) -> tuple[str | None, dict[str, bool], dict[str, str]]:
    """The cluster's name, its queues, and Slurm's configuration where it may be seen."""
    if name == "pbs":
        server = live.pbs("Server", timeout=clock.left)
        cluster, facts = next(iter(server.items()), (None, {}))
        default = facts.get("default_queue")
        names = live.pbs("Queue", timeout=clock.left)
        return cluster, {queue: queue == default for queue in names}, {}
    partitions = live.slurm("partitions", timeout=clock.left)
    queues = {queue: facts.get("Default") == "YES" for queue, facts in partitions.items()}
    try:
        config = live.slurm_config(timeout=clock.left)
    except JobgenError:
        config = {}
    return config.get("ClusterName"), queues, config


def _site(wanted: str | None, cluster: str | None, clock: Clock) -> Check:
    host = host_name(timeout=clock.left)
    found = recognise(host=host, cluster=cluster, environment=os.environ)
    if found.unreadable:
        said = f"the profile {found.unreadable[0]} cannot be read"
        return Check("site", "warn", said, f"jobgen sites show {found.unreadable[0]} says why")
    names = [site.name for site in found.sites]
    if not names:
        said = f"no profile knows this machine, {host}"
        remedy = (
            "`jobgen sites` lists those there are; `jobgen sites capture --name NAME` makes one"
        )
        return Check("site", "unknown", said, "" if wanted else remedy)
    first = found.sites[0]
    said = f"{first.name}, as {first.how}"
    if wanted is not None and wanted not in names and not wanted.endswith("-generic"):
        return Check("site", "warn", f"the job is for {wanted}, this is {said}", "give --site")
    also = f"; so does {', '.join(names[1:])}" if names[1:] else ""
    return Check("site", "ok", said + also)


def _queue(plan: Plan | None, queues: dict[str, bool]) -> Iterator[Check]:
    default = next((name for name, chosen in queues.items() if chosen), None)
    known = ", ".join(queues)
    name = plan.queue if plan else None
    if name and plan and plan.scheduler == "slurm" and plan.site.slurm.queue_option == "qos":
        yield Check("queue", "unknown", f"{name} is a QoS here, and no partition")
    elif name is not None and name not in queues:
        yield Check("queue", "fail", f"there is no {name}", f"write queue: one of {known}")
    elif name is not None:
        yield Check("queue", "ok", f"{name} is there")
    elif default is not None:
        yield Check("queue", "ok", f"{default}, where a job names none; there are {known}")
    elif plan is not None:
        remedy = f"write queue: one of {known}"
        yield Check("queue", "warn", "the job names none, and none is the default", remedy)


def _account(plan: Plan, config: dict[str, str], clock: Clock) -> Check:
    account = plan.account
    if plan.scheduler == "pbs":
        said = f"{account or 'none given'}; PBS does not tell which there are"
        return Check("account", "unknown", said)
    try:
        accounts = live.own_accounts(timeout=clock.left)
    except JobgenError as error:
        said = f"{account or 'none given'}; {' '.join(str(error).split())}"
        return Check("account", "unknown", said)
    known = f"yours are {', '.join(accounts)}"
    if account is None:
        return Check("account", "ok", f"none given, so your default; {known}")
    if account in accounts:
        return Check("account", "ok", f"{account} is yours")
    enforced = "associations" in config.get("AccountingStorageEnforce", "")
    return Check("account", "fail" if enforced else "warn", f"{account} is not yours; {known}")
