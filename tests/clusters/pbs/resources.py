"""Resource requests: what -l accepts, and on which nodes the scheduler places chunks."""

from __future__ import annotations

import re

from link import BAD_VALUE, READ_ONLY, UNKNOWN_RESOURCE, RefusedError

# Tests start commands thousands of times: what only types need is not imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIZE = re.compile(r"(\d+)([kmgtp]?)[bw]?", re.IGNORECASE)
NUMBER = re.compile(r"\d+")
NAME = re.compile(r"[^\s:+,=]+")
DURATION = re.compile(r"(\d+(:\d+){0,2}:?(\.\d*)?)?")
# The words of place=, one of each line at most, in any order.
PLACE = (
    re.compile("free|pack|scatter|vscatter"),
    re.compile("excl|exclhost|shared"),
    re.compile(r"group=\w+"),
)

# Resources of one host: they may stand in a chunk, and not beside -l select.
HOST_LEVEL = {
    "ncpus": NUMBER, "ngpus": NUMBER, "mpiprocs": NUMBER, "ompthreads": NUMBER,
    "mem": SIZE, "vmem": SIZE, "host": NAME, "vnode": NAME, "arch": NAME, "naccelerators": NUMBER,
}  # fmt: skip
JOB_WIDE = {
    "walltime": DURATION, "cput": DURATION, "pcput": DURATION, "pmem": SIZE, "pvmem": SIZE,
    "file": SIZE, "nice": re.compile(r"-?\d+"), "software": NAME, "min_walltime": DURATION,
}  # fmt: skip
CONSUMABLE = ("ncpus", "ngpus", "mem")
# What a request may give as a sum for the job (`-l ncpus=4 -l ngpus=2`): one chunk of it all.
TOTALS = ("arch", "host", "mem", "mpiprocs", "ncpus", "ngpus", "ompthreads", "vnode")

Chunk = dict[str, object]


def kilobytes(text: str) -> int:
    """A size such as 8gb, 8192mb, 800 (bytes), in kB, rounded up."""
    number, unit = SIZE.fullmatch(text).groups()  # type: ignore[union-attr]
    power = "kmgtp".find(unit.lower()) if unit else -1
    return -(-int(number) // 1024) if power < 0 else int(number) * 1024**power


def seconds(text: str) -> int:
    """A duration: seconds, or minutes and seconds, or hours, minutes and seconds."""
    total = 0
    for part in text.split(".")[0].split(":"):
        total = total * 60 + int(part or 0)
    return total


def size(kilobyte: int) -> str:
    """A size as PBS prints it: in the largest unit that gives a whole number."""
    units = ["kb", "mb", "gb", "tb"]
    while kilobyte and kilobyte % 1024 == 0 and len(units) > 1:
        kilobyte //= 1024
        units.pop(0)
    return f"{kilobyte}{units[0]}"


def clock(duration: float) -> str:
    """HH:MM:SS, as qstat prints durations."""
    whole = int(duration)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def split_list(text: str) -> list[tuple[str, str]]:
    """The `name=value,name=value` of one -l; quotes protect commas, blanks are refused."""
    pairs: list[tuple[str, str]] = []
    if not text:
        return pairs
    for item in re.sub(r"\"[^\"]*\"|'[^']*'", _hide_commas, text).split(","):
        name, _, value = item.lstrip().partition("=")
        if not name or re.search(r"\s", name + value):
            raise RefusedError(2, "qsub: illegal -l value")
        pairs.append((name, value.replace("\0", ",")))
    return pairs


def _hide_commas(quoted: re.Match[str]) -> str:
    return quoted[0][1:-1].replace(",", "\0")


def _value(table: dict[str, re.Pattern[str]], *, owner: str, name: str, text: str) -> Any:
    kind = table[name]
    if not kind.fullmatch(text):
        raise RefusedError(BAD_VALUE, f"qsub: Illegal attribute or resource value {owner}.{name}")
    if kind is NUMBER:
        return int(text)
    if kind is SIZE:
        return kilobytes(text)
    return text


def parse_select(text: str) -> list[Chunk]:
    """The chunks of a select statement, one entry each, in order.

    Every chunk has ncpus, ngpus, mem (kB), mpiprocs; a host it names is under host. `given`
    tells which of them were written, in their order, and ncpus, which always counts as such.
    """
    chunks: list[Chunk] = []
    for part in text.split("+"):
        words = part.split(":")
        count = 1
        if words[0].isdigit():
            count = int(words.pop(0))
        chunk: Chunk = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not name or not equals or not value:
                break
            if name in JOB_WIDE or name in ("select", "place", "nodes"):
                text = f'qsub: Resource invalid in "select" specification: {name}'
                raise RefusedError(4, text)
            if name not in HOST_LEVEL:
                raise RefusedError(UNKNOWN_RESOURCE, f"qsub: Unknown resource: {name}")
            if name in chunk:
                text = "qsub: duplicated resource within a section of a select specification, "
                raise RefusedError(12, f"{text}resource is: {name}")
            where = "host" if name == "vnode" else name
            chunk[where] = _value(HOST_LEVEL, owner="select", name=name, text=value)
        else:
            if count > 0:
                given = [name for name in chunk if name in (*CONSUMABLE, "mpiprocs")]
                cpus = chunk.setdefault("ncpus", 1)
                defaults: Chunk = {"ngpus": 0, "mem": 0, "mpiprocs": 1 if cpus else 0}
                chunk = defaults | chunk | {"given": list(dict.fromkeys([*given, "ncpus"]))}
                chunks += [dict(chunk) for _ in range(count)]
                continue
        raise RefusedError(
            BAD_VALUE, "qsub: Illegal attribute or resource value Resource_List.select"
        )
    return chunks


def parse_request(pairs: list[tuple[str, str]], further: list[str]) -> dict[str, Any]:
    """All -l of a job, the last of a name winning: select, place, walltime and the rest.

    `select` is the statement, `chunks` what it means. `further` names the site's own
    job-wide resources.
    """
    given = dict(pairs)
    request: dict[str, Any] = {}
    known = {"select", "place", "nodes"} | HOST_LEVEL.keys() | JOB_WIDE.keys() | set(further)
    for name in given:
        if name in ("soft_walltime", "nodect"):
            text = "qsub: Cannot set attribute, read only or insufficient permission"
            raise RefusedError(READ_ONLY, f"{text}  Resource_List.{name}")
        if name not in known:
            raise RefusedError(UNKNOWN_RESOURCE, f"qsub: Unknown resource Resource_List.{name}")
        if name in HOST_LEVEL:
            _value(HOST_LEVEL, owner="Resource_List", name=name, text=given[name])
        elif name in JOB_WIDE:
            value = _value(JOB_WIDE, owner="Resource_List", name=name, text=given[name])
            request[name] = seconds(value) if name == "walltime" else value
        elif name in further:
            request[name] = given[name]
    beside = [name for name in given if name in HOST_LEVEL]
    if "nodes" in given and ("select" in given or "place" in given):
        raise RefusedError(6, "qsub: Cannot be used with select or place: nodes")
    if beside and ("select" in given or "place" in given):
        text = '"-lresource=" cannot be used with "select" or "place", resource is: '
        raise RefusedError(5, f"qsub: {text}{beside[0]}")
    place = "pack"
    if "select" in given:
        statement, place = given["select"], "free"
    elif "nodes" in given:
        statement, place = _old_nodes(given["nodes"]), "scatter"
        request["nodes"] = given["nodes"]
    else:
        totals = [f"{name}={given[name]}" for name in TOTALS if name in given]
        statement = ":".join(["1", *totals] if "ncpus" in given else ["1", "ncpus=1", *totals])
    place = given.get("place", place)
    words = place.split(":")
    kinds = [[kind for kind in PLACE if kind.fullmatch(word)] for word in words]
    if not all(kinds) or len({id(kind[0]) for kind in kinds}) < len(words):
        raise RefusedError(
            BAD_VALUE, "qsub: Illegal attribute or resource value Resource_List.place"
        )
    if "place" in given and "select" not in given:
        raise RefusedError(7, 'qsub: Cannot have "place" without "select"')
    return request | {"select": statement, "place": place, "chunks": parse_select(statement)}


def _old_nodes(text: str) -> str:
    """`nodes=2:ppn=2` as the select statement that PBS makes of it."""
    chunks = []
    for part in text.split("+"):
        words = part.split(":")
        count = words.pop(0) if words[0].isdigit() else "1"
        each = dict(word.partition("=")[::2] for word in words)
        tasks = each.pop("ppn", "1")
        if count == "0" or not tasks.isdigit() or any(each.values()):
            raise RefusedError(15089, "qsub: node(s) specification error")
        for name in each:
            # A name without a value is a host's, or a resource that no host has.
            if not re.fullmatch(r"n\d+", name):
                raise RefusedError(UNKNOWN_RESOURCE, f"qsub: Unknown resource: {name}")
        hosts = [f"host={name}" for name in each]
        chunks.append(":".join([count, *hosts, f"ncpus={tasks}", f"mpiprocs={tasks}"]))
    return "+".join(chunks)


def totals(chunks: list[Chunk]) -> dict[str, int]:
    """The job's sums of what its chunks ask for."""
    return {name: sum(chunk[name] for chunk in chunks) for name in CONSUMABLE}


def fit(
    chunks: list[Chunk], *, place: str, free: dict[str, Chunk], whole: dict[str, Chunk]
) -> list[str] | str:
    """The node of each chunk, or qstat's comment why there is none now.

    The scheduler goes through the chunks in order and gives each the first node, in
    order, with enough left; it never takes a choice back. `free` holds what is unused
    of the nodes that are up and not taken exclusively, `whole` all nodes when empty.
    """
    asked = totals(chunks)
    for name in ("ncpus", "mem"):
        total = sum(node[name] for node in whole.values())
        if asked[name] > total:
            left = sum(node[name] for node in free.values())
            shown = [size(n) if name == "mem" else str(n) for n in (asked[name], left, total)]
            numbers = "(R: {} A: {} T: {})".format(*shown)
            return f"Can Never Run: Insufficient amount of resource: {name} {numbers}"
    for chunk in chunks:
        if (host := chunk.get("host")) and host not in whole:
            names = ",".join(whole)
            return f"Can Never Run: Insufficient amount of resource: host ({host} != {names})"
    apart = "scatter" in place
    if apart and len(chunks) > len(whole):
        return "Can Never Run: Not enough total nodes available"
    if "excl" in place:
        free = {name: left for name, left in free.items() if left == whole[name]}
    if "pack" in place:
        for name, left in free.items():
            hosts = {chunk.get("host", name) for chunk in chunks}
            if hosts == {name} and all(asked[key] <= left[key] for key in CONSUMABLE):
                return [name] * len(chunks)
        return "Not Running: No available resources on nodes"
    left = {name: dict(node) for name, node in free.items()}
    chosen: list[str] = []
    for chunk in chunks:
        for name, node in left.items():
            if (apart and name in chosen) or chunk.get("host", name) != name:
                continue
            if all(chunk[key] <= node[key] for key in CONSUMABLE):
                chosen.append(name)
                for key in CONSUMABLE:
                    node[key] -= chunk[key]
                break
        else:
            return f"Not Running: {_short(chunk, free=left)}"
    return chosen


def _short(chunk: Chunk, *, free: dict[str, Chunk]) -> str:
    for name in CONSUMABLE:
        if not any(chunk[name] <= node[name] for node in free.values()):
            return f"Insufficient amount of resource: {name} "
    return "Not enough free nodes available"
