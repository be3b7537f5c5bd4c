"""The files of a run folder; a missing or damaged one becomes a note, never an error."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import Any

from jobgen.jobs import run_folder
from jobgen.jobs.files import get_mtime, read_if_left, read_left
from jobgen.jobs.record import JobRecord
from jobgen.plan.plan import Plan
from jobgen.plan.ranks import list_nodes
from jobgen.report.facts import AllReduce, Attempt, Checked, Place
from jobgen.report.figures import list_numbers

_MOST_NAME = 253  # characters of a host's name
_MOST_TEXT = 300_000  # characters of the spec, or of the script
_ALIKE = ("python", "torch", "cuda", "driver", "kinds")


class Folder:
    """The run folder of a job or a task; `notes` lists its faults."""

    def __init__(self, job: JobRecord) -> None:
        self.job = job
        self.path = job.run_dir
        self.home = job.whole_dir  # a task has its spec and script in that of its array
        self.notes: list[str] = []

    def text(self, name: str) -> str:
        """Return a submitted file, `script` or `job.yaml`; nothing if it cannot be read."""
        text, why = "", "is empty"
        try:
            text = read_left(self.home / name)
        except FileNotFoundError:
            why = "is not in the run folder"
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        if not text:
            self.notes.append(f"{name} {why}")
        elif len(text) > _MOST_TEXT:
            self.notes.append(f"only the first {_MOST_TEXT:,} characters of {name} are shown")
        return text[:_MOST_TEXT]

    def attempts(self, *, over: bool) -> tuple[Attempt, ...]:
        """Return the starts of the script; one that is over ended by its last sign of life."""
        folders = [*map(Path, run_folder.read_traces(self.job).attempts)]
        last = folders[-1] if folders and not over else None
        return tuple(self._read_attempt(one, goes_on=one == last) for one in folders)

    def _read_attempt(self, folder: Path, *, goes_on: bool) -> Attempt:
        began = get_mtime(folder / "script") or get_mtime(folder / "nodes")
        names = read_if_left(folder / "nodes").split()
        nodes = tuple(name for name in names if len(name) <= _MOST_NAME)
        end = self._read_end(folder, goes_on=goes_on)
        return Attempt(int(folder.name), nodes, began or None, *end)

    def _read_end(
        self, folder: Path, *, goes_on: bool
    ) -> tuple[float | None, str | None, int | None]:
        """Return when a start ended, in which word, and with which exit code, as far as known."""
        ended = get_mtime(folder / "outcome") or None
        word, code = run_folder.read_outcome(str(folder))
        if word:
            return ended, word, code
        if ended:
            self.notes.append(f"attempts/{folder.name}/outcome is damaged")
        elif not goes_on:
            ended = max(map(get_mtime, folder.glob("node-*.*")), default=None)
        return ended, None, None

    def list_places(self, attempts: tuple[Attempt, ...], plan: Plan | None) -> tuple[Place, ...]:
        """Return the nodes of the last attempt, role by role."""
        members = plan.roles.members if plan else ()
        plans = {role.name: role.plan for role in members}
        places: list[Place] = []
        for name, role in self.job.roles.items():
            part = Folder(role)
            own = part._list_own_places(part.attempts(over=False), plans.get(name))
            places += [place._replace(role=name) for place in own]
        return tuple(places or self._list_own_places(attempts, plan))

    def _list_own_places(self, attempts: tuple[Attempt, ...], plan: Plan | None) -> list[Place]:
        """Return the nodes of the last attempt, with the ranks by their logs; else the plan's."""
        planned = list(list_nodes(plan)) if plan else []
        nodes = next((attempt.nodes for attempt in reversed(attempts) if attempt.nodes), ())
        if not nodes:
            return [
                Place(f"node {row.node}", row.global_ranks or (), row.gpus, row.cpus)
                for row in planned
            ]
        ranks = self._find_ranks(nodes)
        places = [Place(node, tuple(ranks[node]), None, None) for node in nodes]
        if len(planned) != len(nodes):
            return places
        pairs = zip(places, planned, strict=True)
        return [place._replace(gpus=row.gpus, cpus=row.cpus) for place, row in pairs]

    def _find_ranks(self, nodes: tuple[str, ...]) -> dict[str, list[int]]:
        """Return the ranks of each node: a rank was last where its newest log is."""
        newest: dict[int, tuple[float, str]] = {}
        for node in nodes:
            for path in self.path.glob(f"logs/{escape(node)}/rank-*.out"):
                if match := re.fullmatch(r"rank-([0-9]{1,9})\.out", path.name):
                    rank, here = int(match[1]), (get_mtime(path), node)
                    newest[rank] = max(newest.get(rank, here), here)
        ranks: dict[str, list[int]] = {node: [] for node in nodes}
        for rank, (_, node) in sorted(newest.items()):
            ranks[node].append(rank)
        return ranks

    def preflight(self) -> tuple[tuple[Checked, ...], AllReduce, float | None]:
        """Return the nodes' answers, equal ones together; the all-reduce; a GPU's bytes."""
        answers = list(self._read_preflight())
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for one in answers:
            groups.setdefault(tuple(str(one.get(key)) for key in _ALIKE), []).append(one)
        sizes = list_numbers(device.get("gb") for one in answers for device in one["devices"])
        speeds = list_numbers(one.get("allreduce_gb_s") for one in answers)
        allreduce = AllReduce()
        if speeds:
            allreduce = AllReduce(speeds[-1], *run_folder.read_network(self.path))
        least = min((size * 1e9 for size in sizes if size), default=None)
        return tuple(map(_make_checked, groups.values())), allreduce, least

    def _read_preflight(self) -> Iterator[dict[str, Any]]:
        """Yield each node's answer, with its name and its kinds of GPUs."""
        for path in sorted(self.path.glob("preflight/*.json")):
            try:
                answers: dict[str, Any] = json.loads(read_if_left(path))
                answers["devices"] = [dict(device) for device in answers.get("devices") or []]
            except (ValueError, AttributeError, TypeError, RecursionError):
                self.notes.append(f"preflight/{path.name} is damaged")
                continue
            kinds = Counter(str(device.get("name")) for device in answers["devices"])
            answers["node"] = str(answers.get("node") or path.stem)
            answers["kinds"] = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
            yield answers


def _make_checked(answers: list[dict[str, Any]]) -> Checked:
    first = {key: str(text) for key, text in answers[0].items() if text not in (None, "")}
    clocks = list_numbers(one.get("clock_s") for one in answers)
    return Checked(
        nodes=tuple(one["node"] for one in answers),
        python=first.get("python"),
        torch=first.get("torch"),
        cuda=first.get("cuda"),
        driver=first.get("driver"),
        devices=answers[0]["kinds"],
        clock=max(map(abs, clocks), default=None),
    )
