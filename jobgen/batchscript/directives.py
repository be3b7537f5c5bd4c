"""From #SBATCH and #PBS lines to the account, queue and resources of a spec."""

from __future__ import annotations

import math
import re
import shlex

from jobgen.batchscript.draft import Draft
from jobgen.batchscript.readable import find_place
from jobgen.batchscript.reader import DirectiveOption, Script
from jobgen.capabilities import get_capabilities
from jobgen.sites import search
from jobgen.sites.profile import SiteProfile
from jobgen.spec.units import format_duration, format_memory, parse_memory

# What jobgen's scripts say by themselves, so that no spec needs to.
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
    "--gres": r"gpu(?:(?::([A-Za-z_][\w.-]*))?:(\d{1,5}))?",
    "--gpus-per-node": r"(?:(\w[\w.-]*):)?(\d{1,5})",
}
_GPUS |= dict.fromkeys(("--gpus", "--gpus-per-task"), r"(?:(\w[\w.-]*):)?(\d{1,5})")
_NUMBERS = (
    *("--nodes", "--ntasks", "--ntasks-per-node", "--cpus-per-task", "--gpus-per-node", "--gpus"),
    *("--cpus-per-gpu", "--gpus-per-task"),
)
_RANGE = re.compile(r"([1-9]\d{0,4})-([1-9]\d{0,4})", re.ASCII)
_CHUNK = ("ngpus", "ncpus", "mem", "mpiprocs", "ppn", "gpus", "ompthreads")
_LISTED = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*[A-Za-z0-9_]")
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LABELLED = r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*"
# Option, the form of its value that a spec takes, and its key.
_REQUESTS = {
    "slurm": {
        "--qos": (_LABELLED, "qos"),
        "--reservation": (_LABELLED, "reservation"),
        "--constraint": (r"[A-Za-z0-9_(\[][A-Za-z0-9_.:&|*,()\[\]-]*", "resources.constraint"),
        "--mail-user": (r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*", "notify.email"),
    },
    "pbs": {"-M": (r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*", "notify.email")},
}
_EXCLUSIVE = (("--exclusive", ""), ("-l", "place=scatter:excl"))
_EVENTS = {"BEGIN": "begin", "END": "end", "FAIL": "fail", "b": "begin", "e": "end", "a": "fail"}
# The options for who gets mail and when, and when that is where it is not said.
_MAIL = {"slurm": ("--mail-user", "--mail-type", None), "pbs": ("-M", "-m", "fail")}
_JOB = r":[0-9][0-9_]*(\[[0-9]*\])?(\.[A-Za-z0-9.-]+)?"
_DEPENDENCIES = rf"(afterok|afterany|afternotok|after)({_JOB})+"


def read_walltime(text: str, scheduler: str) -> str | None:
    """HH:MM:SS of what sbatch or qsub reads; None if that is not a time."""
    match = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text, re.ASCII)
    if not match:
        return None
    days, parts = match[1], [int(part) for part in match.groups()[1:] if part is not None]
    if days is not None:  # D-H, D-H:M, D-H:M:S
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 1:
        in_minutes = get_capabilities(scheduler).bare_walltime == "minutes"
        hours, minutes, seconds = (0, parts[0], 0) if in_minutes else (0, 0, parts[0])
    else:
        hours, minutes, seconds = (0, *parts)[-3:]
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return format_duration(total) if 0 < total < 10**9 else None


def read_memory(text: str, *, parts: int = 1) -> str | None:
    """An amount such as 180GB, of which each of `parts` nodes has its part; None if it is none."""
    try:
        kib = parse_memory(_with_unit(text))
    except ValueError:
        return None
    if kib % parts:
        return None
    return format_memory(kib // parts)


def _with_unit(text: str) -> str:
    return f"{text}MB" if re.fullmatch(r"\d{1,9}", text, re.ASCII) else text


def settle(script: Script, draft: Draft, *, nodes: int | None = None) -> None:
    """Put what the directives say into `draft`; `nodes` is known where directives cannot say it."""
    scheduler = script.target
    site = _find_site_of_totals(script)
    draft.put("site", site)
    profile = search.load(site) if site else SiteProfile(scheduler)
    for item in script.directives:
        if not item.read:
            draft.check(item.line, item.text, "not taken: the scheduler does not read it here")
    read = [item for item in script.directives if item.read and item.option]
    for item in read:
        if place := find_place(item):
            draft.lose(item.line, item.text, f"{place} is a place to fill in")
    read = _drop_repeated([item for item in read if not find_place(item)])
    read = [item for item in read if (item.option, item.value) not in _OWN]
    read = [item for item in read if not _belongs_to_site(item, script, profile)]
    keys = dict(_KEYS[scheduler])
    if site:
        keys[profile.pbs.account_option] = "account"
    elif profile.slurm.queue_option == "qos":
        keys["--qos"] = "queue"
    rest, unsaid = [], _find_unsaid(read)
    read = _settle_mail(read, scheduler, draft)
    for item in read:
        key = keys.get(item.option) if item.option not in unsaid else None
        form = _NAME if key == "name" else _LABEL
        if key and form.fullmatch(item.value):
            draft.put(key, item.value)
        elif key == "name":
            draft.put("name", re.sub(r"[^A-Za-z0-9._-]+", "-", item.value).strip("-._")[:100])
            draft.check(item.line, item.text, "not a name that a spec can have; one was made of it")
        elif item.option in unsaid or not _take_request(item, scheduler, draft):
            rest.append(item)
    if not script.can.chunks:  # every option has a reader of its own
        rest = _settle_slurm(rest, draft)
    else:
        rest = _settle_pbs(rest, draft, nodes if nodes is not None else script.nodes or 1, profile)
    rest = [item for item in rest if (item.option, item.value) != ("--export", "ALL")]
    for item in rest:
        keep_verbatim(script, item, draft)


def _find_unsaid(items: list[DirectiveOption]) -> set[str]:
    """The options that are kept verbatim, as a spec cannot say one that goes with them."""
    unsaid: set[str] = set()
    for item in items:
        if item.option == "--mail-type" and _read_events(item) is None:
            unsaid |= {"--mail-type", "--mail-user"}
        if item.option == "-W" and item.value.startswith("group_list="):
            unsaid |= {"-A"}
    return unsaid


def _settle_mail(
    items: list[DirectiveOption], scheduler: str, draft: Draft
) -> list[DirectiveOption]:
    """The directives without an address that no mail goes to; jobgen's keys would send some."""
    user, when, default = _MAIL[scheduler]
    if any(item.option == when for item in items) or not any(x.option == user for x in items):
        return items
    if default:
        draft.put("notify.on", [default])
        return items
    for item in items:
        if item.option == user:
            draft.keep(item.line, item.text, f"no mail is sent without {when}")
    return [item for item in items if item.option != user]


def _drop_repeated(items: list[DirectiveOption]) -> list[DirectiveOption]:
    """What the scheduler takes: of an option that is given again, the last one."""
    kept: dict[tuple[str, int], DirectiveOption] = {}
    component = 0
    for number, item in enumerate(items):
        component += item.option == "hetjob"
        many = item.option in ("-l", "-W", "-v", "--mail-type", "hetjob")  # each adds
        key = (item.option, -1 - number if many else component)
        kept.pop(key, None)
        kept[key] = item
    return sorted(kept.values(), key=lambda item: (item.line, item.column))


def _belongs_to_site(item: DirectiveOption, script: Script, profile: SiteProfile) -> bool:
    """Whether the site adds this directive to the job by itself."""
    queue = (profile.queues or {}).get(script.value("--partition", "--qos", "-q") or "")
    own = profile.directives + (queue.directives if queue else ())
    return item.text.partition(" ")[2].strip() in own


def keep_verbatim(script: Script, item: DirectiveOption, draft: Draft) -> None:
    others = [other for other in script.directives if other.line == item.line]
    text = item.text
    if len(others) > 1:
        joint = "=" if item.option.startswith("--") and item.value else " "
        sign = script.can.sign
        value = shlex.quote(item.value) if re.search(r"\s", item.value) else item.value
        text = f"{sign} {item.option}{joint}{value}".rstrip()
    else:
        text = re.sub(r"^(#\w+)\s+", r"\1 ", text)
        comments = script.can.comments
        text = re.sub(r"\s+#.*", "", text) if comments else text
    if re.fullmatch(r"#(PBS|SBATCH) [\x20-\x7e]*[\x21-\x7e]", text):
        draft.directive(text)
    else:
        draft.lose(item.line, item.text, "not a directive that a spec can hold")


def _find_site_of_totals(script: Script) -> str | None:
    """The site whose jobs are asked for in totals, and which has this queue."""
    if script.resource("select") or script.resource("nodes") or not script.resource("ncpus"):
        return None
    queue = script.value("-q")
    for name in search.list_names():
        profile = search.load(name)
        totals = profile.pbs.resources == "totals"
        if totals and profile.scheduler == script.scheduler and queue in (profile.queues or {}):
            return name
    return None


def _fold_values(values: list[int]) -> int | list[int] | None:
    if not any(values):
        return None
    return values[0] if len(set(values)) == 1 else values


def _fewest_nodes(numbers: dict[str, int]) -> int:
    """The nodes of a job without --nodes: Slurm keeps to what one of them may have."""
    pairs = (("--ntasks", "--ntasks-per-node"), ("--gpus", "--gpus-per-node"))
    amounts = [(numbers.get(all_), numbers.get(each)) for all_, each in pairs]
    return max(1, *(math.ceil(total / each) if total and each else 1 for total, each in amounts))


class _SlurmRequest:
    """What the options of a Slurm job ask for: the numbers of each component, and the rest."""

    def __init__(self) -> None:
        self.components: list[dict[str, int]] = [{}]
        self.rest: list[DirectiveOption] = []
        self.shares: dict[str, DirectiveOption] = {}  # memory by CPU or GPU
        self.node_range: dict[str, int] | None = None

    def take(self, item: DirectiveOption, draft: Draft) -> None:
        """Take over one option."""
        now = self.components[-1]
        option, value = item.option, item.value
        number = int(value) if re.fullmatch(r"\d{1,6}", value, re.ASCII) else None
        typed = re.fullmatch(_GPUS.get(option, "(?!)"), value, re.ASCII)
        bounds = _RANGE.fullmatch(value) if option == "--nodes" else None
        if option == "hetjob":
            self.components.append({})
        elif number and option in _NUMBERS:
            now[option] = number
        elif bounds:
            now["--nodes"] = int(bounds[1])
            if bounds[1] != bounds[2]:
                self.node_range = {"min": int(bounds[1]), "max": int(bounds[2])}
        elif typed:
            now["--gpus-per-node" if option == "--gres" else option] = int(typed[2] or 1)
            draft.put("resources.gpu_type", typed[1])
        elif option in ("--mem-per-cpu", "--mem-per-gpu") and read_memory(value):
            self.shares[option] = item
        elif option == "--mem" and value != "0" and read_memory(value):
            draft.put("resources.memory_per_node", read_memory(value))
        elif option == "--time" and read_walltime(value, "slurm"):
            draft.put("resources.walltime", read_walltime(value, "slurm"))
        elif len(self.components) == 1 or option not in ("--partition", "--account"):
            self.rest.append(item)


def _settle_slurm(items: list[DirectiveOption], draft: Draft) -> list[DirectiveOption]:
    """The resources of each component of the job; what is left goes on as it is."""
    request = _SlurmRequest()
    for item in items:
        request.take(item, draft)
    counts, gpus, cpus = [], [], []
    for now in request.components:
        nodes, gpu, cpu = _count_component(now, items, draft)
        counts.append(nodes)
        gpus += [gpu] * nodes if nodes <= 1000 else [gpu]
        cpus += [cpu] * nodes if nodes <= 1000 else [cpu]
    now = request.components[0]
    _note_spread(now, counts[0], items, draft)
    if "--cpus-per-gpu" in now and not any(gpus):
        item = next(item for item in items if item.option == "--cpus-per-gpu")
        draft.check(item.line, item.text, "the script does not say how many GPUs a node has")
        request.rest.append(item)
    _shape(draft, sum(counts), gpus, cpus)
    for option, item in request.shares.items():
        share = parse_memory(_with_unit(item.value))
        count = (cpus if option == "--mem-per-cpu" else gpus)[0] or (option == "--mem-per-cpu")
        if count and len(set(cpus)) == 1:
            draft.put("resources.memory_per_node", f"{format_memory(share * int(count))}")
        else:
            request.rest.append(item)
    if request.node_range and len(request.components) == 1:
        draft.put("resources.nodes", request.node_range)
    return request.rest


def _count_component(
    now: dict[str, int], items: list[DirectiveOption], draft: Draft
) -> tuple[int, int, int]:
    """Nodes of a component, and GPUs and CPUs of each."""
    nodes = now.get("--nodes") or _fewest_nodes(now)
    if now.get("--ntasks", nodes) < nodes and "--ntasks-per-node" not in now:
        line = next((item.line for item in items if item.option == "--ntasks"), 1)
        shown = f"--nodes={nodes} --ntasks={now['--ntasks']}"
        draft.check(line, shown, "Slurm gives no more nodes than there are tasks")
        nodes = now["--ntasks"]
    tasks = now.get("--ntasks-per-node") or math.ceil(now.get("--ntasks", nodes) / nodes)
    tasks = min(tasks, math.ceil(now.get("--ntasks", tasks * nodes) / nodes))
    gpu = now.get("--gpus-per-node") or now.get("--gpus-per-task", 0) * tasks
    gpu = gpu or now.get("--gpus", 0) // nodes
    cpu = now.get("--cpus-per-task", 1 if tasks > 1 else 0) * tasks
    if "--cpus-per-gpu" in now:
        cpu = now["--cpus-per-gpu"] * gpu
    draft.put("tasks", tasks if tasks > 1 else None)
    return nodes, gpu, cpu


def _note_spread(
    now: dict[str, int], nodes: int, items: list[DirectiveOption], draft: Draft
) -> None:
    """Note that Slurm may spread what no number of nodes goes with."""
    for option in ("--ntasks", "--gpus"):
        if "--nodes" not in now and now.get(option, 1) > 1 and now.get("--ntasks") != 1:
            line = next((item.line for item in items if item.option == option), 1)
            taken = f"{nodes} nodes" if nodes > 1 else "one node"
            message = f"taken for {taken}; without --nodes, Slurm may spread them"
            draft.check(line, f"{option}={now[option]}", message)
            return


def _shape(draft: Draft, nodes: int, gpus: list[int], cpus: list[int]) -> None:
    draft.put("resources.nodes", nodes if nodes > 1 else None)
    draft.put("resources.gpus_per_node", _fold_values(gpus))
    if len(set(cpus)) == 1:
        draft.put("resources.cpus_per_node", cpus[0] or None)
    elif all(gpu and cpu % gpu == 0 for gpu, cpu in zip(gpus, cpus, strict=True)):
        draft.put("resources.cpus_per_gpu", cpus[0] // gpus[0])


def _settle_pbs(
    items: list[DirectiveOption], draft: Draft, nodes: int, profile: SiteProfile
) -> list[DirectiveOption]:
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
            if key == "walltime" and read_walltime(value, "pbs"):
                draft.put("resources.walltime", read_walltime(value, "pbs"))
            elif key in ("select", "nodes") and (
                chunks := _read_chunks(value, item, draft, profile)
            ):
                gpus, cpus = chunks
                nodes = len(gpus)
            elif key == "ngpus" and number and not any(gpus) and (nodes == 1 or not totals):
                gpus[:] = [number] * len(gpus)
            elif key in ("ncpus", "ngpus") and totals and number and number % nodes == 0:
                (cpus if key == "ncpus" else gpus)[:] = [number // nodes] * len(gpus)
            elif key == "mem" and totals and read_memory(value, parts=nodes):
                draft.put("resources.memory_per_node", read_memory(value, parts=nodes))
            elif listed and key == listed.resource and _LISTED.fullmatch(value):
                draft.put("filesystems", value.split(listed.separator))
            elif key == "ncpus" and number and nodes == 1 and not any(cpus):
                cpus[:] = [number]
            elif key == "mem" and nodes == 1 and read_memory(value):
                draft.put("resources.memory_per_node", read_memory(value))
            elif key not in ("place",) or value != "scatter":
                rest.append(item._replace(value=part, text=f"#PBS -l {part}"))
    _shape(draft, nodes, gpus, cpus)
    return rest


def _read_chunks(
    value: str, item: DirectiveOption, draft: Draft, profile: SiteProfile
) -> tuple[list[int], list[int]] | None:
    """GPUs and CPUs of each node in a select; None where it is none."""
    gpus: list[int] = []
    cpus: list[int] = []
    wanted: list[str] = []  # of each chunk beside these
    for chunk in value.split("+"):
        count, *pairs = chunk.strip().split(":")
        if not re.fullmatch(r"\d{1,4}", count, re.ASCII) or int(count) == 0:
            return None
        resources = dict(pair.partition("=")[::2] for pair in pairs)
        more: dict[str, str] = {}
        numbers = {
            key: int(text)
            for key, text in resources.items()
            if re.fullmatch(r"\d{1,6}", text, re.ASCII)
        }
        gpus += [numbers.get("ngpus", numbers.get("gpus", 0))] * int(count)
        cpus += [numbers.get("ncpus", numbers.get("ppn", 0))] * int(count)
        if mem := read_memory(resources.get("mem", "")):
            draft.put("resources.memory_per_node", mem)
        if numbers.get("mpiprocs", 1) > 1:
            draft.put("tasks", numbers["mpiprocs"])
        for key, text in resources.items():
            if key == "gpu_type" and _LABEL.fullmatch(text):
                draft.put("resources.gpu_type", text)
            elif key not in _CHUNK and (profile.pbs.chunk or {}).get(key) != text:
                more[key] = text
        wanted.append(":".join(f"{key}={text}" for key, text in more.items()))
    if len(set(wanted)) == 1 and re.fullmatch(r"([A-Za-z_]\w*=[\w.-]+:?)+", wanted[0]):
        draft.put("resources.constraint", wanted[0])
    elif any(wanted):
        draft.lose(item.line, "+".join(wanted), "not the same for each of a spec's nodes")
    return gpus, cpus


def _take_request(item: DirectiveOption, scheduler: str, draft: Draft) -> bool:
    """Put one directive into `draft`; False where a spec cannot say it."""
    form, key = _REQUESTS[scheduler].get(item.option, ("(?!)", ""))
    if re.fullmatch(form, item.value):
        draft.put(key, item.value)
    elif item.option in ("--mail-type", "-m"):
        return _take_events(item, draft)
    elif (item.option, item.value) in _EXCLUSIVE:
        draft.put("resources.exclusive", True)
    elif item.option == "--dependency":
        return _take_dependencies(item.value, draft)
    elif item.option == "-W" and item.value.startswith("depend="):
        return _take_dependencies(item.value.removeprefix("depend="), draft)
    elif item.option in ARRAYS:
        return settle_indices(item.value, draft, ARRAYS[item.option])
    elif item.option == "--kill-on-invalid-dep":
        return item.value == "yes" and any(key.startswith("after") for key in draft.values)
    else:
        return False
    return True


def _read_events(item: DirectiveOption) -> list[str] | None:
    """What mail is sent at; None where a spec cannot say it."""
    words = item.value.upper().split(",") if item.option == "--mail-type" else list(item.value)
    if words in (["NONE"], ["n"]):
        return []
    words = ["BEGIN", "END", "FAIL"] if words == ["ALL"] else words
    return [_EVENTS[word] for word in words] if all(word in _EVENTS for word in words) else None


def _take_events(item: DirectiveOption, draft: Draft) -> bool:
    events = _read_events(item)
    if events:
        listed = draft.values.get("notify.on", []) + events
        draft.put("notify.on", list(dict.fromkeys(listed)))
    return events is not None


def _take_dependencies(text: str, draft: Draft) -> bool:
    parts = text.split(",")
    if not all(re.fullmatch(_DEPENDENCIES, part) for part in parts):
        return False
    jobs_of: dict[str, list[str]] = {}
    for part in parts:
        kind, *jobs = part.split(":")
        jobs_of.setdefault(kind, []).extend(jobs)
    if list(jobs_of) == ["afterok"]:
        draft.put("after", jobs_of["afterok"])
        return True
    for kind, jobs in jobs_of.items():
        draft.put(f"after.{kind}", jobs)
    return True


def settle_range(text: str, draft: Draft) -> bool:
    """Put `0-9%2` into `draft`; False if it is not such a range."""
    match = re.fullmatch(r"0-(\d{1,4})(?:%(\d{1,5}))?", text, re.ASCII)
    if not match or int(match[1]) == 0 or match[2] == "0":
        return False
    draft.put("array.tasks", int(match[1]) + 1)
    draft.put("array.at_once", int(match[2]) if match[2] else None)
    return True


# How an array is asked for, and what has its index: -t is of Torque.
ARRAYS = {"--array": "SLURM_ARRAY_TASK_ID", "-J": "PBS_ARRAY_INDEX", "-t": "PBS_ARRAYID"}


def settle_indices(text: str, draft: Draft, name: str) -> bool:
    """Put any array into `draft`; `name` gets its own indices, as jobgen's count from 0."""
    if settle_range(text, draft):
        return True
    match = re.fullmatch(r"([\d,:-]+)(?:%(\d{1,5}))?", text, re.ASCII)
    indices: list[int] = []
    for part in match[1].split(",") if match else []:
        bounds = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part, re.ASCII)
        if not bounds or bounds[3] == "0":
            return False
        last = int(bounds[2] or bounds[1])
        step = int(bounds[3] or 1)
        if (last - int(bounds[1])) // step >= 10_000:
            return False
        indices += range(int(bounds[1]), last + 1, step)
    if not match or not 1 <= len(indices) <= 10_000 or match[2] == "0":
        return False
    draft.put("array.tasks", len(indices))
    draft.put("array.at_once", int(match[2]) if match[2] else None)
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    if indices == list(range(indices[0], indices[0] + step * len(indices), step or 1)):
        factor = "JOBGEN_TASK" if step == 1 else f"JOBGEN_TASK * {step}"
        value = f"$(({factor} + {indices[0]}))" if indices[0] else f"$(({factor}))"
        lines = [f"export {name}={value}"]
    else:
        words = " ".join(map(str, indices))
        lines = [f"INDICES=({words})", f"export {name}=${{INDICES[JOBGEN_TASK]}}"]
    draft.setup(lines)
    return True
