"""Check that no job is lost or doubled, whatever happens during its submission.

    python benchmarks/submission.py                  # all of it; root, strace and a loop device
    python benchmarks/submission.py --every 10       # each tenth of the faults

`jobgen submit` hands a script to a stand-in scheduler: a file of accepted jobs that `squeue` reads.
At each system call of the command, strace(1) injects a fault: the command is killed, the call
fails, the power is cut (the folder is on its own ext4, whose disk is copied at that moment and
mounted again), or a second login node with a clock 400 s ahead looks at the same folder. Other
faults are unreadable answers of sbatch, and an squeue that is missing or knows nothing. Each time
the user then submits again. The table counts accepted jobs without a record (lost), jobs beyond the
first (doubled), and records of jobs that were never accepted (wrong).

The exit code is 1 if any of these counts is not 0.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import io
import itertools
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from jobgen.cli.main import main as jobgen
from jobgen.jobs import folders, journal, logs, recover, status, submit, watch  # noqa: F401
from jobgen.output import format_table

SPEC = {
    "name": "a",
    "scheduler": "slurm",
    "resources": {"walltime": "5m"},
    "run": {"command": ["true"]},
}
PR_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>
Call = tuple[str, int]
CALLS = "%file,%desc,%process"  # the system calls that matter
# What the commands of the made-up scheduler do is in the file of their name, beside `accepted`.
SBATCH = """#!/bin/bash
script="${!#}" number=$((101 + $(wc -l <"$FAKE/accepted")))
answer=$(<"$FAKE/sbatch")
[[ $1 != --test-only ]] || exit 0
[[ $answer != refused ]] || { echo 'sbatch: error: invalid partition' >&2; exit 1; }
[[ $answer != slow ]] || sleep 0.1
echo "$number $script" >>"$FAKE/accepted"
case $answer in
    ok | slow) echo "$number" ;;
    failed) echo "$number"; exit 1 ;;
    silent) ;;
    odd-words) echo 'a plugin has failed' >&2; exit 1 ;;
    timeout) echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1 ;;
    half) printf %s "${number:0:1}"; exit 1 ;;
    number-before) echo 2024; echo "$number" ;;
    words-before) echo "Welcome to the cluster"; echo "$number" ;;
    twice) echo "$number"; echo "$number" ;;
    other-words) echo "Submitted batch job $number" ;;
    killed) kill -9 $$ ;;
esac
"""
SQUEUE = """#!/bin/bash
case $(<"$FAKE/squeue") in
    empty) exit 0 ;;
    away) echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1 ;;
    odd) echo 'the queue is being served'; exit 0 ;;
esac
if [[ $* == *--me* ]]; then
    while read -r id script; do echo "job|$id|$script"; done <"$FAKE/accepted"
else
    while read -r id _; do echo "$id|PENDING|Priority|N/A|N/A"; done <"$FAKE/accepted"
fi
"""
NO_ACCOUNTING = "#!/bin/bash\necho 'Slurm accounting storage is disabled' >&2; exit 1\n"
SBATCH_ANSWERS = (
    *("ok", "slow", "failed", "silent", "odd-words", "timeout", "half", "number-before"),
    *("words-before", "twice", "other-words", "killed", "refused"),
)
SQUEUE_ANSWERS = ("normal", "empty", "away", "odd")
NORMAL = {"sbatch": "ok", "squeue": "normal"}


class Result(NamedTuple):
    """How a command ended."""

    code: int
    err: str


class Count(NamedTuple):
    """What came of the faults of one kind."""

    faults: int
    lost: int
    doubled: int
    wrong: int
    tracebacks: int

    def __add__(self, other: Count) -> Count:  # type: ignore[override]
        return Count(*map(sum, zip(self, other, strict=True)))


class Scheduler:
    """The made-up scheduler: it outlives every fault."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("sacct", NO_ACCOUNTING)):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        self.begin()

    def begin(self, **answers: str) -> None:
        """Forget all jobs, and answer like this from now on."""
        (self.folder / "accepted").write_text("")
        self.answer(**answers)

    def answer(self, **answers: str) -> None:
        """Answer like this from now on."""
        for name, word in {**NORMAL, **answers}.items():
            (self.folder / name).write_text(word)

    @property
    def accepted(self) -> list[str]:
        """The ids of all jobs."""
        return [line.split()[0] for line in (self.folder / "accepted").read_text().splitlines()]


class Machine(NamedTuple):
    """Where a command runs: what it believes of the machine, and of the time."""

    boot: str
    host: str = "login1"
    ahead: float = 0.0  # seconds


LOGIN = Machine("one")
OTHER = Machine("two", "login2", 400.0)


def start(
    scheduler: Scheduler, folder: Path, *words: str, machine: Machine = LOGIN
) -> tuple[int, int, int]:
    """Fork a process that runs a jobgen command when it gets a signal to.

    Returns its id, where to write to let it begin, and where to read its end.
    """
    go_read, go_write = os.pipe()
    end_read, end_write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(go_read)
        os.close(end_write)
        return pid, go_write, end_read
    try:
        os.close(go_write)
        os.close(end_read)
        os.chdir(folder)
        os.environ |= {
            "PATH": f"{scheduler.bin}:{os.environ['PATH']}",
            "FAKE": str(scheduler.folder),
        }
        journal.read_boot_id = lambda: machine.boot
        names = os.uname()
        os.uname = lambda: os.uname_result((names[0], machine.host, *names[2:]))  # type: ignore[assignment]
        clock = time.time
        time.time = lambda: clock() + machine.ahead
        os.read(go_read, 1)
        out, err = io.StringIO(), io.StringIO()
        sys.argv = ["jobgen", *words]
        code: object = 70
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                jobgen()
            except SystemExit as end:
                code = end.code
            except BaseException:
                traceback.print_exc(file=err)
        os.write(end_write, json.dumps([code, err.getvalue()]).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def finish(pid: int, end: int) -> Result | None:
    """Wait for the process; None if it was killed."""
    with os.fdopen(end, "rb") as file:
        text = file.read()
    os.waitpid(pid, 0)
    return Result(*json.loads(text)) if text else None


def run(scheduler: Scheduler, folder: Path, *words: str, machine: Machine = LOGIN) -> Result:
    """Run a command of jobgen that nothing happens to."""
    pid, go, end = start(scheduler, folder, *words, machine=machine)
    os.write(go, b"\n")
    os.close(go)
    result = finish(pid, end)
    assert result is not None
    return result


def wait_for_orphans() -> None:
    """Wait until an sbatch whose submission was killed has ended: it takes less than minutes."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


@contextlib.contextmanager
def inject(
    pid: int, go: int, fault: str = "", *, call: Call = ("", 0), log: Path | None = None
) -> Iterator[None]:
    """Let strace do `fault` to the process at one of its system calls, and let that begin."""
    argv = ["strace", "-q", "-p", str(pid), "-o", str(log or "/dev/null"), "-e", f"trace={CALLS}"]
    argv += ["-e", f"inject={call[0]}:{fault}:when={call[1]}"] if fault else []
    tracer = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    traced = Path(f"/proc/{pid}/status")
    deadline = time.monotonic() + 60
    while f"TracerPid:\t{tracer.pid}" not in traced.read_text():
        if "State:\tZ" in traced.read_text():
            break  # the fault was at its first call
        if tracer.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"strace does not attach: {tracer.communicate()[1]}")
        time.sleep(0.002)
    with contextlib.suppress(BrokenPipeError):
        os.write(go, b"\n")
    os.close(go)
    try:
        yield
    finally:
        tracer.terminate()
        tracer.communicate()


def list_calls(scheduler: Scheduler, top: Path) -> list[Call]:
    """Return the system calls of a submission: for strace, the name and the how many-th of it."""
    scheduler.begin()
    pid, go, end = start(scheduler, prepare(top / "counted"), "submit")
    with inject(pid, go, log=top / "log"):
        finish(pid, end)
    names = re.findall(r"^([a-z_0-9]+)\(", (top / "log").read_text(), re.MULTILINE)
    seen = Counter[str]()
    calls = []
    for name in names:
        seen[name] += 1
        calls.append((name, seen[name]))
    return calls


def judge(scheduler: Scheduler, folder: Path, *, machine: Machine, errors: list[str]) -> Count:
    """Submit once more, as a user would, until it is settled; count what has gone wrong."""
    for _ in range(3):
        again = run(scheduler, folder, "submit", machine=machine)
        errors.append(again.err)
        intents = list(folder.glob("runs/a/submissions/*.json"))
        if not intents and again.code != 6:
            break
        for path in [*intents, *folder.glob("runs/a/*/job.json")]:  # five minutes go by
            before = path.stat().st_mtime - 301
            os.utime(path, (before, before))
    recorded = {json.loads(path.read_text())["id"] for path in folder.glob("runs/a/*/job.json")}
    accepted = scheduler.accepted
    lost = len(set(accepted) - recorded)
    traces = sum("Traceback" in text for text in errors)
    return Count(1, lost, max(0, len(accepted) - 1), len(recorded - set(accepted)), traces)


def prepare(folder: Path) -> Path:
    """Make the folder of a submission."""
    folder.mkdir(parents=True)
    (folder / "job.yaml").write_text(json.dumps(SPEC))
    return folder


def try_calls(
    scheduler: Scheduler, top: Path, fault: str, *, every: int, sbatch: str = "ok"
) -> Count:
    """Do `fault` at each system call of a submission, and count."""
    total = Count(0, 0, 0, 0, 0)
    for number, call in list(enumerate(list_calls(scheduler, top)))[::every]:
        folder = prepare(top / str(number))
        scheduler.begin(sbatch=sbatch)
        pid, go, end = start(scheduler, folder, "submit")
        with inject(pid, go, fault, call=call):
            result = finish(pid, end)
        wait_for_orphans()
        scheduler.answer()
        errors = [result.err] if result else []
        total += judge(scheduler, folder, machine=LOGIN, errors=errors)
        shutil.rmtree(folder)
    return total


def try_clocks(scheduler: Scheduler, top: Path, *, every: int) -> Count:
    """Stop a submission at each call, and let another login node, 400 s ahead, submit the same."""
    total = Count(0, 0, 0, 0, 0)
    for number, call in list(enumerate(list_calls(scheduler, top)))[::every]:
        folder = prepare(top / str(number))
        scheduler.begin()
        pid, go, end = start(scheduler, folder, "submit")
        with inject(pid, go, "signal=STOP", call=call):
            while Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "tTZ":
                time.sleep(0.002)
            seen = run(scheduler, folder, "submit", machine=OTHER)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        result = finish(pid, end)
        errors = [seen.err, result.err if result else ""]
        total += judge(scheduler, folder, machine=OTHER, errors=errors)
        shutil.rmtree(folder)
    return total


def try_answers(scheduler: Scheduler, top: Path) -> Count:
    """Let sbatch and squeue answer in all ways, twice in a row, and then as they should."""
    total = Count(0, 0, 0, 0, 0)
    for sbatch, squeue in itertools.product(SBATCH_ANSWERS, SQUEUE_ANSWERS):
        folder = prepare(top / f"answers-{sbatch}-{squeue}")
        scheduler.begin(sbatch=sbatch, squeue=squeue)
        errors = [run(scheduler, folder, "submit").err, run(scheduler, folder, "submit").err]
        scheduler.answer()
        total += judge(scheduler, folder, machine=LOGIN, errors=errors)
        shutil.rmtree(folder)
    return total


def try_power(scheduler: Scheduler, top: Path, *, every: int, sbatch: str) -> Count:
    """Cut the power at each call: mount what the disk held then, and submit once more there."""
    total = Count(0, 0, 0, 0, 0)
    disk = top / "disk"
    here, there = top / "here", top / "there"
    here.mkdir()
    there.mkdir()
    subprocess.run(["truncate", "-s", "24M", disk], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
    # Nothing reaches the disk but what the command itself has it write.
    subprocess.run(["mount", "-o", "loop,commit=300", disk, here], check=True)
    try:
        for number, call in list(enumerate(list_calls(scheduler, top)))[::every]:
            folder = prepare(here / str(number))
            subprocess.run(["sync", "-f", folder], check=True)
            scheduler.begin(sbatch=sbatch)
            pid, go, end = start(scheduler, folder, "submit")
            with inject(pid, go, "signal=KILL", call=call):
                finish(pid, end)
            copy = top / f"copy-{number}"  # its own name, because loop devices disappear late
            shutil.copyfile(disk, copy)
            wait_for_orphans()  # sbatch goes on elsewhere
            shutil.rmtree(folder)
            scheduler.answer()
            subprocess.run(["mount", "-o", "loop", copy, there], check=True)
            try:
                after = Machine("after the power cut")
                total += judge(scheduler, there / str(number), machine=after, errors=[])
            finally:
                subprocess.run(["umount", there], check=True)
                copy.unlink()
    finally:
        subprocess.run(["umount", here], check=True)
    return total


def try_kind(task: tuple[str, str, int, Path]) -> tuple[str, Count, float]:
    """Inject the faults of one kind, in a separate folder."""
    kind, sbatch, every, top = task
    began = time.monotonic()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become its children
    top.mkdir()
    scheduler = Scheduler(top / "scheduler")
    os.chdir(prepare(top / "warm"))
    sys.argv = ["jobgen", "submit", "--dry-run"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        jobgen()  # so that no fault hits a call that imports a module
    if kind == "clocks":
        count = try_clocks(scheduler, top, every=every)
    elif kind == "answers":
        count = try_answers(scheduler, top)
    elif kind == "power":
        count = try_power(scheduler, top, every=every, sbatch=sbatch)
    else:
        count = try_calls(scheduler, top, kind, every=every, sbatch=sbatch)
    return kind, count, time.monotonic() - began


KINDS = {
    "killed at each system call": ("signal=KILL", "ok"),
    "killed there, sbatch still at work": ("signal=KILL", "slow"),
    "each system call fails: disk full": ("error=ENOSPC", "ok"),
    "each system call fails: I/O error": ("error=EIO", "ok"),
    "another login node, clock 400 s ahead": ("clocks", "ok"),
    "wrong answers of sbatch and squeue": ("answers", ""),
    "power cut at each system call": ("power", "ok"),
    "power cut there, sbatch still at work": ("power", "slow"),
}


def main() -> int:
    """Run all kinds of faults and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="do each Nth fault")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="run N at a time")
    parser.add_argument("--only", default="", metavar="WORD", help="the kinds with this word")
    options = parser.parse_args()
    rows = [("fault", *Count._fields, "seconds")]
    total = Count(0, 0, 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        names = [name for name in KINDS if options.only in name]
        tasks = [
            (*KINDS[name], options.every, Path(folder, str(number)))
            for number, name in enumerate(names)
        ]
        with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
            for name, (_, count, took) in zip(names, pool.imap(try_kind, tasks), strict=True):
                total += count
                rows.append((name, *map(str, count), f"{took:.0f}"))
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    rows.append(("all", *map(str, total), ""))
    print("\n".join(format_table(rows)))
    return int(any(total[1:]))


if __name__ == "__main__":
    sys.exit(main())
