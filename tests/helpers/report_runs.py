"""Run folders as jobs of any size leave them, made without running anything."""

import json
import math
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from support import load

from jobgen.jobs.record import JobRecord
from jobgen.plan.resolve import resolve
from jobgen.rendering import header
from jobgen.rendering.render import render

BEGAN = 1_790_000_000.0


def spec(ranks: int, **changes: Any) -> dict[str, Any]:
    """A job on Gadi, whose nodes have four GPUs; of one rank on one node."""
    gpus = min(ranks, 4)
    base = {
        "name": "gpt-web",
        "site": "nci-gadi",
        "account": "vp91",
        "queue": "gpuvolta",
        "resources": {
            "nodes": ranks // gpus,
            "gpus_per_node": gpus,
            "cpus_per_gpu": 12,
            "memory_per_node": f"{95 * gpus}GB",
            "walltime": "4h",
        },
        "run": {"module": "jobgen.trainer", "args": {"steps": 1000}},
    }
    return base | changes


def metrics(
    ranks: int,
    *,
    steps: int,
    every: int = 10,
    restart: int | None = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """What the trainer writes: the loss falls, and two steps stand out."""
    draw = random.Random(seed)
    start: dict[str, Any] = {"kind": "start", "attempt": 0, "step": 0, "time": BEGAN + 40}
    start |= {"world_size": ranks, "device": "cuda", "device_name": "NVIDIA H200"}
    start |= {"dtype": "bf16", "compiled": True}
    start |= {"parameters": 124_439_808, "unit": "tokens", "items": 9000, "units_per_item": 1024}
    start |= {"micro_batches": [4] * ranks, "flops_per_unit": 8.6e8, "peak_flops": 9.89e14}
    start |= {"nodes": [f"n{rank // 4:03}" for rank in range(ranks)], "torch": "2.13.0"}
    lines, tokens = [start], 4096 * ranks
    for step in range(every, steps + 1, every):
        if restart is not None and restart < step <= restart + every:
            lines.append(start | {"attempt": 1, "step": restart, "time": BEGAN + 4000})
        loss = 2.6 + 8 * math.exp(-step / (steps / 7)) + draw.gauss(0, 0.05)
        loss = {steps // 2: 14.5, steps // 4: 0.5}.get(step, loss)
        took = 0.21 * draw.uniform(0.95, 1.1) * (4 if step == steps // 2 else 1)
        line: dict[str, Any] = {"kind": "step", "attempt": 0, "step": step, "loss": loss}
        line |= {"time": BEGAN + 40 + 0.2 * step, "lr": 6e-4 * math.cos(1.4 * step / steps)}
        line |= {"grad_norm": 0.7, "tokens": step * tokens, "tokens_per_s": tokens / took}
        line |= {"mfu": 0.43 / took * 0.21, "step_s": took, "data_s": 0.001, "ckpt_s": 0.0}
        line |= {"mem_gb": 31.5, "step_min_s": took * 0.9, "step_max_s": took * 1.4}
        lines.append(line)
        if step % (steps // 5) == 0:
            lines.append(
                {"kind": "val", "step": step, "loss": loss + 0.1, "val_s": 1.0, "attempt": 0}
            )
    return lines


WARNING = (
    "NCCL uses TCP sockets between the nodes and not the site's slingshot; `jobgen sites show` says"
    " what it needs"
)


def make(
    folder: Path,
    job_id: str,
    *,
    ranks: int,
    lines: Sequence[Mapping[str, Any]] | str,
    content: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    outcomes: Sequence[str] = ("done 0",),
    slow: int | None = None,
    settings: Mapping[str, Any] = MappingProxyType({"steps": 1000, "lr": 6e-4}),
) -> JobRecord:
    """The run folder of a job with this many ranks; `outcomes` are those of its attempts."""
    content = content or spec(ranks)
    text = yaml.safe_dump(dict(content), sort_keys=False)
    plan = resolve(load(text, *overrides), limits=False)  # 256 nodes are more than there are
    job = JobRecord(
        id=job_id,
        name=plan.name,
        scheduler=plan.scheduler,
        folder=str(folder),
        submitted=BEGAN - 1800,
        argv=("qsub",),
    )
    job.save()
    root = job.run_dir
    (root / "job.yaml").write_text(text)
    (root / "script").write_text(render(plan))
    (root / "config.json").write_text(json.dumps(dict(settings) | {"out": str(root)}))
    written = lines if isinstance(lines, str) else "".join(map(_line, lines))
    (root / "metrics.jsonl").write_text(written)
    nodes = [f"n{number:03}" for number in range(plan.nodes.total)]
    for number, outcome in enumerate(outcomes):
        attempt = root / "attempts" / str(number)
        attempt.mkdir(parents=True)
        (attempt / "nodes").write_text("\n".join(nodes) + "\n")
        (attempt / "script").write_text("")
        began = BEGAN + 3600 * number
        os.utime(attempt / "script", (began, began))
        if outcome:
            (attempt / "outcome").write_text(outcome + "\n")
            os.utime(attempt / "outcome", (began + 3000, began + 3000))
    rank = 0
    (root / "preflight").mkdir()
    for node, processes in zip(nodes, plan.nodes.processes, strict=True):
        logs = root / "logs" / node
        logs.mkdir(parents=True)
        for _ in range(processes):
            (logs / f"rank-{rank}.out").write_text("")
            rank += 1
        devices = [{"name": "NVIDIA H200", "free_gb": 140.0, "gb": 141.0}] * processes
        told = {"node": node, "python": "3.12.3", "torch": "2.13.0", "cuda": "12.8"}
        told |= {"driver": "570.86", "devices": devices, "clock_s": 0.002}  # type: ignore[dict-item]
        if node == nodes[0]:
            told |= {"allreduce_gb_s": 0.8}  # type: ignore[dict-item]
        (root / "preflight" / f"{node}.json").write_text(json.dumps(told))
    (root / "preflight" / "nccl").write_text("NCCL INFO Using network Socket\n")
    about = header.describe_plan(plan)._replace(fabric="slingshot")
    (root / "plan.json").write_text(header.write_json(about))
    if slow is not None:
        words = f"rank {slow} on {nodes[slow // 4]} is slow: 1.1 s of forward passes since the last"
        (root / "logs" / nodes[0] / "rank-0.out").write_text(f"{words}\n" * 3)
    return job


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record) + "\n"
