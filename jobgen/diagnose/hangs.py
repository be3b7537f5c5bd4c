"""Where each process stood as the job hung: by stacks, and by torch's flight recorders."""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.diagnose import flight
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.exceptions import find_place, read_threads
from jobgen.diagnose.odd import Suspects
from jobgen.diagnose.reading import Line, keep, read_lines, read_words

_WAITS = read_words("waits")


def find_behind(evidence: Evidence) -> Suspects | None:
    """Those that have entered fewer collective operations than the others, or another."""
    dumps = evidence.find_files("errors/*-flight-*", "hangs/*-rank-*.flight.json")
    return flight.find_behind(dumps)


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
    paths = evidence.find_files("hangs/*-rank-*.stacks")
    return {
        rank: [frames for _, *frames in read_threads(list(read_lines(path)))]
        for rank, path in paths.items()
    }


def _is_waiting(frames: Sequence[Line]) -> bool:
    """Whether a thread waits for other processes, or has not told where it is."""
    return not frames or bool(keep(frames, _WAITS.search))
