"""For how long a job that is alive has written nothing, and whether it computes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.reading import NO_LINE, Line, keep, read_lines
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
    """Return for how long a job has written nothing at the moment `now`; None if that is unknown.

    A node's sign of life that is newer than `now` tells that this clock is behind.
    """
    if evidence.attempt is None or not (evidence.nodes and evidence.has_own_times):
        return None
    metrics = evidence.run_dir / "metrics.jsonl"
    newest = max([metrics, *_list_written(evidence.job.run_dir)], key=get_mtime)
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


def _list_written(run_dir: Path) -> Iterator[Path]:
    """What a job writes as it gets on, or any of its roles."""
    for folder in (run_dir, *run_dir.glob("roles/*")):
        yield from folder.glob("logs/*/rank-*.*")
        yield from folder.glob("checkpoints/*")


def is_idle(evidence: Evidence) -> bool:
    """Whether neither CPUs nor GPUs of any node compute; the nodes are asked."""
    nodes = top.list_nodes(evidence.job, running=True)
    return bool(nodes) and all(map(_computes_nothing, nodes))


def _computes_nothing(node: top.NodeUse) -> bool:
    if node.cpus is None or node.cpus > _IDLE_CPUS:
        return False
    return all((gpu.use or 0.0) <= _IDLE_PERCENT for gpu in node.gpus)
