"""A first job.yaml for this machine: what this machine shows is filled in, with how it is known."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from jobgen.capabilities import get_capabilities, name_this_machine
from jobgen.errors import JobgenError
from jobgen.machine.cluster import Deadline, detect_scheduler, get_host_name, recognise
from jobgen.plan import site_defaults
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.records import NamedTuple
from jobgen.schedulers import SCHEDULERS
from jobgen.sites import search
from jobgen.sites.profile import Node, SiteProfile, SiteQueue
from jobgen.spec import yaml_nodes
from jobgen.spec.bind import bind
from jobgen.spec.commands import check_script
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec
from jobgen.spec.units import format_memory, parse_duration
from jobgen.spec.yaml_text import write_value

SECONDS = 4.0
_LOOP = """\
{0}: three lines let it stop before the walltime and go on from its last checkpoint:
  loop = jobgen.loop.join(); step, state = loop.load()              # before the training loop
  if loop.should_stop() or step % 100 == 0: loop.save(state, step)  # after each step; then stop
  loop.leave(done=step == STEPS)                                    # after the loop
  docs/guides/own-loop.md has a whole program, and others for HF Trainer, Accelerate, Lightning"""
_COLUMN = 30  # of comments, as in the README


class Machine(NamedTuple):
    """What this machine shows: scheduler, site and how it is known, accounts, Python."""

    scheduler: str | None = None
    site: str | None = None
    how: str = ""
    accounts: tuple[str, ...] = ()
    venv: str | None = None
    conda: str | None = None


class Wishes(NamedTuple):
    """What the user asks for; None leaves it to jobgen."""

    site: str | None = None
    scheduler: str | None = None
    account: str | None = None
    queue: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    walltime: str | None = None
    script: str | None = None
    module: str | None = None


class Target(NamedTuple):
    """Where the job is to run: a site, and the queue to name, if any.

    `usual` is that queue, or the first that jobgen may choose, and `node` a node of it.
    """

    site: str
    profile: SiteProfile
    queue: str | None
    usual: SiteQueue
    node: Node


class SpecLine(NamedTuple):
    """One key of the spec, at the top or in a part of it; a value of None leaves it to the user."""

    part: str
    key: str
    value: Any
    comment: str = ""


def inspect_machine() -> Machine:
    """Ask scheduler and environment, for a few seconds at most."""
    clock = Deadline(SECONDS)
    here = detect_scheduler(timeout=clock.left)
    cluster, accounts = None, []
    with suppress(JobgenError):  # without a name it may still be known by the host's
        cluster = SCHEDULERS[here.name].cluster.ask_name(clock.ask) if here.name else None
    with suppress(JobgenError):  # some Slurms keep no accounts
        if here.name and get_capabilities(here.name).lists_accounts:
            accounts = SCHEDULERS[here.name].cluster.list_accounts(clock.ask)
    host = get_host_name(timeout=clock.left)
    known = recognise(host=host, cluster=cluster, environment=os.environ).sites
    here_too = [name for name in (".venv", "venv") if os.path.isfile(f"{name}/bin/activate")]
    venv = os.environ.get("VIRTUAL_ENV", next(iter(here_too), None))
    conda = os.environ.get("CONDA_DEFAULT_ENV") if venv is None else None
    return Machine(
        scheduler=here.name,
        site=known[0].name if known else None,
        how=known[0].how if known else "",
        accounts=tuple(accounts),
        venv=venv,
        conda=None if conda == "base" else conda,
    )


class Question(NamedTuple):
    """What to ask where somebody answers: a field of Wishes, the words, the default.

    `read` returns the answer's value, and raises ValueError with a sentence where it is none.
    """

    key: str
    words: str
    default: Any
    read: Callable[[str], Any]


def asks_for_cluster(machine: Machine, wishes: Wishes) -> bool:
    """Whether neither the machine nor the user says where the job is to run."""
    return not (wishes.site or wishes.scheduler or machine.site or machine.scheduler)


def ask_for_cluster() -> Question:
    """The question for the cluster; its answer is a site, or the name of a scheduler."""

    def read(answer: str) -> str:
        if answer in SCHEDULERS or search.exists(answer):
            return answer
        raise ValueError(f"unknown site {answer!r}; {search.suggest(answer)}")

    return Question("site", f"Cluster, or {', '.join(SCHEDULERS)}", name_this_machine(), read)


def list_questions(machine: Machine, wishes: Wishes) -> Iterator[Question]:
    """What to ask of a job for the cluster that is chosen."""
    target = _choose_target(machine, wishes)
    gpus = target.node.gpus or 0
    for question in (
        *_ask_for_account(machine, target),
        Question("nodes", "Nodes", 1, partial(_read_count, 1)),
        Question("gpus_per_node", "GPUs on each node", gpus, partial(_read_count, 0)),
        Question("walltime", "Walltime", "1h", _read_walltime),
    ):
        if getattr(wishes, question.key) is None:
            yield question
    if wishes.script is None and wishes.module is None:
        yield Question("script", "Python script to run", _find_script() or "train.py", _read_script)


def _ask_for_account(machine: Machine, target: Target) -> Iterator[Question]:
    account = target.profile.account
    if account and account.required and target.profile.can.batch:
        form = f" ({account.meaning})" if account.meaning else ""
        read = partial(_read_account, account.pattern)
        usual = _choose_account(machine, target)
        yield Question("account", f"Account that pays{form}", usual, read)


def _read_account(pattern: str | None, answer: str) -> str:
    if not re.fullmatch(pattern or r"\w[\w.@:+/-]*", answer):
        form = f" does not match {pattern}" if pattern and answer else " cannot be an account"
        raise ValueError(f"{answer!r}{form}")
    return answer


def _read_count(least: int, answer: str) -> int:
    if not answer.isdecimal() or int(answer) < least:
        raise ValueError(f"{answer!r} is not a number from {least}")
    return int(answer)


def _read_walltime(answer: str) -> str:
    try:
        parse_duration(answer)
    except ValueError as error:
        raise ValueError(f"{answer!r} {error}") from None
    return answer


def _read_script(answer: str) -> str:
    for _, message, hint in check_script(answer):
        raise ValueError(f"{message}; {hint}")
    if not answer.endswith(".py") and not os.path.exists(answer):
        raise ValueError(
            f"{answer!r} is neither a file here nor the name of a Python file; write *.py"
        )
    return answer


def _find_script() -> str | None:
    """The Python file here that a job would run: one of the usual names, or the only one."""
    files = sorted(name for name in os.listdir() if name.endswith(".py"))
    usual = (name for name in ("train.py", "main.py", "run.py") if name in files)
    return next(usual, files[0] if len(files) == 1 else None)


def write(machine: Machine, wishes: Wishes, *, file: str) -> tuple[str, Plan]:
    """Return the text of the spec, for `file`, and the plan that it makes.

    Raises SpecError for a wish that cannot be met.
    """
    target = _choose_target(machine, wishes)
    text = _format_lines(_list_lines(machine, wishes, target), target.profile.title or target.site)
    spec, positions = bind(yaml_nodes.parse(text, file=file), JobSpec)
    return text, resolve(LoadedSpec(spec, file, "", positions))


def _choose_target(machine: Machine, wishes: Wishes) -> Target:
    """The site to write for, and a queue there: the first, where jobgen chooses none."""
    scheduler = wishes.scheduler or machine.scheduler or name_this_machine()
    site = wishes.site or (None if wishes.scheduler else machine.site)
    site = site or get_capabilities(scheduler).generic_site
    profile = search.load(site)
    named, usual = _choose_queue(profile, wishes.queue)
    gpu_type = _choose_gpu_type(profile) or profile.gpu_type
    node = site_defaults.describe_node(profile, usual, gpu_type)[0]
    return Target(site, profile, named, profile.find_queue(usual) or SiteQueue(), node)


def _choose_queue(profile: SiteProfile, wished: str | None) -> tuple[str | None, str | None]:
    """The queue to name, if any, and that which the job gets."""
    queues = profile.queues or {}
    chosen = next((name for name, queue in queues.items() if queue.choose), None)
    first = next((name for name, queue in queues.items() if not queue.routed_from), None)
    named = wished or (None if chosen else first)
    return named, named or chosen


def _list_lines(machine: Machine, wishes: Wishes, target: Target) -> Iterator[SpecLine]:
    profile, site = target.profile, target.site
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(os.getcwd())).lstrip("._-")[:100]
    yield SpecLine("", "name", name or "job", "what the queue, and the folder below runs/, call it")
    if site == profile.can.generic_site:
        why = "" if profile.can.batch else profile.can.title
        yield SpecLine("", "scheduler", profile.scheduler, why)
    else:
        yield SpecLine("", "site", site, f"as {machine.how}" if site == machine.site else "")
    if profile.can.batch:
        yield _write_account(machine, wishes, target)
        yield _write_queue(wishes, target)
    if profile.filesystems is not None and profile.filesystems.required:
        known = list(profile.filesystems.known or ("NAME",))
        yield SpecLine("", "filesystems", known, "those that the job uses")
    yield from _list_resources(wishes, target)
    yield from _list_environment(machine, profile)
    yield from _list_run(wishes)


def _write_account(machine: Machine, wishes: Wishes, target: Target) -> SpecLine:
    account, about = wishes.account or _choose_account(machine, target), target.profile.account
    if account is not None:
        others = [name for name in machine.accounts if name != account]
        return SpecLine("", "account", account, f"or {', '.join(others[:4])}" if others else "")
    needed = "the account to charge, if the site wants one"
    if about and about.required:
        needed = "every job here needs one"
    meaning = f": {about.meaning}" if about and about.meaning else ""
    return SpecLine("", "account", None, needed + meaning)


def _choose_account(machine: Machine, target: Target) -> str | None:
    """The user's first account that the site takes."""
    if machine.site not in (None, target.site):
        return None
    account = target.profile.account
    fit = (name for name in machine.accounts if account is None or account.takes(name))
    return next(fit, None)


def _write_queue(wishes: Wishes, target: Target) -> SpecLine:
    queues, can = target.profile.queues or {}, target.profile.can
    names = [name for name, record in queues.items() if not record.routed_from]
    rest = [name for name in names if name != target.queue]
    others = ", ".join(rest[:4]) + (", ..." if rest[4:] else "")
    if target.queue is not None:
        why = f"or {others}" if others and not wishes.queue else ""
    elif names:
        why = f"jobgen chooses by size and walltime: {others}"
    else:
        why = "Slurm's partition" if can.queue_word == "partition" else ""
    return SpecLine("", "queue", target.queue, why)


def _choose_gpu_type(profile: SiteProfile) -> str | None:
    """The type that the spec has to name."""
    if profile.gpu_type_required and profile.gpu_type is None:
        return next(iter(profile.gpu_types or {}), None)
    return None


def _list_resources(wishes: Wishes, target: Target) -> Iterator[SpecLine]:
    node, part = target.node, "resources"
    yield SpecLine(part, "nodes", wishes.nodes or 1)
    yield from _list_gpus(wishes, target)
    if node.default_memory and not node.memory_per_gpu:
        memory = node.memory or 16 * 1024**2
        yield SpecLine(
            part, "memory_per_node", format_memory(memory), "without it, a job gets too little"
        )
    longest = target.usual.longest if target.queue else None
    walltime = wishes.walltime or ("1h" if longest is None or longest >= 3600 else f"{longest}s")
    yield SpecLine(part, "walltime", walltime, "then the job is ended")


def _list_gpus(wishes: Wishes, target: Target) -> Iterator[SpecLine]:
    """Yield the GPUs of each node, their type, and the CPUs that go with them."""
    node, profile, part = target.node, target.profile, "resources"
    gpus = _choose_gpus(target) if wishes.gpus_per_node is None else wishes.gpus_per_node
    batch = profile.can.batch
    if gpus is not None:
        what = node.device or node.gpu
        one = f"; one is {what}" if what else ""
        comment = f"all of a node{one}" if gpus == node.gpus else ""
        yield SpecLine(part, "gpus_per_node", gpus, comment)
    elif batch:
        yield SpecLine(part, "gpus_per_node", None, "such as 4")
    if name := _choose_gpu_type(profile):
        others = ", ".join(other for other in profile.gpu_types or {} if other != name)
        yield SpecLine(part, "gpu_type", name, f"or {others}" if others else "")
    if node.cpus_per_gpu is not None:
        return
    if gpus and node.default_cpus == 1:
        yield SpecLine(part, "cpus_per_gpu", 8, "without it, a GPU job gets one CPU here")
    elif batch:
        yield SpecLine(part, "cpus_per_gpu", None, "such as 8; without it, a job may get one CPU")


def _choose_gpus(target: Target) -> int | None:
    """The GPUs of a node that a job may have; without a known node, the fewest."""
    fewest, most = _find_gpu_range(target.usual)
    gpus = target.node.gpus
    return min(gpus, most or gpus) if gpus else fewest


def _find_gpu_range(queue: SiteQueue) -> tuple[int | None, int | None]:
    """The fewest and the most GPUs that a job may have in the queue; None if there is no limit."""
    ends = [limit.gpus or (0,) for limit in queue.limits]
    fewest = min((end[0] for end in ends), default=0)
    bounded = ends and all(len(end) == 2 for end in ends)
    return fewest or None, max(end[-1] for end in ends) or None if bounded else None


def _list_environment(machine: Machine, profile: SiteProfile) -> Iterator[SpecLine]:
    part, modules = "environment", ", ".join(profile.modules.load if profile.modules else ())
    if machine.venv is not None:
        loaded = f"after the site's modules {modules}" if modules else "on every node"
        yield SpecLine(part, "venv", machine.venv, loaded)
    elif machine.conda is not None:
        yield SpecLine(part, "conda", machine.conda, "the one that is active here")
    else:
        loaded = f"unless you name some, the site's: {modules}" if modules else ""
        yield SpecLine(part, "modules", None, loaded or "such as [python, cuda]")
        yield SpecLine(part, "venv", None, "the folder of a virtual environment with torch in it")


def _list_run(wishes: Wishes) -> Iterator[SpecLine]:
    if wishes.module is not None:
        yield SpecLine("run", "module", wishes.module, "as by python -m, once for each GPU")
    elif script := wishes.script or _find_script():
        yield SpecLine("run", "script", script, "once for each GPU")
    else:
        yield SpecLine("run", "module", "jobgen.trainer", "jobgen's own; or script: train.py")
    yield SpecLine("run", "args", None, "such as {lr: 3e-4, steps: 500}, for --lr 3e-4 --steps 500")


def suggest_loop(wishes: Wishes) -> str | None:
    """Return the lines that let the script stop in time and go on; None if it has them."""
    script = wishes.script or (None if wishes.module else _find_script())
    try:
        with open(script or "", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    return None if "should_stop" in text else _LOOP.format(script)


def _format_lines(lines: Iterator[SpecLine], title: str) -> str:
    rows = [
        "# yaml-language-server: $schema=job.schema.json",
        f"# A job for {title}, begun by `jobgen init`.",
        "# `jobgen explain` says what follows from it; job.schema.json lets editors complete and",
        "# check it.",
    ]
    part, keys = "", list(lines)
    filled = {line.part for line in keys if line.value is not None}
    for line in keys:
        if line.part != part:
            part = line.part
            rows.append(f"{part}:" if part in filled else f"# {part}:")
        indent = "  " if part else ""
        if line.value is None:
            row = f"# {indent}{line.key}:"
        else:
            row = f"{indent}{line.key}: {write_value(line.value)}"
        rows.append(f"{row:{_COLUMN}} # {line.comment}" if line.comment else row)
    return "\n".join(rows) + "\n"
