"""From #SBATCH and #PBS lines to the account, queue and resources of a spec."""

from __future__ import annotations

import contextlib
import re
import shlex

from jobgen.batchscript.draft import Draft
from jobgen.batchscript.readable import find_place, find_shell
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
_Keys = dict[str, tuple[str, re.Pattern[str]]]
# Options, their keys, and the form that their values need.
_KEYS: dict[str, _Keys] = {
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
    *("--gpus-per-task", "--ntasks-per-gpu", "--gres", "--cpus-per-gpu"),
}
_SPREAD = ("--ntasks", "--gpus")
# How Torque asks for processors of a Cray, or anywhere.
_OF_TORQUE = ("size", "procs", "mppwidth", "mppnppn", "mppdepth")
_CHUNK = ("ngpus", "ncpus", "mem", "mpiprocs", "ppn", "gpus")
_EXCLUSIVE = (("--exclusive", ""), ("-l", "place=scatter:excl"), ("-l", "place=excl"))
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
    site, profile = _find_site_of_totals(script)
    keys = dict(_KEYS[script.target])
    if site:
        draft.put("site", site)
        keys[profile.pbs.account_option] = ("account", _LABEL)
    _note_unread(script, draft)
    items = _settle_mail(_list_taken(script, draft), script.target, draft)
    rest = [item for item in items if not _take(script, item, keys, draft)]
    for item in _Resources(script, draft, profile).settle(rest):
        keep_verbatim(script, item, draft)


def _note_unread(script: Script, draft: Draft) -> None:
    """Name the lines that look like directives and that the scheduler does not take for its own."""
    for item in script.directives:
        if not item.read:
            draft.check(item.line, item.text, "not taken: the scheduler does not read it here")
    for number, text in script.dead_directives.items():
        draft.check(number, text, "not taken: the scheduler takes it for a comment")
    for number, line in enumerate(script.lines[: script.body_line], 1):
        if not script.can.chunks and re.match(r"#PBS\s+-", line):
            draft.check(number, line, "not taken, though sbatch reads it; write what is to hold")


def _list_taken(script: Script, draft: Draft) -> list[DirectiveOption]:
    """Return the directives that count; what is a place to fill in, or refused, is lost."""
    taken = []
    last = {item.option: item for item in script.read_directives}
    places = {item.line for item in script.read_directives if find_place(item)}
    for item in script.read_directives:
        # Of an option that is given again, the last one counts.
        counts = item.option in _MANY or item is last[item.option]
        of_place = item.line in places and item.option[0] != "-"  # one with blanks
        if reason := _find_loss(script, item):
            draft.lose(item.line, item.text, reason)
        elif counts and not of_place and (item.option, item.value) not in _OWN:
            taken.append(item)
            if item.option == "-e" and script.value("-j") is None:  # which jobgen would join
                taken.append(item._replace(option="-j", value="n"))
    return taken


def _find_loss(script: Script, item: DirectiveOption) -> str:
    """Say why the job does without a directive; empty where it does not."""
    place = find_place(item)
    if script.lacks_dash(item.option):
        return f"sbatch knows no {item.option}; write -{item.option}"
    if not place:
        return script.can.refused.get(item.option, "")
    refused = "; nothing expands it, and the scheduler refuses it" if place[0] == "$" else ""
    return f"{place} is a place to fill in{refused}"


def _take(script: Script, item: DirectiveOption, keys: _Keys, draft: Draft) -> bool:
    """Put one directive into `draft`; False where a spec cannot say it."""
    key, form = keys.get(item.option, ("", _NAME))
    if key and form.fullmatch(item.value):
        draft.put(key, item.value)
    elif key == "name":
        draft.put("name", re.sub(r"(%\w|[^A-Za-z0-9._-])+", "-", item.value).strip("-._")[:100])
        draft.check(item.line, item.text, "not a name that a spec can have; one was made of it")
    elif item.option == script.can.shell_option and find_shell(script) != "bash":
        keep_verbatim(script, item._replace(value="/bin/bash"), draft)  # for which jobgen writes
    elif item.option == "-d":  # the folder, which is jobgen's own by PBS_O_WORKDIR
        draft.setup([f"cd {shlex.quote(item.value)}"])
    elif (item.option, item.value) in _EXCLUSIVE:
        draft.put("resources.exclusive", True)
    else:
        return item.option in ARRAYS and _settle_indices(script, item, draft)
    return True


def _settle_mail(
    items: list[DirectiveOption], scheduler: str, draft: Draft
) -> list[DirectiveOption]:
    """Take who gets mail and when, if a spec can say both; returns the other directives."""
    user, when, unsaid = _MAIL[scheduler]
    addresses = [item.value for item in items if item.option == user]
    asked = ",".join(item.value for item in items if item.option == when) or unsaid
    words = asked.upper().replace("ALL", "BEGIN,END,FAIL").split(",")
    events = dict.fromkeys(map(_EVENTS.get, asked if user == "-M" else words))
    others = [item for item in items if item.option not in (user, when)]
    sayable = None not in events and all(map(_ADDRESS.fullmatch, addresses[:1]))
    if others == items or not sayable:
        return items
    draft.put("notify.email", next(iter(addresses), None))
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


def _has_chunks(script: Script) -> bool:
    return bool(script.resource("select") or script.resource("nodes"))


def _find_site_of_totals(script: Script) -> tuple[str, SiteProfile]:
    """The site whose jobs are asked for in totals, by its queue or list of file systems.

    Without a name, and empty, where the script is for no such site.
    """
    none = "", SiteProfile(script.target)
    if _has_chunks(script) or not script.resource("ncpus"):
        return none
    loaded = ((name, item.profile) for name, item in search.list_profiles() if item)
    return next((named for named in loaded if _asks_in_totals(script, named[1])), none)


def _asks_in_totals(script: Script, profile: SiteProfile) -> bool:
    lists = profile.filesystems
    known = profile.find_queue(script.value("-q")) or (lists and script.resource(lists.resource))
    return profile.pbs.resources == "totals" and bool(known)


class _Resources:
    """The resources of a job: of Slurm's tasks, or of the chunks or totals of PBS."""

    def __init__(self, script: Script, draft: Draft, profile: SiteProfile) -> None:
        self.script, self.draft, self.files = script, draft, profile.filesystems
        self.request = request = script.request
        self.in_totals = script.can.chunks and not _has_chunks(script)
        self.nodes = count_nodes_of_totals(script) if self.in_totals else request.nodes
        # What each amount of memory is taken times, and the nodes that share it.
        self.memory = {"--mem": (1, 1), "--mem-per-cpu": (request.cpus or 1, 1)}
        self.memory |= {"--mem-per-gpu": (request.gpus, 1)}
        if self.nodes == 1 or not script.resource("select"):  # which has its own
            self.memory["mem"] = (1, self.nodes)

    def settle(self, items: list[DirectiveOption]) -> list[DirectiveOption]:
        """Take what directives ask for; return those that go on as they are."""
        self._note_spread(items)
        parts = [part for item in items for part in split_resources(item)]
        rest = [part for part in parts if not self._take(part)]
        nodes, shares = self.nodes, self.nodes if self.in_totals else 1
        self.draft.put("resources.nodes", nodes > 1 and self.request.alike and nodes)
        self.draft.put("resources.gpus_per_node", self.request.gpus // shares)
        self.draft.put("resources.cpus_per_node", self.request.cpus // shares)
        return rest

    def _note_spread(self, items: list[DirectiveOption]) -> None:
        if self.script.can.chunks or self.script.value("--nodes"):
            return
        taken = f"taken for {self.nodes} nodes" if self.nodes > 1 else "taken for one node"
        spread = [item for item in items if item.option in _SPREAD]
        for item in [item for item in spread if self.script.count(item.option) > 1][:1]:
            message = f"{taken}; without --nodes, Slurm may spread them"
            self.draft.check(item.line, item.text, message)

    def _take(self, item: DirectiveOption) -> bool:
        """Put one directive into the draft; False where a spec cannot say it."""
        key, value = item.option, item.value
        if key == "-l":
            key, _, value = value.partition("=")
        if key in ("--time", "walltime"):
            walltime = read_walltime(value, self.script.target)
            return self.draft.put("resources.walltime", walltime)
        if key in self.memory:
            times, parts = self.memory[key]
            memory = read_memory(value, times=times, parts=parts)
            return self.draft.put("resources.memory_per_node", memory)
        if item.option == "-l":
            return self._take_of_pbs(key, value, item)
        typed = (GRES if key == "--gres" else COUNT).fullmatch(value)
        if key not in _COUNTS or not typed:
            return False
        self.draft.put("resources.gpu_type", typed[1])
        return True

    def _take_of_pbs(self, key: str, value: str, item: DirectiveOption) -> bool:
        if key in ("select", "nodes") and self.request.alike:
            self._take_chunk(value, item)
            if key == "nodes":
                reason = "becomes a select=, which OpenPBS and PBS Pro read, and Torque does not"
                self.draft.check(item.line, item.text, reason)
            return True
        if key in _OF_TORQUE:
            reason = "asks for processors in words that OpenPBS and PBS Pro do not have"
            self.draft.lose(item.line, item.text, f"{reason}; write resources")
            return True
        if self.files and key == self.files.resource and _LABEL.fullmatch(value):
            return self.draft.put("filesystems", value.split(self.files.separator))
        if key in ("ngpus", "ncpus"):  # of the request
            return value.isdecimal() and int(value) % self.nodes == 0
        return key == "place" and value in ("free", "pack") and self.nodes == 1

    def _take_chunk(self, value: str, item: DirectiveOption) -> None:
        more, draft = [], self.draft
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
            draft.put("resources.constraint", ":".join(more))
        else:
            draft.lose(item.line, ":".join(more), "not a thing that a spec can ask of each node")


def split_resources(item: DirectiveOption) -> list[DirectiveOption]:
    """Return a directive of PBS for each resource that one asks for; others as they are."""
    if item.option != "-l":
        return [item]
    parts = re.split(r",(?=[A-Za-z_]+=)", item.value)
    return [item._replace(value=part, text=f"#PBS -l {part}") for part in parts]


def count_nodes_of_totals(script: Script) -> int:
    """How many nodes the totals of a job fill: as many as its GPUs, CPUs or memory need."""
    site, profile = _find_site_of_totals(script)
    if not site:
        return 1
    queue, counts = profile.find_queue(script.value("-q")), [1]
    for key, total in (("gpus", "ngpus"), ("cpus", "ncpus"), ("memory", "mem")):
        of_queue: int | None = getattr(queue.node, key) if queue else None
        each: int | None = of_queue or getattr(profile.node, key)
        text = script.resource(total)
        with contextlib.suppress(ValueError):
            asked = parse_memory(text) if key == "memory" else int(text)
            counts.append(-(-asked // each) if each else 1)
    return min(1000, max(counts))


def _settle_indices(script: Script, item: DirectiveOption, draft: Draft) -> bool:
    """Put an array into `draft`, with its own indices; False where more of it is not jobgen's."""
    match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?(?:%([1-9]\d{0,4}))?", item.value, re.ASCII)
    first, last, at_once = map(int, match.groups(0)) if match else (1, 0, 0)
    tasks = 1 + (last or first) - first
    if match is None or not 0 < tasks <= 10_000:
        return False
    # One task is no array of the scheduler's, and jobgen's begin at 0.
    more = "(JOB_)?ID|TASK_(COUNT|MIN|MAX|STEP)" if tasks == 1 else "TASK_(MIN|MAX)"
    moved = first or tasks == 1
    if moved and re.search(rf"_ARRAY_({more})\b", script.text):
        return False
    draft.put("array.tasks", tasks)
    draft.put("array.at_once", at_once or None)
    if moved:
        number = first if tasks == 1 else f"$((JOBGEN_TASK + {first}))"
        draft.setup([f"export {ARRAYS[item.option]}={number}"])
    return True
