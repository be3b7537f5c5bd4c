"""From #SBATCH and #PBS lines to the account, queue and resources of a spec."""

from __future__ import annotations

import math
import re

from jobgen import site as sites
from jobgen.importer import wishes
from jobgen.importer.draft import Draft
from jobgen.profile import SiteProfile
from jobgen.script import Directive, Script
from jobgen.units import format_duration, format_memory, parse_memory

# What jobgen's own scripts say and no spec needs to.
_OWN = {
    ("--output", "%x-%j.out"),
    ("--output", "%x-%A_%a.out"),
    ("--open-mode", "append"),
    ("-j", "oe"),
    ("-k", "oed"),
    ("-l", "place=scatter"),
    ("-l", "wd"),
}
_KEYS = {
    "slurm": {"--job-name": "name", "--account": "account", "--partition": "queue"},
    "pbs": {"-N": "name", "-A": "account", "-q": "queue"},
}
# A number of GPUs, after their kind; not every kind has a name.
_GPUS = {
    "--gres": r"gpu:(?:(\w[\w.-]*):)?(\d{1,5})",
    "--gpus-per-node": r"(?:(\w[\w.-]*):)?(\d{1,5})",
}
_RANGE = re.compile(r"([1-9]\d{0,4})-([1-9]\d{0,4})", re.ASCII)
_CHUNK = ("ngpus", "ncpus", "mem", "mpiprocs", "ppn", "gpus", "ompthreads")
_LISTED = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*[A-Za-z0-9_]")
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def walltime(text: str, scheduler: str) -> str | None:
    """HH:MM:SS of what sbatch or qsub reads; None where that is no time."""
    match = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text, re.ASCII)
    if not match:
        return None
    days, parts = match[1], [int(part) for part in match.groups()[1:] if part is not None]
    if days is not None:  # D-H, D-H:M, D-H:M:S
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 1:
        hours, minutes, seconds = (0, parts[0], 0) if scheduler == "slurm" else (0, 0, parts[0])
    else:
        hours, minutes, seconds = (0, *parts)[-3:]
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return format_duration(total) if 0 < total < 10**9 else None


def memory(text: str, *, parts: int = 1) -> str | None:
    """An amount such as 180GB, of which each of `parts` nodes has its part; None if it is none."""
    text = f"{text}MB" if re.fullmatch(r"\d{1,9}", text, re.ASCII) else text
    try:
        kib = parse_memory(text)
    except ValueError:
        return None
    if kib % parts:
        return None
    number, letter = format_memory(kib // parts)
    return f"{number}{letter}B"


def settle(
    script: Script, draft: Draft, *, nodes: int | None = None, site: str | None = None
) -> None:
    """Put what the directives say into `draft`; `nodes` is known where directives cannot say it.

    What `site` adds to every job is left to it.
    """
    scheduler = script.scheduler or "slurm"
    if site is None and scheduler == "pbs":
        site = _site_of_totals(script)
    draft.put("site", site)
    profile = sites.load(site) if site else SiteProfile(scheduler)  # type: ignore[arg-type]
    for item in script.directives:
        if not item.read:
            draft.leave(item.line, item.text, "the scheduler never read it")
    read = [item for item in script.directives if item.read and item.option]
    read = [item for item in read if (item.option, item.value) not in _OWN]
    read = [item for item in read if not _of_site(item, script, profile)]
    keys = dict(_KEYS[scheduler])
    if site and scheduler == "pbs":
        keys[profile.pbs.account_option] = "account"
    elif profile.slurm.queue_option == "qos":
        keys["--qos"] = "queue"
    rest = []
    for item in read:
        key = keys.get(item.option)
        form = _NAME if key == "name" else _LABEL
        if key and form.fullmatch(item.value):
            draft.put(key, item.value)
        elif key == "name":
            draft.put("name", re.sub(r"[^A-Za-z0-9._-]+", "-", item.value).strip("-._")[:100])
            draft.leave(item.line, item.text, "no name that a spec can have; made one of it")
        elif not wishes.take(item, scheduler, draft):
            rest.append(item)
    if scheduler == "slurm":
        rest = _slurm(script, rest, draft)
    else:
        rest = _pbs(rest, draft, nodes if nodes is not None else script.nodes or 1, profile)
    for item in rest:
        _verbatim(script, item, draft)


def _of_site(item: Directive, script: Script, profile: SiteProfile) -> bool:
    """Whether the site adds this directive to the job by itself."""
    queue = (profile.queues or {}).get(script.value("--partition", "--qos", "-q") or "")
    own = profile.directives + (queue.directives if queue else ())
    return item.text.partition(" ")[2].strip() in own


def _verbatim(script: Script, item: Directive, draft: Draft) -> None:
    others = [other for other in script.directives if other.line == item.line]
    text = item.text
    if len(others) > 1:
        joint = "=" if item.option.startswith("--") and item.value else " "
        sign = "#SBATCH" if script.scheduler == "slurm" else "#PBS"
        text = f"{sign} {item.option}{joint}{item.value}".rstrip()
    else:
        text = re.sub(r"^(#\w+)\s+", r"\1 ", text)
    if re.fullmatch(r"#(PBS|SBATCH) [\x20-\x7e]*[\x21-\x7e]", text):
        draft.directive(text)
    else:
        draft.leave(item.line, item.text, "no directive that a spec can hold")


def _site_of_totals(script: Script) -> str | None:
    """The site whose jobs are asked for in totals, and which has this queue."""
    if script.resource("select") or script.resource("nodes") or not script.resource("ncpus"):
        return None
    queue = script.value("-q")
    for name in sites.names():
        profile = sites.load(name)
        totals = profile.scheduler == "pbs" and profile.pbs.resources == "totals"
        if totals and queue in (profile.queues or {}):
            return name
    return None


def _one_or_list(values: list[int]) -> int | list[int] | None:
    if not any(values):
        return None
    return values[0] if len(set(values)) == 1 else values


def _slurm(script: Script, items: list[Directive], draft: Draft) -> list[Directive]:
    """The resources of each component of the job; what is left goes on as it is."""
    components: list[dict[str, int]] = [{}]
    rest, fewest_to_most = [], None
    for item in items:
        now = components[-1]
        number = int(item.value) if re.fullmatch(r"\d{1,6}", item.value, re.ASCII) else None
        if item.option == "hetjob":
            components.append({})
        elif number and item.option in (
            "--nodes",
            "--ntasks",
            "--ntasks-per-node",
            "--cpus-per-task",
            "--gpus-per-node",
            "--gpus",
            "--cpus-per-gpu",
        ):
            now[item.option] = number
        elif item.option == "--nodes" and (match := _RANGE.fullmatch(item.value)):
            fewest_to_most = {"min": int(match[1]), "max": int(match[2])}
            now["--nodes"] = int(match[1])
        elif match := re.fullmatch(_GPUS.get(item.option, "(?!)"), item.value, re.ASCII):
            now["--gpus-per-node"] = int(match[2])
            draft.put("resources.gpu_type", match[1])
        elif item.option == "--mem" and memory(item.value):
            draft.put("resources.memory_per_node", memory(item.value))
        elif item.option == "--time" and walltime(item.value, "slurm"):
            draft.put("resources.walltime", walltime(item.value, "slurm"))
        elif len(components) == 1 or item.option not in ("--partition", "--account"):
            rest.append(item)
    counts, gpus, cpus = [], [], []
    for now in components:
        nodes = now.get("--nodes", 1)
        tasks = now.get("--ntasks-per-node") or math.ceil(now.get("--ntasks", nodes) / nodes)
        gpu = now.get("--gpus-per-node") or now.get("--gpus", 0) // nodes
        cpu = now.get("--cpus-per-task", 0) * tasks or now.get("--cpus-per-gpu", 0) * gpu
        counts.append(nodes)
        gpus += [gpu] * nodes if nodes <= 1000 else [gpu]
        cpus += [cpu] * nodes if nodes <= 1000 else [cpu]
        draft.put("tasks", tasks if tasks > 1 else None)
    _shape(draft, sum(counts), gpus, cpus)
    if fewest_to_most and len(components) == 1:
        draft.put("resources.nodes", fewest_to_most)
    return rest


def _shape(draft: Draft, nodes: int, gpus: list[int], cpus: list[int]) -> None:
    draft.put("resources.nodes", nodes if nodes > 1 else None)
    draft.put("resources.gpus_per_node", _one_or_list(gpus))
    if len(set(cpus)) == 1:
        draft.put("resources.cpus_per_node", cpus[0] or None)
    elif all(gpu and cpu % gpu == 0 for gpu, cpu in zip(gpus, cpus, strict=True)):
        draft.put("resources.cpus_per_gpu", cpus[0] // gpus[0])


def _pbs(items: list[Directive], draft: Draft, nodes: int, profile: SiteProfile) -> list[Directive]:
    """The chunks, or the totals, of a job; what is left goes on as it is."""
    totals, listed = profile.pbs.resources == "totals", profile.filesystems
    rest = []
    gpus, cpus = [0] * min(nodes, 1000), [0] * min(nodes, 1000)
    for item in items:
        if item.option != "-l":
            rest.append(item)
            continue
        for part in re.split(r",(?=[A-Za-z_]+=)", item.value):
            key, _, value = part.partition("=")
            number = int(value) if re.fullmatch(r"\d{1,6}", value, re.ASCII) else 0
            if key == "walltime" and walltime(value, "pbs"):
                draft.put("resources.walltime", walltime(value, "pbs"))
            elif key in ("select", "nodes") and (chunks := _chunks(value, item, draft, profile)):
                gpus, cpus = chunks
                nodes = len(gpus)
            elif key in ("ncpus", "ngpus") and totals and number and number % nodes == 0:
                (cpus if key == "ncpus" else gpus)[:] = [number // nodes] * len(gpus)
            elif key == "mem" and totals and memory(value, parts=nodes):
                draft.put("resources.memory_per_node", memory(value, parts=nodes))
            elif listed and key == listed.resource and _LISTED.fullmatch(value):
                draft.put("filesystems", value.split(listed.separator))
            elif key not in ("place",) or value != "scatter":
                rest.append(item._replace(value=part, text=f"#PBS -l {part}"))
    _shape(draft, nodes, gpus, cpus)
    return rest


def _chunks(
    value: str, item: Directive, draft: Draft, profile: SiteProfile
) -> tuple[list[int], list[int]] | None:
    """GPUs and CPUs of each node in a select; None where it is none."""
    gpus: list[int] = []
    cpus: list[int] = []
    for chunk in value.split("+"):
        count, *pairs = chunk.strip().split(":")
        if not re.fullmatch(r"\d{1,4}", count, re.ASCII) or int(count) == 0:
            return None
        found = dict(pair.partition("=")[::2] for pair in pairs)
        numbers = {
            key: int(text)
            for key, text in found.items()
            if re.fullmatch(r"\d{1,6}", text, re.ASCII)
        }
        gpus += [numbers.get("ngpus", numbers.get("gpus", 0))] * int(count)
        cpus += [numbers.get("ncpus", numbers.get("ppn", 0))] * int(count)
        if mem := memory(found.get("mem", "")):
            draft.put("resources.memory_per_node", mem)
        if numbers.get("mpiprocs", 1) > 1:
            draft.put("tasks", numbers["mpiprocs"])
        for key, text in found.items():
            if key == "gpu_type" and _LABEL.fullmatch(text):
                draft.put("resources.gpu_type", text)
            elif key not in _CHUNK and (profile.pbs.chunk or {}).get(key) != text:
                draft.leave(item.line, f"{key}={text}", "a spec's nodes have no such resource")
    return gpus, cpus
