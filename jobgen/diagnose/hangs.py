"""Where each process stood as the job hung: by stacks, and by torch's flight recorders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jobgen.diagnose import flight
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.exceptions import find_place, read_threads
from jobgen.diagnose.odd import Suspects
from jobgen.diagnose.reading import Line, keep, read_lines, read_words
from jobgen.jobs.files import get_mtime

_WAITS = read_words("waits")


def find_behind(evidence: Evidence) -> Suspects | None:
    """Those that have entered fewer collective operations than the others, or another."""
    patterns = ("errors/*-flight-*", "hangs/*-rank-*.flight.json")
    return flight.find_behind(_list_files(evidence, *patterns))


def find_busy(evidence: Evidence) -> Suspects | None:
    """Those that could not leave a stack; or whose main thread does not wait for others."""
    stacks = {rank: threads[-1] for rank, threads in _read_stacks(evidence).items() if threads}
    silent = tuple(rank for rank in evidence.ranks if rank not in stacks)
    if stacks and 0 < len(silent) < len(evidence.ranks):
        return Suspects(silent, tuple(next(iter(stacks.values()))[-1:]))
    busy = {rank: frames for rank, frames in stacks.items() if not _is_waiting(frames)}
    if not 0 < len(busy) < len(stacks):
        return None
    lines = tuple(line for frames in busy.values() for line in frames[:-3:-1])
    return Suspects(tuple(busy), lines)


def add_stack(evidence: Evidence, suspects: Suspects) -> Suspects:
    """Return them with where the first of them stood, by its first thread or one it waits for."""
    for stack in reversed(_read_stacks(evidence).get(suspects.ranks[0], [])):
        if place := find_place(stack):
            lines = [line for line in stack if find_place([line]) == place]
            return suspects._replace(place=place, lines=(*lines, *suspects.lines))
    return suspects


def _read_stacks(evidence: Evidence) -> dict[int, list[list[Line]]]:
    """The frames of each rank's threads, the first last, as the bundled trainer left them."""
    paths = _list_files(evidence, "hangs/*-rank-*.stacks")
    return {
        rank: [frames for _, *frames in read_threads(list(read_lines(path)))]
        for rank, path in paths.items()
    }


def _list_files(evidence: Evidence, *patterns: str) -> dict[int, Path]:
    """Those of this attempt in its folder, by the rank that is last in their names."""
    paths = {}
    for path in (path for one in patterns for path in sorted(evidence.run_dir.glob(one))):
        name = path.name.removesuffix(".flight.json").removesuffix(".stacks")
        rank = name.rpartition("-")[2]
        if rank.isdecimal() and get_mtime(path) >= evidence.began:
            paths[int(rank)] = path
    return paths


def _is_waiting(frames: Sequence[Line]) -> bool:
    """Whether a thread waits for other processes, or has not told where it is."""
    return not frames or bool(keep(frames, _WAITS.search))
