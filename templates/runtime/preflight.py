"""Compare what the nodes of a job have, and try the network between them, before it starts.

It runs on every node, with Python 3.8 or newer and torch alone; the first node serves the others.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import glob
import hashlib
import hmac
import json
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from typing import Any, Dict, Iterator, NamedTuple

Report = Dict[str, Any]  # what a node has
Verdict = Dict[str, Any]  # "faults"; where there are none, the "port" of the all-reduce

WAIT = 240  # seconds for all nodes to have come: the slowest file system has loaded torch by then
REACH = 5  # seconds to connect to a node that is known to listen
LONGEST = 1 << 22  # characters that a node may say: many packages are some 100,000
CLOCK = 2.0  # seconds that two clocks may differ
ROOM = {"TMPDIR": 0.1, "run folder": 1.0}  # GB that must be free
FIREWALL = "set launch.interface, or ask whether a firewall stands between nodes"


class Place(NamedTuple):
    """Which node this is, how to reach the first, and where the job's files are."""

    rank: int
    gpus: int  # that it must see
    port: int
    head: str
    address: str
    interface: str
    attempt: str
    run_dir: str
    names: list[str]  # of all nodes
    secret: bytes  # of the rendezvous, which the job's processes alone can read

    @property
    def node(self) -> str:
        """The name of this node."""
        return self.names[self.rank]


def read_place(words: list[str]) -> Place:
    """Take what the script passes, and the nodes from the attempt's folder."""
    rank, gpus, port = map(int, words[:3])
    head, address, interface, attempt, run_dir = words[3:]
    with open(os.path.join(attempt, "nodes")) as lines:
        names = lines.read().split()
    secret = os.environ["JOBGEN_SECRET"].encode() or os.urandom(16)  # one node meets nobody
    return Place(rank, gpus, port, head, address, interface, attempt, run_dir, names, secret)


def seal(place: Place, said: object) -> str:
    """A line that nobody can write without the secret."""
    text = json.dumps(said)
    return f"{hmac.new(place.secret, text.encode(), 'sha256').hexdigest()} {text}\n"


def unseal(place: Place, line: str) -> Any:
    """What a line says; ValueError if a stranger has written it."""
    mark, _, text = line.rstrip("\n").partition(" ")
    known = hmac.new(place.secret, text.encode(), "sha256").hexdigest()
    if not hmac.compare_digest(mark.encode(), known.encode()):
        raise ValueError("it is of a stranger")
    return json.loads(text)


def find_driver() -> str | None:
    """The version of the GPUs' driver."""
    for path in ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version"):
        try:
            with open(path) as file:
                words = file.readline().split()
            return next((word for word in words if word[0].isdigit()), None)
        except OSError:
            pass
    return None


def list_devices() -> list[dict[str, Any]]:
    """The GPUs that torch sees, with their memory."""
    import torch

    found = []
    for device in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        found.append({"name": name, "free_gb": round(free / 1e9, 1), "gb": round(total / 1e9, 1)})
    return found


def list_packages() -> list[str]:
    """Names and versions of what is installed."""
    found: set[str] = set()
    for folder in sys.path:
        if os.path.isdir(folder):
            found |= {name[:-10] for name in os.listdir(folder) if name.endswith(".dist-info")}
    return sorted(found)


def describe(place: Place) -> Report:
    """What this node has."""
    import torch

    installed = list_packages()
    folders = {"TMPDIR": tempfile.gettempdir(), "run folder": place.run_dir}
    room = {name: shutil.disk_usage(path).free for name, path in folders.items()}
    nccl = torch.cuda.nccl.version() if torch.cuda.is_available() and not torch.version.hip else ()
    return {
        "node": place.node,
        "host": socket.gethostname(),
        "address": place.address,
        "interface": place.interface,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda or torch.version.hip,
        "nccl": ".".join(map(str, nccl)) or None,
        "driver": find_driver(),
        "environment": hashlib.sha256("\n".join(installed).encode()).hexdigest()[:12],
        "packages": installed,
        "devices": list_devices(),
        "free_gb": {name: round(free / 1e9, 3) for name, free in room.items()},
        "gpus": place.gpus,
    }


def keep(report: Report, run_dir: str) -> None:
    """Write a report into the run folder; a disk that is full is a fault that the report tells."""
    path = os.path.join(run_dir, "preflight", report["node"] + ".json")
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w") as file:
            json.dump(report, file, indent=1)
        os.replace(path + ".new", path)


def serve(port: int) -> socket.socket:
    """A socket that is reached by IPv4 and IPv6, where the node has both."""
    here, many = ("", port), 4096  # may come at once
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            family = socket.AF_INET6
            return socket.create_server(here, family=family, backlog=many, dualstack_ipv6=True)
    return socket.create_server(here, backlog=many)


class First:
    """The first node: it listens, gathers what the others say, compares, and answers."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.reports: dict[int, Report] = {}
        self.changed = threading.Condition()
        self.verdict: Verdict = {}
        self.decided, self.told = threading.Event(), threading.Semaphore(0)
        self.door = serve(place.port)
        threading.Thread(target=self.listen, daemon=True).start()
        open(os.path.join(place.attempt, "preflight-listens"), "w").close()

    def listen(self) -> None:
        """Let everybody in, until the door is closed."""
        while True:
            try:
                talk = self.door.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.hear, args=(talk,), daemon=True).start()

    def hear(self, talk: socket.socket) -> None:
        """Tell a node the time, then take its report; who speaks otherwise is no node."""
        talk.settimeout(WAIT + 60)
        strange = (OSError, ValueError, LookupError, TypeError)
        with contextlib.suppress(*strange), talk, talk.makefile("rw") as lines:
            for line in iter(lambda: lines.readline(LONGEST), ""):
                said = unseal(self.place, line)
                answer: float | Verdict = time.time()
                if said != "clock":
                    report = {**said["report"], "node": self.place.names[said["index"]]}
                    report["reached"] = reach(report["address"], said["port"])
                    self.add(said["index"], report)
                    self.decided.wait()
                    answer = self.verdict
                lines.write(seal(self.place, answer))
                lines.flush()
                if self.decided.is_set():
                    self.told.release()

    def add(self, number: int, report: Report) -> None:
        """Take the report of a node."""
        with self.changed:
            self.reports[number] = report
            self.changed.notify()

    def gather(self) -> list[str]:
        """Those who have not come, with what they say of it where they do."""
        give_up, names = time.monotonic() + WAIT, self.place.names
        silent: dict[int, str] = {}
        with self.changed:
            while len(self.reports) + len(silent) < len(names) and time.monotonic() < give_up:
                self.changed.wait(0.5)
                for path in glob.glob(os.path.join(self.place.attempt, "preflight-lost-*")):
                    with open(path) as file:
                        silent[int(path.rpartition("-")[2])] = file.read()
                if silent and give_up > time.monotonic() + REACH:
                    give_up = time.monotonic() + REACH
        if not silent:
            lost = set(range(len(names))) - self.reports.keys()
            silent = {one: f"{names[one]} has not come within {WAIT} s" for one in lost}
        return [silent[number] for number in sorted(silent)]

    def decide(self, report: Report) -> Verdict:
        """Compare this node's report with the others', and answer them all."""
        self.add(0, report)
        missing = self.gather()
        reports = [self.reports[number] for number in sorted(self.reports)]
        for one in reports:
            keep(one, self.place.run_dir)
        self.verdict = {"faults": missing + find_faults(reports)}
        if not self.verdict["faults"]:
            with serve(0) as free:
                self.verdict["port"] = free.getsockname()[1]
        self.decided.set()
        for _ in reports[1:]:
            self.told.acquire(timeout=1)  # this process may end at once
        self.door.close()
        return self.verdict


def reach(host: str, number: int) -> str | None:
    """What keeps this node from connecting there."""
    try:
        socket.create_connection((host, number), timeout=REACH).close()
    except OSError as error:
        return str(error)
    return None


def name_way(interface: str) -> str:
    """The interface that a sentence is about, where the spec names one."""
    return f" over {interface}" if interface else ""


def find_odd(reports: list[Report], key: str) -> Iterator[str]:
    """The nodes whose value is not that of most (of equally many: the first node's)."""
    values = {report["node"]: report[key] for report in reports}
    often = collections.Counter(values.values())
    usual = max(often, key=lambda value: (often[value], value == reports[0][key]))
    others = "others" if often[usual] > 1 else reports[0]["node"]
    for name, value in values.items():
        if value != usual:
            yield f"{name}: {key} {value}, {others} {usual}"


def find_other_packages(reports: list[Report]) -> Iterator[str]:
    """The nodes that have other packages than most, with some of them."""
    lists = collections.Counter(tuple(report["packages"]) for report in reports)
    common = set(lists.most_common(1)[0][0])
    for report in reports:
        own = set(report["packages"])
        if own != common:
            sides = ((own - common, "has"), (common - own, "lacks"))
            parts = [f"{verb} {', '.join(sorted(some)[:3])}" for some, verb in sides if some]
            yield f"{report['node']}: {' and '.join(parts)}, unlike the others"


def find_faults(reports: list[Report]) -> list[str]:
    """Every difference that will cost time later, each with what to do."""
    one_place = "build the environment on a file system that all nodes share"
    found = []
    for key in ("python", "torch", "cuda", "nccl"):
        found += [(text, one_place) for text in find_odd(reports, key)]
    if not found:
        found += [(text, one_place) for text in find_other_packages(reports)]
    alike = "ask for nodes that are alike, or tell the administrators"
    found += [(text, alike) for text in find_odd(reports, "driver")]
    for report in reports:
        name, off, seen = report["node"], report.get("clock_s", 0.0), len(report["devices"])
        if abs(off) > CLOCK:
            way = "ahead" if off > 0 else "behind"
            found.append((f"{name}: clock {abs(off):.0f} s {way}", "tell the administrators"))
        if seen < report["gpus"]:
            text = f"{name}: sees {seen} GPUs, plan says {report['gpus']}"
            found.append((text, f"see nvidia-smi there, and CUDA_VISIBLE_DEVICES; exclude {name}"))
        for number, device in enumerate(report["devices"]):
            if device["free_gb"] < device["gb"] / 2:
                text = f"{name}: GPU {number} has {device['free_gb']} of {device['gb']} GB free"
                found.append((text, "another program is on it; ask for whole nodes, or exclude it"))
        for place, free in report["free_gb"].items():
            if free < ROOM[place]:
                found.append((f"{name}: {free} GB free in its {place}", "make room there"))
        if report.get("reached"):
            text = f"{reports[0]['node']} cannot reach {name} at {report['address']}"
            text += f"{name_way(report['interface'])}: {report['reached']}"
            found.append((text, FIREWALL))
    return [f"{text}; {hint}" for text, hint in found]


def visit(place: Place, report: Report) -> Verdict:
    """Tell the first node, and return its answer."""
    give_up = time.monotonic() + WAIT
    listens = os.path.join(place.attempt, "preflight-listens")
    while not os.path.exists(listens) and time.monotonic() < give_up:
        os.listdir(place.attempt)  # a shared file system may have to be told to look again
        time.sleep(0.2)
    try:
        with socket.create_connection((place.head, place.port), timeout=REACH) as talk:
            return converse(talk, place, report)
    except OSError as error:
        text = f"{place.node} cannot reach {place.names[0]}:{place.port}"
        text += f"{name_way(place.interface)}: {error}; {FIREWALL}"
    path = os.path.join(place.attempt, f"preflight-new-{place.rank}")
    with open(path, "w") as file:
        file.write(text)
    os.replace(path, os.path.join(place.attempt, f"preflight-lost-{place.rank}"))
    keep({**report, "lost": text}, place.run_dir)
    time.sleep(REACH + 3)  # the first node has the word
    return {"faults": [text]}


def converse(talk: socket.socket, place: Place, report: Report) -> Verdict:
    """Compare the clocks, hand over the report, and return the answer to it."""
    talk.settimeout(WAIT + 60)
    with talk.makefile("rw") as lines, serve(0) as opened:

        def ask(said: object) -> Any:
            lines.write(seal(place, said))
            lines.flush()
            try:
                return unseal(place, lines.readline())
            except ValueError:
                raise ConnectionError("it hangs up, or is another program") from None

        tries = []
        for _ in range(3):
            before, sent = time.monotonic(), time.time()
            there = ask("clock")
            took = time.monotonic() - before
            tries.append((took, sent + took / 2 - there))
        report["clock_s"] = round(min(tries)[1], 3)
        number = opened.getsockname()[1]
        verdict: Verdict = ask({"index": place.rank, "report": report, "port": number})
        return verdict


def reduce_once(place: Place, number: int) -> float:
    """GB/s of one all-reduce, one process a node, as the algorithm sees it (bus bandwidth)."""
    import torch
    import torch.distributed as dist

    gpu, count = torch.cuda.is_available(), len(place.names)
    host = f"[{place.head}]" if ":" in place.head else place.head
    dist.init_process_group(
        "nccl" if gpu else "gloo",
        init_method=f"tcp://{host}:{number}",
        rank=place.rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=60),
    )
    data = torch.ones(16_000_000 if gpu else 1_000_000, device="cuda" if gpu else "cpu")
    for _ in range(2):  # the first opens connections
        data.fill_(1.0)
        began = time.monotonic()
        dist.all_reduce(data)
        total = float(data[0])
        seconds = time.monotonic() - began
    dist.destroy_process_group()
    if total != count:
        raise ValueError(f"the sum is {total}, not {count}")
    return data.numel() * data.element_size() * 2 * (count - 1) / count / seconds / 1e9


def find_network(said: str) -> str | None:
    """The network between nodes that NCCL names in its log, such as Socket, IB or AWS Libfabric."""
    found = re.findall(r"\bUsing network (\S.*)|\bvia NET/([^/\n]+)/", said)
    return "".join(found[-1]).strip() if found else None


def read_nccl_log(path: str) -> str:
    """What NCCL has said, which is not kept."""
    try:
        with open(path, errors="replace") as lines:
            said = lines.read()
        os.remove(path)
    except OSError:
        return ""  # this torch has no NCCL
    return said


def describe_network(said: str, run_dir: str) -> Report:
    """What NCCL has chosen, with a warning where the site has better."""
    chosen = find_network(said)
    try:
        with open(os.path.join(run_dir, "plan.json")) as file:
            fabric = json.load(file).get("fabric")
    except (OSError, ValueError):
        fabric = None
    if chosen != "Socket" or fabric is None:
        return {"nccl_network": chosen}
    text = f"NCCL uses TCP sockets between the nodes and not the site's {fabric}"
    return {"nccl_network": chosen, "warning": f"{text}; `jobgen sites show` says what it needs"}


def main() -> int:
    """Compare the nodes, then have them sum numbers; 1 where something is wrong."""
    began = time.monotonic()
    nccl_log = os.path.join(tempfile.gettempdir(), f"jobgen-preflight-{os.getpid()}.nccl")
    # NCCL reads these once, when it is first called.
    os.environ.update({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"})
    os.environ["NCCL_DEBUG_FILE"] = nccl_log
    place = read_place(sys.argv[1:])
    first = First(place) if place.rank == 0 else None  # it listens before it loads torch
    report = describe(place)
    verdict = first.decide(report) if first else visit(place, report)
    for fault in verdict["faults"]:
        print(f"jobgen: preflight: {fault}", flush=True)
    if verdict["faults"]:
        time.sleep(0 if first else 2)  # what the first node says is what is shown
        return 1
    told = "the node is as planned"
    if len(place.names) > 1:
        try:
            report["allreduce_gb_s"] = round(reduce_once(place, verdict["port"]), 2)
        except Exception as error:
            print(f"jobgen: preflight: {place.node}: the all-reduce failed: {error}", flush=True)
            for line in re.findall(r".* NCCL WARN .*", read_nccl_log(nccl_log)):
                print(line, flush=True)
            return 1
        told = f"{len(place.names)} nodes agree; all-reduce {report['allreduce_gb_s']} GB/s"
        report.update(describe_network(read_nccl_log(nccl_log), place.run_dir))
        told += f" by {report['nccl_network']}" if report["nccl_network"] else ""
        if "warning" in report:
            print(f"jobgen: preflight: warning: {report['warning']}", flush=True)
        if first:
            keep(report, place.run_dir)
    seconds = time.monotonic() - began
    print(f"jobgen: preflight: {told}; it took {seconds:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads that wait for a socket would hold Python back
