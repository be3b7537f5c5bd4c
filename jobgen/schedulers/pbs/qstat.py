"""What qstat prints about jobs: one line for each, however many are asked for (qstat(1B), -F dsv).

Not as JSON: of several ids OpenPBS 23.06.06 prints the first alone then (`json_jobs` of its
qstat.c is forgotten between two).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_JOB = re.compile(r"Job Id: (\d[^|\s]*)(?=\||$)")
# `\` stands before a `|` of a value, and before another `\`; line ends are `\n`.
_FIELD = re.compile(r"\|((?:[^|\\]|\\.)*)")


def argv(ids: Iterable[str], *, tasks: bool = False, ended: bool = False) -> list[str]:
    """Return the command; with `tasks` it lists those of arrays too.

    With `ended` it lists ended jobs too. OpenPBS keeps no history unless a site sets
    `job_history_enable`; without, `qstat -x` exits with 0 and prints nothing of *any* job, so that
    its silence says nothing about queued and running ones.
    """
    options = [*(["-x"] if ended else []), "-f", *(["-t"] if tasks else [])]
    return ["qstat", *options, "-F", "dsv", *ids]


def parse_job_id(text: str) -> str | None:
    """Return the id in a text, such as `123.server` or `123[].server`; None if it is not one."""
    # The first job of a new server is number 0.
    match = re.fullmatch(r"(0|[1-9]\d*)(\[\])?(\.\S+)?", text.strip(), re.ASCII)
    return match[0] if match else None


def parse(output: str) -> dict[str, dict[str, str]]:
    """Return the attributes of each job by its id; the name of one is `Resource_List.walltime`.

    Raises ValueError for what is not an answer.
    """
    jobs, stray = split(output)
    if stray:
        raise ValueError(stray)
    return dict(jobs)


def split(output: str) -> tuple[list[tuple[str, dict[str, str]]], str]:
    """Return the same, and the first line that is not about a job; empty if there is none."""
    jobs: list[tuple[str, dict[str, str]]] = []
    stray = ""
    for line in filter(None, output.split("\n")):
        job = _JOB.match(line)
        if not job:
            stray = stray or line
            continue
        fields = line[job.end() :].split("|")[1:]
        if "\\" in line:
            fields = [re.sub(r"\\([\\|])", r"\1", field) for field in _FIELD.findall(line)]
        values = (field.partition("=") for field in fields)
        jobs.append((job[1], {name: value for name, _, value in values}))
    return jobs, stray
