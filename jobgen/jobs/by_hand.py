"""Jobs that were started by plain sbatch, qsub or bash: their scripts leave what a record needs.

A script leaves plan.json in its run folder, the header's line for programs, and the id that its
scheduler gave the job. From these the record is made that `jobgen submit` would have made.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from glob import escape, glob
from pathlib import Path

from jobgen.jobs.files import RUNS, read_run_file, write_run_file
from jobgen.jobs.folders import note_folder
from jobgen.jobs.record import PLAN, RECORD, JobRecord, folder_name
from jobgen.rendering import header

_TASK = r"(?<=[0-9])_[0-9]+$"  # of an array, behind its id


def adopt_jobs(folder: str = ".") -> None:
    """Record the jobs below a folder's runs that have no record yet, and note the folder.

    Jobs of other users are left alone.
    """
    for path in glob(f"{escape(folder)}/{RUNS}/*/*/{PLAN}"):
        run_dir = Path(os.path.abspath(path)).parent
        if (run_dir.with_name(re.sub(_TASK, "", run_dir.name)) / RECORD).exists():
            continue
        with contextlib.suppress(OSError, ValueError):
            _adopt_job(run_dir)


def _adopt_job(run_dir: Path) -> None:
    about = header.read_json(read_run_file(run_dir / PLAN).decode())
    job_id = read_run_file(run_dir / "attempts" / "0" / "job").decode().strip()
    if about is None or about.name != run_dir.parent.name:
        return
    named = run_dir.name
    if about.tasks:
        job_id = re.sub(_TASK, "", re.sub(r"\[[0-9]+\]", "[]", job_id))
        named = re.sub(_TASK, "", named)
    if folder_name(job_id) != named:
        return
    script = read_run_file(run_dir / "attempts" / "0" / "script")
    job = JobRecord(
        id=job_id,
        name=about.name,
        scheduler=about.scheduler,
        folder=str(run_dir.parent.parent.parent),
        submitted=os.stat(run_dir / PLAN).st_mtime,
        argv=(),
        tasks=about.tasks,
        together=about.together,
        digest=hashlib.sha256(script).hexdigest(),  # as of a submission of the same
    )
    write_run_file(job.run_dir / "script", script)
    job.save()
    note_folder(job.folder)
