"""What a spec can hardly mean and no regular expression shows: numbers, files, roles.

A check is a function that yields what it finds: the name of its words in `review.txt`, the place,
and the values in the words.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from jobgen.output import format_count as count
from jobgen.plan.nodes import advise_on_devices
from jobgen.plan.plan import NodeGroup, Plan, RolePlan
from jobgen.plan.program import read_sources
from jobgen.plan.roles import list_needed
from jobgen.records import NamedTuple
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import Container, JobSpec, Resources, Role
from jobgen.spec.roles import list_names
from jobgen.spec.tables import read_rows
from jobgen.spec.units import read_number

Settings = tuple[tuple[str, str], ...]
Found = Iterator[tuple[str, str, Mapping[str, Any]]]

_GIB = 1024**2  # in KiB
_USUAL_GPUS = 8  # of a node of which nothing is known


class Subject(NamedTuple):
    """A program of a job: its spec and plan, as those of a job on its own nodes."""

    loaded: LoadedSpec
    plan: Plan
    settings: Settings  # its options with their values, and those of files that these name
    copied: Sequence[str] | None  # of its snapshot
    roles: tuple[RolePlan, ...]  # of the job, if it has some
    role: RolePlan | None  # the one that this is

    @property
    def spec(self) -> JobSpec:
        """Its spec."""
        return self.loaded.spec

    @property
    def setup(self) -> str:
        """Its lines of setup."""
        return self.spec.environment.setup or ""

    def mentions(self, file: str) -> bool:
        """Whether its setup has the name of a file or folder, which it may make."""
        return os.path.basename(os.path.normpath(file)) in self.setup

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
    def whole(self) -> JobSpec:
        """The spec of all roles."""
        return self.loaded.whole or self.spec

    def find_role(self, name: str) -> Role:
        """Return what the spec says of a role."""
        return (self.whole.roles or {})[name]


@cache
def list_rows(kind: str) -> list[list[str]]:
    """Return the cells of a kind's rows in `review.txt`, without the first, which lists kinds."""
    rows = read_rows("review.txt", room="plan")
    return [cells for kinds, *cells in rows if kind in kinds.split()]


@cache
def _form(name: str) -> re.Pattern[str]:
    return re.compile(dict(list_rows("form"))[name])


def list_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word of a command with its value: what follows its `=`, else the next word."""
    for word, following in itertools.pairwise((*words, "")):
        option, equals, value = word.partition("=")
        yield option, value if equals else following


def list_variables(job: Subject) -> Iterator[tuple[str, str, str]]:
    """Yield variables with their values: the spec's own, and those that its setup exports."""
    for name, value in job.plan.environment.variables.items():
        yield f"environment.variables.{name}", name, value
    for name, value in _form("exported").findall(job.setup):
        yield "environment.setup", name, value


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of some folders, or below one."""
    return any(f"{path}/".startswith(folder.rstrip("/") + "/") for folder in folders)


def _takes_one_gpu(plan: Plan) -> bool:
    """Whether torchrun starts a program in which nothing has one process drive several GPUs."""
    source = read_sources(plan) or ""
    foreign = "import" in source and "torch" not in source
    takes_several = foreign or _form("several").search(source)
    return plan.launch.mode == "torchrun" and not takes_several


def count_node(job: Subject, group: NodeGroup) -> dict[str, Any]:
    """Return what a node of a job has and is asked for: numbers, and what is true of it."""
    spec, launch, processes = job.spec.resources, job.plan.launch, group.processes
    cpus, memory = group.cpus or 0, spec.memory_per_node or 0
    variables = {name: (value, path) for path, name, value in list_variables(job)}
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
        "disk": (spec.disk_per_node or 0) // _GIB,
        "least": processes * _GIB,
        "several": processes > 1 and launch.mode in ("torchrun", "direct"),
        "lone": processes == 1 and _takes_one_gpu(job.plan),
        "of_node": cpus and spec.cpus_per_node,
        "of_gpu": spec.cpus_per_gpu,
        "variable": path,
        "all": count(processes, "process", "processes"),
        "has_cpus": count(cpus, "CPU"),
        "has_gpus": count(group.gpus, "GPU"),
    }


def _read_count(text: str) -> int:
    """Return a number; 0 for other words, such as auto."""
    return int(read_number(text, text=True) or 0)


def count_job(job: Subject) -> dict[str, Any]:
    """Return what all nodes of a job, and the tasks of its array, have and are asked for."""
    plan, node, array = job.plan, job.plan.defaults.node, job.plan.array
    gpus, has, listed = plan.nodes.gpus, node.gpus or 0, job.spec.resources.gpus_per_node
    each = listed if isinstance(listed, tuple) else ()
    own, parts = sum(plan.nodes.gpus_of_each), _find_parts(job)
    share = math.prod(parts.values()) or 1
    return {
        "listed": len(each),
        "each": ", ".join(map(str, each)),
        "advice": advise_on_devices(each),
        "gpuless": 0 in each[1:] and plan.launch.mode in ("torchrun", "direct"),
        "job_gpus": own,
        "parts": ", ".join(parts),
        "share": share,
        "rest": own % share if max(parts.values(), default=0) <= own else 0,
        "together": plan.nodes.together,
        "shared": plan.nodes.together > 1 == plan.nodes.total,
        "packed": gpus * plan.nodes.together,
        "room": has or _USUAL_GPUS,
        "whole": (node.whole or plan.requests.exclusive) and plan.nodes.total == 1 and gpus,
        "single": (has, gpus, plan.nodes.together) == (0, 1, 1),
        "fit": min(has // max(1, gpus), array.size),
        "charged": array.jobs * has,
    }


def describe_role(job: Subject, role: RolePlan) -> dict[str, Any]:
    """Return what a role is to the others of its job: numbers, and what is true of it."""
    ready, limit = job.find_role(role.name).ready, job.whole.resources.walltime
    within = ready and ready.within
    source, port = read_sources(role.plan), f"{role.name.upper()}_PORT"
    # A port that its command names is for another row to say.
    named = re.search(r"--port[= ]\d+\b", read_text(role))
    return {
        "role": role.name,
        "port": port,
        "last": role is job.roles[-1],
        "tested": role.test[:1] in (("http",), ("tcp",)),
        "asked": not role.test and any(_asks(one, role) for one in job.roles),
        "endless": within and limit and within >= limit,
        "elsewhere": source is not None and not named and port not in source,
    }


def _check_variables(job: Subject) -> Found:
    """Yield variables that show other GPUs than the job asks for."""
    gpus = max(job.plan.nodes.gpus_of_each)
    for path, name, value in list_variables(job):
        if name.endswith("_VISIBLE_DEVICES") and re.fullmatch(r"(?!all$)[^$]*", value):
            shown = len(re.findall(r"[^,\s][^,]*", value))
            if shown != gpus > 0:
                yield "visible-devices", path, {"name": name, "gpus": gpus, "shown": shown}


def _check_tasks(job: Subject) -> Found:
    """Yield tasks of an array that are alike, or are to differ by what all of a job share."""
    tasks, array = job.plan.array.tasks, job.spec.array
    values = array.values if array else None
    for name in {*Resources._fields}.intersection(values or ()):
        yield "swept-resource", f"array.values.{name}", {"name": name}
    words = [(*task.arguments, *task.variables.values()) for task in tasks[:100]]
    alike = {tuple(read_number(word, text=True) or word for word in one) for one in words}
    if any(map(any, tasks)) and len(alike) < len(words):
        yield "same-tasks", "array", {"tasks": len(tasks)}


def _check_binds(job: Subject) -> Found:
    """Yield paths that the container does not see, or sees elsewhere."""
    site = job.plan.site.container
    of_site = [bind.partition(":")[0] for bind in site.binds] if site else []
    seen = [target for _, target in job.binds] + _list_mounted()
    for option, value in list_options(job.plan.program.command if job.container.image else ()):
        if is_below(value, seen):
            continue
        about = {"option": option, "value": value, "folder": os.path.dirname(value)}
        inside = [to + value.removeprefix(of) for of, to in job.binds if is_below(value, [of])]
        if inside:
            yield "bound-path", "run.args", about | {"inside": inside[0]}
        elif _form("shared").match(value) and not is_below(value, of_site):
            yield "unseen-path", "run.args", about


def _list_mounted() -> list[str]:
    """Folders that a container sees by itself, at the same paths."""
    return [os.getcwd(), os.path.expanduser("~"), "/tmp"]


def _check_venv(job: Subject) -> Found:
    """Yield a venv without bin/activate, or one that the container does not see."""
    venv = job.spec.environment.venv or ""
    folder = os.path.expanduser(venv)
    values = {"venv": venv, "folder": os.path.dirname(venv)}
    if venv and os.path.exists(folder) and not os.path.isfile(f"{folder}/bin/activate"):
        kind = ".conda" if os.path.isdir(f"{folder}/conda-meta") else ""
        yield f"no-venv{kind}", "environment.venv", values
    shown = [source for source, _ in job.binds] + _list_mounted()
    if job.container.image and venv[:1] == "/" and not is_below(venv, shown):
        yield "unseen-venv", "environment.venv", values


def list_numbers(options: Settings) -> Iterator[tuple[str, str, int]]:
    """Yield the options that are given a number: the last part of the name, the option, it."""
    for option, value in options:
        if value.isdecimal():
            name = re.split(r"[.:]", option)[-1].strip("-+").replace("-", "_")
            yield name, option, int(value)


def _find_parts(job: Subject) -> dict[str, int]:
    numbers = list_numbers(job.settings)
    return {name: number for name, _, number in numbers if _form("parts").fullmatch(name)}


def count_processes(job: Subject) -> dict[str, int]:
    """Return the numbers of a job that a program may be told; 0 where it has none."""
    plan, group = job.plan, job.plan.nodes.own[0]
    # Each group of processes that holds a copy of the model takes a micro batch.
    groups = max(1, plan.nodes.world_size // (math.prod(_find_parts(job).values()) or 1))
    numbers = list_numbers(job.settings)
    micros = [one for name, _, one in numbers if re.fullmatch("micro_?batch(_size)?", name)]
    # DeepSpeed's own, of its file.
    own = {option.rpartition(":")[2]: value for option, value in job.settings}
    micro = _read_count(own.get("train_micro_batch_size_per_gpu", ""))
    steps = _read_count(own.get("gradient_accumulation_steps", ""))
    return {
        "nodes": plan.nodes.total,
        "world": plan.nodes.world_size,
        "groups": groups,
        "batch": groups * (*micros, 0)[0],
        "gpus": sum(plan.nodes.gpus_of_each),
        "gpus_per_node": group.gpus,
        "processes": 0 if plan.launch.plain else group.processes,
        "cpus": (group.cpus or 0) // group.processes,
        "product": plan.nodes.world_size * micro * steps,
        "micro": plan.nodes.world_size * micro,
    }


# What needs other words where it is not here.
_KINDS = {"environment.uv": ".uv", "environment.container.image": ".image"}


def _check_files(job: Subject) -> Found:
    """Yield files and folders that the job reads and that are not here, or not in its snapshot."""
    moved = re.search(r"\b(cd|pushd)\b", job.setup)
    for path, file, text in _list_files(job):
        made = path != "environment.setup" and job.mentions(file)
        elsewhere = moved and not os.path.isabs(file)
        if _is_missing(file) and not made and not elsewhere:
            from jobgen.spec.spelling import find_near_file

            near = find_near_file(file)
            usual = "" if file[:1] in "/~" else ".relative"
            kind = ".near" if near else _KINDS.get(path, usual)
            yield f"not-here{kind}", path, {"text": text, "near": near}
        elif path in ("run.args", "environment.setup") and _is_left_out(file, job.copied):
            yield "left-out", path, {"text": text, "file": file}


def _check_module(job: Subject) -> Found:
    """Yield a module that is not here, though one that is spelt nearly so is."""
    module = job.spec.run.module or ""
    file = f"{module.replace('.', '/')}.py"
    if len(module) < 4 or os.path.isdir(file[:-3]) or not _is_missing(file):
        return
    from jobgen.spec.spelling import find_near_file

    if near := find_near_file(file)[:-3].replace("/", "."):
        yield "not-here.near", "run.module", {"text": module, "near": near}


# Keys that only some schedulers or sites have a use for.
_NO_USE = {"qos", "reservation", "filesystems", "resources.disk_per_node", "queue"}


def _check_no_use(job: Subject) -> Found:
    """Yield keys that lead to nothing, though the spec itself is for the scheduler."""
    plan, loaded = job.plan, job.loaded
    own = [key for key, where in loaded.positions.items() if where.file == loaded.file]
    if plan.provenance.states_scheduler:
        for key in _NO_USE.intersection(own, plan.left_out):
            kind = ".queue" if key == "queue" else ""
            yield f"no-use{kind}", key, {"title": plan.can.title}


def _is_left_out(name: str, copied: Sequence[str] | None) -> bool:
    """Whether a file of this folder is not in the job's snapshot."""
    if copied is None or name[:1] in "/~$" or not os.path.exists(name):
        return False
    return not is_below(os.path.normpath(name), copied)


def _list_files(job: Subject) -> Iterator[tuple[str, str, str]]:
    """Yield what is read, with its place in the spec, and with what is before it."""
    own, run, spec = job.spec.environment, job.spec.run, job.spec
    image = (job.plan.environment.image_file or "").removeprefix("$PWD/")
    named: dict[str, Sequence[str | None]] = {
        "environment.stage": [own.stage],
        "snapshot": spec.snapshot if isinstance(spec.snapshot, tuple) else (),
        "send": spec.send,
        "environment.setup": _form("sourced").findall(job.setup),
        "environment.container.image": [image],
    }
    if not job.container.image:  # else it may lie in the image
        named |= {
            "run.script": [run.script],
            "run.body": [run.body],
            "run.command": [_find_file(run.words)],
            "environment.venv": [own.venv],
        }
        pairs = list_options(job.plan.program.command)
        read = [pair for pair in pairs if _form("read").fullmatch(" ".join(pair))]
        yield from (("run.args", value, f"{option} {value}") for option, value in read)
    if own.uv:
        name = "uv.lock" if os.path.isfile("pyproject.toml") else "pyproject.toml"
        yield "environment.uv", name, f"{name}, which uv needs,"
    for path, files in named.items():
        yield from ((path, name, name) for name in files if name)


def _find_file(command: Sequence[str]) -> str:
    """Return the script that a command is, or that its Python or shell runs; empty without one."""
    if not command or "-c" in command:
        return ""
    line = " ".join(word for word in command if word[:1] != "-")
    runs = re.match(
        r"(?:(?:\S*/)?(?:bash|sh|zsh) |\S*python\S* |(?=\S*/))(\S+\.(?:sh|py))(?!\S)", line
    )
    return runs[1] if runs else ""


def _is_missing(name: str) -> bool:
    """Whether a path is not on this machine, though its folder is, or would be.

    Every machine has a home folder, and this one need not be the cluster's.
    """
    path = os.path.expandvars(os.path.expanduser(name))
    if "$" in path or "://" in path or os.path.exists(path):
        return False
    folder = os.path.dirname(path)
    anywhere = ("/", os.path.expanduser("~"))
    return not os.path.isabs(path) or (folder not in anywhere and os.path.isdir(folder))


def read_text(role: RolePlan) -> str:
    """Return the command and the setup of a role."""
    return f"{' '.join(role.plan.program.command)} {role.plan.environment.setup or ''}"


def serves(role: RolePlan) -> bool:
    """Whether a role listens at a port, or starts something that may."""
    text = read_text(role)
    return bool(re.search(rf"\$\{{?{role.name.upper()}_PORT|--port\b|&\s", text))


def _asks(role: RolePlan, other: RolePlan) -> bool:
    """Return whether a role names the address or the port of another."""
    asked = re.search(rf"\$\{{?{other.name.upper()}_(ADDR|PORT)", read_text(role))
    return role is not other and asked is not None


def _check_asking(job: Subject, role: RolePlan) -> Found:
    """Yield the roles that one asks before they are ready."""
    awaited = list_needed(job.whole.roles or {}, role.name)
    others = [one.name for one in job.roles if one.test and _asks(role, one)]
    for other in sorted({*others} - {*awaited}):
        yield "asks-early", "run", {"other": other}


def _check_known(job: Subject, role: RolePlan) -> Found:
    """Yield variables for the addresses of roles that nothing sets."""
    text = read_text(role)
    known = {*list_names(job.whole), *os.environ, "MASTER_ADDR", "MASTER_PORT"}
    known |= {*job.plan.environment.variables, *re.findall(r"(\w+)=", text)}
    names = sorted(one.name.upper() for one in job.roles)
    have = ", ".join(f"${name}_ADDR, ${name}_PORT" for name in names)
    names = re.findall(r"\$\{?([A-Z]\w*?_(?:ADDR|PORT|HOST|URL|NODE|IP)\w*)", text)
    for name in sorted({*names} - known):
        yield "no-address", "run", {"name": name, "have": have}


CHECKS = (
    _check_variables,
    _check_tasks,
    _check_binds,
    _check_files,
    _check_module,
    _check_no_use,
    _check_venv,
)
ROLE_CHECKS = (
    _check_asking,
    _check_known,
)
