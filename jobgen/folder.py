"""The folder that jobs are submitted from: is it shared, is there room, what time is it there."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator

from jobgen.verdict import Check

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
    """Writable, shared, room and files left, and its server's clock against this machine's."""
    yield _kind(os.path.realpath(folder), several_machines=several_machines)
    yield from _room(folder)
    yield _writable(folder)


def file_system(path: str) -> tuple[str, str]:
    """Where the file system of a path without links is mounted, and its type."""
    best = ("", "unknown")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), before.split()[4])
            inside = point == "/" or path == point or path.startswith(f"{point}/")
            if inside and len(point) >= len(best[0]):  # of two at one place, the later is on top
                best = (point, after.split()[0])
    return best


def _kind(path: str, *, several_machines: bool) -> Check:
    try:
        point, kind = file_system(path)
    except OSError as error:
        return Check(
            "shared folder", "unknown", f"what is mounted cannot be read: {error.strerror}"
        )
    about = f"{path} is on {point}, of type {kind}"
    if _SHARED.fullmatch(kind):
        known = "which machines share; whether all compute nodes mount it cannot be known from here"
        return Check("shared folder", "ok", f"{about}, {known}")
    if not several_machines:
        return Check("shared folder", "ok", f"{about}; all nodes of a local job are here")
    remedy = "submit from a folder that all nodes see, such as your project's or scratch"
    if _OWN.fullmatch(kind):
        says = "a disk or memory of this machine: nodes see it only if they mount it from here"
        return Check("shared folder", "warn", f"{about}, {says}", remedy)
    return Check("shared folder", "unknown", f"{about}, of which jobgen knows nothing", remedy)


def _room(folder: str) -> Iterator[Check]:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    remedy = "delete what is not needed, or submit from another file system"
    said = f"{free // _MIB:,} MiB free, quotas not counted (`quota -s`, `lfs quota`)"
    if free < _NO_SPACE:
        yield Check("space", "fail", said, remedy)
    elif free < _LEAST_SPACE:
        yield Check("space", "warn", said, remedy)
    else:
        yield Check("space", "ok", said)
    if not found.f_files:
        yield Check("inodes", "unknown", "this file system does not tell how many files it takes")
        return
    said = f"{found.f_favail:,} more files, quotas not counted"
    if found.f_favail < _NO_FILES:
        yield Check("inodes", "fail", said, remedy)
    elif found.f_favail < _LEAST_FILES:
        yield Check("inodes", "warn", said, remedy)
    else:
        yield Check("inodes", "ok", said)


def _writable(folder: str) -> Check:
    """Make a file, whose time is of the file system's server."""
    now = time.time()
    if now < _EARLIEST:
        said = f"this machine says it is {time.strftime('%Y-%m-%d', time.localtime(now))}"
        return Check("clock", "fail", said, "tell your administrators")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".jobgen-") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
            there = os.stat(file.name).st_mtime
    except OSError as error:
        remedy = "submit from a folder that you may write to"
        return Check("clock", "fail", f"cannot make a file in {folder}: {error.strerror}", remedy)
    return apart("the file system's", there - (now + time.time()) / 2)


def apart(whose: str, seconds: float) -> Check:
    """What to say of another clock that is `seconds` ahead of this machine's."""
    if abs(seconds) <= _SECONDS_APART:
        return Check("clock", "ok", f"agrees with {whose} within {_SECONDS_APART} s")
    ahead = "ahead of" if seconds > 0 else "behind"
    said = f"{whose} is {abs(seconds):,.0f} s {ahead} this machine's"
    remedy = "times of logs cannot be compared, and logins may fail: tell your administrators"
    return Check("clock", "warn", said, remedy)
