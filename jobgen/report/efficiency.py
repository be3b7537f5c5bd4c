"""What a run asked for, what it used of that, and what to ask for next time.

CPUs and memory are as the scheduler counts them; of GPUs what the nodes noted counts first. Advice
follows a run that ended well and was measured for most of its time; it leaves a quarter more than
the most that was measured.
"""

from __future__ import annotations

import math

from jobgen.output import format_count
from jobgen.plan.plan import NodeGroup, Plan
from jobgen.records import NamedTuple
from jobgen.report.facts import Ranks, Training, Usage, Use
from jobgen.report.figures import format_share, format_size, format_span
from jobgen.schedulers.base import State
from jobgen.schedulers.usage import Used
from jobgen.spec.units import format_duration

_MARGIN = 1.25
_LITTLE = 0.5  # of what was asked: less than this gets advice
_NEARLY_ALL = 0.95
_GIB = 1024**3
_LEAST_SECONDS = 60.0  # a shorter look is not typical
_NOTED = "usage/*"
_METRICS = "metrics.jsonl"


class Known(NamedTuple):
    """What there is to go by.

    `elapsed` is the seconds of all starts, `longest` of one, both by the files of the run folder;
    `used` is what the scheduler counts, and `gpu_memory` the bytes of one device.
    """

    state: State
    plan: Plan | None
    used: Used
    elapsed: float | None
    longest: float | None
    starts: int
    training: Training | None
    ranks: Ranks | None
    usage: Usage | None
    gpu_memory: float | None

    @property
    def groups(self) -> tuple[NodeGroup, ...]:
        """The nodes that were asked for, as far as that is known."""
        return self.plan.nodes.groups if self.plan else ()

    @property
    def is_done(self) -> bool:
        """Whether the run ended well."""
        return self.state.name == "done"

    def is_typical(self, seconds: float | None) -> bool:
        """Whether a measurement of this length shows what the next run will need."""
        return self.is_done and (seconds or 0) >= max(_LEAST_SECONDS, (self.elapsed or 0) / 2)


def measure_uses(known: Known) -> tuple[Use, ...]:
    """Return walltime, CPUs, memory and GPUs, in this order."""
    gpus = known.used.gpus or sum(group.nodes * group.gpus for group in known.groups)
    uses = (_measure_walltime(known), _measure_cpus(known), _measure_memory(known))
    return (*uses, _measure_gpu_use(known, gpus), _measure_gpu_memory(known)) if gpus else uses


def _divide(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _measure_walltime(known: Known) -> Use:
    used, plan = known.used, known.plan
    limit = used.limit or (plan.walltime.seconds if plan else None)
    longest = used.longest or known.longest
    queued = known.starts == 1 and plan is not None and plan.site.can.batch
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
    return f"resources.walltime: {format_duration(enough)} suffices, and starts sooner"


def _measure_cpus(known: Known) -> Use:
    used = known.used
    asked = [group.nodes * (group.cpus or 0) for group in known.groups]
    cpus = used.cpus or (sum(asked) if all(asked) else None)
    busy = _divide(used.cpu_seconds or None, known.elapsed or used.elapsed)
    return Use(
        "CPUs",
        format_count(cpus, "CPU") if cpus else None,
        None if busy is None else f"{busy:.1f} busy on average",
        _divide(busy, cpus),
        used.source,
    )


def _measure_memory(known: Known) -> Use:
    used = known.used
    asked = _find_asked_memory(known)
    where = _name_node(known)
    if _is_of_process(known):
        held, share, advice = " in one process", None, ""
    else:
        held, share, advice = where, _divide(used.memory, asked), _advise_memory(known, asked)
    return Use(
        "memory",
        None if asked is None else f"{format_size(asked)}{where}",
        None if used.memory is None else f"{format_size(used.memory)}{held} at most",
        share,
        used.source,
        advice,
    )


def _name_node(known: Known) -> str:
    nodes = known.used.nodes or (known.plan.nodes.total if known.plan else None)
    return " on one node" if known.used.of_one_node and nodes != 1 else ""


def _is_of_process(known: Known) -> bool:
    """Whether the memory is that of one process: Slurm counts by task, and starts each itself."""
    if known.used.memory is None or known.plan is None:
        return False
    return known.used.of_one_node and known.plan.launch.direct


def _find_asked_memory(known: Known) -> float | None:
    """Return the bytes that were asked for, on one node or on all, as the scheduler counts."""
    if known.used.memory_asked is not None:
        return known.used.memory_asked
    asked = [group.memory or 0 for group in known.groups]
    if not asked or not all(asked):
        return None
    if known.used.of_one_node:
        return min(asked) * 1024.0
    return sum(group.nodes * (group.memory or 0) for group in known.groups) * 1024.0


def _advise_memory(known: Known, asked: float | None) -> str:
    held = known.used.memory if known.used.of_one_node else None
    if not asked or not held or not known.is_typical(known.used.elapsed):
        return ""
    enough = max(1, math.ceil(held * _MARGIN / _GIB))
    if held > _NEARLY_ALL * asked:
        return f"this was close: resources.memory_per_node: {enough}GB leaves room"
    if held < _LITTLE * asked and enough * _GIB < asked:
        return f"resources.memory_per_node: {enough}GB suffices"
    return ""


def _measure_gpu_use(known: Known, asked: int) -> Use:
    percent, source, counted = _find_gpu_use(known)
    words = [] if percent is None else [f"{percent:.0f} % busy on average"]
    if known.usage and known.usage.gpu_power is not None:
        words.append(f"{known.usage.gpu_power:.0f} W each")
    if known.training and known.training.mfu is not None:
        words.append(f"{format_share(known.training.mfu)} of their peak in arithmetic")
        source = source or _METRICS
    is_idle = known.is_done and percent is not None and percent < 100 * _LITTLE
    return Use(
        "GPUs",
        format_count(asked, "GPU"),
        ", ".join(words) or None,
        _divide(percent, 100),
        source,
        "mostly idle: check whether they wait for data, or use fewer" if is_idle else "",
        counted,
    )


def _find_gpu_use(known: Known) -> tuple[float | None, str, str]:
    """Return the percent, who says so, and what the scheduler counts if that is another."""
    percent, source = known.used.gpu_use, known.used.source
    if known.usage is None or known.usage.gpu_use is None:
        return percent, source, ""
    counted = "" if percent is None else f"{source} counts {percent:.0f} %"
    return known.usage.gpu_use, _NOTED, counted


def _measure_gpu_memory(known: Known) -> Use:
    total = known.gpu_memory or (known.usage.gpu_total if known.usage else None)
    held, source = _find_gpu_memory(known)
    share = _divide(held, total)
    sources = ["preflight" if known.gpu_memory else "", "" if held is None else source]
    has_room = known.is_done and share is not None and share < _LITTLE
    return Use(
        "GPU memory",
        None if total is None else f"{format_size(total)} each",
        None if held is None else f"{format_size(held)} at most",
        share,
        ", ".join(filter(None, sources)),
        "there is room for a larger micro-batch" if has_room else "",
    )


def _find_gpu_memory(known: Known) -> tuple[float | None, str]:
    """Return the most bytes that were held on a GPU, and who says so."""
    if known.usage and known.usage.gpu_memory is not None:
        return known.usage.gpu_memory, _NOTED
    if known.ranks and known.ranks.memory:
        return max(known.ranks.memory), _METRICS
    return (known.training.memory if known.training else None), _METRICS
