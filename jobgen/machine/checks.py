"""Checks of what a job needs besides its cluster: folder, script, environment, torch."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

from jobgen.errors import JobgenError, RefusedError, SchedulerUnavailableError
from jobgen.output import format_table
from jobgen.plan.plan import NodeEnvironment, Plan, ShellPath
from jobgen.process import run
from jobgen.records import NamedTuple

Verdict = Literal["ok", "warn", "fail", "unknown"]


class Check(NamedTuple):
    """One check; `remedy` is empty if there is nothing to do."""

    what: str
    verdict: Verdict
    message: str
    remedy: str = ""


def format_checks(checks: list[Check]) -> str:
    """Return a line for each check, and another for its remedy."""
    rows: list[tuple[str, str, str]] = []
    for check in checks:
        rows.append((check.verdict, check.what, check.message))
        if check.remedy:
            rows.append(("", "", f"-> {check.remedy}"))
    return "".join(f"{line}\n" for line in format_table(rows))


def find_worst(checks: list[Check]) -> Verdict:
    """Return the overall verdict."""
    order: tuple[Verdict, ...] = ("fail", "warn", "unknown", "ok")
    return min((check.verdict for check in checks), key=order.index)


# --- the folder that jobs are submitted from: shared, room, time -------------------------

# File systems that several machines mount, as /proc/self/mountinfo calls them; and those of one.
_SHARED = re.compile(
    r"nfs4?|lustre|gpfs|mmfs|beegfs|ceph|panfs|pvfs2|orangefs|afs|cifs|smb3|9p|virtiofs|wekafs|dvs"
    r"|fuse\.(sshfs|ceph|glusterfs|beegfs|juicefs|cephfs|weka.*)"
)
_OWN = re.compile(r"ext[234]|xfs|btrfs|zfs|f2fs|jfs|tmpfs|ramfs|overlay|vfat|squashfs")
_MIB = 1024**2
_LEAST_SPACE, _LEAST_FILES = 1024 * _MIB, 10_000  # below these, a warning
_NO_SPACE, _NO_FILES = 10 * _MIB, 100  # below these, not even logs
_SECONDS_APART = 5
_EARLIEST = time.mktime((2025, 1, 1, 0, 0, 0, 0, 1, -1))  # a clock before this is wrong


def check_folder(folder: str, *, several_machines: bool) -> Iterator[Check]:
    """Check that it is writable and shared, its free space and files, and its server's clock."""
    yield _check_kind(os.path.realpath(folder), several_machines=several_machines)
    yield from _check_room(folder)
    yield _check_writable(folder)


def find_file_system(path: str) -> tuple[str, str]:
    """Return the mount point and type of the file system of a path without links."""
    best = ("", "unknown")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), before.split()[4])
            inside = f"{path}/".startswith(f"{point.rstrip('/')}/")
            if inside and len(point) >= len(best[0]):  # of two at one place, the later is on top
                best = (point, after.split()[0])
    return best


def _check_kind(path: str, *, several_machines: bool) -> Check:
    try:
        point, kind = find_file_system(path)
    except OSError as error:
        return Check(
            "shared folder", "unknown", f"what is mounted cannot be read: {error.strerror}"
        )
    about = f"{path} is on {point}, of type {kind}"
    if _SHARED.fullmatch(kind):
        known = (
            "which machines share; jobgen cannot tell from here whether all compute nodes mount it"
        )
        return Check("shared folder", "ok", f"{about}, {known}")
    if not several_machines:
        return Check("shared folder", "ok", f"{about}; all nodes of a local job are here")
    remedy = "submit from a folder that all nodes see, such as your project's or scratch"
    if _OWN.fullmatch(kind):
        says = "a disk or memory of this machine: nodes see it only if they mount it from here"
        return Check("shared folder", "warn", f"{about}, {says}", remedy)
    return Check("shared folder", "unknown", f"{about}, a type that jobgen does not know", remedy)


def _check_room(folder: str) -> Iterator[Check]:
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    message = f"{free // _MIB:,} MiB free, quotas not counted (`quota -s`, `lfs quota`)"
    yield _judge_room("space", free, _LEAST_SPACE, _NO_SPACE, message)
    if not room.f_files:
        yield Check(
            "inodes", "unknown", "the file system does not report how many files it can hold"
        )
        return
    message = f"{room.f_favail:,} more files, quotas not counted"
    yield _judge_room("inodes", room.f_favail, _LEAST_FILES, _NO_FILES, message)


def _judge_room(what: str, left: int, little: int, none: int, message: str) -> Check:
    if left >= little:
        return Check(what, "ok", message)
    remedy = "delete what is not needed, or submit from another file system"
    return Check(what, "fail" if left < none else "warn", message, remedy)


def _check_writable(folder: str) -> Check:
    """Create a file, which gets the time of the file system's server."""
    now = time.time()
    if now < _EARLIEST:
        message = f"this machine says it is {time.strftime('%Y-%m-%d', time.localtime(now))}"
        return Check("clock", "fail", message, "tell your administrators")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".jobgen-") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
            there = os.stat(file.name).st_mtime
    except OSError as error:
        remedy = "submit from a folder that you may write to"
        return Check(
            "writable", "fail", f"cannot create a file in {folder}: {error.strerror}", remedy
        )
    return compare_clocks("file system's", there - (now + time.time()) / 2)


def compare_clocks(whose: str, seconds: float) -> Check:
    """Report on another clock that is `seconds` ahead of this machine's."""
    what = f"{whose} clock"
    if abs(seconds) <= _SECONDS_APART:
        return Check(what, "ok", f"agrees with this machine's within {_SECONDS_APART} s")
    ahead = "ahead of" if seconds > 0 else "behind"
    message = f"{abs(seconds):,.0f} s {ahead} this machine's"
    remedy = "timestamps in logs cannot be compared, and logins may fail; tell your administrators"
    return Check(what, "warn", message, remedy)


# --- script, environment, torch ---------------------------------------------------------


def check_paths(plan: Plan) -> Iterator[Check]:
    """Check the script and environment that the spec names."""
    own = plan.environment
    paths = {"script": plan.program.script, "image": own.image_file, "archive": own.stage}
    if not _name_enclosure(own):
        paths |= {"venv": own.venv, "conda": own.conda_folder}
    inside = {"venv": "bin/activate", "conda": "bin/python"}
    for what, path in paths.items():
        if path is None:
            continue
        real, unset = expand_path(path)
        if unset:
            yield Check(what, "unknown", f"{path}: {unset} is not set here; it may be set in jobs")
        elif os.path.exists(os.path.join(real, inside.get(what, "")).rstrip("/")):
            yield Check(what, "ok", f"{real} exists")
        elif os.path.exists(real):
            yield Check(what, "fail", f"{real} has no {inside[what]}", "name the folder above bin")
        else:
            made = {"venv": f"python3 -m venv {real}, then install torch in it"}
            yield Check(what, "fail", f"{real} does not exist", made.get(what, "see the path"))


def _name_enclosure(own: NodeEnvironment) -> str:
    """Return what contains the job's Python if it cannot be checked from here."""
    if own.container is not None or own.step_options:
        return "container"
    return "archive" if own.stage else ""


def expand_path(path: str) -> tuple[str, str]:
    """Return a path as the job will read it, and the first variable that is not set here."""
    real = os.path.expanduser(path)
    if not isinstance(path, ShellPath):
        return real, ""
    real = os.path.expandvars(real)
    return real, next(iter(re.findall(r"\$\{?[A-Za-z_]\w*\}?", real, re.ASCII)), "")


def check_torch(plan: Plan | None, *, timeout: float) -> Iterator[Check]:
    """Check whether a job can import torch, as far as that is known here."""
    if plan is None:
        yield _import_torch("python3", timeout=timeout, wanted=False)
    elif not plan.launch.plain:
        path = f"a {plan.can.title} job does not have your PATH" if plan.can.own_path else ""
        yield from _check_torch_of(plan.environment, path, timeout=timeout)


def _check_torch_of(own: NodeEnvironment, path: str, *, timeout: float) -> Iterator[Check]:
    if where := _name_enclosure(own):
        yield Check("torch", "unknown", f"not tried: it is in the job's {where}")
    elif folder := own.venv or own.conda_folder:
        yield from _check_torch_in(folder, timeout=timeout)
    elif own.modules or own.conda:
        what = f"conda environment {own.conda}" if own.conda else "modules"
        message = f"not tried: the job's {what} are not loaded here"
        yield Check("torch", "unknown", message, "load them, then: python3 -c 'import torch'")
    elif path:
        with suppress(JobgenError):
            python = _find_login_python(timeout=timeout)
            yield _import_torch(python, timeout=timeout, wanted=True, why=f"{path}; ")
    else:
        yield _import_torch("python3", timeout=timeout, wanted=True)


def _check_torch_in(folder: str, *, timeout: float) -> Iterator[Check]:
    real, unset = expand_path(folder)
    python = os.path.join(real, "bin", "python3")
    if not unset and os.access(python, os.X_OK):  # else check_paths reports the path
        yield _import_torch(python, timeout=timeout, wanted=True)


def _find_login_python(*, timeout: float) -> str:
    shell = ["/usr/bin/env", "-i", f"HOME={os.path.expanduser('~')}", "/bin/bash", "-lc"]
    return run([*shell, "command -v python3 || echo python3"], timeout=timeout).splitlines()[-1]


def _import_torch(python: str, *, timeout: float, wanted: bool, why: str = "") -> Check:
    """Import torch; `wanted` says that a job is known to need it, `why` that it has this Python."""
    here = shutil.which(python)
    missing: Verdict = "fail" if wanted else "unknown"
    remedy = f"{why}name an environment that has it: environment.venv, conda or modules"
    if here is None:
        return Check("torch", missing, f"{python} is not installed here", remedy)
    try:
        program = "import torch; print(torch.__version__)"
        version = run([here, "-c", program], timeout=timeout).strip()
    except RefusedError as error:
        message = f"{here}: {str(error).strip().splitlines()[-1]}"
        return Check("torch", missing, message, remedy)
    except SchedulerUnavailableError:
        slow = "its file system may be slow, or this machine busy"
        message = f"{here} did not import it within {timeout:.0f} s; {slow}"
        return Check("torch", "unknown", message, f"try: time {here} -c 'import torch'")
    return Check("torch", "ok", f"{version}, imported by {here}")
