import collections
import contextlib
import datetime
import glob
import hashlib
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

WAIT = 240  # seconds for all nodes to have come: the slowest file system has loaded torch by then
REACH = 5  # seconds to connect to a node that is known to listen
CLOCK = 2.0  # seconds that two clocks may differ
ROOM = {"TMPDIR": 0.1, "run folder": 1.0}  # GB that must be free

index, count, gpus, port = map(int, sys.argv[1:5])
head, address, interface, attempt, run_dir, node, first = sys.argv[5:12]
listens = os.path.join(attempt, "preflight-listens")
nccl_log = os.path.join(tempfile.gettempdir(), f"jobgen-preflight-{os.getpid()}.nccl")
with open(os.path.join(attempt, "nodes")) as lines:
    names = lines.read().split()


def room(path):
    return round(shutil.disk_usage(path).free / 1e9, 3)


def driver():
    for path in ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version"):
        try:
            with open(path) as file:
                words = file.readline().split()
            return next((word for word in words if word[0].isdigit()), None)
        except OSError:
            pass
    return None


def devices(torch):
    found = []
    for device in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        found.append({"name": name, "free_gb": round(free / 1e9, 1), "gb": round(total / 1e9, 1)})
    return found


def packages():
    found = set()
    for folder in sys.path:
        if os.path.isdir(folder):
            found |= {name[:-10] for name in os.listdir(folder) if name.endswith(".dist-info")}
    return sorted(found)


def describe():
    import torch

    installed = packages()
    nccl = torch.cuda.nccl.version() if torch.cuda.is_available() and not torch.version.hip else ()
    return {
        "node": node,
        "host": socket.gethostname(),
        "address": address,
        "interface": interface,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda or torch.version.hip,
        "nccl": ".".join(map(str, nccl)) or None,
        "driver": driver(),
        "environment": hashlib.sha256("\n".join(installed).encode()).hexdigest()[:12],
        "packages": installed,
        "devices": devices(torch),
        "free_gb": {"TMPDIR": room(tempfile.gettempdir()), "run folder": room(run_dir)},
    }


def keep(report):
    folder = os.path.join(run_dir, "preflight")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, report["node"] + ".json")
    with open(path + ".new", "w") as file:
        json.dump(report, file, indent=1)
    os.replace(path + ".new", path)


def serve(number, backlog=None):
    """A socket that is reached by IPv4 and IPv6, where the node has both."""
    if socket.has_dualstack_ipv6():
        both = {"family": socket.AF_INET6, "dualstack_ipv6": True}
        with contextlib.suppress(OSError):
            return socket.create_server(("", number), backlog=backlog, **both)
    return socket.create_server(("", number), backlog=backlog)


class First:
    """The first node: it listens, gathers what the others say, compares, and answers."""

    def __init__(self):
        self.reports, self.changed = {}, threading.Condition()
        self.verdict, self.decided = {}, threading.Event()
        self.door = serve(port, backlog=count + 8)
        threading.Thread(target=self.listen, daemon=True).start()
        open(listens, "w").close()

    def listen(self):
        while True:
            try:
                talk = self.door.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.hear, args=(talk,), daemon=True).start()

    def hear(self, talk):
        talk.settimeout(WAIT + 60)
        with talk, talk.makefile("rw") as lines:
            for line in lines:
                said = json.loads(line)
                answer = time.time()
                if said != "clock":
                    report = said["report"]
                    report["reached"] = reach(report["address"], said["port"])
                    self.add(said["index"], report)
                    self.decided.wait()
                    answer = self.verdict
                lines.write(json.dumps(answer) + "\n")
                lines.flush()

    def add(self, number, report):
        with self.changed:
            self.reports[number] = report
            self.changed.notify()

    def gather(self):
        """Those who have not come, with what they say of it where they do."""
        give_up, silent = time.monotonic() + WAIT, {}
        with self.changed:
            while len(self.reports) + len(silent) < count and time.monotonic() < give_up:
                self.changed.wait(0.5)
                for path in glob.glob(os.path.join(attempt, "preflight-lost-*")):
                    number = int(path.rpartition("-")[2])
                    with open(path) as file:
                        silent[number] = file.read()
                if silent and give_up > time.monotonic() + REACH:
                    give_up = time.monotonic() + REACH
        for number in set(range(count)) - self.reports.keys() - silent.keys():
            if not silent:
                silent[number] = f"{names[number]} has not come within {WAIT} s"
        return [silent[number] for number in sorted(silent)]

    def answer(self, verdict):
        self.verdict = verdict
        self.decided.set()
        self.door.close()


def reach(host, number, patience=REACH):
    try:
        socket.create_connection((host, number), timeout=patience).close()
    except OSError as error:
        return str(error)
    return None


def over():
    return f" over {interface}" if interface else ""


def odd(reports, what, key):
    """The nodes whose value is not that of most (of equally many: the first node's)."""
    values = {report["node"]: report[key] for report in reports}
    often = collections.Counter(values.values())
    usual = max(often, key=lambda value: (often[value], value == reports[0][key]))
    others = "others" if often[usual] > 1 else reports[0]["node"]
    for name, value in values.items():
        if value != usual:
            yield f"{name}: {what} {value}, {others} {usual}"


def other_packages(reports):
    lists = collections.Counter(tuple(report["packages"]) for report in reports)
    common = set(lists.most_common(1)[0][0])
    for report in reports:
        own = set(report["packages"])
        if own != common:
            sides = ((own - common, "has"), (common - own, "lacks"))
            parts = [f"{verb} {', '.join(sorted(some)[:3])}" for some, verb in sides if some]
            yield f"{report['node']}: {' and '.join(parts)}, unlike the others"


def faults(reports):
    """Every difference that will cost time later, each with what to do."""
    one_place = "build the environment on a file system that all nodes share"
    found = []
    for key in ("python", "torch", "cuda", "nccl"):
        found += [(text, one_place) for text in odd(reports, key, key)]
    if not found:
        found += [(text, one_place) for text in other_packages(reports)]
    alike = "ask for nodes that are alike, or tell the administrators"
    found += [(text, alike) for text in odd(reports, "driver", "driver")]
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
            text = f"{first} cannot reach {name} at {report['address']}{over()}"
            hint = "set launch.interface, or ask whether a firewall stands between nodes"
            found.append((f"{text}: {report['reached']}", hint))
    return [f"{text}; {hint}" for text, hint in found]


def visit(report, opened):
    """Tell the first node, and return its answer."""
    give_up = time.monotonic() + WAIT
    while not os.path.exists(listens) and time.monotonic() < give_up:
        os.listdir(attempt)  # a shared file system may have to be told to look again
        time.sleep(0.2)
    try:
        talk = socket.create_connection((head, port), timeout=REACH)
    except OSError as error:
        text = f"{node} cannot reach {first}:{port}{over()}: {error}; "
        text += "set launch.interface, or ask whether a firewall stands between nodes"
        path = os.path.join(attempt, f"preflight-new-{index}")
        with open(path, "w") as file:
            file.write(text)
        os.replace(path, os.path.join(attempt, f"preflight-lost-{index}"))
        keep({**report, "lost": text})
        time.sleep(REACH + 3)  # the first node has the word
        return {"faults": [text]}
    with talk, talk.makefile("rw") as lines:
        talk.settimeout(WAIT + 60)

        def ask(said):
            lines.write(json.dumps(said) + "\n")
            lines.flush()
            return json.loads(lines.readline())

        tries = []
        for _ in range(3):
            before, sent = time.monotonic(), time.time()
            there = ask("clock")
            took = time.monotonic() - before
            tries.append((took, sent + took / 2 - there))
        report["clock_s"] = round(min(tries)[1], 3)
        return ask({"index": index, "report": report, "port": opened.getsockname()[1]})


def reduce_once(number):
    """GB/s of one all-reduce, one process a node, as the algorithm sees it (bus bandwidth)."""
    import torch
    import torch.distributed as dist

    gpu = torch.cuda.is_available()
    dist.init_process_group(
        "nccl" if gpu else "gloo",
        init_method=f"tcp://[{head}]:{number}" if ":" in head else f"tcp://{head}:{number}",
        rank=index,
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


def network_of(said):
    """The network between nodes that NCCL names in its log, such as Socket, IB or AWS Libfabric."""
    found = re.findall(r"\bUsing network (\S.*)|\bvia NET/([^/\n]+)/", said)
    return "".join(found[-1]).strip() if found else None


def read_nccl_log():
    try:
        with open(nccl_log, errors="replace") as lines:
            said = lines.read()
        os.remove(nccl_log)
    except OSError:
        return ""  # this torch has no NCCL
    return said


def describe_network(said):
    """What NCCL has chosen, with a warning where the site has better."""
    chosen = network_of(said)
    try:
        with open(os.path.join(run_dir, "plan.json")) as file:
            fabric = json.load(file).get("fabric")
    except (OSError, ValueError):
        fabric = None
    if chosen != "Socket" or fabric is None:
        return {"nccl_network": chosen}
    text = f"NCCL uses TCP sockets between the nodes and not the site's {fabric}"
    return {"nccl_network": chosen, "warning": f"{text}; `jobgen sites show` says what it needs"}


def main():
    began = time.monotonic()
    # NCCL reads these once, when it is first called.
    os.environ.update({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"})
    os.environ["NCCL_DEBUG_FILE"] = nccl_log
    here = First() if index == 0 else None
    opened = serve(0)
    report = {**describe(), "gpus": gpus}
    if here:
        here.add(0, report)
        missing = here.gather()
        reports = [here.reports[number] for number in sorted(here.reports)]
        for one in reports:
            keep(one)
        verdict = {"faults": missing + faults(reports)}
        if not verdict["faults"] and count > 1:
            with serve(0) as free:
                verdict["port"] = free.getsockname()[1]
        here.answer(verdict)
    else:
        verdict = visit(report, opened)
    for fault in verdict["faults"]:
        print(f"jobgen: preflight: {fault}", flush=True)
    if verdict["faults"]:
        time.sleep(0 if here else 2)  # what the first node says is what is shown
        return 1
    speed = ""
    if count > 1:
        try:
            report["allreduce_gb_s"] = round(reduce_once(verdict["port"]), 2)
        except Exception as error:
            print(f"jobgen: preflight: {node}: the all-reduce failed: {error}", flush=True)
            for line in re.findall(r".* NCCL WARN .*", read_nccl_log()):
                print(line, flush=True)
            return 1
        speed = f"; all-reduce {report['allreduce_gb_s']} GB/s"
        report.update(describe_network(read_nccl_log()))
        speed += f" by {report['nccl_network']}" if report.get("nccl_network") else ""
        if "warning" in report:
            print(f"jobgen: preflight: warning: {report['warning']}", flush=True)
        if here:
            keep(report)
    seconds = time.monotonic() - began
    print(f"jobgen: preflight: {count} nodes agree{speed}; it took {seconds:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads that wait for a socket would hold Python back
