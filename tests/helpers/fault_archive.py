"""Jobs that failed, each as one text file: what was expected, and what lay in its folders.

The head is `key: value` lines; then each file, with the seconds since 1970 at which it was written:

    -- 1763800000.250 runs/reduce/22/attempts/0/nodes --
    n1
    n2

Paths are as in the folder of submission. `plant_faults.py` makes them from
real runs; `benchmarks/diagnosis.py` counts how many `jobgen diagnose` explains.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from jobgen.diagnose import Diagnosis, diagnose
from jobgen.jobs import record
from jobgen.jobs.record import JobRecord
from jobgen.schedulers.base import State

_ROOM = Path(__file__).parent.parent / "diagnose"
FOLDER = _ROOM / "faults"
PROGRAM = _ROOM / "planted" / "training.py"  # what jobs ran, as train.py
_HERE = "{folder}"  # stands for the folder of submission
_PART = re.compile(r"^-- ([0-9.]+) (\S+) --\n", re.MULTILINE)
_MOST = 3600  # characters of a file; of a longer one the beginning and the end are kept
# Scripts are long, and no evidence beyond the directives of the job's own; of checkpoints it counts
# when they were written.
_LEFT_OUT = re.compile(
    r".*\.(sbatch|pbs|sh|pt|pyc)|job\.yaml|(train|program)\.py|train\.txt|runs/.*/(attempts/.*/script|state\.json)"
)


class Fault(NamedTuple):
    """A job as it stood when it was recorded, with what should be said of it.

    Of `causes` any is right; `says` is a pattern that must be shown. `node` and `rank` are
    those that should be named: `-` stands for none, `n2?` for this one or none, nothing for any.
    """

    name: str
    planted: str
    job: str  # its run folder
    causes: tuple[str, ...]
    node: str
    rank: str
    says: str
    state: State
    now: float
    files: dict[str, tuple[float, str]]

    def unpack(self, folder: Path) -> JobRecord:
        """Lay the job out below `folder`, as it was."""
        folder.joinpath("train.py").write_bytes(PROGRAM.read_bytes())
        for name, (written, text) in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace(_HERE, str(folder)))
            os.utime(path, (written, written))
        return record.read_record(folder / self.job / "job.json")

    def find_node(self, rank: str) -> str:
        """The node that a rank was on; empty if that is not known."""
        places = (re.search(rf"logs/([^/]+)/rank-{rank}.err$", name) for name in self.files)
        return next((place[1] for place in places if place), "") if rank.isdecimal() else ""

    def find_silent(self) -> set[int]:
        """The ranks that have printed nothing."""
        said = dict.fromkeys(range(4), "")
        for name, (_, text) in self.files.items():
            if place := re.search(r"/rank-(\d+)\.(err|out)$", name):
                said[int(place[1])] = said.get(int(place[1]), "") + text.strip()
        return {rank for rank, text in said.items() if not text}

    def diagnose(self, folder: Path) -> Diagnosis:
        """What `jobgen diagnose` says of it."""
        return diagnose(self.unpack(folder), self.state, now=self.now)


def read_fault(path: Path) -> Fault:
    """Return what a file holds."""
    head, *parts = _PART.split(path.read_text(encoding="utf-8"))
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    state, _, reason = fields["state"].partition(" / ")
    files = {
        name: (float(written), text)
        for written, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }
    return Fault(
        path.stem,
        fields["planted"],
        fields["job"],
        tuple(fields["cause"].split(" or ")),
        fields.get("node", ""),
        fields.get("rank", ""),
        fields.get("says", ""),
        State(state, reason),  # type: ignore[arg-type]
        float(fields["now"]),
        files,
    )


def read_faults() -> list[Fault]:
    """Return everything that is kept."""
    return [read_fault(path) for path in sorted(FOLDER.glob("*.txt"))]


def write_fault(name: str, fields: dict[str, str], *, folder: Path, paths: dict[str, str]) -> None:
    """Keep the files in `folder` except scripts; `paths` are replaced in them."""
    texts = ["".join(f"{key}: {value}\n" for key, value in fields.items())]
    for path in sorted(folder.rglob("*")):
        kept = str(path.relative_to(folder))
        if not path.is_file() or _LEFT_OUT.fullmatch(kept):
            continue
        text = path.read_bytes().decode(errors="replace").replace("\0", "?")
        if path.name == "script":
            text = "".join(re.findall(r"^#(?:SBATCH|PBS) .*\n", text, re.MULTILINE))
        if path.name == "outcome":  # it keeps its place on a full disk by blanks
            text = text.rstrip()
        if len(text) > _MOST:
            text = f"{text[: _MOST // 3]}\n... left out ...\n{text[-_MOST // 3 * 2 :]}"
        for real, other in {str(folder): _HERE, **paths}.items():
            text = text.replace(real, other)
        if text and not text.endswith("\n"):
            text += "\n"
        texts.append(f"-- {path.stat().st_mtime:.3f} {kept} --\n{text}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.txt").write_text("".join(texts), encoding="utf-8")
