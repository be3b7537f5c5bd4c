"""What a spec says that is right in form and can hardly be meant: numbers, paths and characters.

`check` and `submit` ask for it; a render does not, which stays as fast as it is.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator

from jobgen.errors import Problem
from jobgen.plan.limits import count
from jobgen.plan.plan import Plan
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import Resources

_GIB = 1024**2  # in KiB
# Each node has its own.
_OWN_FOLDERS = re.compile(
    r"(/tmp|/var/tmp|/dev/shm|/local\w*|\$\{?(TMPDIR|SLURM_TMPDIR|PBS_JOBFS)\}?)(/|$)"
)
# What people and word processors write for - ' and ".
_LOOK_ALIKES = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-")
_LOOK_ALIKES |= dict.fromkeys("\u2018\u2019\u201a\u2032", "'")
_LOOK_ALIKES |= dict.fromkeys("\u201c\u201d\u201e\u2033", '"')
_LOOK_ALIKES |= {"\u00a0": " ", "\u202f": " ", "\uff0c": ",", "\uff1a": ":"}
# Commands that stand inside a line only where YAML has joined two lines.
_JOINED = re.compile(
    r"(?<![;&|({ ])(?<!then)(?<!else)(?<!do) +"
    r"(module (?:load|use|purge)|export [A-Za-z_]\w*=|source \S|conda activate|ulimit -)"
)
# A variable that a line of setup exports.
_EXPORTS = re.compile(r"""^\s*export\s+([A-Z][A-Z0-9_]*)=["']?([^\s"';`]*)""", re.MULTILINE)
_LOOPBACKS = {("NCCL_SOCKET_IFNAME", "lo"), ("GLOO_SOCKET_IFNAME", "lo")}
# A plain value, and what stands behind a number sign without a blank after it.
_EATEN = re.compile(r"""(?!- |[^#]*: )([^\s"'#|>&*!\[{][^"'\[\]{}#]*[ \t])(#\w[^#]*?)\s*$""")
# Options whose value is a place that the program writes to.
_OUTPUTS = re.compile(
    r"--?(out|output|save|checkpoint|ckpt|log|logging|result)s?([_-]?(dir|path|folder))?"
)
# What asks for the internet in setup.
_FETCHES = re.compile(
    r"\b(pip3? install|conda install|git (clone|pull)|curl|wget|(huggingface-cli|hf) download)\b"
)


def review(loaded: LoadedSpec, plan: Plan) -> list[Problem]:
    """Return what the spec can hardly mean, in the order of its lines."""
    rules = (
        _compare_processes,
        _compare_memory,
        _check_variables,
        _check_lists,
        _check_interface,
        _check_chain,
        _check_array,
        _check_packing,
        _check_internet,
        _check_container,
        _check_setup,
        _check_characters,
        _check_comments,
    )
    plans = [role.plan for role in plan.roles.members] if plan.roles else [plan]
    parts = list(zip(loaded.programs(), plans, strict=True))
    return sorted({problem for rule in rules for part in parts for problem in rule(*part)})


def _compare_processes(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Processes against the GPUs and CPUs of a node, and threads against its CPUs."""
    for group in dict.fromkeys(plan.nodes.groups):
        processes, gpus, cpus = group.processes, group.gpus, group.cpus
        if gpus and processes > gpus:
            message = f"{processes} processes share {gpus} GPUs on a node; NCCL takes one each"
            hint = f"write processes_per_node: {gpus}, unless they use gloo or MPS"
            yield loaded.problem("launch.processes_per_node", message, hint)
        elif 1 < processes < gpus and plan.launch.mode in ("torchrun", "direct"):
            message = (
                f"{processes} processes leave {gpus - processes} of {gpus} GPUs on a node idle"
            )
            hint = f"write processes_per_node: {gpus}, unless each takes several"
            yield loaded.problem("launch.processes_per_node", message, hint)
        threads = plan.environment.variables.get("OMP_NUM_THREADS", "")
        if not cpus:
            continue
        if processes > cpus and loaded.spec.resources.cpus_per_node:
            message = f"{processes} processes share {cpus} CPUs on a node"
            hint = f"write cpus_per_node: {processes} or more"
            yield loaded.problem("resources.cpus_per_node", message, hint)
        elif threads.isdecimal() and int(threads) * processes > cpus:
            message = f"{processes} processes with {threads} threads share {cpus} CPUs on a node"
            hint = f"write {max(1, cpus // processes)}, or leave it out"
            yield loaded.problem("environment.variables.OMP_NUM_THREADS", message, hint)


def _compare_memory(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Memory that a process of PyTorch cannot start in: a unit that was mistaken."""
    memory, group = loaded.spec.resources.memory_per_node, plan.nodes.groups[0]
    if memory is not None and group.gpus and memory < group.processes * _GIB:
        message = f"{memory // 1024} MiB are less than 1 GiB a process"
        yield loaded.problem("resources.memory_per_node", message, "check the unit: MB, GB")


def _list_settings(loaded: LoadedSpec, plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield variables with their values: the spec's own, and those that its setup exports."""
    for name, value in plan.environment.variables.items():
        yield f"environment.variables.{name}", name, value
    for name, value in _EXPORTS.findall(loaded.spec.environment.setup or ""):
        yield "environment.setup", name, value


def _check_variables(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Variables that show fewer GPUs than the job asks for, or part its processes."""
    gpus = max(group.gpus for group in plan.nodes.groups)
    for path, name, value in _list_settings(loaded, plan):
        shown = len([part for part in value.split(",") if part.strip()])
        if path == "environment.setup" and re.fullmatch(r"MASTER_\w+|(LOCAL_)?RANK", name):
            yield loaded.problem(path, f"{name} is set by the job, after its setup", "remove it")
        elif name.endswith("_VISIBLE_DEVICES") and shown < gpus and "$" not in value:
            message = f"{name} shows {shown} of the {gpus} GPUs that the job asks for on a node"
            hint = f"leave it out, or write gpus_per_node: {shown}"
            yield loaded.problem(path, message, hint)
        elif (name, value) in _LOOPBACKS and plan.nodes.total > 1 and plan.can.batch:
            message = f"{name}=lo is the loopback interface, which cannot reach other nodes"
            yield loaded.problem(path, message, "leave it out, or write launch.interface")


def _check_lists(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Numbers of devices where numbers for each node are meant."""
    gpus = loaded.spec.resources.gpus_per_node
    if isinstance(gpus, tuple) and len(gpus) > 1 and gpus == tuple(range(len(gpus))):
        message = f"asks for {len(gpus)} nodes, with {', '.join(map(str, gpus))} GPUs"
        hint = f"for {len(gpus)} GPUs on each node write gpus_per_node: {len(gpus)}"
        yield loaded.problem("resources.gpus_per_node", message, hint)


def _check_interface(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    if plan.nodes.total > 1 and plan.can.batch and plan.launch.interface == "lo":
        message = "is the loopback interface, which cannot reach other nodes"
        hint = "leave it out, or name the nodes' network, as ip -brief address shows it"
        yield loaded.problem("launch.interface", message, hint)


def _check_chain(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Results that the next start of the job would not find."""
    spec = loaded.spec
    if spec.on_walltime is None or spec.on_walltime.then == "stop":
        return
    for word in plan.program.command:
        folder = word.rpartition("=")[2]
        if _OWN_FOLDERS.match(folder):
            message = (
                f"{folder} is on each node's own disk, and the job's next start may be elsewhere"
            )
            yield loaded.problem("run.args", message, "name a folder that all nodes see")


def _check_array(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Tasks of an array that write into one place."""
    if plan.array is None:
        return
    for name in (loaded.spec.array.values or {}) if loaded.spec.array else ():
        if name in Resources._fields:
            message = f"{name} is an argument of the program here: its tasks get --{name}"
            hint = f"all tasks have the job's resources; write run.args.{name} if that is meant"
            yield loaded.problem(f"array.values.{name}", message, hint)
    words = plan.program.command
    for option, value in itertools.pairwise((*words, "")):
        option, joined, after = option.partition("=")
        place = after if joined else value
        if _OUTPUTS.fullmatch(option) and place and "$" not in place:
            message = f"all {len(plan.array.tasks)} tasks write to {option} {place}"
            hint = "write {value: $JOBGEN_RUN_DIR/results, expand: true}"
            yield loaded.problem("run.args", message, hint)
            return


def _check_packing(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Tasks of a part of a node that are charged for all of it."""
    node, array = plan.defaults.node, plan.array
    whole = node.whole or plan.requests.exclusive
    if array is None or not whole or node.gpus is None or plan.nodes.total > 1:
        return
    (group,) = plan.nodes.asked
    fit = node.gpus // (plan.nodes.gpus or node.gpus)
    if 0 < group.gpus < node.gpus and fit > plan.nodes.together:
        tasks = f"{array.size} tasks of {count(plan.nodes.gpus, 'GPU')}"
        message = (
            f"{tasks} are charged as {array.jobs * node.gpus} GPUs, as each job has whole nodes"
        )
        yield loaded.problem("array", message, f"write together: {min(fit, array.size)}")


def _check_internet(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """What asks for the internet, on a site whose compute nodes have none."""
    if plan.site.internet != "none":
        return
    own = plan.environment
    where = f"compute nodes of {loaded.spec.site or 'this site'} have no internet"
    if own.setup and (match := _FETCHES.search(own.setup)):
        hint = "run it on the login node, once, before you submit"
        yield loaded.problem("environment.setup", f"{match[1]}: {where}", hint)
    names = {*own.variables, *own.from_shell}
    online = own.variables.get("WANDB_MODE", "online") == "online"
    if online and any(name.startswith("WANDB_") for name in names):
        hint = "write WANDB_MODE: offline, and run wandb sync on the login node"
        yield loaded.problem("environment", f"W&B: {where}", hint)


def _check_container(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """A venv that the container does not see, and containers that take no variables in."""
    own = loaded.spec.environment
    if own.container is not None and own.venv and own.venv.startswith("/"):
        seen = [bind.partition(":")[0] for bind in own.container.binds]
        here = [os.getcwd(), os.path.expanduser("~"), "/tmp"]
        if not any(
            os.path.commonpath([own.venv, path]) == path
            for path in [*seen, *here]
            if path[:1] == "/"
        ):
            message = f"{own.venv} is not seen inside the container"
            hint = f"write binds: [{os.path.dirname(own.venv)}], or leave the venv out"
            yield loaded.problem("environment.venv", message, hint)
    name, *words = (os.path.basename(word) for word in loaded.spec.run.command or ("",))
    takes_none = {
        "docker": not any(word.startswith(("-e", "--env")) for word in words),
        "apptainer": bool({"-e", "--cleanenv", "-c", "--contain", "-C"} & set(words)),
    }
    alias = {"podman": "docker", "singularity": "apptainer"}
    if takes_none.get(alias.get(name, name)):
        message = f"{name} takes no variables in, so the processes do not find each other"
        hint = "write environment.container, and the command that runs inside"
        yield loaded.problem("run.command", message, hint)


def _check_setup(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Lines that YAML has joined, because `setup:` is followed by > or by nothing; and conda's."""
    setup = loaded.spec.environment.setup or ""
    match = re.search(r"^\s*conda activate +([\w./$-]+)", setup, re.MULTILINE)
    before = setup[: match.start()] if match else ""
    made = loaded.spec.environment.modules or re.search(r"conda\.sh|hook|bashrc|module", before)
    if match and not made:
        message = "conda activate works only where conda's own lines stand before it"
        yield loaded.problem("environment.setup", message, f"write environment.conda: {match[1]}")
    if "\n" not in setup.strip() and (match := _JOINED.search(setup.split(" #")[0])):
        message = f"is one line, in which {match[1]!r} is an argument of the command before it"
        yield loaded.problem("environment.setup", message, "write setup: | and a line for each")


def _check_characters(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Dashes, quotes and blanks that look like others, in what a shell or a program reads."""
    spec = loaded.spec
    texts = {
        "run.command": " ".join(spec.run.command or ()),
        "run.args": " ".join(plan.program.command),
        "run.script": spec.run.script or "",
        "environment.setup": spec.environment.setup or "",
    }
    for path, text in texts.items():
        odd = next((char for char in text if char in _LOOK_ALIKES), None)
        if odd is not None:
            start = max(0, text.index(odd) - 8)
            message = f"holds {odd!r} (U+{ord(odd):04X}), in {text[start : start + 20]!r}"
            hint = f"write {_LOOK_ALIKES[odd]!r}"
            yield loaded.problem(path, message, hint)
            return


def _check_comments(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Text behind a number sign that YAML takes for a comment, as of `tag: exp #1`."""
    lines = loaded.text.split("\n")
    for path, where in loaded.positions.items():
        if where.file != loaded.file or not 0 < where.line <= len(lines):
            continue
        rest = lines[where.line - 1][where.column - 1 :]
        if match := _EATEN.match(rest):
            message = f"ends before {match[2]!r}, which YAML takes for a comment"
            yield loaded.problem(path, message, f"write '{match[1]}{match[2]}'")
            return
