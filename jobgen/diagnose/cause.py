"""What a cause of failure is: how it shows itself, and what to do about it.

The causes are data, in `data/causes.yaml`.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from jobgen.jobs import states
from jobgen.records import NamedTuple
from jobgen.spec.tables import read_table

# Where a message is found: a process's own output, its node's agent, the script's output, or the
# scheduler's word on how the job ended.
Where = Literal["rank", "agent", "script", "scheduler"]
_PLACES: dict[str, tuple[Where, ...]] = {
    "rank": ("rank",),
    "agent": ("agent",),
    "node": ("rank", "agent"),
    "anywhere": ("rank", "agent", "script"),
    "scheduler": ("scheduler", "script"),
}


class Cause(NamedTuple):
    """One kind of failure.

    `says` is looked for at the places in `where`, and `own` in what jobgen's script has printed
    anywhere (`jobgen: ...`); what else the script notes is not evidence. In both, groups whose
    names begin with `node` find the node that it is about, where that may be another than the one
    that says so. In a remedy names in braces stand for words of the job's scheduler
    (`Advice` in `schedulers/base.py`), and `{folder}` for where the program begins.

    `symptom`: something else went wrong first, and this is what it did. `vague`: another line of
    the same log may say it better. `waits`: who says so has only waited for others. `of_group`: an
    exception says so only of the group that the processes are. `of_machine`: not the program's
    fault, so that a start on other nodes may do well.
    """

    id: str
    title: str
    remedy: str
    where: tuple[Where, ...] = ()
    says: str = ""
    own: str = ""
    symptom: bool = False
    vague: bool = False
    waits: bool = False
    of_group: bool = False
    of_machine: bool = False

    @property
    def follows(self) -> bool:
        """Whether it tells only of what another process did, or did not do."""
        return self.symptom or self.waits


def _join(says: str | list[str]) -> str:
    return says if isinstance(says, str) else "|".join(says)


def _make_cause(row: dict[str, Any]) -> Cause:
    where = [place for word in row.get("where", "").split() for place in _PLACES[word]]
    fields = row | {"where": tuple(where)} | dict.fromkeys(row.get("is", "").split(), True)
    for key in {"says", "own"} & row.keys():
        fields[key] = _join(row[key])
    fields.pop("is", None)
    return Cause(**fields)


_TABLE = read_table("causes.yaml", room="diagnose")
#: the causes by whose words they are known: the scheduler's, the script's, a machine's, a program's
SECTIONS = {name: tuple(map(_make_cause, rows)) for name, rows in _TABLE["causes"].items()}
CAUSES = tuple(cause for causes in SECTIONS.values() for cause in causes)
HANG = next(cause for cause in CAUSES if cause.id == "hang")
TIMEOUT = next(cause for cause in CAUSES if cause.id == "collective-timeout")
NOT_READY = next(cause for cause in CAUSES if cause.id == "role-not-ready")
ROLE_ENDED = next(cause for cause in CAUSES if cause.id == "role-ended")
NO_SPACE = next(cause for cause in CAUSES if cause.id == "no-space")
KILLED_SCRIPT = next(cause for cause in CAUSES if "RaisedSignal:9" in cause.says)
_MISSING = {name: _make_cause(row) for name, row in _TABLE["missing"].items()}
HIDDEN, LEFT_EARLY, STAYED = _MISSING["hidden"], _MISSING["left early"], _MISSING["stayed"]
SILENT_NODE, STOPPED, WAITED = (_MISSING[name] for name in ("silent node", "stopped", "waited"))
ALONE = _MISSING["alone"]
APART = _MISSING["apart"]._replace(title=_MISSING["apart"].title + states.APART)
#: what the words of an exception mean that show no cause of the table, and what to do
ADVICE = tuple(
    (re.compile(_join(row["says"]), re.M), f"{row['title']}: {row['remedy']}")
    for row in _TABLE["advice"]
)
#: where a program begins: `{folder}` in a remedy, and that of a job with `snapshot`
FOLDER = "the folder you submit from"
GO_ON = "`jobgen rerun JOB --continue` goes on in the same run folder"
BEGIN_AGAIN = "`jobgen rerun JOB --failed` begins the task again in a new run folder"
COPY = "the copy that `snapshot` makes, without what git ignores (`snapshot: [PATH]` adds it)"
EXCEPTION = Cause("exception", "it raised an exception", "look at that line and the log above it")
#: title and remedy of a process that said nothing, by its exit code
EXITS = {int(code): (row["title"], row["remedy"]) for code, row in _TABLE["exits"].items()}
