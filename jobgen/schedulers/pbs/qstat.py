"""What qstat tells of jobs: one line for each, however many are asked for (qstat(1B), -F dsv).

Not as JSON: of several ids OpenPBS 23.06.06 prints the first alone then (`json_jobs` of its
qstat.c is forgotten between two).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_BEGIN = "Job Id: "
# `\` stands before a `|` of a value, and before another `\`; line ends are `\n`.
_FIELD = re.compile(r"\|((?:[^|\\]|\\.)*)")


def argv(ids: Iterable[str], *, tasks: bool = False, ended: bool = False) -> list[str]:
    """Return the command; with `tasks` it tells of those of arrays too.

    With `ended` it tells of ended jobs too. OpenPBS keeps no history unless a site sets
    `job_history_enable`; without, `qstat -x` exits with 0 and prints nothing of *any* job, so that
    its silence says nothing about queued and running ones.
    """
    options = [*(["-x"] if ended else []), "-f", *(["-t"] if tasks else [])]
    return ["qstat", *options, "-F", "dsv", *ids]


def parse(output: str) -> dict[str, dict[str, str]]:
    """The attributes of each job by its id; the name of one is `Resource_List.walltime`.

    Raises ValueError where it is no answer.
    """
    jobs = {}
    for line in filter(None, output.split("\n")):
        if not line.startswith(_BEGIN):
            raise ValueError(line)
        job_id, *fields = line[len(_BEGIN) :].split("|")
        if "\\" in line:
            fields = [re.sub(r"\\([\\|])", r"\1", field) for field in _FIELD.findall(line)]
        jobs[job_id] = {name: value for name, _, value in (text.partition("=") for text in fields)}
    return jobs
