"""What a run asked for, what it used of that, and what to ask for next time.

CPUs and memory are as the scheduler counts them; of GPUs what the nodes noted counts first. Advice
follows a run that ended well and was measured for most of its time; it leaves a quarter more than
the most that was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from jobgen.plan.plan import Plan
from jobgen.records import NamedTuple
from jobgen.report.facts import Ranks, Training, Usage, Use
from jobgen.report.figures import (
    UNKNOWN,
    format_clock,
    format_count,
    format_share,
    format_size,
    format_span,
)
from jobgen.schedulers.base import State
from jobgen.schedulers.usage import Used

_MARGIN = 1.25
_LITTLE = 0.5  # of what was asked: less than this gets advice
_NEARLY_ALL = 0.95
_GIB = 1024**3
_LEAST_SECONDS = 60.0  # a shorter look is not typical
_NOTED = "usage/*"
_METRICS = "metrics.jsonl"
_NOTHING = Used("", of_one_node=True)


class Known(NamedTuple):
    """What there is to go by.

    `elapsed` is the seconds of all starts, `longest` of one, both by the files of the run folder;
    `gpu_memory` is the bytes of one device.
    """

    state: State
    plan: Plan | None
    used: Used | None
    elapsed: float | None
    longest: float | None
    starts: int
    training: Training | None
    ranks: Ranks | None
    usage: Usage | None
    gpu_memory: float | None

    @property
    def counted(self) -> Used:
        """What the scheduler counts, which may be nothing."""
        return self.used or _NOTHING

    @property
    def is_done(self) -> bool:
        """Whether the run ended well."""
        return self.state.name == "done"

    def is_typical(self, seconds: float | None) -> bool:
        """Whether a measurement of this length shows what the next run will need."""
        return self.is_done and (seconds or 0) >= max(_LEAST_SECONDS, (self.elapsed or 0) / 2)


class Measured(NamedTuple):
    """An amount, where it was read, and what the scheduler counts instead."""

    amount: float | None = None
    source: str = ""
    counted: str = ""


def measure_uses(known: Known) -> tuple[Use, ...]:
    """Return walltime, CPUs, memory and GPUs, in this order."""
    return (
        _measure_walltime(known),
        _measure_cpus(known),
        _measure_memory(known),
        *_measure_gpus(known),
    )


def describe_use(use: Use) -> str:
    """Return one line, such as `asked 2 h, used 20 min (17 %)`."""
    part = "" if use.share is None else f" ({format_share(use.share)})"
    counted = f"; {use.counted}" if use.counted else ""
    return f"asked {use.asked or UNKNOWN}, used {use.used or UNKNOWN}{part}{counted}"


def _divide(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _measure_walltime(known: Known) -> Use:
    used = known.counted
    limit = used.limit or (known.plan.walltime.seconds if known.plan else None)
    longest = used.longest or known.longest
    queued = known.starts == 1 and known.plan is not None and known.plan.site.can.batch
    return Use(
        "walltime",
        None if limit is None else f"{format_span(limit)} for each start",
        None if longest is None else format_span(longest),
        _divide(longest, limit),
        "run folder" if used.longest is None else used.source,
        _advise_walltime(longest, limit) if queued and known.is_done else "",
    )


def _advise_walltime(longest: float | None, limit: float | None) -> str:
    if not longest or not limit or longest / limit >= _LITTLE:
        return ""
    grain = 300 if longest < 3600 else 900
    enough = grain * math.ceil(longest * _MARGIN / grain)
    if enough >= limit:
        return ""
    return f"resources.walltime: {format_clock(enough)} would do, and starts sooner"


def _measure_cpus(known: Known) -> Use:
    used = known.counted
    cpus = used.cpus or _count_asked_cpus(known.plan)
    elapsed = known.elapsed or used.elapsed
    busy = _divide(used.cpu_seconds or None, elapsed)
    return Use(
        "CPUs",
        format_count(cpus, "CPU") if cpus else None,
        None if busy is None else f"{busy:.1f} busy on average",
        _divide(busy, cpus),
        used.source,
        _advise_cpus(known),
    )


def _count_asked_cpus(plan: Plan | None) -> int | None:
    groups = plan.nodes.groups if plan else ()
    if not groups or any(group.cpus is None for group in groups):
        return None
    return sum(group.nodes * (group.cpus or 0) for group in groups)


def _advise_cpus(known: Known) -> str:
    waiting = known.training.waiting if known.training else None
    if known.is_done and waiting is not None and waiting > 0.1:
        return f"{format_share(waiting)} of a step is spent waiting for data; more CPUs may help"
    return ""


def _measure_memory(known: Known) -> Use:
    nodes = known.counted.nodes or (known.plan.nodes.total if known.plan else None)
    where = " on one node" if known.counted.of_one_node and (nodes or 2) > 1 else ""
    asked = _find_asked_memory(known)
    held = _find_held_memory(known, nodes)
    of_task = _counts_tasks(known)
    return Use(
        "memory",
        None if asked is None else f"{format_size(asked)}{where}",
        _describe_memory(known, held, " in one process" if of_task else where),
        None if of_task else _divide(held.amount, asked),
        held.source or (_METRICS if _find_memory_of_rank_0(known) else ""),
        "" if of_task else _advise_memory(known, asked),
    )


def _counts_tasks(known: Known) -> bool:
    """Whether the scheduler's number is of one process: it counts what it started itself."""
    is_direct = known.plan is not None and known.plan.launch.direct
    return known.counted.of_one_node and known.counted.memory is not None and is_direct


def _describe_memory(known: Known, held: Measured, where: str) -> str | None:
    if held.amount is not None:
        return f"{format_size(held.amount)}{where} at most"
    by_rank_0 = _find_memory_of_rank_0(known)
    return None if by_rank_0 is None else f"{format_size(by_rank_0)} by rank 0"


def _find_asked_memory(known: Known) -> float | None:
    """Return the bytes that were asked for, on one node or on all, as the scheduler counts."""
    if known.counted.memory_asked is not None:
        return known.counted.memory_asked
    groups = known.plan.nodes.groups if known.plan else ()
    if not groups or not all(group.memory for group in groups):
        return None
    if known.counted.of_one_node:
        return min(group.memory or 0 for group in groups) * 1024.0
    return sum(group.nodes * (group.memory or 0) for group in groups) * 1024.0


def _find_held_memory(known: Known, nodes: int | None) -> Measured:
    """Return the most that was held, by the scheduler or the ranks."""
    used, ranks = known.counted, known.ranks
    if used.memory is None and _trained_on_cpu(known) and ranks and ranks.memory and nodes == 1:
        return Measured(sum(ranks.memory), _METRICS)
    return Measured(used.memory, used.source)


def _find_memory_of_rank_0(known: Known) -> float | None:
    return known.training.memory if known.training and _trained_on_cpu(known) else None


def _trained_on_cpu(known: Known) -> bool:
    return known.training is not None and known.gpu_memory is None


def _advise_memory(known: Known, asked: float | None) -> str:
    held = known.counted.memory if known.counted.of_one_node else None
    if not asked or not held or not known.is_typical(known.counted.elapsed):
        return ""
    enough = max(1, math.ceil(held * _MARGIN / _GIB))
    if held > _NEARLY_ALL * asked:
        return f"this was close: resources.memory_per_node: {enough}GB leaves room"
    if held < _LITTLE * asked and enough * _GIB < asked:
        return f"resources.memory_per_node: {enough}GB would do"
    return ""


def _measure_gpus(known: Known) -> Iterator[Use]:
    groups = known.plan.nodes.groups if known.plan else ()
    asked = known.counted.gpus or sum(group.nodes * group.gpus for group in groups)
    if asked:
        yield _measure_gpu_use(known, asked)
        yield _measure_gpu_memory(known)


def _measure_gpu_use(known: Known, asked: int) -> Use:
    use = _find_gpu_use(known)
    words = [] if use.amount is None else [f"{use.amount:.0f} % busy on average"]
    if known.usage and known.usage.gpu_power is not None:
        words.append(f"{known.usage.gpu_power:.0f} W each")
    source = use.source
    if known.training and known.training.mfu is not None:
        words.append(f"{format_share(known.training.mfu)} of their peak in arithmetic")
        source = source or _METRICS
    is_idle = known.is_done and use.amount is not None and use.amount < 100 * _LITTLE
    idle = "idle for most of the time: check the waiting for data, or use fewer"
    return Use(
        "GPUs",
        format_count(asked, "GPU"),
        ", ".join(words) or None,
        _divide(use.amount, 100),
        source,
        idle if is_idle else "",
        use.counted,
    )


def _find_gpu_use(known: Known) -> Measured:
    """Return the percent of the time that GPUs were busy, on average."""
    used, ranks = known.counted, known.ranks
    if known.usage and known.usage.gpu_use is not None:
        counted = "" if used.gpu_use is None else f"{used.source} counts {used.gpu_use:.0f} %"
        return Measured(known.usage.gpu_use, _NOTED, counted)
    if used.gpu_use is None and ranks and ranks.gpu_use:
        return Measured(sum(ranks.gpu_use) / len(ranks.gpu_use), _METRICS)
    return Measured(used.gpu_use, used.source)


def _measure_gpu_memory(known: Known) -> Use:
    held = _find_gpu_memory(known)
    total = known.gpu_memory
    if total is None and known.usage and known.usage.gpu_memory is not None:
        total = known.usage.gpu_total
    share = _divide(held.amount, total)
    has_room = known.is_done and share is not None and share < _LITTLE
    sources = ["preflight" if known.gpu_memory is not None else "", held.source]
    return Use(
        "GPU memory",
        None if total is None else f"{format_size(total)} each",
        None if held.amount is None else f"{format_size(held.amount)} at most",
        share,
        ", ".join(filter(None, sources)),
        "there is room for a larger micro-batch" if has_room else "",
    )


def _find_gpu_memory(known: Known) -> Measured:
    """Return the most bytes that one GPU held."""
    if known.usage and known.usage.gpu_memory is not None:
        return Measured(known.usage.gpu_memory, _NOTED)
    by_ranks = max(known.ranks.memory) if known.ranks and known.ranks.memory else None
    held = by_ranks or (known.training.memory if known.training else None)
    return Measured(held, "" if held is None else _METRICS)
