"""What a job's script has left in its run folder: attempts, outcome, signs of life, its chain.

It tells how a job stands when the scheduler cannot: a scheduler may have forgotten a job minutes
after its end, or not know it where it is asked.
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
from jobgen.jobs.record import JobRecord, open_left, read_left, write_run_file
from jobgen.rendering import header
from jobgen.schedulers.base import State, folder_name

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
_CANCEL = "cancelled"
# What the script prints at its walltime, or PBS as it ends a job there.
_AT_WALLTIME = r"ENDED by the (walltime|end of)|^=>> PBS: job killed: walltime"


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


def read_traces(job: JobRecord) -> Traces:
    """Return what the script has left; nothing of a folder that is missing or unreadable."""
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
        word, code = read_left(f"{last}/outcome").split()
        return Traces(run_dir, len(own), last, word, int(code))
    except (OSError, ValueError):
        return Traces(run_dir, len(own), last)


def list_attempts(run_dir: Path) -> list[Path]:
    """Return the folders of the attempts in a run folder, in order."""
    folders = [path for path in run_dir.glob("attempts/*") if path.name.isdecimal()]
    return sorted(folders, key=lambda path: int(path.name))


def read_outcome(job: JobRecord) -> tuple[str, int] | None:
    """Return how the last attempt ended by the script's own word, with the exit code.

    The word is done, failed, cancelled, or continued if another start goes on. None while it runs,
    or before it began. An array ends with its last task, and well if all have.
    """
    traces = read_traces(job)
    if not job.tasks or traces.attempts:  # a local array has a record of its own
        return (traces.word, traces.code) if traces.word else None
    outcomes = []
    for index in range(job.tasks):
        if (outcome := read_outcome(job.task(index))) is None:
            return None
        outcomes.append(outcome)
    return next((outcome for outcome in outcomes if outcome[0] != "done"), outcomes[0])


def read_nodes(job: JobRecord) -> list[str]:
    """Return the short names of the nodes of the last attempt, in the order of their ranks."""
    try:
        lines = read_left(f"{read_traces(job).last}/nodes").splitlines()
        return [line.strip().partition(".")[0] for line in lines if line.strip()]
    except (OSError, ValueError):
        return []


def list_chain(job: JobRecord) -> list[str]:
    """Return the ids of all jobs of the chain that are known, in order; most jobs have just one.

    The jobs of a chain go on where the one before has ended, all in the first one's run folder.
    """
    ids = [job.id, *job.links]
    while True:  # a job of Slurm notes the one that it has submitted
        try:
            text = read_left(f"{job.run_folder}/attempts/after-{ids[-1]}")
        except OSError:
            return ids
        following = text.strip().partition(";")[0]
        if not re.fullmatch(r"[0-9]+", following) or following in ids:
            return ids  # damaged
        ids.append(following)


def list_open_chain(job: JobRecord, traces: Traces) -> list[str]:
    """Return the ids of the chain that may be queued or running: of the last start, and later ones.

    If that start was ended so that the next one goes on, it is not among them, unless the next one
    has the same id.
    """
    ids = list_chain(job)
    try:
        last = read_left(f"{traces.last}/job").strip() if traces.last else ""
    except (OSError, ValueError):
        return ids
    if not last:
        return ids
    index = next((i for i, id in enumerate(ids) if id.partition(".")[0] == last), 0)
    if traces.word == "continued" and index + 1 < len(ids):
        index += 1
    return ids[index:]


def judge_done(traces: Traces) -> State:
    """Return the state of a job whose script ended with 0: it may have been asked to stop."""
    early = os.path.exists(f"{traces.run_dir}/STOPPED")
    return State("done", "it stopped early, in order" if early else "")


def judge_outcome(job: JobRecord, traces: Traces) -> State | None:
    """Return how the job ended if its script alone can tell; None if it runs or was told to end."""
    if traces.word == "done":
        return judge_done(traces)
    if traces.word != "failed":
        return None
    if lost := _read_lost_nodes(traces.last):
        return State("node lost", f"no sign of life from {', '.join(lost)}")
    if traces.code == _SIGTERM and re.search(_AT_WALLTIME, _read_output(job, traces), re.M):
        return State("timeout", "its script has ended it at its walltime")
    return State("failed", f"exit code {traces.code}{_BY_SIGNAL.get(traces.code, '')}")


def get_end(traces: Traces) -> float:
    """Return when the outcome was written."""
    return _get_mtime(f"{traces.last}/outcome")


def is_told_to_end(traces: Traces) -> bool:
    """Return whether its script says that it had a signal or has reached its walltime."""
    return traces.word == "cancelled" or (traces.word == "failed" and traces.code == _SIGTERM)


def judge_folder(job: JobRecord, traces: Traces, why: str, *, gone: bool) -> State:
    """Guess how a job stands that the scheduler does not know (`gone`) or does not tell."""
    if traces.word == "cancelled":
        ran, limit = get_end(traces) - _get_start(traces), read_walltime(traces)
        if limit is not None and ran + _SLACK_SECONDS >= limit:
            return State("timeout", "it was told to end when its walltime was over")
        return State("cancelled")
    if traces.word == "continued":
        return State("unknown", f"it was to go on in another start; {why}")
    signs = (
        [_get_mtime(path) for path in iglob(f"{traces.last}/node-*.alive")] if traces.last else []
    )
    if signs and time.time() - max(signs) < _ALIVE_SECONDS:
        return State("running", f"by the signs of life of its nodes; {why}", *read_times(traces))
    if gone and not traces.attempts and os.path.exists(f"{traces.run_dir}/{_CANCEL}"):
        return State("cancelled", "it had not begun")
    if traces.attempts and gone:
        ended = "it has left no outcome: it was killed, or its first node was lost"
        return State("failed", f"{ended}; {why}")
    begun = "it has begun, and left no outcome" if traces.attempts else "it has not begun here"
    return State("unknown", f"{begun}; {why}")


def read_times(traces: Traces) -> tuple[float | None, float | None]:
    """Return when the last attempt began and when its walltime ends, as far as the script knows."""
    began, limit = _get_start(traces), read_walltime(traces)
    return began or None, began + limit if began and limit is not None else None


def read_walltime(traces: Traces) -> int | None:
    """Return the seconds that the submitted script asks for; None if it does not."""
    try:
        script = read_left(f"{traces.last}/script")
    except (OSError, ValueError):
        return None
    about = header.read(script)
    return about.walltime if about else None


def note_cancel(job: JobRecord) -> None:
    """Keep that the job was cancelled: one that has not begun may leave no other trace."""
    with contextlib.suppress(OSError):  # another user's job, or a full disk
        write_run_file(job.run_dir / _CANCEL, "", sync=False)


def is_cancelled(job: JobRecord) -> bool:
    """Return whether jobgen has cancelled the job, or the array that it is a task of."""
    folder = job.run_dir.with_name(folder_name(job.array or job.id))
    return (folder / _CANCEL).exists()


def keep_state(job: JobRecord, traces: Traces, state: State) -> None:
    """Keep what the scheduler says of the job's end, which it may soon forget."""
    kept = {"state": state.name, "reason": state.reason, **_identify_start(job, traces)}
    with contextlib.suppress(OSError):  # somebody else's job, or a full disk: it is asked for again
        write_run_file(Path(traces.run_dir, _NOTE), json.dumps(kept) + "\n", sync=False)


def read_state(job: JobRecord, traces: Traces) -> State | None:
    """Return what `keep_state` has kept, unless the job has been started again since."""
    try:
        kept = json.loads(read_left(f"{traces.run_dir}/{_NOTE}"))
        same = {key: kept[key] for key in _identify_start(job, traces)} == _identify_start(
            job, traces
        )
        return State(kept["state"], kept["reason"]) if same else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _identify_start(job: JobRecord, traces: Traces) -> dict[str, float]:
    """Return what another start changes, or another job whose id the scheduler uses again."""
    return {"attempts": traces.attempts, "submitted": job.submitted}


def _read_lost_nodes(attempt: str) -> list[str]:
    """Return the nodes whose loss made the script end the others."""
    try:
        word, *nodes = read_left(f"{attempt}/failed").split()
    except (OSError, ValueError):
        return []
    return nodes if word == "lost" else []


def _read_output(job: JobRecord, traces: Traces) -> str:
    """Return the end of what the script itself has printed."""
    try:
        job_id = read_left(f"{traces.last}/job").strip()  # the last one of a chain
    except OSError:
        job_id = job.id
    name = schedulers.get_scheduler(job.scheduler).output_file(job.name, job_id)
    try:
        with open_left(os.path.join(job.folder, name)) as output:
            output.seek(max(0, os.fstat(output.fileno()).st_size - 4096))
            return output.read().decode(errors="replace")
    except OSError:
        return ""


def _get_start(traces: Traces) -> float:
    return _get_mtime(f"{traces.last}/script")  # copied there at the beginning


def _get_mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


# What the libraries print at a run's end, and W&B at its beginning too: `View run at https://...`,
# `View run NAME at: https://...`.
_TRACKED = re.compile(
    rb"View run\b[^\n]{0,200}?\bat:?(?:\x1b\[[0-9;]*m| )+(https?://[\x21\x23-\x7e]{1,400})"
)
_OF_A_LOG = 64 * 1024  # bytes of its beginning, and of its end
_MOST_LOGS = 64


def find_tracked(run_dir: Path) -> tuple[str, ...]:
    """Return the addresses of the W&B or MLflow runs that the job's processes have named."""
    addresses: dict[str, None] = {}
    for path in sorted(run_dir.glob("logs/*/rank-*"), key=_sort_logs)[:_MOST_LOGS]:
        with contextlib.suppress(OSError), open_left(path) as file:
            text = file.read(_OF_A_LOG)
            file.seek(max(len(text), os.fstat(file.fileno()).st_size - _OF_A_LOG))
            for address in _TRACKED.findall(text + file.read()):
                addresses.setdefault(address.rstrip(b".,;)'").decode("ascii"))
    return tuple(addresses)


def _sort_logs(path: Path) -> tuple[int, str]:
    """The first ranks first: it is they who track."""
    rank = path.stem.removeprefix("rank-")
    return (int(rank) if rank.isdecimal() else 10**9, path.name)
