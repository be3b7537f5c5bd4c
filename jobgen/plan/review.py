"""What a spec says in the right form and hardly means: numbers, paths and characters.

`check` and `submit` ask for it; a render does not, which stays as fast as it is. Most of it are
rows of `review.txt`. A check is a function that finds what no regular expression shows: it yields
the name of its words there, the place, and the values in the words.
"""

from __future__ import annotations

import ast
import glob
import itertools
import json
import math
import operator
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from string import Template
from typing import Any

from jobgen.errors import JobgenError, Position, Problem
from jobgen.output import format_count as count
from jobgen.plan.nodes import advise_on_devices
from jobgen.plan.plan import NodeGroup, Plan, RolePlan
from jobgen.plan.program import find_module, read_packages, read_sources
from jobgen.records import NamedTuple
from jobgen.spec.launchers import find_launcher, name_kind
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import Container, JobSpec
from jobgen.spec.roles import list_names
from jobgen.spec.spelling import find_near, find_near_file
from jobgen.spec.table import read_here
from jobgen.spec.tables import read_needs, read_rows
from jobgen.spec.units import read_number
from jobgen.spec.value_types import name_option
from jobgen.spec.yaml_nodes import Mapping as YamlMapping
from jobgen.spec.yaml_nodes import parse_value, walk_leaves

_Settings = tuple[tuple[str, str], ...]
_Found = Iterator[tuple[str, str, Mapping[str, Any]]]
# What a text is, its place, and itself.
_Texts = Iterator[tuple[str, str, str]]

# Which task of its array a job is.
TASK = "JOBGEN_TASK|SLURM_ARRAY_TASK_ID|PBS_ARRAY_INDEX|PBS_ARRAYID"
_MOST_BYTES = 30_000  # of a configuration file, which take some 20 ms
_GIB = 1024**2  # in KiB


class _Subject(NamedTuple):
    """A program of a job: its spec and plan, as those of a job on its own nodes."""

    loaded: LoadedSpec
    plan: Plan
    sources: str | None  # of its program, by `read_sources`
    settings: _Settings  # its options with their values, and those of files that it names
    copied: Sequence[str] | None  # of its snapshot
    roles: tuple[RolePlan, ...]  # of the job, if it has some
    role: RolePlan | None  # the one that this is
    lines: Sequence[tuple[str, str]]  # of setup, by `_list_setup`

    @property
    def spec(self) -> JobSpec:
        """Its spec."""
        return self.loaded.spec

    @property
    def own_setup(self) -> str:
        """Its lines of setup."""
        return self.spec.environment.setup or ""

    @property
    def setup(self) -> str:
        """Its lines of setup, with those that it sources."""
        return "\n".join(line for _, line in self.lines)

    @property
    def own_folders(self) -> list[str]:
        """The folders that nodes see as this machine does, where its cluster is known."""
        can = self.plan.can
        known = not can.batch or shutil.which(can.commands[0])
        return [os.path.expanduser("~"), os.getcwd()] if known else []

    def mentions(self, file: str) -> bool:
        """Whether its setup has the name of a file or folder, which it may make."""
        return os.path.basename(os.path.normpath(file)) in self.setup

    def provides(self, file: str) -> bool:
        """Whether its setup may make a file, or nodes see it where it is here."""
        return self.mentions(file) or is_below(os.path.expanduser(file), self.own_folders)

    @property
    def container(self) -> Container:
        """Its container; one without an image if it has none."""
        return self.spec.environment.container or Container(image="")

    @property
    def binds(self) -> list[list[str]]:
        """Where each folder that its container is shown lies, and where it is seen."""
        # A folder alone is seen at the same path.
        return [(bind.split(":") * 2)[:2] for bind in self.container.binds]

    @property
    def of_site(self) -> list[str]:
        """The folders that the site shows each container."""
        site = self.plan.site.container
        return [bind.partition(":")[0] for bind in site.binds] if site else []

    @property
    def seen(self) -> list[str]:
        """The folders that its container sees: those of its binds, and some by itself."""
        return [*(target for _, target in self.binds), os.getcwd(), os.path.expanduser("~"), "/tmp"]

    @property
    def whole(self) -> JobSpec:
        """The spec of all roles."""
        return self.loaded.whole or self.spec


def review(loaded: LoadedSpec, plan: Plan, copied: Sequence[str] | None = None) -> list[Problem]:
    """Return what the spec can hardly mean, in the order of its lines.

    `copied` are the files and folders of its snapshot, by `list_copied`; None without one. What
    several roles share is said of the first.
    """
    words = {row[0]: row[1:] for row in _list_rows("say")}
    problems: set[Problem] = set()
    for job in _list_subjects(loaded, plan, copied):
        facts = _Facts(_list_facts(job), job.sources or "")
        for check in (_apply_table, _check_numbers, _check_sums):
            problems.update(check(job, facts))
        for name, path, values in itertools.chain(*(check(job) for check in _CHECKS)):
            message, hint = words[name]
            problems.add(_say(job, path, message, hint, values))
    several = {(one.message, one.hint): one for one in sorted(problems, reverse=True)}
    return sorted(several.values() if plan.roles.members else problems)


def _list_subjects(
    loaded: LoadedSpec, plan: Plan, copied: Sequence[str] | None
) -> Iterator[_Subject]:
    roles = plan.roles.members
    for part, own, role in zip(loaded.programs(), plan.parts, roles or [None], strict=True):
        sources = read_sources(own)
        settings = _read_options(own.program.command)
        lines = (*_list_setup(part.spec.environment.setup or ""),)
        yield _Subject(part, own, sources, settings, copied, roles, role, lines)


def _say(job: _Subject, path: str, message: str, hint: str, values: Mapping[str, Any]) -> Problem:
    finding, write = (Template(one).safe_substitute(values) for one in (message, hint))
    file, _, line = path.rpartition(":")
    if file:
        return Problem(Position(file, int(line), 1), "", finding, write)
    return job.loaded.problem(path, finding, write)


def _list_setup(setup: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of setup, and of files of this folder that it sources, with their places."""
    for line in setup.split("\n"):
        yield "environment.setup", line
        for file in map(os.path.normpath, _read_form("included").findall(line)):
            inner = enumerate(read_here(file).splitlines(), 1)
            yield from ((f"{file}:{number}", one) for number, one in inner)


def _apply_table(job: _Subject, facts: _Facts) -> Iterator[Problem]:
    """Yield what `review.txt` has for the texts of a spec."""
    for source, places in _collect_texts(job).items():
        for asked, form, message, hint in _list_rows(source):
            named: list[str] = []  # what is wrong with a list is said of the list alone
            for path, text in places if _holds(asked, facts) else ():
                place = re.sub(r"[.\[]", "/", path)
                if source != "variable" and is_below(place, named):
                    continue
                for match in re.finditer(form, text, re.MULTILINE):
                    named.append(place)
                    line = (text[: match.start()] + match[0].rstrip()).count("\n")
                    where = job.lines[line][0] if source == "setup" else path
                    yield _say(job, where, message, hint, facts | match.groupdict())


def _collect_texts(job: _Subject) -> dict[str, list[tuple[str, str]]]:
    """Return the texts of a spec with their places, by what rows say that they are of."""
    texts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for source, path, text in (*_list_lines(job), *_list_words(job), *_list_places(job)):
        if text:
            texts[source].append((path, text))
    return texts


class _Facts(dict[str, Any]):
    """What a job has, by the words of the table; its program's text is searched when asked for."""

    def __init__(self, known: Mapping[str, Any], source: str) -> None:
        super().__init__(known)
        self.source = source

    def find(self, name: str) -> Any:
        """Return what a word stands for; None if for nothing here."""
        if name not in self and (form := dict(_list_rows("source")).get(name)):
            self[name] = re.search(form, self.source)
        return self.get(name)


def _holds(asked: str, facts: _Facts) -> bool:
    """Whether a job has what a row asks of it."""
    needs, _ = read_needs(asked, frozenset())
    return all(bool(facts.find(name)) == wanted for name, wanted in needs.items())


def _list_facts(job: _Subject) -> dict[str, Any]:
    spec, plan = job.spec, job.plan
    own, container = spec.environment, plan.environment.container
    runtime = str(getattr(container, "runtime", job.container.runtime))
    return {
        "nodes": plan.nodes.total,
        "spread": plan.nodes.total > 1,
        "processes": plan.nodes.world_size,
        "many": plan.nodes.world_size > 1,
        "batch": plan.can.batch,
        plan.launch.mode: True,
        "agents": plan.launch.mode == "torchrun" and plan.nodes.world_size > plan.nodes.total,
        "chained": plan.walltime.chain.goes_on,
        "requeues": plan.walltime.chain.then == "requeue",
        "plain": plan.launch.plain,
        "static": plan.launch.rendezvous == "static",
        "restarts": spec.launch.max_restarts,
        "body": plan.launch.body,
        "asked_cpus": any((spec.resources.cpus_per_gpu, spec.resources.cpus_per_node)),
        "asked_tasks": any((plan.nodes.tasks_asked, "tasks" in str(spec.directives))),
        "lone": plan.lone,
        "gpus": sum(plan.nodes.gpus_of_each),
        "container": job.container.image,
        runtime.replace("singularity", "apptainer"): True,
        str(plan.can.sign): True,
        "exclusive": plan.requests.exclusive,
        "keyed": any((own.venv, own.conda, own.uv)),
        "modules": own.modules,
        "unbound": not (job.container.binds or job.of_site),
        "mails": plan.requests.mail,
        "relative": any(map(_is_here, [spec.run.script or "", *plan.program.command])),
        "offline": plan.site.internet == "none",
        "here": spec.site,
        "site": spec.site or "this site",
        "scheduler": plan.scheduler,
        "chosen": any((spec.scheduler, spec.site)),
        "tasks": len(plan.array.tasks),
        "alike": plan.array.tasks and not parts_tasks(plan),
        "apart": job.whole.resources.nodes != 1,
        "torch": plan.launch.mode in ("torchrun", "direct"),
        **_count_job(job),
        **_count_batches(job),
        **_describe_role(job),
    }


def _list_lines(job: _Subject) -> _Texts:
    """Yield the lines of setup, each variable, and the value of each key."""
    loaded, environment = job.loaded, job.plan.environment
    yield "setup", "environment.setup", job.setup
    own = job.own_setup
    yield "own", "environment.setup", own
    yield "read", "environment.setup", re.sub(r"(?m)(?:^|\s)#.*", "", own)
    yield "started", "environment.setup", own and f"{job.spec.run.script}\n{own}"
    for path, name, value in _list_variables(job):
        yield "variable", path, f"{name}={value}"
        if name.endswith("_SOCKET_IFNAME"):
            yield "interface", path, value
    variables = [f"{name}={value}" for name, value in environment.variables.items()]
    yield "names", "environment", " ".join([*environment.from_shell, *variables])
    lines = loaded.text.split("\n")
    for path, where in loaded.positions.items():
        if where.file == loaded.file and 0 < where.line <= len(lines):
            text = lines[where.line - 1][where.column - 1 :]
            yield "line", path, text
            yield "key", path, f"{path} {text}"
            yield "paired", path, "\n".join([path, *job.plan.program.command])


def _list_words(job: _Subject) -> _Texts:
    """Yield the words of the program and of its role, and each of its options with its value."""
    command, own = job.spec.run.words, job.spec.environment
    yield "command", "run.command", re.sub(r"^\S*/", "", " ".join(command))
    yield "read", "run.command", " ".join(command)
    yield "python", "run.command", " ".join(filter(None, (own.venv, own.conda, *command[:1])))
    yield "read", "run.script", job.spec.run.script or ""
    whole = job.plan.program.command
    before = {job.spec.run.script, *command, *filter(_read_form("prose").match, whole)}
    yield "read", "run.args", " ".join(itertools.filterfalse(before.__contains__, whole))
    yield "directives", "directives", "\n".join([f"{job.plan.can.sign} ", *job.spec.directives])
    if job.role:
        text, name = _read_text(job.role), job.role.name.upper()
        yield "role", "run", f"{name}\n{text}"
        others = (f"{one.name.upper()} {' '.join(one.plan.program.command)}" for one in job.roles)
        settings = map(" ".join, job.settings)
        yield "asking", "run", "\n".join([name, text, *settings, "---", *others])
    yield "given", "run.command" if command else "run.args", " ".join(whole)
    for option, value in job.settings:
        yield "word", "run.args", f"{option} {value}"


def _list_places(job: _Subject) -> _Texts:
    """Yield the files that keys name, the interface and the modules."""
    own, modules = job.spec.environment, job.plan.environment.modules
    image = {"environment.container.image": job.container.image, "environment.venv": own.venv}
    for path, file in ({"run.script": job.spec.run.script} | image).items():
        if file and not own.stage and not job.provides(file):
            yield "file", path, file
    yield "interface", "launch.interface", job.plan.launch.interface or ""
    yield "modules", "environment.modules", " ".join(modules.load) if modules else ""
    yield "read", "environment.conda", str(own.conda)
    yield "options", "environment.container.options", " ".join(job.container.options)
    given = ["---", " ".join(job.plan.program.command)]
    yield "binds", "environment.container.binds", "\n".join([*job.container.binds, *given])


def parts_tasks(plan: Plan) -> bool:
    """Whether lines of setup tell the tasks of an array apart, so that each may have its folder."""
    names = "|".join((TASK, *(one for task in plan.array.tasks[:1] for one in task.variables)))
    return re.search(rf"\b({names})\b", plan.environment.setup or "") is not None


def list_copied(snapshot: bool | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the files and folders that a snapshot has; None without one, or without git."""
    from jobgen.process import list_tracked_files

    tracked = list_tracked_files() if snapshot else None
    named = map(os.path.normpath, snapshot if isinstance(snapshot, tuple) else ())
    return None if tracked is None else (*tracked, *named)


def _read_options(words: Sequence[str]) -> _Settings:
    """Return the options of a program, and as `step-n` those of what starts it for each task."""
    if name_kind(find_launcher(words)) != "step":
        return tuple(list_settings(words))
    program = re.compile(r"(\S*/)?python[\d.]*|\S+\.(py|sh)|\.?/\S+")
    start = next((i for i, word in enumerate(words) if program.fullmatch(word)), len(words))
    own = words[: start % len(words)]  # none where it is unclear which word is the program
    steps = ((f"step{option}", value) for option, value in _list_options(own))
    return (*list_settings(words[start:]), *steps)


def list_settings(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command, and what the configuration files that it names hold."""
    for option, value in _list_options(words):
        yield option, value
        if re.fullmatch(r"[^$*?\[{:]+\.(ya?ml|json|toml)", value) and os.path.isfile(value):
            yield from _read_settings(value)


def sum_settings(settings: Iterable[tuple[str, str]]) -> tuple[str, dict[str, object]]:
    """Return the one file among settings, and its values by their keys, as in train.lr."""
    split = ((_OF_FILE.fullmatch(name), text) for name, text in settings)  # and no a://b
    leaves = [(match[1], match[2], text) for match, text in split if match]
    files = {file for file, _, _ in leaves}
    values = {
        key.replace(":", "."): _LITERALS.get(text, read_literal(text, text))
        for _, key, text in leaves
    }
    return (files.pop(), values) if len(files) == 1 else ("", {})


def read_literal(text: str, otherwise: object) -> Any:
    """Return the value of a constant of Python, or another for what is none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return otherwise


def _read_settings(path: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of a configuration file, with their values; none of a large or broken one."""
    try:
        text = read_here(path) if os.path.getsize(path) <= _MOST_BYTES else ""
        if path.endswith(".json"):  # which tabs may indent, and no text within it has one
            text = text.replace("\t", " ")
        if path.endswith(".toml"):
            text = json.dumps(import_module("tomllib").loads(text), default=str)
        tree = parse_value(text, file=path, explain=False)
    except (OSError, ValueError, RecursionError, ImportError, JobgenError):
        return  # it is for the program to say so
    if isinstance(tree, YamlMapping):
        apart = _read_form("submits").search  # what a tool of the project submits jobs by
        leaves = walk_leaves(tree, f"{path}:", joint=":")
        yield from ((key, leaf.text) for key, leaf in leaves if not apart(key))


_OF_FILE = re.compile(r"(.+\.(?:ya?ml|json|toml)):(.+)")  # a key in a file of settings
_LITERALS = {"true": True, "false": False, "null": None}
_RELATIONS: dict[str, Callable[[float, int], bool]] = {
    "=": operator.eq,
    "1=": lambda number, right: number in (1, right),
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    "times": lambda number, right: number % right == 0,
}


def _check_numbers(job: _Subject, facts: _Facts) -> Iterator[Problem]:
    for asked, names, relation, fact, message, hint in _list_rows("number"):
        right, known = _holds(asked, facts) and facts[fact], names.split()
        for name, option, number in _list_numbers(job.settings) if right else ():
            if name in known and not _RELATIONS[relation](number, right):
                values = {"option": option.removeprefix("step"), "value": number, "has": right}
                yield _say(job, "run.args", message, hint, values)


def _check_sums(job: _Subject, facts: _Facts) -> Iterator[Problem]:
    """Yield what the numbers of a node do not allow, for each kind of node."""
    for group in dict.fromkeys(job.plan.nodes.own):
        sums = _Facts(facts | _count_node(job, group), facts.source)
        for asked, compared, path, message, hint in _list_rows("sum"):
            left, _, right = compared.partition(" > ")
            exceeds = sums[left] > int(sums.get(right, right))
            if exceeds and _holds(asked, sums):
                yield _say(job, Template(path).substitute(sums), message, hint, sums)


@cache
def _list_rows(kind: str) -> list[list[str]]:
    """Return the cells of a kind's rows in `review.txt`, without the first, which lists kinds."""
    rows = read_rows("review.txt", room="plan")
    return [cells for kinds, *cells in rows if kind in kinds.split()]


@cache
def _read_form(name: str) -> re.Pattern[str]:
    """Return a regular expression of `review.txt`."""
    return re.compile(dict(_list_rows("form"))[name])


def _list_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word of a command with its value: what follows its `=`, else the next word."""
    for word, following in itertools.pairwise((*words, "")):
        option, equals, value = word.partition("=")
        yield option, value if equals else following


def _list_variables(job: _Subject) -> Iterator[tuple[str, str, str]]:
    """Yield variables with their values: the spec's own, and those that its setup exports."""
    for name, value in job.plan.environment.variables.items():
        yield f"environment.variables.{name}", name, value
    for place, line in job.lines:
        exported = "".join(_read_form("exports").findall(line))
        for name, value in _read_form("assigned").findall(exported):
            yield place, name, value.strip("\"'")


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of some folders, or below one."""
    return any(f"{path}/".startswith(folder.rstrip("/") + "/") for folder in folders)


def _count_node(job: _Subject, group: NodeGroup) -> dict[str, Any]:
    """Return what a node of a job has and is asked for: numbers, and what is true of it."""
    spec, processes = job.spec.resources, group.processes
    cpus, memory, disk = group.cpus or 0, spec.memory_per_node or 0, spec.disk_per_node or 0
    variables = {name: (value, path) for path, name, value in _list_variables(job)}
    number, path = variables.get("OMP_NUM_THREADS", ("", ""))
    threads = _read_count(number) if processes <= cpus else 0
    return {
        "-": 1,  # is more than "": a row compares nothing
        "": 0,
        "gpus": group.gpus,
        "processes": processes,
        "idle": group.gpus - processes,
        "nodes": -(-group.gpus // 8),
        "cpus": cpus,
        "threads": threads,
        "used": threads * processes,
        "fitting": max(1, cpus // processes),
        "memory": memory,
        "mib": memory // 1024,
        "gib": memory // _GIB,
        "disk": disk // _GIB,
        "least": processes * _GIB,
        "several": processes > 1,
        "of_node": group.cpus and spec.cpus_per_node,  # which only some schedulers give
        "of_gpu": spec.cpus_per_gpu,
        "variable": path,
        "all": count(processes, "process", "processes"),
        "has_cpus": count(cpus, "CPU"),
        "has_gpus": count(group.gpus, "GPU"),
    }


def _read_count(text: str) -> int:
    """Return a number; 0 for other words, such as auto."""
    return int(read_number(text, text=True) or 0)


def _count_job(job: _Subject) -> dict[str, Any]:
    """Return what all nodes of a job, and the tasks of its array, have and are asked for."""
    plan, each = job.plan, job.spec.resources.listed_gpus
    notice, seconds = plan.walltime.chain.notice, plan.walltime.seconds or 0
    group = plan.nodes.own[0]
    processes = 0 if plan.launch.plain else group.processes
    world = plan.nodes.world_size
    if find_launcher(job.spec.run.words):  # which starts one for each GPU
        processes, world = group.gpus, plan.nodes.gpus
    return {
        "node_gpus": group.gpus,
        "node_processes": processes,
        "world": world,
        "early": notice,
        "minutes": seconds // 60,
        "hours": -(-seconds // 3600),
        "before": max(0, seconds - notice),
        "share_cpus": (group.cpus or 0) // group.processes,
        "listed": len(each),
        "each": ", ".join(map(str, each)),
        "advice": advise_on_devices(each),
        "whole": plan.defaults.node.whole or plan.requests.exclusive,
        "at_once": plan.array.at_once or 0,
    }


def _count_batches(job: _Subject) -> dict[str, Any]:
    """Return what the sizes and batches among a program's options come to."""
    gpus, world = sum(job.plan.nodes.gpus_of_each), job.plan.nodes.world_size
    numbers, is_part = _list_numbers(job.settings), _read_form("parts").fullmatch
    parts = {name: number for name, _, number in numbers if is_part(name)}
    share = math.prod(parts.values())
    return {
        "job_gpus": gpus,
        "parts": ", ".join(parts),
        "share": share,
        "divides": max(parts.values(), default=0) <= gpus,
        "rest": gpus % max(1, share),
        "groups": max(1, world // max(1, share)),  # each holds a copy of the model
    }


def _describe_role(job: _Subject) -> dict[str, Any]:
    """Return what a role is to the others of its job: numbers, and what is true of it."""
    role = job.role
    if role is None:
        return {}
    servers = [one.name.upper() for one in job.roles if _serves(one)]
    source, port = read_sources(role.plan), f"{role.name.upper()}_PORT"
    tested = role.test[:1] in (("http",), ("tcp",))
    others = [_read_text(one) for one in job.roles if one is not role]
    # A port that its command names is for another row to say.
    named = re.search(r"--port[= ]\d+\b", _read_text(role))
    return {
        "role": role.name,
        "port": port,
        "last": role is job.roles[-1],
        "tested": tested,
        # It is done once its file is there, and nothing says that it may be.
        "filed": (*role.test[:1], role.alone, role is job.roles[-1]) == ("file", False, False),
        "met": tested or port in " ".join(others),
        "asked": not role.test and any(_asks(one, role) for one in job.roles),
        # The role that it asks, unless it is asked itself.
        "asks": "" if _serves(role) else "".join(servers[:1]),
        "elsewhere": source is not None and not named and port not in source,
    }


def _check_variables(job: _Subject) -> _Found:
    """Yield variables that show other GPUs than the job asks for."""
    gpus = max(job.plan.nodes.gpus_of_each)
    for path, name, value in _list_variables(job):
        if name.endswith("_VISIBLE_DEVICES") and re.fullmatch(r"(?!all$)[^$]*", value):
            shown = len(re.findall(r"[^,\s][^,]*", value))
            if shown != gpus > 0:
                yield "visible-devices", path, {"name": name, "gpus": gpus, "shown": shown}


def _check_spelling(job: _Subject) -> _Found:
    """Yield misspelt names of variables; one like none may be the site's own."""
    known = _list_rows("known")[0][0].split()
    for name in job.spec.environment.named_variables.keys() - {*known}:
        if near := find_near(name, known, cutoff=0.85):
            yield "misspelt", f"environment.variables.{name}", {"name": name, "near": near}


def _check_binds(job: _Subject) -> _Found:
    """Yield paths that the container does not see, or sees elsewhere."""
    for option, value in _list_options(job.plan.program.command if job.container.image else ()):
        if is_below(value, job.seen):
            continue
        about = {"option": option, "value": value, "folder": os.path.dirname(value)}
        inside = [to + value.removeprefix(of) for of, to in job.binds if is_below(value, [of])]
        if inside:
            yield "bound-path", "run.args", about | {"inside": inside[0]}
        elif _is_outside(value) and not is_below(value, job.of_site):
            yield "unseen-path", "run.args", about


def _is_outside(path: str) -> bool:
    """Whether a path is surely of the nodes, and not of a container's image."""
    outside = os.path.exists(path) or _read_form("shared").match(path)
    return bool(outside and _read_form("outside").match(path))


def _check_venv(job: _Subject) -> _Found:
    """Yield a venv without bin/activate, or one that the container does not see."""
    venv = job.spec.environment.venv or ""
    folder = os.path.expanduser(venv)
    values = {"venv": venv, "folder": os.path.dirname(venv)}
    if os.path.exists(folder) and not os.path.isfile(f"{folder}/bin/activate"):
        kind = ".conda" if os.path.isdir(f"{folder}/conda-meta") else ""
        yield f"no-venv{kind}", "environment.venv", values
    if job.container.image and venv[:1] == "/" and not is_below(venv, job.seen):
        yield "unseen-venv", "environment.venv", values


def _list_numbers(options: _Settings) -> Iterator[tuple[str, str, float]]:
    """Yield the options that are given a number: the last part of the name, the option, it."""
    for option, value in options:
        if re.fullmatch(r"\d+(\.\d+)?", value):
            name = re.split(r"[.:]", option)[-1].strip("-+").replace("-", "_")
            yield name, option, float(value) if "." in value else int(value)


def _check_files(job: _Subject) -> _Found:
    """Yield files and folders that the job reads and that are not here, or not in its snapshot."""
    lines = f"{job.setup} {' '.join(job.container.options)}"
    moved = re.search(r"\b(?:cd|pushd|pwd|workdir)\b|(?<!\S)-w\b", lines)
    for path, file, text in _list_files(job):
        made = path != "environment.setup" and job.mentions(file)
        in_image = job.container.image and path.startswith(("run", "environment.v"))
        elsewhere = in_image if os.path.isabs(file) else moved
        own = job.own_folders if path == "environment.venv" else ()
        if _is_missing(file, own) and not made and not elsewhere:
            yield from _tell_missing(path, file, text)
        elif path in ("run.args", "environment.setup") and _is_left_out(file, job.copied):
            yield "left-out", path, {"text": text, "file": file}


def _tell_missing(path: str, file: str, text: str) -> _Found:
    near = find_near_file(file)
    if not near and _read_form("joined").fullmatch(f"{path} {text}"):
        return
    kinds = {"environment.container.image": ".image", "environment.venv": ".venv"}
    kind = kinds.get(path, "" if file[:1] in "/~$" else ".relative")
    yield f"not-here{'.near' if near else kind}", path, {"text": text, "near": near}


# Keys that only some schedulers or sites have a use for.
_NO_USE = {"qos", "reservation", "filesystems", "resources.disk_per_node", "queue"}


def _check_no_use(job: _Subject) -> _Found:
    """Yield keys that lead to nothing, though the spec itself is for the scheduler."""
    plan, loaded = job.plan, job.loaded
    own = [key for key, where in loaded.positions.items() if where.file == loaded.file]
    if plan.provenance.states_scheduler:
        for key in _NO_USE.intersection(own, plan.left_out):
            kind = ".queue" if key == "queue" and job.spec.reservation else ""
            yield f"no-use{kind}", key, {"title": plan.can.title}


def _is_here(name: str) -> bool:
    """Whether a name is of a file or folder below this one."""
    return name[:1] not in "/~$" and os.path.exists(name)


def _is_left_out(name: str, copied: Sequence[str] | None) -> bool:
    """Whether a file of this folder is not in the job's snapshot."""
    return _is_here(name) and copied is not None and not is_below(os.path.normpath(name), copied)


def _list_files(job: _Subject) -> Iterator[tuple[str, str, str]]:
    """Yield what is read, with its place in the spec, and with what is before it."""
    own, run, spec = job.spec.environment, job.spec.run, job.spec
    variables = job.plan.environment.variables
    image = (job.plan.environment.image_file or "").removeprefix("$PWD/")
    named: dict[str, Sequence[str | None]] = {
        "environment.stage": [own.stage],
        "snapshot": spec.snapshot if isinstance(spec.snapshot, tuple) else (),
        "send": spec.send,
        "environment.setup": _read_form("sourced").findall(job.own_setup),
        "environment.container.image": [image],
        "environment.container.binds": _read_form("bound").findall(" ".join(job.container.binds)),
        "run.script": [run.script],
        "run.body": [run.body],
        "run.command": [_find_file(run.words)],
        "environment.venv": [own.venv],
        "environment.variables.PYTHONPATH": variables.get("PYTHONPATH", "").split(":"),
    }
    yield from _list_arguments(job)
    for path, files in named.items():
        yield from ((path, name, name) for name in files if name)


def _check_start(job: _Subject) -> _Found:
    """Yield a file of this folder that is the command, and that the kernel does not start."""
    file = "".join(job.spec.run.words[:1])
    is_here = "/" in file and os.path.isfile(file) and not job.mentions(file)
    if is_here and not (job.container.image or os.access(file, os.X_OK)):
        yield "no-bit", "run.command", {"text": file}


def _check_module(job: _Subject) -> _Found:
    """Yield a module that is not here, or in a folder where Python does not look for it."""
    own, run, named = job.spec.environment, job.spec.run, _read_form("module").findall
    module = run.module or "".join(named(" ".join(run.words)))
    base = module.replace(".", "/")
    roots = list_roots(job.plan.environment.variables)
    given = f"{job.setup} {own.from_shell} {run.words}"
    is_seen = any(map(_is_module, (root + base for root in roots)))
    if not module or is_seen or job.container.image or _read_form("finds").search(given):
        return
    folder, file = find_module(module)
    if not folder or f"{folder}/" in roots:
        for root in roots:
            yield from _tell_module(module, base, root)
    elif not _is_installed(base, own.venv or ""):
        yield "unseen-module", "run.module", {"file": file, "folder": folder}


def _is_module(base: str) -> bool:
    return os.path.isdir(base) or bool(glob.glob(f"{glob.escape(base)}.*"))


def list_roots(variables: Mapping[str, str]) -> list[str]:
    """Return what is before the paths of modules that Python finds from here: "" and, say, src/."""
    named = map(os.path.normpath, filter(None, variables.get("PYTHONPATH", "").split(":")))
    return ["", *(f"{one}/" for one in named if one != "." and os.path.isdir(one))]


def _tell_module(module: str, base: str, root: str) -> _Found:
    """Yield what is nearly so called, or that a package below `root` does not have it."""
    folder = os.path.dirname(f"./{root}{base}")
    near = find_near_file(f"{root}{base}.py") if len(module) > 3 and os.path.isdir(folder) else ""
    if near:
        near = near.removeprefix(root).removesuffix(".py").replace("/", ".")
        yield "not-here.near", "run.module", {"text": module, "near": near}
    elif any(os.path.isfile(f"{one}/__init__.py") for one in (folder, root + base.split("/")[0])):
        yield "no-module", "run.module", {"text": module}


def _is_installed(base: str, venv: str) -> bool:
    """Whether a project may be installed in its venv, or in an environment that is not known."""
    files, linked = read_packages(venv)
    has = base.partition("/")[0] in map(os.path.basename, files) or os.getcwd() in linked
    project = any(map(os.path.isfile, ("pyproject.toml", "setup.py", "setup.cfg")))
    return project and (has or not venv or not files)


def _list_arguments(job: _Subject) -> Iterator[tuple[str, str, str]]:
    """Yield the options of a program that name files which it reads."""
    sources = job.sources or "exists"
    forms = ["read"] if _read_form("tests-files").search(sources) else ["read", "resumed"]
    tasks = (task.arguments for task in job.plan.array.tasks[:20])  # of thousands
    for option, value in _list_options([*job.plan.program.command, *itertools.chain(*tasks)]):
        text, name = f"{option} {value}", name_option(option)
        is_read = any(_read_form(form).fullmatch(text) for form in forms)
        if is_read and name not in _read_form("folded").findall(sources):
            yield "run.args", value, text


def _find_file(command: Sequence[str]) -> str:
    """Return the script that a command is, or that its Python or shell runs; empty without one."""
    if "-c" in command:
        return ""
    line = " ".join(word for word in command if word[:1] != "-")
    return next(iter(_read_form("runs").findall(line)), "")


def _is_missing(name: str, own: Iterable[str]) -> bool:
    """Whether a path is not on this machine, though its folder is, or would be.

    Every machine has a home folder, which need not be the cluster's if it is not among its `own`.
    """
    path = os.path.expandvars(os.path.expanduser(name))
    if "$" in path or "://" in path or os.path.exists(path):
        return False
    folder = os.path.dirname(path)
    anywhere = ("/", os.path.expanduser("~"))
    here = is_below(os.path.abspath(path), own)
    return here or not os.path.isabs(path) or (folder not in anywhere and os.path.isdir(folder))


def _read_text(role: RolePlan) -> str:
    """Return the command and the setup of a role."""
    return f"{' '.join(role.plan.program.command)} {role.plan.environment.setup or ''}"


def _serves(role: RolePlan) -> bool:
    """Whether a role listens at a port, or starts something that may."""
    text = _read_text(role)
    return bool(re.search(rf"\$\{{?{role.name.upper()}_PORT|--port\b|&\s", text))


def _asks(role: RolePlan, other: RolePlan) -> bool:
    """Return whether a role names the address or the port of another."""
    asked = re.search(rf"\$\{{?{other.name.upper()}_(ADDR|PORT)", _read_text(role))
    return role is not other and asked is not None


def _check_addresses(job: _Subject) -> _Found:
    """Yield variables of a role's words that look like another role's, and that none sets."""
    role = job.role
    if role is None:
        return
    text = _read_text(role)
    known = {*list_names(job.whole), *os.environ, "MASTER_ADDR", "MASTER_PORT"}
    known |= {*job.plan.environment.variables, *re.findall(r"(\w+)=", text)}
    names = sorted(one.name.upper() for one in job.roles)
    have = ", ".join(f"${name}_ADDR, ${name}_PORT" for name in names)
    names = re.findall(r"\$\{?([A-Z]\w*?_(?:ADDR|PORT|HOST|URL|NODE|IP)\w*)", text)
    for name in sorted({*names} - known):
        yield "no-address", "run", {"name": name, "have": have}


_CHECKS = (
    _check_variables,
    _check_spelling,
    _check_binds,
    _check_files,
    _check_start,
    _check_module,
    _check_no_use,
    _check_venv,
    _check_addresses,
)
