"""The state of PBS jobs: qstat, with the server's history if it keeps one (qstat(1B))."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Iterator, Mapping, Sequence

from jobgen.errors import RefusedError
from jobgen.schedulers import base
from jobgen.schedulers.pbs import qstat
from jobgen.spec.units import parse_clock

_STATES: dict[str, base.StateName] = {
    **dict.fromkeys("QHWTM", "queued"),
    **dict.fromkeys("RBSU", "running"),
    "E": "stopping",
}
# Exit_status, but for a program's own (JOB_EXEC_* of OpenPBS's job.h; 256 + N is signal N).
_ENDS: dict[str, base.StateName] = {
    "0": "done",
    "": "cancelled",
    **dict.fromkeys(("-14", "-20"), "node lost"),  # another node, the first
    "-29": "timeout",
}
# How a comment ends: `Job run at ... on (n1:ncpus=1) and terminated by alice@login`.
_TERMINATED = re.compile(r"\band terminated(?: (by \S+))?\s*$")
# Comments on a job's last start, or on other tasks; and on what it lacked before it was held.
_BEGAN = ("Job run at ", "Job Array Began at ")
_LACKED = ("Not Running", "Insufficient ")
_UNKNOWN = re.compile(r"q(stat|del): (Unknown Job Id|(\S+ )?Job has finished)")


def make_environment(around: Mapping[str, str]) -> dict[str, str]:
    return dict(around)


def make_query(ids: Sequence[str]) -> list[str]:
    """Return `qstat` for queued and running jobs, and the tasks of arrays."""
    return qstat.argv(ids, tasks=any("[]" in id for id in ids))


def make_history_query(ids: Sequence[str]) -> list[str]:
    """Return `qstat -x`, which lists ended jobs if the server keeps a history."""
    return qstat.argv(ids, tasks=any("[]" in id for id in ids), ended=True)


def knows_none(refusal: str) -> bool:
    lines = [line for line in refusal.splitlines() if line.strip()]
    return bool(lines) and all(_UNKNOWN.search(line) for line in lines)


def is_plain(state: base.State) -> bool:
    return state.reason.startswith("Exit_status")


def read_states(output: str) -> tuple[dict[str, base.State], str]:
    """Return states by ID, such as `12[3].server`, and a line that is not about a job."""
    jobs, stray = qstat.split(output)
    states: dict[str, base.State] = {}
    for job_id, job in jobs:
        base.add_state(states, job_id, _read_state(job))
    return states, stray


read_history = read_states  # of ended jobs; nothing without a history


def _read_end(status: str, comment: str) -> tuple[base.StateName, str]:
    """Return the name of the state of an ended job, and why it is so."""
    by = _TERMINATED.search(comment)
    who = (by and by[1]) or ""
    if by and status in ("265", "271"):  # by SIGTERM, or at once: 265 is SIGKILL
        return "cancelled", who
    name = _ENDS.get(status, "failed")
    if name not in ("done", "cancelled"):
        return name, f"Exit_status {status}"
    return name, who


def _read_state(job: dict[str, str]) -> base.State:
    letter, start = job.get("job_state", ""), _parse_time(job.get("stime"))
    comment = job.get("comment", "")
    if letter in ("F", "X"):
        # Without a history, a task is shown with the array's attributes and Exit_status, which is
        # that of the task that ended last (status_subjob of OpenPBS's stat_job.c).
        if re.match("Subjob f(inish|ail)ed", comment):
            return base.PAST
        name, reason = _read_end(job.get("Exit_status", ""), comment)
        return base.State(name, reason, start)
    name = _STATES.get(letter, "unknown")
    if name == "queued":
        expected = _parse_time(job.get("estimated.start_time"))
        return base.State(name, _read_reason(letter, comment) or _read_hold(job), expected)
    walltime = parse_clock(job.get("Resource_List.walltime"))
    limit = start + walltime if start is not None and walltime is not None else None
    return base.State(name, "suspended" if letter in ("S", "U") else "", start, limit)


def _read_reason(letter: str, comment: str) -> str:
    """Return what the scheduler says of a queued job that it now considers, or holds by itself."""
    past = (*_BEGAN, *_LACKED) if letter == "H" else _BEGAN
    return "" if comment.startswith(past) else comment


def _read_hold(job: dict[str, str]) -> str:
    """Return why a job is not considered: it is held, or waits for other jobs."""
    if job.get("job_state") != "H":
        return ""
    depend = job.get("depend", "")
    by = {"u": "its owner: release it with qrls", "o": "an operator", "s": "the system"}
    hold = next((by[kind] for kind in job.get("Hold_Types", "") if kind in by), "")
    waits = [f"{base.DEPENDENT}: {depend}"] if depend else []
    if not depend or hold not in ("", "the system"):  # which holds what waits
        waits.append(f"the job is held by {hold or 'PBS'}")
    return "; ".join(waits)


def _parse_time(word: object) -> float | None:
    """A time as ctime(3) writes it, in this machine's zone, as qstat does."""
    try:
        return time.mktime(time.strptime(str(word)))
    except (ValueError, OverflowError):
        return None


def ask_more(job_id: str, state: base.State, ask: base.Ask) -> base.State:
    return state  # qstat has told all


def list_own_jobs(ask: base.Ask, since: float) -> Iterator[base.OwnJobs]:
    """qselect has the ids, qstat the arguments; with -x those of ended jobs, if PBS keeps them.

    All are one list: the first jobs of a chain may have ended while the others wait.
    """
    user = pwd.getpwuid(os.geteuid()).pw_name
    start = time.strftime("%Y%m%d%H%M.%S", time.localtime(since - base.CLOCKS))
    jobs: dict[str, str] = {}
    for ended in (False, True):
        listing = ask(["qselect", *(["-x"] if ended else []), "-u", user, f"-tc.ge.{start}"])
        ids = listing.split()
        whole = not listing or listing.endswith("\n")  # half of an id may be another's
        if not whole or not all(map(qstat.parse_job_id, ids)):
            raise RefusedError(f"qselect printed no ids of jobs but {listing[:200]!r}")
        if not (new := [job_id for job_id in ids if job_id not in jobs]):
            continue
        answer = ask(qstat.argv(new, ended=ended))
        try:
            shown = qstat.parse(answer)
        except ValueError:
            raise RefusedError(f"qstat printed no jobs but {answer[:200]!r}") from None
        jobs |= {job_id: job.get("Submit_arguments", "") for job_id, job in shown.items()}
    yield list(jobs.items())
