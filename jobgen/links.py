"""The jobs of a chain: each goes on where the one before has ended, in the first's run folder."""

from __future__ import annotations

from jobgen import process, runs
from jobgen.errors import RefusedError
from jobgen.runs import Job
from jobgen.schedulers.pbs import SCHEDULER as PBS


def queue(script: str, *, text: str, first: str, jobs: int) -> tuple[tuple[str, ...], str]:
    """Submit the jobs of a PBS chain that follow `first`; `text` is what is in the file `script`.

    Returns their ids, and why there are fewer than `jobs` - 1 if PBS has refused one.
    """
    ids = [first]
    while len(ids) < jobs:
        argv = PBS.next_argv(script, text=text, after=ids[-1], first=first)
        try:
            output = process.run(argv)
        except RefusedError as error:
            return tuple(ids[1:]), f"only {len(ids)} of the chain's {jobs} jobs are queued: {error}"
        following = PBS.parse_job_id(output)
        if following is None:
            raise RefusedError(f"qsub printed no job id but {output[:200]!r}")
        ids.append(following)
    return tuple(ids[1:]), ""


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
