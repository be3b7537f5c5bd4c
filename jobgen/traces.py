"""How a job stands by what its script has left in the run folder, for when nobody else can tell.

A scheduler may have forgotten a job minutes after its end, or not know it where it is asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from glob import iglob
from pathlib import Path
from typing import NamedTuple

from jobgen import schedulers
from jobgen.runs import Job, write_atomically
from jobgen.schedulers.base import State

# Nodes give a sign of life every 20 s; a file server, its caches and clocks may be minutes behind.
_ALIVE_SECONDS = 300
# What a job may have run less than its walltime when it is told to end: it began before its script.
_SLACK_SECONDS = 30
_SIGTERM = 143  # as bash counts it
_BY_SIGNAL = {
    137: ", killed: it may have had too little memory",
    _SIGTERM: ", told to end from outside: it may have been preempted",
}
_NOTE = "state.json"


class Traces(NamedTuple):
    """Of one job or task: how many attempts there were, and the outcome of the last.

    `word` is empty before its end, else done, failed, cancelled (ended by a signal) or continued
    (it is to go on in another start).
    """

    run_dir: str
    attempts: int = 0
    last: str = ""
    word: str = ""
    code: int = 0


def read(job: Job) -> Traces:
    """What there is. A folder that is missing, or may not be read, has nothing."""
    run_dir = job.run_folder
    try:
        names = os.listdir(f"{run_dir}/attempts")
    except OSError:
        return Traces(run_dir)
    own = sorted(int(name) for name in names if name.isdecimal())[job.first_attempt :]
    if not own:
        return Traces(run_dir)
    last = f"{run_dir}/attempts/{own[-1]}"
    try:
        with open(f"{last}/outcome", encoding="utf-8") as file:
            word, code = file.read().split()
        return Traces(run_dir, len(own), last, word, int(code))
    except (OSError, ValueError):
        return Traces(run_dir, len(own), last)


def final(job: Job, traces: Traces) -> State | None:
    """How it ended, where its script alone can tell; None where it has not, or was told to."""
    if traces.word == "done":
        return State("done")
    if traces.word != "failed":
        return None
    if lost := _lost_nodes(traces.last):
        return State("node lost", f"no sign of life from {', '.join(lost)}")
    if traces.code == _SIGTERM and re.search(
        r"ENDED by the (walltime|end of)", _output(job, traces)
    ):
        return State("timeout", "its script has ended it at its walltime")
    return State("failed", f"exit code {traces.code}{_BY_SIGNAL.get(traces.code, '')}")


def ended_at(traces: Traces) -> float:
    """When the outcome was written."""
    return _changed(f"{traces.last}/outcome")


def told_to_end(traces: Traces) -> bool:
    """Whether its script has had a signal, or has come to the walltime, and says so already."""
    return traces.word == "cancelled" or (traces.word == "failed" and traces.code == _SIGTERM)


def by_folder(job: Job, traces: Traces, why: str, *, gone: bool) -> State:
    """How it probably stands, where the scheduler does not know it (`gone`) or has not answered."""
    if traces.word == "cancelled":
        ran, limit = ended_at(traces) - _began(traces), walltime(traces)
        if limit is not None and ran + _SLACK_SECONDS >= limit:
            return State("timeout", "it was told to end when its walltime was over")
        return State("cancelled")
    if traces.word == "continued":
        return State("unknown", f"it was to go on in another start; {why}")
    signs = [_changed(path) for path in iglob(f"{traces.last}/node-*.alive")] if traces.last else []
    if signs and time.time() - max(signs) < _ALIVE_SECONDS:
        return State("running", f"by the signs of life of its nodes; {why}", *running(traces))
    if traces.attempts and gone:
        ended = "it has left no outcome: it was killed, or its first node was lost"
        return State("failed", f"{ended}; {why}")
    begun = "it has begun, and left no outcome" if traces.attempts else "it has not begun here"
    return State("unknown", f"{begun}; {why}")


def running(traces: Traces) -> tuple[float | None, float | None]:
    """When the last attempt began, and when its walltime ends as far as the script knows."""
    began, limit = _began(traces), walltime(traces)
    return began or None, began + limit if began and limit is not None else None


def walltime(traces: Traces) -> int | None:
    """Seconds, by the script that was submitted; None where it says nothing."""
    try:
        with open(f"{traces.last}/script", encoding="utf-8") as file:
            script = file.read()
    except (OSError, ValueError):
        return None
    asked = re.findall(r"^#(?:SBATCH --time=|PBS -l walltime=)(\d+):(\d\d):(\d\d)$", script, re.M)
    if asked:
        hours, minutes, seconds = map(int, asked[-1])
        return hours * 3600 + minutes * 60 + seconds
    local = re.search(r'stop="the walltime of (\d+) s"', script)
    return int(local[1]) if local else None


def note(job: Job, traces: Traces, state: State) -> None:
    """Keep what the scheduler has said of the job's end, which it may soon have forgotten."""
    said = {"state": state.name, "reason": state.reason, **_key(job, traces)}
    with contextlib.suppress(OSError):  # somebody else's job, or a full disk: it is asked for again
        write_atomically(Path(traces.run_dir, _NOTE), json.dumps(said) + "\n")


def noted(job: Job, traces: Traces) -> State | None:
    """What `note` has kept, unless the job has been started again since."""
    try:
        with open(f"{traces.run_dir}/{_NOTE}", encoding="utf-8") as file:
            said = json.load(file)
        same = {key: said[key] for key in _key(job, traces)} == _key(job, traces)
        return State(said["state"], said["reason"]) if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _key(job: Job, traces: Traces) -> dict[str, float]:
    """What another start changes, or another job with an id that the scheduler uses again."""
    return {"attempts": traces.attempts, "submitted": job.submitted}


def _lost_nodes(attempt: str) -> list[str]:
    """Those that were lost, where that is why the script has ended the others."""
    try:
        with open(f"{attempt}/failed", encoding="utf-8") as file:
            word, *nodes = file.read().split()
    except (OSError, ValueError):
        return []
    return nodes if word == "lost" else []


def _output(job: Job, traces: Traces) -> str:
    """The end of what the script itself has printed."""
    try:
        with open(f"{traces.last}/job", encoding="utf-8") as file:  # the last one of a chain
            job_id = file.read().strip()
    except OSError:
        job_id = job.id
    name = schedulers.get(job.scheduler).output_file(job.name, job_id)
    try:
        with open(os.path.join(job.folder, name), "rb") as output:
            output.seek(max(0, os.fstat(output.fileno()).st_size - 4096))
            return output.read().decode(errors="replace")
    except OSError:
        return ""


def _began(traces: Traces) -> float:
    return _changed(f"{traces.last}/script")  # copied there at the beginning


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
