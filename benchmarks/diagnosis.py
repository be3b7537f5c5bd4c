"""How often `jobgen diagnose` is right, of faults planted in real jobs (`tests/diagnose/faults/`).

Prints each that it gets wrong, and the score. With --check it fails below 95 %, or where a
diagnosis blames a node or a rank that is innocent, or takes jobgen's own notes for evidence; so
does `tests/diagnose/test_same_rank.py`.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from fault_archive import Fault, read_faults

from jobgen.diagnose import Diagnosis

LEAST = 0.95
# What jobgen prints of a failure; all else that it prints is a note.
_OF_FAILURES = re.compile(
    r"jobgen: (error: |FAILED|ENDED|preflight: |the chain ends|the setup ended"
    r"|.*(killed|could not be submitted))"
)


def judge(fault: Fault, diagnosis: Diagnosis) -> list[str]:
    """Return what is wrong with a diagnosis: `cause`, `innocent` or `own words`."""
    wrong = [] if diagnosis.cause in fault.causes else ["cause"]
    wrong += judge_ranks(fault, diagnosis)
    node = fault.node or fault.find_node(fault.rank)
    rank = "" if "," in fault.rank or fault.rank == "all" else fault.rank
    for wanted, named in ((node, diagnosis.node), (rank, diagnosis.rank)):
        if wanted == "-":
            wrong += ["innocent"] if named is not None else []
        elif wanted and named is None:
            wrong += [] if wanted.endswith("?") else ["nobody"]
        elif wanted and str(named) != wanted.rstrip("?"):
            wrong.append("innocent")
    if fault.says and not re.search(fault.says, diagnosis.as_text()):
        wrong.append("says")
    for line in diagnosis.evidence[:1]:
        text = line.split(": ", 1)[-1]
        if text.startswith("jobgen: ") and not _OF_FAILURES.match(text):
            wrong.append("own words")
    return wrong


def judge_ranks(fault: Fault, diagnosis: Diagnosis) -> list[str]:
    """Return whether it says that several ranks have it, or all, where they do."""
    if not fault.rank or not ("," in fault.rank or fault.rank == "all"):
        return []
    wanted = {int(rank) for rank in fault.rank.split(",")} if fault.rank != "all" else {0, 1, 2, 3}
    named = {*diagnosis.ranks}
    if named - wanted:
        return ["innocent"]
    # One that was ended before it said a word has left nothing to tell by.
    return [] if named | fault.find_silent() >= wanted else ["ranks"]


def is_poor(counts: Counter[str], total: int) -> bool:
    """Return whether the score is too low, or a fault among these may not happen at all."""
    return counts["right"] / total < LEAST or counts["innocent"] + counts["own words"] > 0


def wanted() -> str:
    """Return the pattern of names that is asked for; all without one."""
    return next((word for word in sys.argv[1:] if not word.startswith("--")), "")


def main() -> int:
    """Diagnose all, and print the score."""
    faults = [fault for fault in read_faults() if re.search(wanted(), fault.name)]
    counts: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    for fault in faults:
        with tempfile.TemporaryDirectory() as folder:
            diagnosis = fault.diagnose(Path(folder))
        wrong = judge(fault, diagnosis)
        kind = fault.planted.rpartition("(")[2].rstrip(")")
        kinds.setdefault(kind, Counter())["right" if not wrong else "wrong"] += 1
        counts.update(set(wrong) or {"right"})
        if wrong:
            who = " on ".join(str(w) for w in (diagnosis.rank, diagnosis.node) if w is not None)
            print(f"{fault.name}: {', '.join(wrong)}: {who} [{diagnosis.cause}] {diagnosis.title}")
            print("".join(f"    {line[:160]}\n" for line in diagnosis.evidence), end="")
            print(f"    wanted: rank {fault.rank} on {fault.node}, {' or '.join(fault.causes)}")
    for kind, each in sorted(kinds.items()):
        print(f"{kind:18} {each['right']:3} of {each.total():3} right")
    share = counts["right"] / len(faults)
    print(
        f"{counts['right']} of {len(faults)} right ({share:.0%}); {counts['innocent']} blame the "
        f"innocent, {counts['own words']} take jobgen's own words for evidence"
    )
    return int("--check" in sys.argv[1:] and is_poor(counts, len(faults)))


if __name__ == "__main__":
    sys.exit(main())
