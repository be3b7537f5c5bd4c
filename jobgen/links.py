"""The jobs of a chain: each goes on where the one before has ended, in the first's run folder."""

from __future__ import annotations

from jobgen import runs
from jobgen.runs import Job


def ids(job: Job) -> list[str]:
    """The ids of all jobs of the chain that are known, in order; of most jobs there is just one."""
    found = [job.id, *job.links]
    while True:  # a job of Slurm notes the one that it has submitted
        following = job.run_dir / "attempts" / f"after-{found[-1]}"
        if not following.is_file():
            return found
        found.append(following.read_text().strip().partition(";")[0])


def left(job: Job) -> list[str]:
    """Those of `ids` that can be running or waiting: the one of the last start, and the ones after.

    Where that start was ended so that the next one goes on, it is not among them, unless the next
    one has the same id.
    """
    found = ids(job)
    own = runs.attempts(job.run_dir)[job.first_attempt :]
    try:
        last = (own[-1] / "job").read_text().strip()
    except (IndexError, FileNotFoundError):
        return found
    index = next((i for i, id in enumerate(found) if id.partition(".")[0] == last), 0)
    outcome = runs.outcome(job)
    if outcome and outcome[0] == "continued" and index + 1 < len(found):
        index += 1
    return found[index:]
