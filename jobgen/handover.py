"""Give a script to a scheduler: at most once, and whatever it answers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence

from jobgen import process
from jobgen.errors import (
    NoAnswerError,
    RefusedError,
    SchedulerUnavailableError,
    UnsettledError,
)
from jobgen.intents import Intent
from jobgen.schedulers.pbs import SCHEDULER as PBS
from jobgen.schedulers.submitted import PLACES

# A command that fails with such words may have been heard all the same.
_HEARD_PERHAPS = re.compile(
    r"timed?[ -]?out|zero bytes|reset by peer|broken pipe|end of file|endpoint|"
    r"(send|receive|shutdown) failure|unexpected message|killed",
    re.IGNORECASE,
)
# With these it was not: nobody was there to hear it.
_NOT_HEARD = re.compile(r"connect failure|cannot connect|connection refused", re.IGNORECASE)


def search(scheduler: str, tokens: Iterable[str], *, since: float) -> Mapping[str, list[str]]:
    """The ids of the jobs of submissions that the scheduler knows, in its order.

    Raises RefusedError or SchedulerUnavailableError where it does not say.
    """
    found: dict[str, list[str]] = {token: [] for token in tokens}
    for listed in PLACES[scheduler](process.run, since):
        for job_id, words in listed:
            for token, ids in found.items():
                if token in words and job_id not in ids:
                    ids.append(job_id)
        if all(found.values()):
            break
    return {token: sorted(ids, key=_number) for token, ids in found.items()}


def hand_over(intent: Intent, argv: Sequence[str], *, known: list[str]) -> tuple[str, str]:
    """Run the command that submits; the job's id, and a warning where it was hard to come by.

    `known` are the ids of the jobs that were submitted before of the same intent. Raises
    RefusedError or SchedulerUnavailableError where there is surely no job, UnsettledError where
    nobody knows, and OSError where its answer could not be kept, and it was not run.
    """
    heard = True
    try:
        process.run_into(argv, output=intent.output, errors=intent.errors)
        failure = ""
    except NoAnswerError as error:
        failure = str(error)
    except RefusedError as error:
        failure = str(error)
        heard = _HEARD_PERHAPS.search(failure) is not None
    ids = intent.ids()
    if ids[:-1] == known and ids:
        return ids[-1], f"{failure}; but it has printed the id of a job" if failure else ""
    if _NOT_HEARD.search(failure):
        raise SchedulerUnavailableError(failure)
    if not failure:
        printed = intent.output.read_text(errors="replace")
        failure = f"{argv[0]} printed no job id but {printed[:200]!r}"
    try:
        since = intent.job.submitted
        seen = search(intent.job.scheduler, [intent.token], since=since)[intent.token]
    except (RefusedError, SchedulerUnavailableError) as error:
        raise UnsettledError(f"{failure}; whether there is a job is not known: {error}") from None
    if found := [job_id for job_id in seen if job_id not in known]:
        with contextlib.suppress(OSError):  # in the place of what was no answer
            intent.output.write_text("".join(f"{job_id}\n" for job_id in [*known, found[0]]))
        return found[0], f"{failure}; but there is the job"
    if heard:
        raise UnsettledError(f"{failure}; there is no job yet, but one may still come of it")
    raise RefusedError(failure)


def queue_links(intent: Intent, ids: list[str], text: str) -> list[str]:
    """Submit the jobs of a PBS chain that follow the first of `ids`, and add theirs; warnings.

    Raises UnsettledError as `hand_over` does.
    """
    warnings = []
    script = str(intent.file.relative_to(intent.job.folder))
    while len(ids) < intent.jobs:
        argv = PBS.next_argv(script, text=text, after=ids[-1], first=ids[0])
        try:
            following, warning = hand_over(intent, argv, known=ids)
        except UnsettledError as error:
            raise UnsettledError(f"{only(ids, intent.jobs)}: {error}") from None
        except (RefusedError, SchedulerUnavailableError, OSError) as error:
            warnings.append(f"{only(ids, intent.jobs)}: {error}")
            break
        ids.append(following)
        warnings += filter(None, [warning])
    return warnings


def only(ids: Sequence[str], jobs: int) -> str:
    """That a chain is shorter than it should be."""
    return f"only {len(ids)} of the chain's {jobs} jobs are queued"


def _number(job_id: str) -> int:
    return int(re.split(r"\D", job_id, maxsplit=1)[0])
