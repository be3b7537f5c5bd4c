"""What was asked for and what of it was used, and what to ask for next time.

Advice leaves a quarter more than what this run has used; where one run tells too little, none is
given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.plan import Plan
from jobgen.report.facts import Ranks, Training, Use
from jobgen.report.words import UNKNOWN, clock, count, share, size, span
from jobgen.schedulers.base import State
from jobgen.schedulers.used import Used

_MARGIN = 1.25
_LITTLE = 0.5  # of what was asked: then there is advice
_GIB = 1024**3


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
    gpu_memory: float | None


def uses(known: Known) -> tuple[Use, ...]:
    """Walltime, CPUs, memory and GPUs, in this order."""
    return (_walltime(known), _cpus(known), _memory(known), *_gpus(known))


def _walltime(known: Known) -> Use:
    used, plan = known.used, known.plan
    limit = (used.limit if used else None) or (plan.walltime if plan else None)
    longest = (used.longest if used else None) or known.longest
    part = longest / limit if longest is not None and limit else None
    advice = ""
    if known.state.name == "timeout":
        advice = (
            "it was ended at its walltime: ask for more, or let it go on by itself "
            "(walltime: {notice: 5m, then: requeue, at_most: 10})"
        )
    elif part is not None and longest and known.state.name == "done" and known.starts == 1:
        grain = 300 if longest < 3600 else 900
        enough = grain * math.ceil(longest * _MARGIN / grain)
        if part < _LITTLE and limit and enough < limit:
            advice = f"resources.walltime: {clock(enough)} would do, and starts sooner"
    return Use(
        "walltime",
        None if limit is None else f"{span(limit)} for each start",
        None if longest is None else span(longest),
        part,
        used.source if used and used.longest is not None else "run folder",
        advice,
    )


def _cpus(known: Known) -> Use:
    used = known.used
    cpus = (used.cpus if used else None) or _asked_cpus(known.plan)
    elapsed = (used.elapsed if used else None) or known.elapsed
    busy = used.cpu_seconds / elapsed if used and used.cpu_seconds and elapsed else None
    part = busy / cpus if busy is not None and cpus else None
    advice = ""
    waiting = known.training.waiting if known.training else None
    if waiting is not None and waiting > 0.1:
        advice = f"{share(waiting)} of a step is waiting for data: more CPUs may help"
    elif part is not None and part < _LITTLE and cpus and busy is not None:
        nodes = (used.nodes if used else None) or (known.plan.nodes if known.plan else 1)
        # A process that waits for a GPU, or for others, still needs a CPU when its turn comes.
        most = max(known.plan.processes) if known.plan else 1
        enough = max(most, math.ceil(busy * _MARGIN / nodes))
        if enough * nodes < cpus:
            advice = f"{count(enough, 'CPU')} a node would do"
    return Use(
        "CPUs",
        None if not cpus else count(cpus, "CPU"),
        None if busy is None else f"{busy:.1f} busy on average",
        part,
        used.source if used else "",
        advice,
    )


def _memory(known: Known) -> Use:
    used, plan, ranks = known.used, known.plan, known.ranks
    nodes = (used.nodes if used else None) or (plan.nodes if plan else None)
    asked = used.memory_asked if used else None
    one_node = used.of_one_node if used else True
    if asked is None and plan and all(group.memory for group in plan.groups):
        each = [(group.memory or 0) * 1024.0 for group in plan.groups]
        whole = sum(group.nodes * (group.memory or 0) * 1024.0 for group in plan.groups)
        asked = min(each) if one_node else whole
    held = used.memory if used else None
    source, words = used.source if used else "", ""
    on_cpu = known.training is not None and known.gpu_memory is None
    if held is None and on_cpu and ranks and ranks.memory and nodes == 1:
        held, source = sum(ranks.memory), "metrics.jsonl"
    elif held is None and on_cpu and known.training and known.training.memory:
        words, source = f"{size(known.training.memory)} by rank 0", "metrics.jsonl"
    part = held / asked if held is not None and asked else None
    advice = ""
    if held is not None and part is not None and asked:
        a_node = 1 if one_node or not nodes else nodes
        enough = max(1, math.ceil(held / a_node * _MARGIN / _GIB))
        if part > 0.95:
            advice = f"this was close: resources.memory_per_node: {enough}GB leaves room"
        elif part < _LITTLE and enough * _GIB * a_node < asked:
            advice = f"resources.memory_per_node: {enough}GB would do"
    where = " on one node" if one_node and (nodes or 2) > 1 else ""
    return Use(
        "memory",
        None if asked is None else f"{size(asked)}{where}",
        words or (None if held is None else f"{size(held)}{where} at most"),
        part,
        source,
        advice,
    )


def _gpus(known: Known) -> Iterator[Use]:
    used, plan, ranks, training = known.used, known.plan, known.ranks, known.training
    planned = sum(group.nodes * group.gpus for group in plan.groups) if plan else None
    asked = (used.gpus if used else None) or planned
    if not asked:
        return
    use, source = used.gpu_use if used else None, used.source if used else ""
    if use is None and ranks and ranks.gpu_use:
        use, source = sum(ranks.gpu_use) / len(ranks.gpu_use), "metrics.jsonl"
    words = [] if use is None else [f"{use:.0f} % busy on average"]
    if training and training.mfu is not None:
        words.append(f"{share(training.mfu)} of their peak in arithmetic")
        source = source or "metrics.jsonl"
    advice = ""
    if use is not None and use < 100 * _LITTLE:
        advice = "they are idle for most of the time: look at the waiting for data, or use fewer"
    part = None if use is None else use / 100
    yield Use("GPUs", count(asked, "GPU"), ", ".join(words) or None, part, source, advice)
    held = max(ranks.memory) if ranks and ranks.memory else training.memory if training else None
    total = known.gpu_memory
    if total is None and held is None:
        yield Use("GPU memory", None, None, None, "")
        return
    part = held / total if held is not None and total else None
    advice = ""
    if part is not None and part < _LITTLE:
        advice = "there is room for a larger micro-batch"
    yield Use(
        "GPU memory",
        None if total is None else f"{size(total)} each",
        None if held is None else f"{size(held)} at most",
        part,
        "preflight, metrics.jsonl" if total is not None else "metrics.jsonl",
        advice,
    )


def _asked_cpus(plan: Plan | None) -> int | None:
    if plan is None or any(group.cpus is None for group in plan.groups):
        return None
    return sum(group.nodes * (group.cpus or 0) for group in plan.groups)


def in_words(use: Use) -> str:
    """One line, as in `asked 2 h, used 20 min (17 %)`."""
    part = "" if use.share is None else f" ({share(use.share)})"
    return f"asked {use.asked or UNKNOWN}, used {use.used or UNKNOWN}{part}"
