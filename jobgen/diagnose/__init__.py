"""The first cause of a job's failure, not its last symptom, with what shows it and what to do.

What the scheduler says decides; then the first process that failed on its own, with all that failed
alike; then the first node, then the script. That others lost their connection to it is a
consequence. If processes only waited, it is the one that they waited for. A job that is alive is
judged by its progress.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from glob import escape, glob
from itertools import islice

from jobgen.diagnose.cause import BEGIN_AGAIN, COPY, FOLDER, GO_ON, NOT_READY, ROLE_ENDED, TIMEOUT
from jobgen.diagnose.diagnosis import Diagnosis
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.exceptions import find_tracebacks
from jobgen.diagnose.judge import Judge
from jobgen.diagnose.odd import find_slow
from jobgen.jobs import run_folder
from jobgen.jobs.code import name_copy
from jobgen.jobs.files import read_if_left
from jobgen.jobs.record import JobRecord, list_reruns
from jobgen.jobs.verdicts import read_bad_nodes, read_verdicts
from jobgen.output import format_count, offer_line
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import State

__all__ = ["Diagnosis", "diagnose", "find_failure"]

_MOST_TASKS = 10  # of an array, which are told of beside the first
# How one role says that another, its server, has not answered it.
_OF_SERVERS = re.compile(r"[Cc]onnect|Remote|HTTP|[Tt]imed? ?out|URLError|reset by peer")


def find_failure(job: JobRecord, state: State, *, now: float) -> Diagnosis | None:
    """Say what is wrong with a job that has failed; None of one that has not."""
    if not state.ended or state.name in ("done", "cancelled"):
        return None
    return diagnose(job, state, now=now)


def diagnose(job: JobRecord, state: State, *, now: float) -> Diagnosis:
    """Say what is wrong with `job`, which stands as `state` says at the moment `now`.

    Of an array it is the first task that has failed by its own record, with the others named; of
    several roles the one that the script has named.
    """
    if failed := _list_failed_tasks(job):
        return _diagnose_tasks(job, failed, now=now)
    evidence, left = Evidence(job), run_folder.read_traces(job)
    next_start = _tell_next_start(evidence, left, state)
    role, words = evidence.find_role() if state.name != "queued" else ("", "")
    if followed := role or _find_followed(job, state):
        evidence = Evidence(job, followed)
    diagnosis = Judge(evidence, state, now=now).judge()
    diagnosis = diagnosis._replace(role=role or followed * bool(diagnosis.node))
    if role and (diagnosis.cause in ("unknown", ROLE_ENDED.id) or " was not ready " in words):
        diagnosis = _tell_of_role(diagnosis, words)
    if diagnosis.cause not in ("healthy", "cancelled"):
        diagnosis = diagnosis._replace(remedy=next_start.replace("REMEDY", diagnosis.remedy))
    judged = [*read_verdicts(left.attempts), *read_bad_nodes(job.run_folder)]
    return diagnosis._replace(
        verdicts=tuple(map(str, judged)),
        remedy=_name_reruns(job, _fill_in(diagnosis.remedy, job, diagnosis.node or "NODE")),
        warnings=tuple(_list_warnings(evidence, diagnosis)),
    )


def _tell_next_start(evidence: Evidence, left: run_folder.Traces, state: State) -> str:
    """What to do, with `REMEDY` in it, where a start is ending and the script may begin another."""
    if not (left.last and _is_ending(left.last, state)):
        return "REMEDY"
    number = int(os.path.basename(left.last)) + 1
    if left.word == "continued":
        return f"wait: start {number + 1} follows by itself"
    if left.cancelled or not _has_starts_left(evidence, left.last, number):
        return "REMEDY"
    return f"wait: start {number + 1} may follow by itself; if it does not: REMEDY"


def _is_ending(start: str, state: State) -> bool:
    failed = glob(f"{escape(start)}/failed") + glob(f"{escape(start)}/start-of-*/failed")
    return state.name in ("stopping", "running" if failed else "")


def _has_starts_left(evidence: Evidence, start: str, number: int) -> bool:
    if "stop" in {one.verdict for one in read_verdicts([start])}:
        return False
    most = evidence.plan.at_most if evidence.plan else 0
    counted = number - evidence.job.counted_from
    return (most or 0) > counted or "\nrestarts=" in read_if_left(f"{start}/script")


def _find_followed(job: JobRecord, state: State) -> str:
    """The role by which a job is judged of which none has failed: the last, whose end is its."""
    return ["", *job.roles][-1] if state.name in ("running", "stopping", "timeout") else ""


def _tell_of_role(diagnosis: Diagnosis, words: str) -> Diagnosis:
    """Return it in the script's own words of how a role ended."""
    raised = f"; it had raised {diagnosis.exception}" if diagnosis.exception else ""
    title = re.split(r"(?:: rank \d+ on \S+)?,? (?:by|see) /", words)[0]
    diagnosis = diagnosis._replace(title=f"{title}{raised}")
    if " was not ready " in words and not raised:
        return diagnosis._replace(cause=NOT_READY.id, remedy=NOT_READY.remedy)
    return diagnosis


def _name_reruns(job: JobRecord, remedy: str) -> str:
    """Put before a remedy which jobs do the job again."""
    reruns = ", ".join(list_reruns(job))
    words = f"it was rerun as {reruns}: look at that first; here: "
    return words + remedy if reruns and remedy else remedy


def _fill_in(remedy: str, job: JobRecord, node: str) -> str:
    """Put the scheduler's own terms into a remedy, and the job that it is about."""
    advice = SCHEDULERS[job.scheduler].advice._asdict()
    held = run_folder.read_traces(job).open_chain[0]  # of a chain the one whose turn it is
    advice["release"] = advice["release"].replace("ID", offer_line(held))
    advice["leave_out"] = advice["leave_out"].replace("NODE", node)
    has_copy = os.path.isdir(os.path.join(job.folder, name_copy(job.name, job.token)))
    advice["folder"] = COPY if has_copy and job.token else FOLDER
    advice["go_on_there"] = BEGIN_AGAIN if job.array else GO_ON
    return remedy.format(**advice).replace("JOB", offer_line(job.id))


def _list_failed_tasks(job: JobRecord) -> dict[int, int]:
    """The tasks of an array that have failed by their own record, each with its exit code."""
    left = enumerate(map(run_folder.read_traces, job.parts if job.tasks else ()))
    return {index: task.code for index, task in left if task.word == "failed"}


def _diagnose_tasks(job: JobRecord, failed: dict[int, int], *, now: float) -> Diagnosis:
    """The first in full, and of each other one in a line what its own folder tells."""
    first, *others = (
        diagnose(job.task(index), State("failed", f"exit code {code}"), now=now)
        for index, code in islice(failed.items(), 1 + _MOST_TASKS)
    )
    indices = islice(failed, 1, None)
    named = [
        f"task {index}: {one.headline} [{one.cause}]"
        for index, one in zip(indices, others, strict=False)
    ]
    if (more := len(failed) - 1 - len(named)) > 0:
        named.append(format_count(more, "more task"))
    return first._replace(besides=(*first.besides, *named))


def _list_warnings(evidence: Evidence, diagnosis: Diagnosis) -> Iterator[str]:
    """What preflight, the trainer and other roles have told besides."""
    yield from filter(None, run_folder.read_network(evidence.run_dir)[1:])
    if diagnosis.cause == TIMEOUT.id or not diagnosis.exception:
        yield from find_slow(evidence)
    if evidence.role and _OF_SERVERS.search(diagnosis.exception):
        yield from _list_errors(evidence.job, evidence.role)


def _list_errors(job: JobRecord, role: str) -> Iterator[str]:
    """The last exception in the log of each process of the other roles, which may go on."""
    others = {folder.name for folder in job.run_dir.glob("roles/*")} - {role}
    for other in sorted(others):
        evidence = Evidence(job, other)
        for rank, log in evidence.logs.items():
            for traceback in find_tracebacks(log)[-1:]:
                place = traceback.chain[-1].place
                at = f", at {place}" if place else ""
                who = f"{other} rank {rank} on {evidence.ranks[rank]}"
                yield f"{who} had printed {traceback.words}{at}"
