"""What a spec says that is right in form and can hardly be meant: numbers, paths and characters.

`check` and `submit` ask for it; a render does not, which stays as fast as it is.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from jobgen.errors import JobgenError, Problem
from jobgen.output import format_count as count
from jobgen.plan.nodes import advise_on_devices
from jobgen.plan.plan import Plan
from jobgen.plan.program import read_sources
from jobgen.plan.review_roles import review_roles
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec, Resources
from jobgen.spec.yaml_nodes import Mapping, Node, Scalar, parse_value

_GIB = 1024**2  # in KiB
# Options with their values, those in configuration files that arguments name among them.
_Settings = tuple[tuple[str, str], ...]
# A variable that a line of setup exports.
_EXPORTS = re.compile(r"""^\s*export\s+([A-Z][A-Z0-9_]*)=["']?([^\s"';`]*)""", re.MULTILINE)
# Places that all nodes of a cluster see, and that no image has.
_SHARED = re.compile(
    r"/(scratch|g/data|gpfs|data|datasets|mnt|lustre|work|project|projects|home|users|u|nfs|p)\w*/\w"
)
# Options whose value is a place that the program writes to.
_OUTPUTS = re.compile(
    r"--?(out|output|save|checkpoint|ckpt|log|logging|result)s?([_-]?(dir|path|folder))?"
)
# What a program reads, and does not make.
_READ = re.compile(
    r"[^$*?\[{:]+\.(ya?ml|jsonl?|toml|txt|csv|tsv|parquet|bin|np[yz]|h5|arrow|sh|py)"
)
# Files that lines of setup read.
_SETUP_READS = re.compile(
    r"^(?:source|\.|(?:uv )?pip3? install\b.* -r|conda env (?:create|update)\b.* -f) +([\w./~-]+)",
    re.MULTILINE,
)
# Sizes of the groups of GPUs that hold one copy of a model: each GPU is in one of each kind.
_PARTS = re.compile(r"(tensor|pipeline|context)_(model_)?parallel(_size)?|(tp|pp|cp)(_size)?")
# What has one process drive several GPUs.
_TAKES_SEVERAL = r"\bjax\b|(?<!Distributed)DataParallel\(|device_map|vllm|tensorflow|cuda:[1-9]"
_MOST_GIB, _MOST_CPUS, _MOST_GPUS = 8192, 400, 16  # few nodes have more
_MOST_TEXT = 50_000  # characters of a configuration file


def review(loaded: LoadedSpec, plan: Plan, copied: Sequence[str] | None = None) -> list[Problem]:
    """Return what the spec can hardly mean, in the order of its lines.

    `copied` are the files and folders of its snapshot, by `list_copied`; None without one.
    """
    rules = (
        _check_processes,
        _check_sizes,
        _check_cpus,
        _check_memory,
        _check_variables,
        _check_lists,
        _check_tasks,
        _check_outputs,
        _check_packing,
        _check_container,
        _check_binds,
        _check_setup,
        _check_venv,
        _check_batches,
        _check_directives,
        _check_names,
    )
    plans = [role.plan for role in plan.roles.members] if plan.roles else [plan]
    problems = {*review_roles(loaded, plan)}
    for part, own in zip(loaded.programs(), plans, strict=True):
        settings = tuple(list_settings(own.program.command))
        for check in (_apply_table, _check_numbers, _check_groups):
            problems.update(check(part, own, settings))
        problems.update(_check_files(part, own, copied), *(rule(part, own) for rule in rules))
    return sorted(problems)


@cache
def _read_table() -> list[list[str]]:
    path = os.path.join(os.path.dirname(__file__), "review.txt")
    with open(path, encoding="utf-8") as lines:
        rows = [line.strip() for line in lines if line.strip() and line[0] != "#"]
    return [row.split(" | ", 5 if row.startswith("number") else 4) for row in rows]


def _apply_table(loaded: LoadedSpec, plan: Plan, settings: _Settings) -> Iterator[Problem]:
    """Yield what `review.txt` has for the texts of a spec."""
    facts, texts = _list_facts(loaded, plan), _list_texts(loaded, plan, settings)
    for source, asked, form, message, hint in (row for row in _read_table() if len(row) == 5):
        needs = asked.replace("-", "").split()
        if not texts[source] or any(bool(facts[one.strip("!")]) == ("!" in one) for one in needs):
            continue
        for path, text in texts[source]:
            if match := re.search(form, text, re.MULTILINE):
                values = facts | match.groupdict() | {"base": os.path.basename(text)}
                finding, write = (Template(one).safe_substitute(values) for one in (message, hint))
                yield loaded.problem(path, finding, write)
                break


def _list_facts(loaded: LoadedSpec, plan: Plan) -> dict[str, Any]:
    """Return what rows ask for, and name."""
    spec, container = loaded.spec, plan.environment.container
    return {
        "nodes": plan.nodes.total if plan.nodes.total > 1 else 0,
        "processes": plan.nodes.world_size if plan.nodes.world_size > 1 else 0,
        "batch": plan.can.batch,
        "chained": spec.on_walltime is not None and spec.on_walltime.then != "stop",
        "plain": plan.launch.plain,
        "gpus": sum(plan.nodes.gpus_of_each),
        "container": container,
        "podman": container and container.runtime == "podman-hpc",
        "modules": spec.environment.modules,
        "relative": re.match(r"[^/~$]", spec.run.script or ""),
        "offline": plan.site.internet == "none",
        "site": spec.site or "this site",
    }


def _list_texts(
    loaded: LoadedSpec, plan: Plan, settings: _Settings
) -> dict[str, list[tuple[str, str]]]:
    """Return the places and texts that rows of `review.txt` look at, by what they are."""
    texts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    words, places = _list_words(loaded, plan, settings), _list_places(loaded, plan)
    for source, path, text in itertools.chain(_list_lines(loaded, plan), words, places):
        if text:
            texts[source].append((path, text))
    return texts


# What a text is, its place, and itself.
_Texts = Iterator[tuple[str, str, str]]


def _list_lines(loaded: LoadedSpec, plan: Plan) -> _Texts:
    """Yield the lines of setup, each variable, and the value of each key."""
    setup = loaded.spec.environment.setup or ""
    yield "setup", "environment.setup", setup
    yield "read", "environment.setup", setup
    for path, name, value in _list_variables(loaded, plan):
        yield "variable", path, f"{name}={value}"
        if name.endswith("_SOCKET_IFNAME"):
            yield "interface", path, value
    variables = plan.environment.variables
    names = [*plan.environment.from_shell, *(f"{name}={variables[name]}" for name in variables)]
    yield "names", "environment", " ".join(names)
    lines = loaded.text.split("\n")
    for path, where in loaded.positions.items():
        if where.file == loaded.file and 0 < where.line <= len(lines):
            text = lines[where.line - 1][where.column - 1 :]
            yield "line", path, text
            yield "key", path, f"{path} {text}"


def _list_words(loaded: LoadedSpec, plan: Plan, settings: _Settings) -> _Texts:
    """Yield the words of the program, and each of its options with its value."""
    command = loaded.spec.run.command or ()
    yield "command", "run.command", re.sub(r"^\S*/", "", " ".join(command))
    yield "read", "run.command", " ".join(command)
    yield "read", "run.args", " ".join(plan.program.command)
    for option, value in settings:
        yield "word", "run.args", f"{option} {value}"


def _list_places(loaded: LoadedSpec, plan: Plan) -> _Texts:
    """Yield the files that keys name, the interface and the modules."""
    own, modules = loaded.spec.environment, plan.environment.modules
    image = own.container.image if own.container else ""
    files = {"run.script": loaded.spec.run.script, "environment.venv": own.venv}
    for path, file in (files | {"environment.container.image": image}).items():
        if file and not own.stage and os.path.basename(file) not in (own.setup or ""):
            yield "file", path, file
    yield "interface", "launch.interface", plan.launch.interface or ""
    yield "modules", "environment.modules", " ".join(modules.load) if modules else ""


def list_copied(snapshot: bool | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the files and folders that a snapshot has; None without one, or without git."""
    from jobgen.process import list_tracked_files

    tracked = list_tracked_files() if snapshot else None
    named = map(os.path.normpath, snapshot if isinstance(snapshot, tuple) else ())
    return None if tracked is None else (*tracked, *named)


def _list_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word of a command with its value: what follows its `=`, else the next word."""
    for word, following in itertools.pairwise((*words, "")):
        option, equals, value = word.partition("=")
        yield option, value if equals else following


def list_settings(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command, and what the configuration files that it names hold."""
    for option, value in _list_options(words):
        yield option, value
        if re.fullmatch(r"[^$*?\[{:]+\.(ya?ml|json)", value) and os.path.isfile(value):
            try:
                text = Path(value).read_text(encoding="utf-8")[:_MOST_TEXT]
                yield from _flatten(parse_value(text, file=value), value)
            except (OSError, ValueError, JobgenError):
                continue  # it is for the program to say so


def _flatten(node: Node, start: str) -> Iterator[tuple[str, str]]:
    """Yield the values of keys within keys, by their paths below `start`."""
    for name, one in node.items.items() if isinstance(node, Mapping) else ():
        if isinstance(one, Scalar):
            yield f"{start}:{name}", one.text
        elif not isinstance(one, Mapping) or not one.items:
            yield f"{start}:{name}", ""
        else:
            yield from _flatten(one, f"{start}:{name}")


def _check_processes(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Processes against the GPUs of a node."""
    for group in dict.fromkeys(plan.nodes.own):
        processes, gpus = group.processes, group.gpus
        several = processes > 1 and plan.launch.mode in ("torchrun", "direct")
        if gpus and processes > gpus:
            message = (
                f"{processes} processes share {count(gpus, 'GPU')} on a node; NCCL takes one each"
            )
            hint = f"write processes_per_node: {gpus}, unless they use gloo or MPS"
            yield loaded.problem("launch.processes_per_node", message, hint)
        elif processes < gpus and (several or _takes_one_gpu(plan)):
            leave = "1 process leaves" if processes == 1 else f"{processes} processes leave"
            message = f"{leave} {gpus - processes} of {gpus} GPUs on a node idle"
            hint = f"write processes_per_node: {gpus}, unless each takes several"
            yield loaded.problem("launch.processes_per_node", message, hint)


def _check_sizes(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """CPUs and GPUs that few nodes have, so that those of all are meant."""
    key = "cpus_per_gpu" if loaded.spec.resources.cpus_per_gpu else "cpus_per_node"
    counted = "each of the" if key == "cpus_per_gpu" else "all"
    for group in dict.fromkeys(plan.nodes.own):
        cpus, gpus = group.cpus or 0, group.gpus
        if cpus > _MOST_CPUS:
            hint = f"it counts for {counted} {gpus} GPUs of a node"
            yield loaded.problem(f"resources.{key}", f"asks for {cpus} CPUs on a node", hint)
        if gpus > _MOST_GPUS:
            message = f"asks for {gpus} GPUs on a node"
            hint = f"for {gpus} in all write nodes: {-(-gpus // 8)}, gpus_per_node: 8"
            yield loaded.problem("resources.gpus_per_node", message, hint)


def _check_cpus(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Processes and their threads against the CPUs of a node."""
    variables = {name: (value, path) for path, name, value in _list_variables(loaded, plan)}
    threads, path = variables.get("OMP_NUM_THREADS", ("", ""))
    for group in dict.fromkeys(one for one in plan.nodes.own if one.cpus):
        processes, cpus = group.processes, group.cpus or 0
        if processes > cpus and loaded.spec.resources.cpus_per_node:
            message = f"{processes} processes share {count(cpus, 'CPU')} on a node"
            hint = f"write cpus_per_node: {processes} or more"
            yield loaded.problem("resources.cpus_per_node", message, hint)
        elif threads.isdecimal() and int(threads) * processes > cpus:
            several = f"{count(processes, 'process', 'processes')} with {threads} threads"
            message = f"{several} share {count(cpus, 'CPU')} on a node"
            hint = f"write {max(1, cpus // processes)}, or leave it out"
            yield loaded.problem(path, message, hint)


def _check_memory(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Memory that a process of PyTorch cannot start in: a unit that was mistaken."""
    memory, group = loaded.spec.resources.memory_per_node, plan.nodes.groups[0]
    if memory is not None and group.gpus and memory < group.processes * _GIB:
        message = f"{memory // 1024} MiB are less than 1 GiB a process"
        yield loaded.problem("resources.memory_per_node", message, "check the unit: MB, GB")
    if memory is not None and memory > _MOST_GIB * _GIB:
        message = f"asks for {memory // _GIB} GiB on a node"
        yield loaded.problem("resources.memory_per_node", message, "check the unit: GB, TB")


def _list_variables(loaded: LoadedSpec, plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield variables with their values: the spec's own, and those that its setup exports."""
    for name, value in plan.environment.variables.items():
        yield f"environment.variables.{name}", name, value
    for name, value in _EXPORTS.findall(loaded.spec.environment.setup or ""):
        yield "environment.setup", name, value


def _check_variables(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Variables that show other GPUs than the job asks for."""
    gpus = max(plan.nodes.gpus_of_each)
    for path, name, value in _list_variables(loaded, plan):
        shown = len([part for part in value.split(",") if part.strip()])
        if not name.endswith("_VISIBLE_DEVICES") or "$" in value or value == "all":
            continue
        if shown != gpus > 0:
            seen = f"{shown} of the {gpus} GPUs"
            if shown > gpus:
                seen = f"{shown} GPUs, and not the {gpus}"
            message = f"{name} shows {seen} that the job asks for on a node"
            hint = f"leave it out, or write gpus_per_node: {shown}"
            yield loaded.problem(path, message, hint)


def _check_lists(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Numbers of devices where numbers for each node are meant."""
    gpus = loaded.spec.resources.gpus_per_node
    if isinstance(gpus, tuple) and 0 in gpus[1:] and plan.launch.mode in ("torchrun", "direct"):
        message = "the processes of a node without GPUs have none, and those of the others do"
        yield loaded.problem("resources.gpus_per_node", message, "write a number for each node")
    if isinstance(gpus, tuple) and (hint := advise_on_devices(gpus)):
        message = f"asks for {len(gpus)} nodes, with {', '.join(map(str, gpus))} GPUs"
        yield loaded.problem("resources.gpus_per_node", message, hint)


def _check_tasks(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Tasks of an array that are alike, or are to differ by what all of a job share."""
    if plan.array is None:
        return
    for name in Resources._fields:
        if loaded.spec.array and name in (loaded.spec.array.values or {}):
            message = f"{name} is an argument of the program here: its tasks get --{name}"
            hint = f"all tasks have the job's resources; write run.args.{name} if that is meant"
            yield loaded.problem(f"array.values.{name}", message, hint)
    tasks = plan.array.tasks
    words = [(*task.arguments, *task.variables.values()) for task in tasks[:100]]
    alike = {tuple(map(_read_number, one)) for one in words}
    if any(map(any, tasks)) and len(alike) < len(words):
        message = f"some of the {len(tasks)} tasks are the same, as a value is given twice"
        yield loaded.problem("array", message, "give each value once")


def _check_outputs(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """A place that all tasks of an array write to; of a Python program the look into it says so."""
    if plan.array is None or "import" in (read_sources(plan) or ""):
        return
    for option, place in _list_options(plan.program.command):
        if _OUTPUTS.fullmatch(option) and place and "$" not in place:
            message = f"all {len(plan.array.tasks)} tasks write to {option} {place}"
            hint = "write {value: $JOBGEN_RUN_DIR/results, expand: true}"
            yield loaded.problem("run.args", message, hint)
            return


def _read_number(word: Any) -> Any:
    """Return a number for a word that is one: 1e-3 is 0.001."""
    try:
        return float(word)
    except (TypeError, ValueError):
        return word


def _check_packing(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Tasks of a part of a node that are charged for all of it."""
    node, array, gpus = plan.defaults.node, plan.array, plan.nodes.gpus
    whole = node.whole or plan.requests.exclusive
    if array is None or not whole or plan.nodes.total > 1 or not gpus:
        return
    if node.gpus is None:
        if gpus == 1 < array.size and plan.nodes.together == 1:
            message = f"each of the {array.size} tasks takes a whole node for 1 GPU"
            yield loaded.problem("array", message, "write together, for tasks that share a node")
        return
    (group,) = plan.nodes.asked
    fit = node.gpus // gpus
    if 0 < group.gpus < node.gpus and fit > plan.nodes.together:
        tasks = f"{array.size} tasks of {count(gpus, 'GPU')}"
        message = (
            f"{tasks} are charged as {array.jobs * node.gpus} GPUs, as each job has whole nodes"
        )
        yield loaded.problem("array", message, f"write together: {min(fit, array.size)}")


def _check_container(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """A venv that the container does not see."""
    own = loaded.spec.environment
    if own.container is not None and own.venv and own.venv.startswith("/"):
        seen = [bind.partition(":")[0] for bind in own.container.binds]
        if not is_below(own.venv, [*seen, *_list_mounted()]):
            message = f"{own.venv} is not seen inside the container"
            hint = f"write binds: [{os.path.dirname(own.venv)}], or leave the venv out"
            yield loaded.problem("environment.venv", message, hint)


def _list_mounted() -> list[str]:
    """Folders that a container sees by itself, at the same paths."""
    return [os.getcwd(), os.path.expanduser("~"), "/tmp"]


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of some folders, or below one."""
    return any(f"{path}/".startswith(folder.rstrip("/") + "/") for folder in folders)


def _check_binds(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Paths that the program is given as they are outside its container."""
    container, site = loaded.spec.environment.container, plan.site.container
    if container is None:
        return
    pairs = [bind.split(":")[:2] for bind in container.binds]
    binds = [(bind[0], bind[1]) for bind in pairs if len(bind) == 2]
    seen = [target for *_, target in pairs] + _list_mounted()
    of_site = [bind.partition(":")[0] for bind in site.binds] if site else []
    for option, value in _list_options(plan.program.command):
        bound = [] if is_below(value, seen) else [one for one in binds if is_below(value, one[:1])]
        if bound:
            inside = bound[0][1] + value.removeprefix(bound[0][0])
            message = f"{option} {value} is {inside} inside the container"
            yield loaded.problem("run.args", message, f"write {inside}")
        elif _SHARED.match(value) and not is_below(value, [*seen, *of_site]):
            message = f"{option} {value} is not seen inside the container"
            yield loaded.problem("run.args", message, f"add {os.path.dirname(value)} to binds")


def _check_setup(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Lines of setup that start what the job starts."""
    setup, program = loaded.spec.environment.setup or "", re.escape(loaded.spec.run.script or "\n")
    if re.search(rf"^[^#\n]*python[\d.]* (-\S+ )*{program}(?!\S)", setup, re.MULTILINE):
        message = f"starts {loaded.spec.run.script} on every node, before the job does"
        hint = "remove it; run.script names the program"
        yield loaded.problem("environment.setup", message, hint)


def _check_numbers(loaded: LoadedSpec, plan: Plan, options: _Settings) -> Iterator[Problem]:
    """Numbers in the program's arguments that differ from the job's."""
    named = [*_list_numbers(options)]
    share = math.prod(_find_parts(options).values()) or 1
    micros = [number for name, _, number in named if re.fullmatch("micro_?batch(_size)?", name)]
    has = _count(plan, max(1, plan.nodes.world_size // share), (*micros, 0)[0])
    for names, relation, fact, *texts in (row[1:] for row in _read_table() if row[0] == "number"):
        right, known = has[fact], names.split()
        for name, option, number in named if right else ():
            holds = {"=": number == right, "<=": number <= right, "times": number % right == 0}
            if name in known and not holds[relation]:
                values = {"option": option, "value": number, "has": right}
                message, hint = (Template(one).safe_substitute(values) for one in texts)
                yield loaded.problem("run.args", message, hint)


def _check_groups(loaded: LoadedSpec, plan: Plan, options: _Settings) -> Iterator[Problem]:
    """GPUs that do not divide into the groups that hold one copy of a model."""
    parts, gpus = _find_parts(options), sum(plan.nodes.gpus_of_each)
    share = math.prod(parts.values()) or 1
    if gpus and gpus % share and max(parts.values()) <= gpus:
        message = f"{gpus} GPUs do not divide into groups of {share} ({', '.join(parts)})"
        yield loaded.problem("run.args", message, f"write sizes whose product divides {gpus}")


def _find_parts(options: _Settings) -> dict[str, int]:
    return {name: number for name, _, number in _list_numbers(options) if _PARTS.fullmatch(name)}


def _list_numbers(options: _Settings) -> Iterator[tuple[str, str, int]]:
    """Yield the options that are given a number: the last part of the name, the option, it."""
    for option, value in options:
        if value.isdecimal():
            name = re.split(r"[.:]", option)[-1].strip("-+").replace("-", "_")
            yield name, option, int(value)


def _count(plan: Plan, groups: int, micro: int) -> dict[str, int]:
    """Return the numbers of a job, in which `groups` of processes each take a micro batch."""
    group = plan.nodes.own[0]
    return {
        "nodes": plan.nodes.total,
        "world": plan.nodes.world_size,
        "groups": groups,
        "batch": groups * micro,
        "gpus": sum(plan.nodes.gpus_of_each),
        "gpus_per_node": group.gpus,
        "processes": 0 if plan.launch.plain else group.processes,
        "cpus": (group.cpus or 0) // group.processes,
    }


def _check_batches(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Batch sizes of a configuration of DeepSpeed that do not multiply to its whole batch."""
    for option, value in _list_options(plan.program.command):
        if "deepspeed" not in option or not value.endswith(".json"):
            continue
        try:
            with open(os.path.expanduser(value), encoding="utf-8") as file:
                sizes = json.load(file)
            whole, micro = sizes["train_batch_size"], sizes["train_micro_batch_size_per_gpu"]
            steps = sizes.get("gradient_accumulation_steps", 1)
            product = micro * steps * plan.nodes.world_size
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # it is not here, or says only some of them
        if isinstance(product, int) and product != whole:
            message = f"{value} has a train_batch_size of {whole}, and {micro} x {steps} x"
            message += f" {count(plan.nodes.world_size, 'process', 'processes')} is {product}"
            yield loaded.problem("run.args", message, f"write {product}, or leave one of them out")


def _check_directives(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Directives of another scheduler."""
    directives, sign = loaded.spec.directives, f"{plan.can.sign} "
    foreign = directives and not any(line.startswith(sign) for line in directives)
    if loaded.spec.scheduler and foreign:
        hint = f"write {sign}..., or the key that means the same"
        yield loaded.problem("directives", f"{plan.scheduler} does not read them", hint)


def _check_names(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Misspelt names of variables, and of options of sbatch."""
    variables, options = (row[1].split() for row in _read_table() if row[0] == "known")
    own = loaded.spec.environment.variables or {}
    written = [(f"environment.variables.{name}", name, variables) for name in own]
    for index, line in enumerate(loaded.spec.directives):
        if match := re.match(r"#SBATCH --([a-z-]+)", line):
            written.append((f"directives[{index}]", match[1], options))
    for path, name, known in written:
        if name in known:
            continue
        from jobgen.spec.spelling import find_near

        if near := find_near(name, known, cutoff=0.85):
            yield loaded.problem(path, f"nothing reads {name}", f"did you mean {near}?")


def _check_files(loaded: LoadedSpec, plan: Plan, copied: Sequence[str] | None) -> Iterator[Problem]:
    """Files and folders that the job reads and that are not here, or not in its snapshot."""
    setup = loaded.spec.environment.setup or ""
    moved = re.search(r"\b(cd|pushd)\b", setup)
    for path, name, text in _list_files(loaded, plan):
        made = path != "environment.setup" and os.path.basename(name) in setup
        elsewhere = moved and not os.path.isabs(name)
        if _is_missing(name) and not made and not elsewhere:
            hint = "correct the path"
            if name[:1] not in "/~":
                hint += "; paths are relative to the folder you submit from"
            hint = "uv init makes one" if path == "environment.uv" else hint
            yield loaded.problem(path, f"{text} is not here", hint)
        elif path in ("run.args", "environment.setup") and _is_left_out(name, copied):
            message = f"{text} is not in the snapshot, as git does not track it"
            yield loaded.problem(path, message, f"git add it, or write snapshot: [{name}]")


def _is_left_out(name: str, copied: Sequence[str] | None) -> bool:
    """Whether a file of this folder is not in the job's snapshot."""
    if copied is None or name[:1] in "/~$" or not os.path.exists(name):
        return False
    return not is_below(os.path.normpath(name), copied)


def _check_venv(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """A venv without bin/activate."""
    venv = loaded.spec.environment.venv or ""
    folder = os.path.expanduser(venv)
    if venv and os.path.isdir(folder) and not os.path.isfile(f"{folder}/bin/activate"):
        conda = os.path.isdir(f"{folder}/conda-meta")
        hint = f"write environment.conda: {venv}" if conda else "name the folder above bin"
        yield loaded.problem("environment.venv", f"{venv} has no bin/activate", hint)


def _list_files(loaded: LoadedSpec, plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield what is read, with its place in the spec, and with what is before it."""
    own, run = loaded.spec.environment, loaded.spec.run
    named = [("environment.stage", own.stage), *_list_sent(loaded.spec)]
    named += [("environment.setup", name) for name in _SETUP_READS.findall(own.setup or "")]
    if own.uv:
        yield "environment.uv", "pyproject.toml", "pyproject.toml, which uv needs,"
    if own.container is None:  # else it may lie in the image
        named += [("run.script", run.script), ("run.body", run.body)]
        named += [("environment.venv", own.venv), ("run.command", _find_file(run.command or ()))]
        yield from _list_read(plan.program.command)
    elif re.match(r"[./~]|.*\.(sif|sqsh|simg)$", own.container.image):
        named.append(("environment.container.image", own.container.image))
    yield from ((path, name, name) for path, name in named if name)


def _list_sent(spec: JobSpec) -> list[tuple[str, str]]:
    """Return what a snapshot copies by name, and what is sent."""
    copied = spec.snapshot if isinstance(spec.snapshot, tuple) else ()
    return [*(("snapshot", name) for name in copied), *(("send", name) for name in spec.send)]


def _list_read(command: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the files that the options of a program name."""
    for option, value in _list_options(command):
        if option[:2] == "--" and _READ.fullmatch(value) and not _OUTPUTS.match(option):
            yield "run.args", value, f"{option} {value}"


def _find_file(command: Sequence[str]) -> str:
    """Return the script that a command is, or that its Python or shell runs; empty without one."""
    words = [word for word in command if word[:1] != "-"]
    if not words or "-c" in command:
        return ""
    runs = os.path.basename(words[0]) in ("bash", "sh", "zsh") or "python" in words[0]
    file = words[1] if runs and words[1:] else words[0]
    by_path = "/" in file or file != words[0]  # else it is looked for on PATH
    return file if by_path and file.endswith((".sh", ".py")) else ""


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


def _takes_one_gpu(plan: Plan) -> bool:
    """Whether torchrun starts a program in which nothing has one process drive several GPUs."""
    if plan.launch.mode != "torchrun":
        return False
    source = read_sources(plan) or ""
    foreign = "import" in source and "torch" not in source
    return not foreign and not re.search(_TAKES_SEVERAL, source)
