"""What a look into the program warns of, where a job's processes have waited for each other."""

from __future__ import annotations

import os
from collections.abc import Iterator

from jobgen.diagnose.cause import CAUSES
from jobgen.diagnose.evidence import Evidence
from jobgen.errors import JobgenError
from jobgen.jobs.files import read_run_file
from jobgen.jobs.record import JobRecord
from jobgen.jobs.recorded import resolve_recorded
from jobgen.plan.plan import Plan
from jobgen.rendering.header import Header
from jobgen.spec.load import load

_OF_WAITING = {cause.id for cause in CAUSES if cause.waits}


def look_into_program(evidence: Evidence, cause: str) -> Iterator[str]:
    """Yield the certain remarks on the program, as it is now, of a job that failed by waiting.

    The program is looked for in the current folder, as it was when the job was submitted.
    """
    if cause not in _OF_WAITING or evidence.plan is None:
        return
    from jobgen.programs import look_at

    if plan := _resolve_recorded(evidence.job, evidence.plan):
        remarks = (one for part in plan.parts for one in look_at(part) if one.certain)
        yield from (f"{one.path}:{one.line}: {one.message}; {one.hint}" for one in remarks)


def _resolve_recorded(job: JobRecord, about: Header) -> Plan | None:
    """Return the plan of the recorded spec; None without one, or in another folder."""
    try:
        if not os.path.samefile(job.folder, os.curdir):
            return None
        text = read_run_file(job.whole_dir / "job.yaml").decode()
        return resolve_recorded(load(f"{text}\n", about.overrides, alone=True), about)
    except (JobgenError, OSError, ValueError):
        return None
