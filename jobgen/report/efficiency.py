"""What was asked for and what of it was used, and what to ask for next time.

What the job's own processes have used is noted by its nodes; the scheduler's numbers stand beside
it. Advice follows a run that ended well and was watched for most of its time, and leaves a quarter
more than the most that was measured; else there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.plan.plan import Plan
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
_LITTLE = 0.5  # of what was asked: then there is advice
_GIB = 1024**3
_LEAST_SECONDS = 60.0  # of samples, and half of the run: a shorter look is not typical
_OWN = "usage/*.jsonl"


class Known(NamedTuple):
    """What there is to go by; `elapsed` and `longest` are of all starts and of one, by the files.

    `gpu_memory` is that of one device, in bytes.
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
    def is_typical(self) -> bool:
        """Whether what was measured tells what the next run will need."""
        if self.state.name != "done" or self.usage is None:
            return False
        return self.usage.seconds >= max(_LEAST_SECONDS, (self.elapsed or 0.0) / 2)


def measure_uses(known: Known) -> tuple[Use, ...]:
    """Walltime, CPUs, memory and GPUs, in this order."""
    return (
        _measure_walltime(known),
        _measure_cpus(known),
        _measure_memory(known),
        *_measure_gpus(known),
    )


def _measure_walltime(known: Known) -> Use:
    used, plan = known.used, known.plan
    limit = (used.limit if used else None) or (plan.walltime.seconds if plan else None)
    longest = (used.longest if used else None) or known.longest
    part = longest / limit if longest is not None and limit else None
    advice = ""
    if part is not None and longest and known.state.name == "done" and known.starts == 1:
        grain = 300 if longest < 3600 else 900
        enough = grain * math.ceil(longest * _MARGIN / grain)
        if part < _LITTLE and limit and enough < limit:
            advice = f"resources.walltime: {format_clock(enough)} would do, and starts sooner"
    return Use(
        "walltime",
        None if limit is None else f"{format_span(limit)} for each start",
        None if longest is None else format_span(longest),
        part,
        used.source if used and used.longest is not None else "run folder",
        advice,
    )


def _measure_cpus(known: Known) -> Use:
    used, usage = known.used, known.usage
    cpus = (used.cpus if used else None) or _count_asked_cpus(known.plan)
    elapsed = known.elapsed or (used.elapsed if used else None)
    by_scheduler = used.cpu_seconds / elapsed if used and used.cpu_seconds and elapsed else None
    own = usage.cpu_seconds / elapsed if usage and elapsed else None
    busy = by_scheduler if own is None else own
    part = busy / cpus if busy is not None and cpus else None
    advice = ""
    waiting = known.training.waiting if known.training else None
    if known.state.name == "done" and waiting is not None and waiting > 0.1:
        advice = f"{format_share(waiting)} of a step is waiting for data: more CPUs may help"
    elif usage and usage.busy.y and cpus and known.plan and known.is_typical:
        peak = max(usage.busy.y)
        # A process that waits for a GPU, or for others, still needs a CPU when its turn comes.
        enough = max(*known.plan.nodes.processes, math.ceil(peak * _MARGIN / usage.nodes))
        if peak < _LITTLE * cpus and enough * usage.nodes < cpus:
            advice = f"{format_count(enough, 'CPU')} a node would do"
    return Use(
        "CPUs",
        None if not cpus else format_count(cpus, "CPU"),
        None if busy is None else f"{busy:.1f} busy on average",
        part,
        _OWN if own is not None else used.source if used else "",
        advice,
        f"{used.source} counts {by_scheduler:.1f}" if used and own and by_scheduler else "",
    )


def _measure_memory(known: Known) -> Use:
    used, plan, ranks, usage = known.used, known.plan, known.ranks, known.usage
    nodes = (used.nodes if used else None) or (plan.nodes.total if plan else None)
    asked = used.memory_asked if used else None
    one_node = used.of_one_node if used else True
    if asked is None and plan and all(group.memory for group in plan.nodes.groups):
        each = [(group.memory or 0) * 1024.0 for group in plan.nodes.groups]
        whole = sum(group.nodes * (group.memory or 0) * 1024.0 for group in plan.nodes.groups)
        asked = min(each) if one_node else whole
    held = used.memory if used else None
    source, words, counted = used.source if used else "", "", ""
    on_cpu = known.training is not None and known.gpu_memory is None
    if usage is not None:
        if used and held is not None:
            where = " on one node" if one_node and (nodes or 2) > 1 else ""
            counted = f"{used.source} counts {format_size(held)}{where}"
        if asked is not None and not one_node and nodes:
            asked /= nodes
        held, source, one_node = usage.memory, _OWN, True
    elif held is None and on_cpu and ranks and ranks.memory and nodes == 1:
        held, source = sum(ranks.memory), "metrics.jsonl"
    elif held is None and on_cpu and known.training and known.training.memory:
        words, source = f"{format_size(known.training.memory)} by rank 0", "metrics.jsonl"
    part = held / asked if held is not None and asked else None
    advice = ""
    if usage and part is not None and asked and known.is_typical:
        most = max(usage.memory, used.memory or 0.0 if used and used.of_one_node else 0.0)
        enough = max(1, math.ceil(most * _MARGIN / _GIB))
        if part > 0.95:
            advice = f"this was close: resources.memory_per_node: {enough}GB leaves room"
        elif part < _LITTLE and enough * _GIB < asked:
            advice = f"resources.memory_per_node: {enough}GB would do"
    where = " on one node" if one_node and (nodes or 2) > 1 else ""
    return Use(
        "memory",
        None if asked is None else f"{format_size(asked)}{where}",
        words or (None if held is None else f"{format_size(held)}{where} at most"),
        part,
        source,
        advice,
        counted,
    )


def _measure_gpus(known: Known) -> Iterator[Use]:
    used, plan, ranks, training = known.used, known.plan, known.ranks, known.training
    usage = known.usage
    planned = sum(group.nodes * group.gpus for group in plan.nodes.groups) if plan else None
    asked = (used.gpus if used else None) or planned
    if not asked:
        return
    counted = ""
    use, source = used.gpu_use if used else None, used.source if used else ""
    if usage and usage.gpu_use is not None:
        if used and use is not None:
            counted = f"{used.source} counts {use:.0f} %"
        use, source = usage.gpu_use, _OWN
    elif use is None and ranks and ranks.gpu_use:
        use, source = sum(ranks.gpu_use) / len(ranks.gpu_use), "metrics.jsonl"
    words = [] if use is None else [f"{use:.0f} % busy on average"]
    if usage and usage.gpu_power is not None:
        words.append(f"{usage.gpu_power:.0f} W each")
    if training and training.mfu is not None:
        words.append(f"{format_share(training.mfu)} of their peak in arithmetic")
        source = source or "metrics.jsonl"
    advice = ""
    if use is not None and use < 100 * _LITTLE and known.state.name == "done":
        advice = "they are idle for most of the time: look at the waiting for data, or use fewer"
    part = None if use is None else use / 100
    words_of_use = ", ".join(words) or None
    yield Use("GPUs", format_count(asked, "GPU"), words_of_use, part, source, advice, counted)
    by_ranks = max(ranks.memory) if ranks and ranks.memory else None
    held = by_ranks or (training.memory if training else None)
    total, source = known.gpu_memory, "metrics.jsonl" if held is not None else ""
    if usage and usage.gpu_memory is not None:
        held, total, source = usage.gpu_memory, total or usage.gpu_total, _OWN
    if total is None and held is None:
        yield Use("GPU memory", None, None, None, "")
        return
    part = held / total if held is not None and total else None
    advice = ""
    if part is not None and part < _LITTLE and known.state.name == "done":
        advice = "there is room for a larger micro-batch"
    yield Use(
        "GPU memory",
        None if total is None else f"{format_size(total)} each",
        None if held is None else f"{format_size(held)} at most",
        part,
        source if known.gpu_memory is None else f"preflight, {source}".rstrip(", "),
        advice,
    )


def _count_asked_cpus(plan: Plan | None) -> int | None:
    if plan is None or any(group.cpus is None for group in plan.nodes.groups):
        return None
    return sum(group.nodes * (group.cpus or 0) for group in plan.nodes.groups)


def describe_use(use: Use) -> str:
    """One line, as in `asked 2 h, used 20 min (17 %)`."""
    part = "" if use.share is None else f" ({format_share(use.share)})"
    counted = f"; {use.counted}" if use.counted else ""
    return f"asked {use.asked or UNKNOWN}, used {use.used or UNKNOWN}{part}{counted}"
