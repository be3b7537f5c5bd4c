"""qstat, qselect, qdel, qsig, qrerun, qalter, qhold, qrls and pbsnodes."""

from __future__ import annotations

import getopt
import json
import re
import signal
import sys
import time

import queues
from link import (
    UNKNOWN_QUEUE,
    UNKNOWN_SIGNAL,
    VERSION,
    Link,
    RefusedError,
    client_host,
    host_name,
    settings,
)

# Tests start commands thousands of times: what only types need is not imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WIDTH = 78
# What -x and -H answer of any job, queued and running ones too, unless the server keeps a history.
NO_HISTORY = "PBS is not configured to maintain job history"
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def _options(command: str, arguments: list[str], letters: str) -> tuple[dict[str, str], list[str]]:
    try:
        pairs, rest = getopt.gnu_getopt(arguments, letters)
    except getopt.GetoptError as error:
        raise RefusedError(
            2, f"{command}: {error}\nusage: {command} [options] [job_identifier...]"
        ) from None
    return {name[1:]: value for name, value in pairs}, rest


# --- qstat -------------------------------------------------------------------


def qstat(run: str, arguments: list[str]) -> int:
    if arguments == ["--version"]:
        print(f"pbs_version = {VERSION}")
        return 0
    options, names = _options("qstat", arguments, "fF:xtwHD:QB")
    if "Q" in options or "B" in options:
        return _qstat_of_server(run, options, names)
    form = options.get("F", "default")
    if form not in ("default", "json", "dsv"):
        raise RefusedError(2, "qstat: invalid -F option")
    if ("x" in options or "H" in options) and not settings(run)["history"]:
        for name in names or [settings(run)["server"]]:
            print(f"qstat: {NO_HISTORY} {name}", file=sys.stderr)
        return 0
    jobs, problems = {}, []
    for some in [[name] for name in names] or [[]]:
        answer = Link(run).ask(
            op="status", jobs=some, members="t" in options, history="x" in options or "H" in options
        )
        problems += answer["problems"]
        if form != "json" or not jobs:  # json_jobs of qstat.c is forgotten after the first
            jobs |= answer["jobs"]
    status = 0
    if form == "json":
        print(_as_json(run, jobs))
    elif form == "dsv" and "f" in options:
        for name, attributes in jobs.items():
            print("|".join([f"Job Id: {name}", *map(_dsv, _flat(attributes))]))
    elif "f" in options:
        for name, attributes in jobs.items():
            print(f"Job Id: {name}")
            for line in _flat(attributes):
                print(line if "w" in options else _wrap(line))
            print()
    elif jobs:
        print("Job id            Name             User              Time Use S Queue")
        print("----------------  ---------------- ----------------  -------- - -----")
        for name, attributes in jobs.items():
            print(_row(name, attributes))
    for code, text in problems:
        print(f"qstat: {text}", file=sys.stderr)
        status = code & 255
    return status


def _qstat_of_server(run: str, options: dict[str, str], names: list[str]) -> int:
    """qstat -Q and -B: queues, or the server, with what qmgr has set."""
    now, jobs = settings(run), Link(run).ask(op="status", jobs=[], members=False, history=False)
    kind, known = "Queue", {name: queues.queue(now, name, jobs["jobs"]) for name in now["queues"]}
    if "B" in options:
        kind, known = "Server", {now["server"]: queues.server(now, jobs["jobs"])}
    found = {name: known[name] for name in names or known if name in known}
    if options.get("F") == "json":
        print(_document(run, kind, found))
    elif "f" in options:
        for name, attributes in found.items():
            print(f"{kind}: {name}")
            for line in _flat(attributes):
                print(line if "w" in options else _wrap(line))
            print()
    elif "Q" in options:
        columns = "Max   Tot Ena Str   Que   Run   Hld   Wat   Trn   Ext Type"
        print(f"Queue              {columns}")
        print(f"---------------- ----- ----- --- --- {'----- ' * 6}----")
        for name, attributes in found.items():
            on = {"True": "yes", "False": " no"}
            flags = f"{on[attributes['enabled']]} {on[attributes['started']]}"
            kind = attributes["queue_type"][:3]
            print(f"{_count_jobs(name, attributes, flags)} {kind}*")
    else:
        print("Server             Max   Tot   Que   Run   Hld   Wat   Trn   Ext Status")
        print(f"---------------- {'----- ' * 8}-----------")
        for name, attributes in found.items():
            print(f"{_count_jobs(name, attributes)} {attributes['server_state']}")
    for name in names:
        if name not in known:
            print(f"qstat: Unknown queue {name}", file=sys.stderr)
            return UNKNOWN_QUEUE & 255
    return 0


def _count_jobs(name: str, attributes: dict[str, Any], *between: str) -> str:
    counts = dict(re.findall(r"(\w+):(\d+)", attributes["state_count"]))
    states = ("Queued", "Running", "Held", "Waiting", "Transit", "Exiting")
    cells = (f"{counts[state]:>5}" for state in states)
    return " ".join([f"{name:<16} {0:>5} {attributes['total_jobs']:>5}", *between, *cells])


def _row(name: str, attributes: dict[str, Any]) -> str:
    title, owner = attributes["Job_Name"], attributes["Job_Owner"].partition("@")[0]
    if len(title) >= 16:
        title = title[:15] + "*"
    if len(name) > 17:
        name = name[:16] + "*"
    used = attributes.get("resources_used", {}).get("cput", "0")
    state = attributes["job_state"]
    return f"{name:<17} {title:<16} {owner:<16}  {used:>8} {state} {attributes['queue']:<16}"


def _flat(attributes: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in attributes.items():
        if name == "Variable_List":
            listed = ",".join(f"{k}={_escaped(v)}" for k, v in value.items())
            lines.append(f"    {name} = {listed}")
        elif isinstance(value, dict):
            lines += [f"    {name}.{key} = {item}" for key, item in value.items()]
        else:
            lines.append(f"    {name} = {value}")
    return lines


def _dsv(line: str) -> str:
    """As escape_delimiter of misc_utils.c: a backslash before a quote or comma is left alone."""
    shown = re.sub(r"""\\(?!['",])|\|""", r"\\\g<0>", line.strip())
    return shown.replace(" = ", "=", 1)


def _escaped(value: str) -> str:
    return re.sub(r"([\"',\\])", r"\\\1", value).replace("\n", "\\n")


def _wrap(line: str) -> str:
    """As the real qstat: at commas where that does, else anywhere; then a tab goes first."""
    name, _, value = line.partition(" = ")
    text, column = name + " = ", len(name) + 3
    for number, piece in enumerate(value.split(",")):
        text += "," if number else ""
        if len(piece) + column < WIDTH:
            text, column = text + piece, column + len(piece)
            continue
        if number:
            text, column = text + "\n\t", 9
        for letter in piece:
            text, column = text + letter, column + 1
            if column > WIDTH:
                text, column = text + "\n\t", 8
    return text


def _as_json(run: str, jobs: dict[str, Any]) -> str:
    def value(name: str, item: Any) -> Any:
        if isinstance(item, dict):
            return {key: value("", inner) for key, inner in item.items()}
        # Job_Name and Account_Name are always strings; other digits become numbers.
        if isinstance(item, str) and name not in ("Job_Name", "Account_Name", "project"):
            return json.loads(item) if NUMBER.fullmatch(item) else item
        return item

    return _document(
        run,
        "Jobs",
        {
            name: {key: value(key, item) for key, item in attributes.items()}
            for name, attributes in jobs.items()
        },
    )


def _document(run: str, key: str, found: dict[str, Any]) -> str:
    document: dict[str, Any] = {
        "timestamp": int(time.time()),
        "pbs_version": VERSION,
        "pbs_server": settings(run)["server"],
    }
    if found:
        document[key] = found
    return json.dumps(document, indent="\t", separators=(",", ":\t"), ensure_ascii=False)


def qselect(run: str, arguments: list[str]) -> int:
    """Ids of jobs by their owners and the time they were made, -x: ended ones too; all else is
    not understood. Nothing is printed where there is none."""
    options, names = _options("qselect", arguments, "xu:t:")
    compared = re.fullmatch(r"c\.ge\.(\d{12}\.\d\d)", options.get("t", "c.ge.197001020000.00"))
    if names or not compared:
        raise RefusedError(2, "usage: qselect [-x] [-u user_list] [-t[acegmqst].op.date_time]")
    if "x" in options and not settings(run)["history"]:
        print(f"qselect: {NO_HISTORY}", file=sys.stderr)
        return 0
    since = time.mktime(time.strptime(compared[1], "%Y%m%d%H%M.%S"))
    answer = Link(run).ask(op="status", jobs=[], members=False, history="x" in options)
    for name, shown in answer["jobs"].items():
        owner = shown["Job_Owner"].partition("@")[0]
        made = time.mktime(time.strptime(shown["ctime"]))
        if made >= since and owner in options.get("u", owner).split(","):
            print(name)
    return 0


# --- requests about jobs -----------------------------------------------------


def _each(run: str, command: str, names: list[str], **request: Any) -> int:
    """Send the request for each job; the status is that of the last that failed."""
    if not names:
        raise RefusedError(2, f"usage: {command} [options] job_identifier...")
    status = 0
    for name in names:
        try:
            Link(run).ask(job=name, host=client_host(run), **request)
        except RefusedError as refused:
            print(f"{command}: {refused.text}", file=sys.stderr)
            status = refused.code & 255
    return status


def qdel(run: str, arguments: list[str]) -> int:
    options, names = _options("qdel", arguments, "W:x")
    return _each(run, "qdel", names, op="delete", force=options.get("W") == "force")


def qsig(run: str, arguments: list[str]) -> int:
    options, names = _options("qsig", arguments, "s:")
    name = options.get("s", "SIGTERM")
    number: Any = name
    if name.isdigit():
        number = int(name)
    elif name not in ("suspend", "resume", "admin-suspend", "admin-resume"):
        try:
            number = int(signal.Signals["SIG" + name.removeprefix("SIG")])
        except KeyError:
            number = None
    if number is None:
        for job in names:
            print(f"qsig: Unknown/illegal signal name {job}", file=sys.stderr)
        return UNKNOWN_SIGNAL & 255
    return _each(run, "qsig", names, op="signal", signal=number)


def qrerun(run: str, arguments: list[str]) -> int:
    return _each(run, "qrerun", _options("qrerun", arguments, "W:")[1], op="rerun")


def qhold(run: str, arguments: list[str]) -> int:
    return _each(run, "qhold", _options("qhold", arguments, "h:")[1], op="hold", hold=True)


def qrls(run: str, arguments: list[str]) -> int:
    return _each(run, "qrls", _options("qrls", arguments, "h:")[1], op="hold", hold=False)


def qalter(run: str, arguments: list[str]) -> int:
    import qsub
    import resources

    options = qsub.Options()
    names = options.take(arguments, command=True)
    options.check()
    wanted = resources.parse_request(options.resources, settings(run)["resources"])
    if not {"select", "nodes", "ncpus"} & dict(options.resources).keys():
        for name in ("select", "chunks", "place"):
            wanted.pop(name)
    request = {"options": options.values, "attributes": options.attributes, "request": wanted}
    return _each(run, "qalter", names, op="alter", **request)


# --- pbsnodes ----------------------------------------------------------------


def pbsnodes(run: str, arguments: list[str]) -> int:
    options, names = _options("pbsnodes", arguments, "avSjF:lL")
    now = settings(run)
    nodes = Link(run).ask(op="nodes")["nodes"]
    if not names and not options:
        raise RefusedError(2, "usage: pbsnodes -a | name...")
    if unknown := [name for name in names if name not in nodes]:
        raise RefusedError(15062, f"Node: {unknown[0]},  Error: Unknown node ")
    shown = {}
    for name in names or nodes:
        node = nodes[name]
        shown[name] = {
            "Mom": host_name(name, now["domain"]),
            "ntype": "PBS",
            "state": node["state"],
            "pcpus": node["whole"]["ncpus"],
            "jobs": node["jobs"],
            "resources_available": _amounts(node["whole"]) | {"host": name, "vnode": name},
            "resources_assigned": _amounts(node["used"]),
            "resv_enable": "True",
            "sharing": "default_shared",
        }
    if options.get("F") == "json":
        print(_document(run, "nodes", shown))
        return 0
    for name, attributes in shown.items():
        print(name)
        for key, item in attributes.items():
            if isinstance(item, dict):
                for inner, amount in item.items():
                    print(f"     {key}.{inner} = {amount}")
            elif key != "jobs":
                print(f"     {key} = {item}")
            elif item:
                print(f"     jobs = {', '.join(f'{job}/0' for job in item)}")
        print()
    return 0


def _amounts(node: dict[str, int]) -> dict[str, Any]:
    return {"mem": f"{node['mem']}kb", "ncpus": node["ncpus"], "ngpus": node["ngpus"]}
