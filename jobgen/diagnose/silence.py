"""A job that is alive: how long it has written nothing, and which of its ranks is slow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from jobgen.diagnose.ending import normalize
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.reading import NO_LINE, Line, keep, read_lines, read_words
from jobgen.jobs import top
from jobgen.jobs.files import get_mtime, parse_object
from jobgen.records import NamedTuple
from jobgen.spec.units import read_number

# Ten minutes of silence are a hang, as they are for the bundled trainer's watchdog; where metrics
# tell that steps are long, ten times the longest between two of them so far.
_SILENT, _STEPS = 600.0, 10
# Where a walltime has ended the job, a minute is, if it was half of its time.
_SHORT = 60.0
# What a node's CPUs and GPUs do at most that only wait: CPUs, and percent of the time.
_IDLE_CPUS, _IDLE_PERCENT = 0.1, 1.0
_TOOK = read_words("took")
# What is slow: longer than these seconds, by how many times, and how often where it is short.
_MUCH, _LEAST, _SLOWER, _OFTEN = 1.0, 0.1, 5, 3


class Silence(NamedTuple):
    """For how many seconds nothing was written, of the most that are not a hang."""

    seconds: float
    most: float
    newest: float  # when that was, in seconds since 1970
    last: Line  # what was written last
    since_began: float  # seconds
    usual: float  # what is nothing to speak of

    @property
    def long(self) -> bool:
        """Whether it is a hang."""
        return self.seconds >= self.most

    @property
    def to_the_end(self) -> bool:
        """Whether it is a hang, where a walltime has ended the job: it may be a short one."""
        steps = self.most if self.most > _SILENT else _SHORT
        return self.long or self.seconds >= max(steps, self.since_began / 2)


def measure_silence(evidence: Evidence, *, now: float) -> Silence | None:
    """Return for how long a job has written nothing at the moment `now`; None before it has begun.

    A node's sign of life that is newer than `now` tells that this clock is behind.
    """
    if evidence.attempt is None or not evidence.nodes:
        return None
    metrics = evidence.run_dir / "metrics.jsonl"
    logs, saved = evidence.run_dir.glob("logs/*/rank-*.*"), evidence.run_dir.glob("checkpoints/*")
    newest = max([metrics, *logs, *saved], key=get_mtime)
    now = max(now, *map(get_mtime, evidence.attempt.glob("node-*.alive")), 0.0)
    lines = keep(read_lines(metrics), str.strip)
    stamps = [read_number((parse_object(line.text) or {}).get("time")) for line in lines]
    times = [stamp for stamp in stamps if stamp and stamp >= evidence.began]
    longest = max((later - before for before, later in pairwise(times)), default=0.0)
    if not times and newest.suffix in (".out", ".err"):
        lines = keep(read_lines(newest), str.strip)
    last = max(get_mtime(newest), evidence.began)
    return Silence(
        seconds=max(0.0, now - last),
        most=max(_SILENT, _STEPS * longest),
        newest=last,
        last=[NO_LINE, *lines][-1],
        since_began=max(0.0, now - evidence.began),
        usual=max(_SHORT, 2 * longest),
    )


def is_idle(evidence: Evidence) -> bool:
    """Whether neither CPUs nor GPUs of any node compute; the nodes are asked."""
    nodes = top.list_nodes(evidence.job, running=True)
    return bool(nodes) and all(map(_computes_nothing, nodes))


def _computes_nothing(node: top.NodeUse) -> bool:
    if node.cpus is None or node.cpus > _IDLE_CPUS:
        return False
    return all((gpu.use or 0.0) <= _IDLE_PERCENT for gpu in node.gpus)


def find_slow(evidence: Evidence) -> Iterator[str]:
    """Say which rank gives five times as long as all others in a line that all of them repeat."""
    for by_rank in _collect_times(evidence).values():
        repeated = min(len(lines) for lines in by_rank.values()) >= 2
        if repeated and len(by_rank) >= max(3, len(evidence.ranks)):
            usual, most, rank, line = _compare(by_rank)
            if most >= max(_LEAST, _SLOWER * usual):
                who = f"rank {rank} on {evidence.ranks[rank]}"
                yield f"{who} is slow (others: {usual:g} s): {line.text.strip()}"


def _compare(by_rank: dict[int, list[tuple[float, Line]]]) -> tuple[float, float, int, Line]:
    """How long all but the slowest rank take at most, and how long this; it, and its line."""
    last = {rank: _choose_time(lines) for rank, lines in by_rank.items()}
    *_, (usual, _), (most, rank) = sorted((last[rank][0], rank) for rank in last)
    return usual, most, rank, last[rank][1]


def _collect_times(evidence: Evidence) -> dict[str, dict[int, list[tuple[float, Line]]]]:
    """By kind of line and by rank: how many seconds something took, and the line."""
    times: dict[str, dict[int, list[tuple[float, Line]]]] = {}
    for rank, log in evidence.logs.items():
        for line in log:
            took = _TOOK.search(line.text)
            if took:
                by_rank = times.setdefault(normalize(line.text), {})
                seconds = float(took[1]) / (1000 if took[2] else 1)
                by_rank.setdefault(rank, []).append((seconds, line))
    return times


def _choose_time(lines: list[tuple[float, Line]]) -> tuple[float, Line]:
    """The last; where that is short, the least of several, with the last line."""
    seconds, line = lines[-1]
    return (seconds, line) if seconds >= _MUCH else (min(lines[-_OFTEN:])[0], line)
