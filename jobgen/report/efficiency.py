"""What a run requested, what it used, and what to request next time.

CPUs and memory are as the scheduler counts them; of GPUs what the nodes noted counts first. Advice
follows a run that ended well and was measured for most of its time; it leaves a quarter more than
the most that was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jobgen.output import format_count
from jobgen.plan.plan import Nodes, Start, TimeLimit
from jobgen.report.facts import RunFacts, Usage, Use
from jobgen.report.figures import format_share, format_size, format_span
from jobgen.report.request import Asked
from jobgen.schedulers.usage import Used
from jobgen.spec.units import format_duration

_MARGIN = 1.25
_LITTLE = 0.5  # of what was asked: less than this gets advice
_NEARLY_ALL = 0.95
_GIB = 1024**3
_LEAST_SECONDS = 60.0  # a shorter look is not typical
_NOTED = "usage/*"
_METRICS = "metrics.jsonl"


class Efficiency:
    """Compares what was `asked` for with what a run used, by `used` as the scheduler counts it.

    `longest` is the seconds of one start by the files of the run folder, and `gpu_memory` the bytes
    of one device.
    """

    def __init__(
        self,
        run: RunFacts,
        asked: Asked,
        used: Used,
        *,
        longest: float | None,
        gpu_memory: float | None,
    ) -> None:
        self.run = run
        self.used = used
        self.usage = run.usage or Usage()
        self.longest = self.used.longest or longest
        self.gpu_memory = gpu_memory
        self.nodes, self.launch, self.walltime = Nodes(), Start(), TimeLimit()
        self.is_queued = False
        if plan := asked.plan:
            self.nodes, self.launch, self.walltime = plan.nodes, plan.launch, plan.walltime
            self.is_queued = plan.site.can.batch
        elif about := asked.about:  # it was submitted without its spec
            self.nodes, self.walltime = Nodes(about.groups), TimeLimit(about.walltime)
        self.is_done = run.state == "done"

    def list_uses(self) -> tuple[Use, ...]:
        """Return walltime, CPUs, memory and GPUs, in this order."""
        gpus = self.used.gpus or self.nodes.gpus
        uses = (self._measure_walltime(), self._measure_cpus(), self._measure_memory())
        return (*uses, self._measure_gpus(gpus), self._measure_gpu_memory()) if gpus else uses

    def _measure_walltime(self) -> Use:
        limit = self.used.limit or self.walltime.seconds
        advises = self.is_queued and self.is_done and len(self.run.attempts) == 1
        return Use(
            "walltime",
            _tell(limit, format_span, "{} for each start"),
            _tell(self.longest, format_span),
            _divide(self.longest, limit),
            "run folder" if self.used.longest is None else self.used.source,
            _advise_walltime(self.longest, limit) if advises else "",
        )

    def _measure_cpus(self) -> Use:
        asked = [group.nodes * (group.cpus or 0) for group in self.nodes.groups]
        cpus = self.used.cpus or (sum(asked) if all(asked) else None)
        busy = _divide(self.used.cpu_seconds or None, self.run.ran)
        words = _tell(busy, "{:.1f} busy on average".format)
        asked_words = format_count(cpus, "CPU") if cpus else None
        return Use("CPUs", asked_words, words, _divide(busy, cpus), self.used.source)

    def _measure_memory(self) -> Use:
        held, asked = self.used.memory, self._find_asked_memory()
        nodes = self.used.nodes or self.nodes.total
        where = " on one node" if self.used.of_one_node and nodes != 1 else ""
        use = Use(
            "memory",
            _tell(asked, format_size, f"{{}}{where}"),
            _tell(held, format_size, f"{{}}{where} at most"),
            _divide(held, asked),
            self.used.source,
        )
        # Slurm counts by task, and starts each process itself where no launcher does.
        if self.used.of_one_node and self.launch.direct and held is not None:
            words = f"{format_size(held)} in one process at most"
            return use._replace(used=words, share=None)
        return use._replace(advice=self._advise_memory(held or 0, asked or 0))

    def _find_asked_memory(self) -> float | None:
        """Return the bytes that were requested, on one node or on all, as the scheduler counts."""
        groups = self.nodes.groups
        each = [(group.memory or 0) * 1024.0 for group in groups]
        if self.used.memory_asked is not None or not all(each):
            return self.used.memory_asked
        if self.used.of_one_node:
            return min(each, default=None)
        return sum(group.nodes * memory for group, memory in zip(groups, each, strict=True)) or None

    def _advise_memory(self, held: float, asked: float) -> str:
        if not (held and asked and self.used.of_one_node and self._is_typical()):
            return ""
        enough = max(1, math.ceil(held * _MARGIN / _GIB))
        if held > _NEARLY_ALL * asked:
            return f"this was close: resources.memory_per_node: {enough}GB leaves room"
        if held < _LITTLE * asked and enough * _GIB < asked:
            return f"resources.memory_per_node: {enough}GB suffices"
        return ""

    def _is_typical(self) -> bool:
        """Whether the run succeeded and the scheduler measured it for most of its time."""
        least = max(_LEAST_SECONDS, (self.run.ran or 0) / 2)
        return self.is_done and (self.used.elapsed or 0) >= least

    def _measure_gpus(self, asked: int) -> Use:
        """By the nodes' own samples, with the scheduler's number, or only by the latter."""
        percent, source, counted = self.used.gpu_use, self.used.source, ""
        if self.usage.gpu_use is not None:
            counted = _tell(percent, f"{source} counts {{:.0f}} %".format) or ""
            percent, source = self.usage.gpu_use, _NOTED
        share = _divide(percent, 100)
        busy = _tell(percent, "{:.0f} % busy on average".format)
        power = _tell(self.usage.gpu_power, "{:.0f} W each".format)
        peak = _tell(self.run.read("mfu"), format_share, "{} of their peak arithmetic")
        advice = "mostly idle: check whether they wait for data, or request fewer"
        return Use(
            "GPUs",
            format_count(asked, "GPU"),
            ", ".join(filter(None, (busy, power, peak))) or None,
            share,
            source or (_METRICS if peak else ""),
            advice if self._uses_little(share) else "",
            counted,
        )

    def _uses_little(self, share: float | None) -> bool:
        """Whether a successful run used too little of its request."""
        return self.is_done and share is not None and share < _LITTLE

    def _measure_gpu_memory(self) -> Use:
        held, source = self._find_gpu_memory()
        total = self.gpu_memory or self.usage.gpu_total
        share = _divide(held, total)
        sources = ["preflight" if self.gpu_memory else "", "" if held is None else source]
        return Use(
            "GPU memory",
            _tell(total, format_size, "{} each"),
            _tell(held, format_size, "{} at most"),
            share,
            ", ".join(filter(None, sources)),
            "there is room for a larger micro-batch" if self._uses_little(share) else "",
        )

    def _find_gpu_memory(self) -> tuple[float | None, str]:
        """Return the peak memory of a GPU in bytes, and the source."""
        if self.usage.gpu_memory is not None:
            return self.usage.gpu_memory, _NOTED
        return self.run.read("memory"), _METRICS


def _divide(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _tell(value: float | None, describe: Callable[[float], str], words: str = "{}") -> str | None:
    return None if value is None else words.format(describe(value))


def _advise_walltime(longest: float | None, limit: float | None) -> str:
    if not longest or not limit or longest / limit >= _LITTLE:
        return ""
    grain = 300 if longest < 3600 else 900
    enough = grain * math.ceil(longest * _MARGIN / grain)
    if enough >= limit:
        return ""
    return f"resources.walltime: {format_duration(enough)} suffices, and starts sooner"
