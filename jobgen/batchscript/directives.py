"""From #SBATCH and #PBS lines to the account, queue and resources of a spec."""

from __future__ import annotations

import contextlib
import re
import shlex

from jobgen.batchscript.draft import Draft
from jobgen.batchscript.readable import find_place
from jobgen.batchscript.reader import COUNT, GRES, DirectiveOption, Script
from jobgen.capabilities import get_capabilities
from jobgen.plan.resolve import resolve
from jobgen.schedulers import SCHEDULERS
from jobgen.sites import search
from jobgen.sites.profile import SiteProfile
from jobgen.spec.units import format_duration, format_memory, parse_memory

# What jobgen's scripts say by themselves, so that no spec needs to.
_OWN = {
    *(("--output", "%x-%j.out"), ("--output", "%x-%A_%a.out"), ("--open-mode", "append")),
    *(("-j", "oe"), ("-k", "oed"), ("-l", "place=scatter"), ("-l", "wd"), ("--export", "ALL")),
}
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_CONSTRAINT = re.compile(r"[A-Za-z0-9_(\[][A-Za-z0-9_.:&|*,()\[\]-]*")
_ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*@[A-Za-z0-9.-]+")
# Options, their keys, and the form that their values need.
_KEYS = {
    "slurm": {
        "--job-name": ("name", _NAME),
        "--account": ("account", _LABEL),
        "--partition": ("queue", _LABEL),
        "--qos": ("qos", _LABEL),
        "--reservation": ("reservation", _LABEL),
        "--constraint": ("resources.constraint", _CONSTRAINT),
    },
    "pbs": {"-N": ("name", _NAME), "-A": ("account", _LABEL), "-q": ("queue", _LABEL)},
}
# What the request of a script says.
_COUNTS = {
    *("--nodes", "--ntasks", "--ntasks-per-node", "--cpus-per-task", "--gpus-per-node", "--gpus"),
    *("--gpus-per-task", "--gres", "--cpus-per-gpu"),
}
_SPREAD = ("--ntasks", "--gpus")
_CHUNK = ("ngpus", "ncpus", "mem", "mpiprocs", "ppn", "gpus")
_EXCLUSIVE = (("--exclusive", ""), ("-l", "place=scatter:excl"))
_EVENTS = {"BEGIN": "begin", "END": "end", "FAIL": "fail", "b": "begin", "e": "end", "a": "fail"}
# The options for who gets mail and when, and when that is where it is not said.
_MAIL = {"slurm": ("--mail-user", "--mail-type", ""), "pbs": ("-M", "-m", "a")}
# Options that add to those before them.
_MANY = ("-l", "-W", "-v", "--mail-type")
# How an array is asked for, and what has its index: -t is of Torque.
ARRAYS = {"--array": "SLURM_ARRAY_TASK_ID", "-J": "PBS_ARRAY_INDEX", "-t": "PBS_ARRAYID"}


def render_directives(draft: Draft) -> Script:
    """Return the directives of the job of a draft, as a script; SpecError where it is refused."""
    plan = resolve(draft.load(), limits=False)
    lines = SCHEDULERS[plan.scheduler].directives(plan)
    return Script("job", "\n".join(["#!/bin/bash", *lines, ""]))


def read_walltime(text: str, scheduler: str) -> str | None:
    """HH:MM:SS of what sbatch or qsub reads; None if that is not a time."""
    match = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,9}(?::\d{1,9}){0,2})", text, re.ASCII)
    if not match:
        return None
    parts = list(map(int, match[2].split(":")))
    if match[1]:  # D-H, D-H:M, D-H:M:S
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 1 and get_capabilities(scheduler).bare_walltime == "minutes":
        hours, minutes, seconds = 0, parts[0], 0
    else:
        hours, minutes, seconds = (0, 0, *parts)[-3:]
    total = ((int(match[1] or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return format_duration(total) if 0 < total < 10**9 else None


def read_memory(text: str, *, times: int = 1, parts: int = 1) -> str | None:
    """So many times an amount such as 180GB, or the part of each node; None if it is none."""
    unit = "MB" if re.fullmatch(r"\d{1,9}", text, re.ASCII) else ""
    try:
        kib = parse_memory(text + unit) * times
    except ValueError:
        return None
    return format_memory(kib // parts) if kib and kib % parts == 0 else None


def settle(script: Script, draft: Draft) -> None:
    """Put what the directives say into `draft`; what a spec cannot say goes on as it is."""
    site = _find_site_of_totals(script)
    draft.put("site", site)
    profile = search.load(site) if site else SiteProfile(script.target)
    keys = dict(_KEYS[script.target])
    if site:
        keys[profile.pbs.account_option] = ("account", _LABEL)
    _note_unread(script, draft)
    items = _settle_mail(_list_taken(script, draft), script.target, draft)
    rest = [item for item in items if not _take(item, keys, draft)]
    settle_resources = _settle_chunks if script.can.chunks else _settle_tasks
    for item in settle_resources(script, rest, draft, profile):
        keep_verbatim(script, item, draft)


def _note_unread(script: Script, draft: Draft) -> None:
    """Name the lines that look like directives and that the scheduler does not take for its own."""
    for item in script.directives:
        if not item.read:
            draft.check(item.line, item.text, "not taken: the scheduler does not read it here")
    for number, line in enumerate(script.lines[: script.body_line], 1):
        if not script.can.chunks and re.match(r"#PBS\s+-", line):
            draft.check(number, line, "not taken, though sbatch reads it; write what is to hold")


def _list_taken(script: Script, draft: Draft) -> list[DirectiveOption]:
    """Return the directives that count; what is a place to fill in, or refused, is lost."""
    taken = []
    read = [item for item in script.directives if item.read]
    last = {item.option: item for item in read}
    places = {item.line: place for item in read if (place := find_place(item))}
    for item in read:
        place = find_place(item)
        reason = f"{place} is a place to fill in" if place else script.can.refused.get(item.option)
        if place and place[0] == "$":
            reason = f"{reason}; nothing expands it, and the scheduler refuses it"
        # Of an option that is given again, the last one counts.
        counts = item.option in _MANY or item is last[item.option]
        of_place = item.line in places and item.option[0] != "-"  # one with blanks
        if reason:
            draft.lose(item.line, item.text, reason)
        elif counts and not of_place and (item.option, item.value) not in _OWN:
            taken.append(item)
    return taken


def _take(
    item: DirectiveOption, keys: dict[str, tuple[str, re.Pattern[str]]], draft: Draft
) -> bool:
    """Put one directive into `draft`; False where a spec cannot say it."""
    key, form = keys.get(item.option, ("", _NAME))
    if key and form.fullmatch(item.value):
        draft.put(key, item.value)
    elif key == "name":
        draft.put("name", re.sub(r"[^A-Za-z0-9._-]+", "-", item.value).strip("-._")[:100])
        draft.check(item.line, item.text, "not a name that a spec can have; one was made of it")
    elif item.option == "-d":  # the folder, which is jobgen's own by PBS_O_WORKDIR
        draft.setup([f"cd {shlex.quote(item.value)}"])
    elif (item.option, item.value) in _EXCLUSIVE:
        draft.put("resources.exclusive", True)
    else:
        return item.option in ARRAYS and settle_indices(item.value, draft, ARRAYS[item.option])
    return True


def _settle_mail(
    items: list[DirectiveOption], scheduler: str, draft: Draft
) -> list[DirectiveOption]:
    """Take who gets mail and when, if a spec can say both; returns the other directives."""
    user, when, unsaid = _MAIL[scheduler]
    address = next((item.value for item in items if item.option == user), None)
    asked = ",".join(item.value for item in items if item.option == when) or unsaid
    words = asked.upper().replace("ALL", "BEGIN,END,FAIL").split(",")
    events = dict.fromkeys(map(_EVENTS.get, asked if user == "-M" else words))
    others = [item for item in items if item.option not in (user, when)]
    sayable = None not in events and (address is None or _ADDRESS.fullmatch(address))
    if others == items or not sayable:
        return items
    draft.put("notify.email", address)
    draft.put("notify.on", list(events))
    return others


def keep_verbatim(script: Script, item: DirectiveOption, draft: Draft) -> None:
    """Keep a directive as one of the spec."""
    joint = "=" if item.option.startswith("--") and item.value else " "
    value = item.value.strip()
    value = shlex.quote(value) if re.search(r"\s", value) else value
    text = f"{script.can.sign} {item.option}{joint}{value}".rstrip()
    if re.fullmatch(r"[\x20-\x7e]+", text):
        own = draft.values.setdefault("directives", [])
        own += [text] if text not in own else []
    else:
        draft.lose(item.line, item.text, "not a directive that a spec can hold")


def _find_site_of_totals(script: Script) -> str | None:
    """The site whose jobs are asked for in totals, by its queue or list of file systems."""
    if script.resource("select") or script.resource("nodes") or not script.resource("ncpus"):
        return None
    for name, loaded in search.list_profiles():
        if loaded is not None and loaded.profile.pbs.resources == "totals":
            lists = loaded.profile.filesystems
            queues = loaded.profile.queues or {}
            if script.value("-q") in queues or (lists and script.resource(lists.resource)):
                return name
    return None


def _settle_tasks(
    script: Script, items: list[DirectiveOption], draft: Draft, _: SiteProfile
) -> list[DirectiveOption]:
    """Slurm's resources; what is left goes on as it is."""
    request, rest = script.request, []
    shares = {"--mem": 1, "--mem-per-cpu": request.cpus or 1, "--mem-per-gpu": request.gpus}
    taken = f"taken for {request.nodes} nodes" if request.nodes > 1 else "taken for one node"
    spread = [] if script.value("--nodes") else [item for item in items if item.option in _SPREAD]
    for item in [item for item in spread if script.count(item.option) > 1][:1]:
        message = f"{taken}; without --nodes, Slurm may spread them"
        draft.check(item.line, item.text, message)
    for item in items:
        typed = (GRES if item.option == "--gres" else COUNT).fullmatch(item.value)
        walltime = read_walltime(item.value, "slurm") if item.option == "--time" else None
        memory = read_memory(item.value, times=shares.get(item.option, 0))
        if item.option in _COUNTS and typed:
            draft.put("resources.gpu_type", typed[1])
        elif not (memory or walltime):
            rest.append(item)
        draft.put("resources.memory_per_node", memory)
        draft.put("resources.walltime", walltime)
    _shape(draft, request.nodes, request.gpus, request.cpus)
    return rest


def _shape(draft: Draft, nodes: int, gpus: int, cpus: int) -> None:
    draft.put("resources.nodes", nodes if nodes > 1 else None)
    draft.put("resources.gpus_per_node", gpus or None)
    draft.put("resources.cpus_per_node", cpus or None)


def _settle_chunks(
    script: Script, items: list[DirectiveOption], draft: Draft, profile: SiteProfile
) -> list[DirectiveOption]:
    """The chunks of PBS, or the totals of a job; what is left goes on as it is."""
    request, rest = script.request, []
    chunked = script.resource("select") or script.resource("nodes")
    nodes = request.nodes if chunked else count_nodes_of_totals(script)
    for item in [part for whole in items for part in split_resources(whole)]:
        key, _, value = item.value.partition("=") if item.option == "-l" else ("", "", "")
        of_several = key == "mem" and chunked and nodes > 1
        if key in ("select", "nodes") and request.alike:
            _take_chunk(value, item, draft)
        elif of_several or not _take_total(key, value, draft, profile, nodes=nodes):
            rest.append(item)
    parts = 1 if chunked else nodes
    _shape(draft, nodes if request.alike else 1, request.gpus // parts, request.cpus // parts)
    return rest


def _take_total(key: str, value: str, draft: Draft, profile: SiteProfile, *, nodes: int) -> bool:
    """Put what all nodes of a job get into `draft`; return False if no key says it."""
    listed = profile.filesystems
    if key == "walltime" and (walltime := read_walltime(value, "pbs")):
        draft.put("resources.walltime", walltime)
    elif key == "mem" and (memory := read_memory(value, parts=nodes)):
        draft.put("resources.memory_per_node", memory)
    elif listed and key == listed.resource and _LABEL.fullmatch(value):
        draft.put("filesystems", value.split(listed.separator))
    else:
        shared = value.isdecimal() and int(value) % nodes == 0
        of_request = key in ("ngpus", "ncpus") and shared
        return of_request or (key == "place" and value in ("free", "pack") and nodes == 1)
    return True


def split_resources(item: DirectiveOption) -> list[DirectiveOption]:
    """Return a directive of PBS for each resource that one asks for; others as they are."""
    if item.option != "-l":
        return [item]
    parts = re.split(r",(?=[A-Za-z_]+=)", item.value)
    return [item._replace(value=part, text=f"#PBS -l {part}") for part in parts]


def _take_chunk(value: str, item: DirectiveOption, draft: Draft) -> None:
    more = []
    for pair in filter(None, re.sub(r"^\d+", "", value).split(":")):
        key, _, text = pair.partition("=")
        if key == "mem":
            draft.put("resources.memory_per_node", read_memory(text))
        elif key == "mpiprocs" and text != "1":
            draft.keep(item.line, pair, "the processes of each node are those of launch")
        elif key == "ompthreads":
            draft.put("environment.variables", {"OMP_NUM_THREADS": text})
        elif key not in _CHUNK:
            more.append(pair)
    if all(re.fullmatch(r"[A-Za-z_]\w*=[\w.-]+", pair) for pair in more):
        draft.put("resources.constraint", ":".join(more) or None)
    else:
        draft.lose(item.line, ":".join(more), "not a thing that a spec can ask of each node")


def count_nodes_of_totals(script: Script) -> int:
    """How many nodes the totals of a job fill: as many as its GPUs, CPUs or memory need."""
    site = _find_site_of_totals(script)
    if site is None:
        return 1
    profile = search.load(site)
    queue = (profile.queues or {}).get(script.value("-q") or "")
    counts = [1]
    for key, total in (("gpus", "ngpus"), ("cpus", "ncpus"), ("memory", "mem")):
        of_queue: int | None = getattr(queue.node, key) if queue else None
        each: int | None = of_queue or getattr(profile.node, key)
        text = script.resource(total) or ""
        with contextlib.suppress(ValueError):
            asked = parse_memory(text) if key == "memory" else int(text)
            counts.append(-(-asked // each) if each else 1)
    return min(1000, max(counts))


def settle_indices(text: str, draft: Draft, name: str) -> bool:
    """Put an array into `draft`; `name` gets its own indices, as jobgen's count from 0."""
    match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?(?:%([1-9]\d{0,4}))?", text, re.ASCII)
    first = int(match[1]) if match else 0
    tasks = int(match[2] or first) - first + 1 if match else 0
    if not match or not 0 < tasks <= 10_000:
        return False
    draft.put("array.tasks", tasks)
    draft.put("array.at_once", int(match[3]) if match[3] else None)
    if first or tasks == 1:
        draft.setup([f"export {name}=$((JOBGEN_TASK + {first}))"])
    return True
