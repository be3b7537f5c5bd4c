"""What torch's flight recorder kept of a process's collective operations, and who is behind.

A dump is a pickle (NCCL's own, on a time-out) or JSON (the bundled trainer's): version 2.x of
torch's `FlightRecorder.hpp`. Both hold nothing but numbers, texts, lists and dictionaries.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobgen.diagnose.exceptions import FOREIGN
from jobgen.jobs.files import open_left
from jobgen.records import NamedTuple

_MOST_BYTES = 64 << 20


class Last(NamedTuple):
    """The last collective operation that a process has entered in a group."""

    number: int  # as the group counts them, from 1; 0: none
    name: str  # such as nccl:all_reduce
    shape: str
    place: str  # file:line of the program, where the dump has it


#: what each rank has last entered in a group, by the group's name and description
Groups = dict[tuple[str, str], dict[int, Last]]


class Behind(NamedTuple):
    """Processes that the others of a group wait for."""

    ranks: tuple[int, ...]
    shown: tuple[tuple[Path, str], ...]  # the dumps that show it, each with what it says


class _Plain(pickle.Unpickler):
    """Reads no more than a dump holds: a pickle that names a class or a function is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse, where the ordinary one would import `module`."""
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def load(path: Path) -> dict[str, Any] | None:
    """A dump; None where the file is none, or is too large, or cannot be read."""
    try:
        if not 0 < path.stat().st_size <= _MOST_BYTES:
            return None
        with open_left(path) as file:
            content = file.read(_MOST_BYTES)
        dump = json.loads(content) if path.suffix == ".json" else _Plain(io.BytesIO(content)).load()
    except Exception:  # a damaged pickle may raise anything
        return None
    return dump if isinstance(dump, dict) and isinstance(dump.get("entries"), list) else None


def find_behind(paths: Mapping[int, Path]) -> Behind | None:
    """Who the others wait for, by the dumps of ranks; None where they do not tell.

    In a hang all processes of a group have entered one collective, and who has not is waited for,
    unless that process waits in another group. A process without a dump is waited for where
    the dumps do not differ.
    """
    loaded = {rank: load(path) for rank, path in paths.items()}
    dumps = {rank: dump for rank, dump in loaded.items() if dump is not None}
    groups: Groups = {}
    for rank, dump in dumps.items():
        for group, last in _read_last(dump).items():
            groups.setdefault(group, {})[rank] = last
    if not groups:
        return None
    shown = {}
    late = _find_late(groups) or _find_odd(groups)
    for rank, (other, last, ahead) in late.items():
        shown[rank] = _describe(rank, last)
        shown[other] = _describe(other, ahead)
    absent = set().union(*map(_read_members, dumps.values())) - {*dumps}
    if absent and not late:
        lasts = next(iter(groups.values()))
        shown[min(lasts)] = _describe(min(lasts), lasts[min(lasts)])
    shows = tuple((paths[rank], text) for rank, text in shown.items())
    return Behind(tuple(sorted(late or absent)), shows) if shows else None


def _find_late(groups: Groups) -> dict[int, tuple[int, Last, Last]]:
    """Those that have entered fewest in a group, and do not wait in another.

    Each is with one that waits for it, and where both are.
    """
    late: dict[int, tuple[int, Last, Last]] = {}
    waiting = set()
    for lasts in groups.values():
        first = max(lasts, key=lambda rank: lasts[rank].number)
        fewest = min(last.number for last in lasts.values())
        waiting |= {rank for rank, last in lasts.items() if last.number > fewest}
        if lasts[first].number > fewest:
            behind = {rank: last for rank, last in lasts.items() if last.number == fewest}
            late |= {rank: (first, last, lasts[first]) for rank, last in behind.items()}
    return {rank: who for rank, who in late.items() if rank not in waiting} or late


def _find_odd(groups: Groups) -> dict[int, tuple[int, Last, Last]]:
    """One whose last operation is not that of most, though all have come as far."""
    for lasts in groups.values():
        kinds = Counter((last.name, last.shape) for last in lasts.values())
        usual = kinds.most_common(1)[0][0]
        odd = [rank for rank, last in lasts.items() if (last.name, last.shape) != usual]
        if odd:
            other = next(rank for rank in lasts if rank not in odd)
            return {odd[0]: (other, lasts[odd[0]], lasts[other])}
    return {}


def _describe(rank: int, last: Last) -> str:
    if not last.number:
        return f"rank {rank} has entered no collective operation"
    where = f", at {last.place}" if last.place else ""
    return f"rank {rank} has last entered {last.name} {last.shape}, number {last.number}{where}"


def _read_last(dump: Mapping[str, Any]) -> dict[tuple[str, str], Last]:
    """The last operation of each group, by the group's name and description."""
    lasts: dict[tuple[str, str], Last] = {}
    for entry in dump["entries"]:
        try:
            group = (str(entry["process_group"][0]), str(entry["process_group"][1]))
            number = int(entry["collective_seq_id"])
            if entry.get("is_p2p") or (group in lasts and lasts[group].number >= number):
                continue
            place = _find_place(entry.get("frames") or ())
            sizes = str(entry["input_sizes"])
            lasts[group] = Last(number, str(entry["profiling_name"]), sizes, place)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            continue
    if not lasts:
        lasts[("0", "default_pg")] = Last(0, "", "", "")
    return lasts


def _find_place(frames: Any) -> str:
    """Where in the program it was entered; the innermost frame comes first, torch's own before."""
    for frame in frames:
        if not FOREIGN.search(str(frame["filename"])):
            return f"{frame['filename']}:{frame['line']}"
    return ""


def _read_members(dump: Mapping[str, Any]) -> set[int]:
    """The ranks of all groups that a process knows."""
    groups = dump.get("pg_config")
    members: set[int] = set()
    if isinstance(groups, dict):
        for group in groups.values():
            ranks = group.get("ranks") if isinstance(group, dict) else None
            members |= {int(number) for number in re.findall(r"\d+", str(ranks or ""))[:100_000]}
    return members
