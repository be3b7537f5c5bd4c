"""From #SBATCH and #PBS lines to the account, queue and resources of a spec."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import get_args

from jobgen.batchscript.draft import Draft
from jobgen.batchscript.purposes import FORMS, WHY
from jobgen.batchscript.readable import find_place, find_shell, list_strays
from jobgen.batchscript.reader import DirectiveOption, Request, Script
from jobgen.capabilities import get_capabilities
from jobgen.plan.resolve import resolve
from jobgen.schedulers import SCHEDULERS
from jobgen.sites import search
from jobgen.sites.profile import SiteProfile
from jobgen.spec import units
from jobgen.spec.value_types import NAME, OF_CHUNK, Constraint, Email, Label

_LABEL, _CONSTRAINT, _ADDRESS = (get_args(kind)[1] for kind in (Label, Constraint, Email))
# The form that the values of keys need.
_FORMS = dict.fromkeys(("account", "queue", "qos", "reservation"), _LABEL)
_FORMS |= {"name": NAME, "resources.constraint": _CONSTRAINT}
_EVENTS = {"BEGIN": "begin", "END": "end", "FAIL": "fail", "b": "begin", "e": "end", "a": "fail"}
# The options for who gets mail and when, and when that is where it is not said.
_MAIL = {"slurm": ("--mail-user", "--mail-type", ""), "pbs": ("-M", "-m", "a")}
# How an array is asked for, and what has its index: -t is of Torque.
ARRAYS = {"--array": "SLURM_ARRAY_TASK_ID", "-J": "PBS_ARRAY_INDEX", "-t": "PBS_ARRAYID"}


def render_directives(draft: Draft) -> Script:
    """Return the directives of the job of a draft, as a script; SpecError where it is refused."""
    plan = resolve(draft.load(), limits=False)
    lines = SCHEDULERS[plan.scheduler].directives(plan)
    return Script("job", "\n".join(["#!/bin/bash", *lines, ""]))


def read_walltime(text: str, scheduler: str) -> str | None:
    """HH:MM:SS of what sbatch or qsub reads; None if that is not a time."""
    if re.match(r"\d+-", text):  # D-H, D-H:M, D-H:M:S
        text += ":0" * (2 - text.count(":"))
    elif text.isdecimal():
        minutes = get_capabilities(scheduler).bare_walltime == "minutes"
        text = f"{text}:0" if minutes else f"0:{text}"
    total = units.parse_clock(text) or 0
    return units.format_duration(int(total)) if 0 < total < 10**9 else None


def read_memory(text: str, *, times: int = 1, parts: int = 1) -> str | None:
    """So many times an amount such as 180GB, or the part of each node; None if it is none."""
    unit = "MB" if re.fullmatch(r"\d{1,9}", text, re.ASCII) else ""
    try:
        kib = units.parse_memory(text + unit) * times
    except ValueError:
        return None
    return units.format_memory(kib // parts) if kib and kib % parts == 0 else None


def settle(script: Script, draft: Draft) -> None:
    """Put what the directives say into `draft`; what a spec cannot say goes on as it is."""
    _note_unread(script, draft)
    items = _settle_mail(_list_taken(script, draft), script.target, draft)
    resources = _Resources(script, draft)
    resources.note_spread(items)
    for item in [item for item in items if not resources.take(item)]:
        keep_verbatim(script, item, draft)
    resources.put_shares()


def _note_unread(script: Script, draft: Draft) -> None:
    """Name lines that look like directives and are none, or for which a scheduler refuses a job."""
    for item in [item for item in script.directives if not item.read]:
        draft.check(item.line, item.text, "not taken: the scheduler does not read it here")
    for number, text in script.dead_directives.items():
        draft.check(number, text, "not taken: the scheduler takes it for a comment")
    for item in list_strays(script).values():
        draft.lose(item.line, item.text, WHY.TORN if script.find_torn(item.option) else WHY.STRAY)
    for item, reason in list_refused(script):
        draft.check(item.line, item.text, reason)
    if head := FORMS[f"beside-{script.target}"].match(script.text):
        draft.check(head[0].count("\n") + 1, head[1], WHY.OF_OTHERS)


def list_refused(script: Script) -> Iterator[tuple[DirectiveOption, str]]:
    """Yield the directives that OpenPBS refuses, or whose time few mean so, and the reasons."""
    items = script.read_directives if script.can.chunks else []
    names = " ".join(_name(item) for item in items)
    for item in items:
        asked = "\n".join([f"{item.option} {item.value}", item.text, names])
        for kind in () if find_place(script, item) else ("REFUSED", "MIXED", "MOAB", "BRIEF"):
            if FORMS[kind].match(asked):
                yield item, vars(WHY)[kind]


def _list_taken(script: Script, draft: Draft) -> list[DirectiveOption]:
    """Return the directives that count; what is a place to fill in, or refused, is lost."""
    taken, counting = [], list_counting(script)
    values, strays = {item.value for item in counting}, list_strays(script)
    for item in script.read_directives:
        asked = f"{item.option} {item.value}"
        joined = (item.option, script.value("-j")) == ("-e", "oe")  # so that it is not written
        rivals = item not in counting and item.option == "-l" and item.value not in values
        if reason := _find_loss(script, item):
            draft.lose(item.line, item.text, reason)
        elif FORMS["COMPLETED"].match(asked):
            draft.check(item.line, item.text, WHY.COMPLETED)
        elif rivals or FORMS["rival"].match(f"{asked} {script.value('--gres')}"):
            draft.check(item.line, item.text, WHY.RIVAL)  # as its author may not know
        elif item not in counting or joined or FORMS["own"].fullmatch(asked):
            draft.keep(item.line, f"{script.can.sign} {asked}".rstrip())
        elif item.line not in strays or not FORMS["cut-value"].search(item.value):
            taken.append(_join_folder(script, item))
    return taken


def list_counting(script: Script) -> list[DirectiveOption]:
    """Return the directives that count: of a resource of PBS the first, of an option the last."""
    items, adds = script.read_directives, FORMS["adds"].fullmatch
    counts = {_name(x): x for x in [*items, *(x for x in items[::-1] if x.option == "-l")]}
    return [item for item in items if adds(item.option) or item is counts[_name(item)]]


def _join_folder(script: Script, item: DirectiveOption) -> DirectiveOption:
    """Return a directive with the path of its file as seen from the folder of submission."""
    folder = script.value("--chdir")
    of_file = item.option in ("--output", "--error", "--input")
    return item._replace(value=os.path.join(folder, item.value)) if folder and of_file else item


def _name(item: DirectiveOption) -> str:
    """Return the option of a directive, and of PBS the resource, as in `-l mem`."""
    return f"{item.option} {item.value.partition('=')[0]}" if item.option == "-l" else item.option


def _find_loss(script: Script, item: DirectiveOption) -> str:
    """Say why the job does without a directive; empty where it does not."""
    if place := find_place(script, item):
        return f"{place} is a place to fill in{WHY.UNEXPANDED * (place[0] == '$')}"
    return script.can.refused.get(item.option, "")


def _settle_mail(items: list[DirectiveOption], target: str, draft: Draft) -> list[DirectiveOption]:
    """Take who gets mail and when, if a spec can say both; returns the other directives."""
    user, when, unsaid = _MAIL[target]
    addresses = [item.value for item in items if item.option == user]
    asked = ",".join(item.value for item in items if item.option == when) or unsaid
    words = asked if user == "-M" else asked.upper().split(",")
    events = dict.fromkeys(map(_EVENTS.get, words))
    others = [item for item in items if item.option not in (user, when)]
    sayable = None not in events and all(map(_ADDRESS.matches, addresses[:1]))
    if others == items or not sayable:
        return items
    draft.put("notify.email", next(iter(addresses), None))
    draft.put("notify.on", list(events))
    return others


def keep_verbatim(script: Script, item: DirectiveOption, draft: Draft) -> None:
    """Keep a directive as one of the spec."""
    joint = "=" if item.option.startswith("--") and item.value else " "
    value = item.value.strip()
    spaced = re.fullmatch(r"[^\\]*\s[^\\]*", value)  # which escapes nothing
    value = shlex.quote(value) if spaced else re.sub(r"([\\#'\"\s])", r"\\\1", value)
    setup, own = draft.values.get("environment.setup", ""), draft.values.get("array.numbers")
    asked = f"{item.option} {value} {script.value('-k')}\n{own=} {setup}\n{script.text}"
    for kind in ("OF_INDEX", "WRITTEN_EARLY", "FROM_OUTSIDE", "OF_NODES"):
        if FORMS[kind].match(asked):
            draft.check(item.line, item.text, vars(WHY)[kind])
    text = f"{script.can.sign} {item.option}{joint}{value}".rstrip()
    if re.fullmatch(r"[\x20-\x7e]+", text):
        own = draft.values.get("directives", ())
        draft.values["directives"] = [*dict.fromkeys([*own, text])]
    else:
        draft.lose(item.line, item.text, "not a directive that a spec can hold")


def _find_site_of_totals(script: Script) -> tuple[str, SiteProfile]:
    """The site of totals that a script is for, by its queue or file systems; nameless if none."""
    in_totals = script.can.chunks and not script.chunks
    for name, item in search.list_profiles() if in_totals else ():
        if item and _asks_in_totals(script, item.profile):
            return name, item.profile
    return "", SiteProfile(script.target)


def _asks_in_totals(script: Script, profile: SiteProfile) -> bool:
    lists = profile.filesystems
    listed = lists and script.resource(lists.resource)
    queue = profile.find_queue(script.value("-q"))
    # Many sites have queues of the names that those without GPUs have.
    named = queue and script.resource("ncpus") and (0, 0) not in [x.gpus for x in queue.limits]
    return profile.pbs.resources == "totals" and any((listed, named))


def make_name(text: str, unsaid: str = "") -> str:
    """Return a name that a spec can have: what else stands in a text, and dashes there, are one."""
    name = re.sub(r"(?<!-)-*(?:(?:%\w|[^A-Za-z0-9._-])-*)+", "-", text)
    return name.strip("-._")[:100] or unsaid


class _Resources:
    """What the directives of a script ask for, put into a draft one after the other."""

    def __init__(self, script: Script, draft: Draft) -> None:
        self.script, self.draft, self.request = script, draft, script.request
        self.site, profile = _find_site_of_totals(script)
        draft.put("site", self.site)
        self.files = profile.filesystems
        self.keys = profile.option_keys
        in_totals = script.can.chunks and not script.chunks
        self.nodes = share_totals(script).nodes
        self.shares = self.nodes if in_totals else 1
        # What each amount of memory is taken times, and the nodes that share it.
        self.memory = {"--mem": (1, 1), "--mem-per-cpu": (self.request.cpus or 1, 1)}
        self.memory |= {"--mem-per-gpu": (self.request.gpus, 1)}
        self.memory |= {"-l pmem": (self.request.cpus, 1)} if script.resource("nodes") else {}
        if self.nodes == 1 or not script.resource("select"):  # which has its own
            self.memory["-l mem"] = (1, self.nodes)

    def put_shares(self) -> None:
        """Put the nodes into the draft, and what each of them has."""
        nodes, request = self.nodes, self.request
        self.draft.put("resources.nodes", nodes > 1 and nodes)
        self.draft.put("resources.gpus_per_node", request.gpus // self.shares)
        if self.script.can.chunks or self.script.value("--cpus-per-task"):
            self.draft.put("resources.cpus_per_node", request.cpus // self.shares)

    def note_spread(self, items: list[DirectiveOption]) -> None:
        """Name tasks, GPUs or chunks that may be of more or fewer nodes than the spec asks for."""
        placed = f"{self.script.value('--nodes')} {self.script.resource('place')}"
        wide = [x for x in items if FORMS["wide"].match(f"{placed} {x.option} {x.value}")]
        for item in wide[:1]:
            reason = WHY.FEWER_NODES if self.script.can.chunks else WHY.MORE_NODES
            self.draft.check(item.line, item.text, reason)

    def take(self, item: DirectiveOption) -> bool:
        """Put one directive into the draft; False where a spec cannot say it."""
        option = _name(item)
        value = item.value.partition("=")[2] if item.option == "-l" else item.value
        key = self.keys.get(option, "")
        values = value.split(",") if key == "queue" else [value]  # of which Slurm takes several
        if key in _FORMS and all(map(_FORMS[key].matches, values)):
            return self.draft.put(key, values if values[1:] else value)
        if FORMS["exclusive"].fullmatch(f"{option} {value}"):
            return self.draft.put("resources.exclusive", True)
        if option in ARRAYS:
            return _settle_indices(self.script, item, self.draft)
        if key == "resources.walltime":
            return self.draft.put(key, read_walltime(value, self.script.target))
        if option in self.memory:
            times, parts = self.memory[option]
            memory = read_memory(value, times=times, parts=parts)
            return self.draft.put("resources.memory_per_node", memory)
        return self._take_count(option, value, item) or self._take_other(option, value, item)

    def _take_count(self, option: str, value: str, item: DirectiveOption) -> bool:
        typed = FORMS.get(f"count {option}", FORMS["count"]).fullmatch(value)
        if not FORMS["counts"].fullmatch(f"{option} {self.request.gpus}") or not typed:
            return False
        self.draft.put("resources.gpu_type", typed[1])
        return True

    def _take_other(self, option: str, value: str, item: DirectiveOption) -> bool:
        if self.keys.get(option) == "name":
            self.draft.put("name", make_name(value))
            self.draft.check(item.line, item.text, "not a name that a spec can have")
        elif option == self.script.can.shell_option and find_shell(self.script) != "bash":
            keep_verbatim(self.script, item._replace(value="/bin/bash"), self.draft)  # jobgen's
        else:
            return self._take_of_pbs(option, value, item)
        return True

    def _take_of_pbs(self, option: str, value: str, item: DirectiveOption) -> bool:
        if option in ("-l select", "-l nodes") and self.request.alike:
            if value == self.script.chunks:  # of which OpenPBS takes one alone
                self._take_chunk(option, value, item)
        elif self.files and option == f"-l {self.files.resource}" and _LABEL.matches(value):
            self.draft.put("filesystems", value.split(self.files.separator))
        elif FORMS["of-request"].fullmatch(f"{option} {self.nodes}"):
            return value.isdecimal() and int(value) % self.nodes == 0
        else:
            return option == "-l place" and value in ("free", "pack") and self.nodes == 1
        return True

    def _take_chunk(self, option: str, value: str, item: DirectiveOption) -> None:
        more, draft = [], self.draft
        for pair in filter(None, re.sub(r"^\d+", "", value).split(":")):
            key, equals, text = pair.partition("=")
            if key == "mem":
                draft.put("resources.memory_per_node", read_memory(text))
            elif key == "ompthreads":
                draft.put("environment.variables", {"OMP_NUM_THREADS": text})
            elif not FORMS["of-chunk"].fullmatch(key):
                # A bare word of nodes= is true of them, as OpenPBS reads it.
                more.append(pair if equals or option != "-l nodes" else f"{pair}=True")
        known = [pair for pair in more if re.fullmatch(OF_CHUNK, pair)]
        draft.put("resources.constraint", ":".join(known))
        if others := ":".join(pair.removesuffix("=True") for pair in more if pair not in known):
            draft.lose(item.line, others, "not a thing that a spec can ask of each node")
        if option == "-l nodes":
            draft.check(item.line, item.text, WHY.SELECT)


def join_select(draft: Draft) -> None:
    """Move what OpenPBS takes of one node into the constraint, as a spec's job has a select."""
    own, part = draft.values.pop("directives", []), FORMS["of-select"]
    parts = [draft.values.get("resources.constraint"), *part.findall("\n".join(own))]
    draft.put("resources.constraint", ":".join(filter(None, parts)))
    draft.put("directives", [text for text in own if not part.fullmatch(text)])


def find_request(script: Script, path: str) -> DirectiveOption | None:
    """Return the directive that asks for what a key of a spec says, or else the first."""
    key = path.removeprefix("resources.")
    known = {"walltime": "time", "queue": "--partition|--qos|-q"}
    asks = re.compile(known.get(key, f"{key[:3]}|select=|nodes="))
    items = [item for item in script.read_directives if asks.search(f"{item.option} {item.value}")]
    return next(iter(items or script.read_directives), None)


def share_totals(script: Script) -> Request:
    """What a job asks for, with as many nodes as its totals fill on a site that is known."""
    (_, profile), request = _find_site_of_totals(script), script.request
    queue, counts = profile.find_queue(script.value("-q")), [1]
    for key, total in (("gpus", request.gpus), ("cpus", request.cpus)):
        of_queue: int | None = getattr(queue.node, key) if queue else None
        if each := of_queue or getattr(profile.node, key):
            counts.append(-(-total // each))
    nodes, tasks = min(1000, max(counts)), request.cpus // max(counts)
    return request._replace(nodes=nodes, sure=True, tasks=tasks) if nodes > 1 else request


def _settle_indices(script: Script, item: DirectiveOption, draft: Draft) -> bool:
    """Put an array into `draft`, with its own indices; False where more of it is not jobgen's."""
    if not FORMS["indices"].fullmatch(item.value):
        return False
    indices, _, at_once = item.value.partition("%")
    numbers = sorted({*units.parse_ranges(indices)})
    first, second = [*numbers, numbers[0] + 1][:2]
    even = numbers == [*range(first, numbers[-1] + 1, second - first)]
    # Those of jobgen begin at 0, and OpenPBS does not set the variable of Torque.
    differs = numbers != [*range(len(numbers))] or item.option == "-t"
    if len(numbers) == 1 or (differs and FORMS["of-array"].search(script.text)):
        return False
    draft.put("array.tasks", len(numbers))
    draft.put("array.at_once", int(at_once or 0))
    # A list, where it is short: Torque's variable is not set by it.
    if even := differs and even and (len(numbers) > 32 or item.option == "-t"):
        index = f"JOBGEN_TASK * {second - first} + {first}".replace(" * 1 ", " ")
        draft.setup([f"export {ARRAYS[item.option]}=$(({index}))"])
    return not differs or even or (draft.put("array.numbers", numbers) and item.option != "-t")
