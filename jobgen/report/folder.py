"""What lies in a run folder, read one by one: what is missing or damaged is noted, never raised."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobgen.jobs import run_folder
from jobgen.jobs.record import JobRecord, read_left
from jobgen.plan.plan import Plan
from jobgen.plan.ranks import list_nodes
from jobgen.report.facts import AllReduce, Attempt, Checked, Place
from jobgen.report.history import read_number

_MOST_NAME = 253  # characters of a host's name
_MOST_TEXT = 300_000  # characters of the spec, or of the script


class Folder:
    """The run folder of a job, or of one task of an array; `notes` says what is wrong with it."""

    def __init__(self, job: JobRecord) -> None:
        self.job = job
        self.path = job.run_dir
        # A task has its spec and script in the folder of its array.
        self.home = replace(job, id=job.array).run_dir if job.array else job.run_dir
        self.notes: list[str] = []

    def text(self, name: str) -> str | None:
        """A file that was submitted: `script` or `job.yaml`."""
        path = self.home / name
        try:
            text = read_left(path)
        except FileNotFoundError:
            self.notes.append(f"{name} is not in the run folder")
            return None
        except OSError as error:
            self.notes.append(f"{name} cannot be read: {error.strerror}")
            return None
        if len(text) > _MOST_TEXT:
            self.notes.append(f"of {name} only the first {_MOST_TEXT:,} characters are shown")
        return text[:_MOST_TEXT]

    def attempts(self, first_steps: dict[int, float]) -> tuple[Attempt, ...]:
        """Each start of the script."""
        starts = []
        for folder in run_folder.list_attempts(self.path)[self.job.first_attempt :]:
            ended = self._moment(folder / "outcome")
            word, code = self._outcome(folder / "outcome") if ended else (None, None)
            index = int(folder.name)
            began = self._moment(folder / "script") or self._moment(folder / "nodes")
            first = first_steps.get(index)
            if first is not None and began is not None and first < began:
                first = None  # of an earlier job with the same id
            starts.append(Attempt(index, self._nodes(folder), began, first, ended, word, code))
        return tuple(starts)

    def places(self, attempts: tuple[Attempt, ...], plan: Plan | None) -> tuple[Place, ...]:
        """The nodes of the last attempt, and the ranks whose logs are theirs; else the plan's."""
        planned = list(list_nodes(plan)) if plan else []
        nodes = next((attempt.nodes for attempt in reversed(attempts) if attempt.nodes), ())
        if not nodes:
            return tuple(
                Place(f"node {row.node}", row.global_ranks or (), row.gpus, row.cpus)
                for row in planned
            )
        ranks: dict[int, tuple[float, str]] = {}  # where each has written last
        for node in nodes:
            for path in self.path.glob(f"logs/{_escape(node)}/rank-*.out"):
                match = re.fullmatch(r"rank-([0-9]{1,9})\.out", path.name)
                written = self._moment(path)
                if match and written is not None:
                    rank = int(match[1])
                    ranks[rank] = max(ranks.get(rank, (0.0, "")), (written, node))
        at: dict[str, list[int]] = {}
        for rank, (_, node) in sorted(ranks.items()):
            at.setdefault(node, []).append(rank)
        known = planned if len(planned) == len(nodes) else [None] * len(nodes)
        return tuple(
            Place(
                node,
                tuple(at.get(node, ())),
                row.gpus if row else None,
                row.cpus if row else None,
            )
            for node, row in zip(nodes, known, strict=True)
        )

    def preflight(self) -> tuple[tuple[Checked, ...], AllReduce, float | None]:
        """What the nodes told, those alike together; the all-reduce; a GPU's bytes."""
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        sizes, allreduce = [], AllReduce()
        for path in sorted(self.path.glob("preflight/*.json")):
            try:
                content = json.loads(read_left(path))
                report = {str(key): value for key, value in content.items()}
                devices = [dict(device) for device in report.get("devices") or []]
            except (OSError, ValueError, AttributeError, TypeError, RecursionError):
                self.notes.append(f"preflight/{path.name} is no whole record")
                continue
            report["node"] = str(report.get("node") or path.stem)
            kinds = [str(device.get("name")) for device in devices]
            report["kinds"] = ", ".join(
                f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds)
            )
            sizes += [gb for device in devices if (gb := read_number(device.get("gb")))]
            if (speed := read_number(report.get("allreduce_gb_s"))) is not None:
                words = map(_read_text, (report.get("nccl_network"), report.get("warning")))
                allreduce = AllReduce(speed, *words)
            keys = ("python", "torch", "cuda", "driver", "kinds", "lost", "reached")
            groups.setdefault(tuple(str(report.get(key)) for key in keys), []).append(report)
        checked = []
        for members in groups.values():
            first = members[0]
            clocks = [
                abs(off) for one in members if (off := read_number(one.get("clock_s"))) is not None
            ]
            checked.append(
                Checked(
                    nodes=tuple(one["node"] for one in members),
                    python=_read_text(first.get("python")),
                    torch=_read_text(first.get("torch")),
                    cuda=_read_text(first.get("cuda")),
                    driver=_read_text(first.get("driver")),
                    devices=first["kinds"],
                    clock=max(clocks, default=None),
                    problem=_read_text(first.get("lost")) or _read_text(first.get("reached")) or "",
                )
            )
        return tuple(checked), allreduce, min(sizes) * 1e9 if sizes else None

    def _nodes(self, attempt: Path) -> tuple[str, ...]:
        try:
            names = read_left(attempt / "nodes").split()
            return tuple(name for name in names if len(name) <= _MOST_NAME)
        except OSError:
            return ()

    def _outcome(self, path: Path) -> tuple[str | None, int | None]:
        try:
            word, code = read_left(path).split()
            return word, int(code)
        except (OSError, ValueError):
            self.notes.append(f"attempts/{path.parent.name}/outcome is damaged")
            return None, None

    def _moment(self, path: Path) -> float | None:
        try:
            return path.stat().st_mtime
        except OSError:
            return None


def _read_text(value: object) -> str | None:
    return str(value) if value not in (None, "") else None


def _escape(text: str) -> str:
    from glob import escape

    return escape(text)
