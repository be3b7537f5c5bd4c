"""Write a first job.yaml for this machine: filled in with what it shows, and how that is known."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from jobgen.capabilities import get_capabilities, name_this_machine
from jobgen.errors import JobgenError
from jobgen.machine.cluster import Deadline, Recognised, detect_scheduler, get_host_name, recognise
from jobgen.plan import site_defaults
from jobgen.plan.plan import Plan
from jobgen.plan.program import find_module
from jobgen.plan.resolve import resolve
from jobgen.records import NamedTuple
from jobgen.schedulers import SCHEDULERS
from jobgen.sites import search
from jobgen.sites.profile import Limit, SiteQueue
from jobgen.spec import yaml_nodes
from jobgen.spec.bind import bind
from jobgen.spec.commands import check_script
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec
from jobgen.spec.units import format_memory, format_time, parse_duration
from jobgen.spec.yaml_text import write_value

SECONDS = 4.0
_USUAL = ("train.py", "main.py", "run.py")
_COLUMN = 30  # of comments, as in the README


class Machine(NamedTuple):
    """What this machine shows: scheduler, site and how it was recognised, accounts, Python."""

    scheduler: str | None = None
    site: str = ""
    how: str = ""
    accounts: tuple[str, ...] = ()
    venv: str | None = None
    conda: str | None = None


class Wishes(NamedTuple):
    """The user's wishes; None leaves a choice to jobgen."""

    site: str | None = None
    scheduler: str | None = None
    account: str | None = None
    queue: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    walltime: str | None = None
    script: str | None = None
    module: str | None = None


class SpecLine(NamedTuple):
    """One key of the spec; a value of None leaves it to the user."""

    path: str
    value: Any
    comment: str = ""


def inspect_machine() -> Machine:
    """Ask the scheduler and the environment, for at most a few seconds."""
    clock = Deadline(SECONDS)
    here = detect_scheduler(timeout=clock.left)
    cluster, accounts = _ask_cluster(here.name, clock)
    host = get_host_name(timeout=clock.left)
    known = recognise(host=host, cluster=cluster, environment=os.environ).sites
    site, how = next(iter(known), Recognised("", ""))
    here_too = [name for name in (".venv", "venv") if os.path.isfile(f"{name}/bin/activate")]
    venv = os.environ.get("VIRTUAL_ENV", next(iter(here_too), None))
    conda = os.environ.get("CONDA_DEFAULT_ENV", "base")
    return Machine(here.name, site, how, tuple(accounts), venv, None if conda == "base" else conda)


def _ask_cluster(scheduler: str | None, clock: Deadline) -> tuple[str | None, list[str]]:
    """Return the cluster's name and the user's accounts, as far as the scheduler reports them."""
    name: str | None = None
    accounts: list[str] = []
    if scheduler is None:
        return name, accounts
    cluster, can = SCHEDULERS[scheduler].cluster, get_capabilities(scheduler)
    with suppress(JobgenError):  # without a name it may still be known by the host's
        name = cluster.ask_name(clock.ask)
    with suppress(JobgenError):  # some Slurms keep no accounts
        accounts = cluster.list_accounts(clock.ask) if can.lists_accounts else []
    return name, accounts


class Question(NamedTuple):
    """A question for the user: a field of Wishes, the words, the default.

    `read` returns the answer's value, or raises ValueError with a sentence.
    """

    key: str
    words: str
    default: Any
    read: Callable[[str], Any]


def asks_for_cluster(machine: Machine, wishes: Wishes) -> bool:
    """Whether neither the machine nor the user says where the job will run."""
    return not (wishes.site or wishes.scheduler or machine.site or machine.scheduler)


def ask_for_cluster() -> Question:
    """The question for the cluster; its answer is a site, or the name of a scheduler."""

    def read(answer: str) -> str:
        if answer in SCHEDULERS or search.exists(answer):
            return answer
        raise ValueError(f"unknown site {answer!r}; {search.suggest(answer)}")

    return Question("site", f"Cluster, or {', '.join(SCHEDULERS)}", name_this_machine(), read)


def list_questions(machine: Machine, wishes: Wishes) -> Iterator[Question]:
    """Return the questions about a job for the chosen cluster."""
    first = FirstSpec(machine, wishes)
    about, gpus = first.profile.account, first.node.gpus or 0
    payer = f"Account that pays ({about.meaning})" if about.meaning else "Account that pays"
    script = "Python script to run", _find_script() or "train.py"
    needless = {"account": not (about.required and first.batch), "script": first.module}
    for question in (
        Question("account", payer, first.account, partial(_read_account, about.pattern)),
        Question("nodes", "Nodes", 1, partial(_read_count, 1)),
        Question("gpus_per_node", "GPUs on each node", gpus, partial(_read_count, 0)),
        Question("walltime", "Walltime", "1h", _read_walltime),
        Question("script", *script, _read_script),
    ):
        if getattr(wishes, question.key) is None and not needless.get(question.key):
            yield question


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
    files = sorted(name for name in os.listdir() if name.endswith(".py"))
    usual = (name for name in _USUAL if name in files)
    return next(usual, files[0] if len(files) == 1 else None)


def _find_module() -> str | None:
    """Return the usual program of the one package that has it, here or below src."""
    packages = [*Path("src").glob("*/"), *(path.parent for path in Path().glob("*/__init__.py"))]
    for name in _USUAL:
        if having := [package for package in packages if (package / name).is_file()]:
            return f"{having[0].name}.{name[:-3]}" if len(having) == 1 else None
    return None


def write(machine: Machine, wishes: Wishes, *, file: str) -> tuple[str, Plan]:
    """Return the text of the spec, for `file`, and the plan that it makes.

    Raises SpecError for a wish that cannot be met.
    """
    first = FirstSpec(machine, wishes)
    text = _format_lines(list(first.list_lines()), first.title)
    spec, positions = bind(yaml_nodes.parse(text, file=file), JobSpec)
    return text, resolve(LoadedSpec(spec, file, "", positions))


def _choose_site(machine: Machine, wishes: Wishes) -> str:
    scheduler = wishes.scheduler or machine.scheduler or name_this_machine()
    known = "" if wishes.scheduler else machine.site
    return wishes.site or known or get_capabilities(scheduler).generic_site


class FirstSpec:
    """A first spec: the known facts, the wishes, and the site, queue and node of the job."""

    def __init__(self, machine: Machine, wishes: Wishes) -> None:
        self.machine, self.wishes = machine, wishes
        self.site = _choose_site(machine, wishes)
        self.profile = search.load(self.site)
        self.batch = self.profile.can.batch
        # That the spec has to name.
        types = {} if self.profile.gpu_type else self.profile.gpu_types
        self.gpu_type = next(iter(types), None) if self.profile.gpu_type_required else None
        self._choose_queue()
        self.gpus = wishes.gpus_per_node
        if self.gpus is None:
            self.gpus = self._choose_gpus()
        self.account = wishes.account or self._choose_account()
        self.script = wishes.script or _find_script()
        self.module = wishes.module or (None if self.script else _find_module())

    def _choose_queue(self) -> None:
        profile, queues = self.profile, self.profile.queues
        chosen = next((name for name, queue in queues.items() if queue.choose), None)
        self.queues = [name for name, queue in queues.items() if not queue.routed_from]
        # The one to name: the first, where jobgen chooses none.
        self.queue = self.wishes.queue or (None if chosen else next(iter(self.queues), None))
        usual = self.queue or chosen
        self.usual = profile.find_queue(usual) or SiteQueue()
        gpu_type = self.gpu_type or profile.gpu_type
        self.node = site_defaults.describe_node(profile, usual, gpu_type)[0]

    def _choose_account(self) -> str | None:
        if self.machine.site not in ("", self.site):
            return None
        return next(filter(self.profile.account.takes, self.machine.accounts), None)

    @property
    def title(self) -> str:
        """The cluster's name for people; of an unknown cluster that of its scheduler."""
        can = self.profile.can
        return self.profile.title or (can.title if self.site == can.generic_site else self.site)

    def list_lines(self) -> Iterator[SpecLine]:
        """Yield the keys of the spec."""
        listed = self.profile.filesystems
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(os.getcwd())).lstrip("._-")[:100]
        yield SpecLine("name", name or "job", "the job's name in the queue and below runs/")
        yield self._write_site()
        if self.batch:
            yield self._write_account()
            yield self._write_queue()
        if listed is not None and listed.required:
            known = list(listed.known or ("NAME",))
            yield SpecLine("filesystems", known, "those that the job uses")
        yield from self._list_resources()
        yield from self._list_environment()
        yield from self._list_run()

    def _write_site(self) -> SpecLine:
        profile, site = self.profile, self.site
        if site == profile.can.generic_site:
            return SpecLine("scheduler", profile.scheduler, "" if self.batch else profile.can.title)
        return SpecLine("site", site, f"as {self.machine.how}" if site == self.machine.site else "")

    def _write_account(self) -> SpecLine:
        about = self.profile.account
        others = [name for name in self.machine.accounts if name != self.account][:4]
        why = _write_choice(others)
        if self.account is None:
            why = "the account to charge, if the site requires one"
            if about.required:
                why = "every job here needs one"
            why += f": {about.meaning}" if about.meaning else ""
        return SpecLine("account", self.account, why)

    def _write_queue(self) -> SpecLine:
        rest = [name for name in self.queues if name != self.queue]
        others = rest if len(rest) < 5 else [*rest[:4], "..."]
        why = "Slurm's partition" if self.profile.can.queue_word == "partition" else ""
        if self.queue is not None:
            why = "" if self.wishes.queue else _write_choice(others)
        elif self.queues:
            why = f"jobgen chooses by size and walltime: {', '.join(others)}"
        return SpecLine("queue", self.queue, why)

    def _list_resources(self) -> Iterator[SpecLine]:
        node, wishes = self.node, self.wishes
        yield SpecLine("resources.nodes", wishes.nodes or 1)
        yield from self._list_gpus()
        yield from self._list_cpus()
        if node.default_memory and not node.memory_per_gpu:
            memory = format_memory(node.memory or 16 * 1024**2)
            why = "without it, a job gets too little memory"
            yield SpecLine("resources.memory_per_node", memory, why)
        usual = format_time(min(3600, (self.queue and self.usual.longest) or 3600))
        yield SpecLine(
            "resources.walltime", wishes.walltime or usual, "the job ends after this time"
        )

    def _list_gpus(self) -> Iterator[SpecLine]:
        node, gpus = self.node, self.gpus
        what = node.device or node.gpu
        whole = f"all of a node; one is {what}" if what else "all of a node"
        why = {node.gpus: whole, None: "such as 4"}
        if gpus is not None or self.batch:
            yield SpecLine("resources.gpus_per_node", gpus, why.get(gpus, ""))
        if self.gpu_type:
            others = [name for name in self.profile.gpu_types if name != self.gpu_type]
            yield SpecLine("resources.gpu_type", self.gpu_type, _write_choice(others))

    def _list_cpus(self) -> Iterator[SpecLine]:
        node, key = self.node, "resources.cpus_per_gpu"
        if node.cpus_per_gpu is not None:
            return
        if self.gpus and node.default_cpus == 1:
            yield SpecLine(key, 8, "without it, a GPU job gets one CPU here")
        elif self.batch:
            yield SpecLine(key, None, "such as 8; without it, a job may get one CPU")

    def _choose_gpus(self) -> int | None:
        """The GPUs of a node that a job may use in the queue; the fewest if the node is unknown."""
        limits = self.usual.limits or (Limit(),)
        spans = [(*(limit.gpus or (0,)), math.inf)[:2] for limit in limits]
        gpus = self.node.gpus or min(least for least, _ in spans)
        return int(min(gpus, max(most for _, most in spans))) or None

    def _list_environment(self) -> Iterator[SpecLine]:
        machine, modules = self.machine, ", ".join(self.profile.modules.load)
        if machine.venv is not None:
            loaded = f"after the site's modules {modules}" if modules else "on every node"
            yield SpecLine("environment.venv", machine.venv, loaded)
        elif machine.conda is not None:
            yield SpecLine("environment.conda", machine.conda, "the one that is active here")
        else:
            loaded = f"unless you name some, the site's: {modules}" if modules else ""
            yield SpecLine("environment.modules", None, loaded or "such as [python, cuda]")
            why = "the folder of a virtual environment with torch in it"
            yield SpecLine("environment.venv", None, why)
        if self.module and (folder := find_module(self.module)[0]):
            yield SpecLine("environment.variables", {"PYTHONPATH": folder}, "to find the module")

    def _list_run(self) -> Iterator[SpecLine]:
        if self.module:
            yield SpecLine("run.module", self.module, "as with python -m, one process per GPU")
        elif self.script:
            yield SpecLine("run.script", self.script, "one process per GPU")
        else:
            why = "jobgen's own trainer; or script: train.py"
            yield SpecLine("run.module", "jobgen.trainer", why)
        why = "such as {lr: 3e-4, steps: 500}, for --lr 3e-4 --steps 500"
        yield SpecLine("run.args", None, why)


def _write_choice(others: list[str]) -> str:
    return f"or {', '.join(others)}" if others else ""


def _format_lines(lines: list[SpecLine], title: str) -> str:
    rows = [
        "# yaml-language-server: $schema=job.schema.json",
        f"# A job for {title}, begun by `jobgen init`.",
        "# `jobgen explain` shows its effects; job.schema.json lets editors complete and",
        "# check it.",
    ]
    filled = {line.path.rpartition(".")[0] for line in lines if line.value is not None}
    last = ""
    for path, value, comment in lines:
        part, _, key = path.rpartition(".")
        if part != last:
            rows.append(f"{part}:" if part in filled else f"# {part}:")
        last = part
        row = f"  {key}:" if part else f"{key}:"
        row = f"# {row}" if value is None else f"{row} {write_value(value)}"
        rows.append(f"{row:{_COLUMN}} # {comment}" if comment else row)
    return "\n".join(rows) + "\n"
