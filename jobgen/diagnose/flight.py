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
from itertools import chain
from pathlib import Path
from typing import Any

from jobgen.diagnose.exceptions import FOREIGN
from jobgen.diagnose.odd import Suspects
from jobgen.diagnose.reading import Line
from jobgen.jobs.files import open_left
from jobgen.records import NamedTuple

_MOST_BYTES = 64 << 20


class Last(NamedTuple):
    """The last collective operation that a process has entered in a group."""

    rank: int
    number: int  # as the group counts them, from 1; 0: none
    name: str  # such as nccl:all_reduce
    shape: str
    place: str  # file:line of the program, where the dump has it

    @property
    def described(self) -> str:
        """The same in a sentence."""
        if not self.number:
            return f"rank {self.rank} has entered no collective operation"
        where = f", at {self.place}" if self.place else ""
        entered = f"{self.name} {self.shape}, number {self.number}{where}"
        return f"rank {self.rank} has last entered {entered}"


#: what the ranks of each group have last entered, by the group's name and description
Groups = dict[tuple[str, str], list[Last]]
#: by the rank of one that is behind: what it has last entered, and what one that waits for it
Late = dict[int, tuple[Last, Last]]


class _Plain(pickle.Unpickler):
    """Reads no more than a dump holds: a pickle that names a class or a function is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse, where the ordinary one would import `module`."""
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def load(path: Path) -> dict[str, Any] | None:
    """A dump; None where the file is none, or is too large, or cannot be read."""
    try:
        with open_left(path) as file:
            content = file.read(_MOST_BYTES)
        dump = json.loads(content) if path.suffix == ".json" else _Plain(io.BytesIO(content)).load()
    except Exception:  # a damaged pickle may raise anything
        return None
    return dump if isinstance(dump, dict) and isinstance(dump.get("entries"), list) else None


def find_behind(paths: Mapping[int, Path]) -> Suspects | None:
    """Whom the others wait for, by the dumps of ranks, and what these show; None where they do not.

    In a hang all processes of a group have entered one collective, and who has not is waited for,
    unless that process waits in another group. A process without a dump is waited for where
    the dumps do not differ.
    """
    dumps = {rank: dump for rank, path in paths.items() if (dump := load(path))}
    groups = _group(dumps)
    late = _find_late(groups) or _find_odd(groups)
    shown = {one.rank: one.described for one in chain.from_iterable(late.values())}
    absent = set().union(*map(_read_members, dumps.values())) - dumps.keys()
    if absent and not late:
        first = min(next(iter(groups.values())))
        shown = {first.rank: first.described}
    lines = tuple(Line(paths[rank], 1, text) for rank, text in shown.items())
    return Suspects(tuple(sorted(late or absent)), lines) if lines else None


def _group(dumps: Mapping[int, Mapping[str, Any]]) -> Groups:
    groups: Groups = {}
    for rank, dump in dumps.items():
        for group, last in _read_last(rank, dump).items():
            groups.setdefault(group, []).append(last)
    return groups


def _find_late(groups: Groups) -> Late:
    """Those that have entered fewest in a group, and do not wait in another."""
    late: Late = {}
    waiting = set()
    for lasts in groups.values():
        first = max(lasts, key=lambda one: one.number)
        fewest = min(one.number for one in lasts)
        waiting |= {one.rank for one in lasts if one.number > fewest}
        late |= {one.rank: (one, first) for one in lasts if one.number == fewest < first.number}
    return {rank: pair for rank, pair in late.items() if rank not in waiting} or late


def _find_odd(groups: Groups) -> Late:
    """One whose last operation is not that of most, though all have come as far."""
    for lasts in groups.values():
        ((usual, _),) = Counter((one.name, one.shape) for one in lasts).most_common(1)
        for odd in lasts:
            if (odd.name, odd.shape) != usual:
                other = next(one for one in lasts if (one.name, one.shape) == usual)
                return {odd.rank: (odd, other)}
    return {}


def _read_last(rank: int, dump: Mapping[str, Any]) -> dict[tuple[str, str], Last]:
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
            lasts[group] = Last(rank, number, str(entry["profiling_name"]), sizes, place)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            continue
    if not lasts:
        lasts[("0", "default_pg")] = Last(rank, 0, "", "", "")
    return lasts


def _find_place(frames: Any) -> str:
    """Where in the program it was entered; the innermost frame comes first, torch's own before."""
    own = (frame for frame in frames if not FOREIGN.search(str(frame["filename"])))
    return next((f"{frame['filename']}:{frame['line']}" for frame in own), "")


def _read_members(dump: Mapping[str, Any]) -> set[int]:
    """The ranks of all groups that a process knows."""
    groups = dump.get("pg_config")
    known = groups.values() if isinstance(groups, dict) else ()
    ranks = " ".join(str(group.get("ranks")) for group in known if isinstance(group, dict))
    return set(map(int, re.findall(r"\b\d{1,9}\b", ranks)[:100_000]))
