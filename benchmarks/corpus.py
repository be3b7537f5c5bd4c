"""How well `import` and `lint` do on public scripts: figures of docs/guides/existing-scripts.md.

python benchmarks/corpus.py            # the figures, from the facts in tests/batchscript/*.tsv
python benchmarks/corpus.py FOLDER     # reads the scripts again and names what changed

The scripts themselves are other people's and not kept here: FOLDER holds a clone of each repository
as OWNER+NAME, with git. A script is read at the commit of its row.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from jobgen.batchscript.convert import import_script
from jobgen.batchscript.lint import check
from jobgen.batchscript.reader import Script
from jobgen.errors import JobgenError

FACTS = ROOT / "tests" / "batchscript" / "corpus.tsv"
#: every finding of lint in the scripts of the sets GRADED, and what it missed, graded by hand
FINDINGS = ROOT / "tests" / "batchscript" / "findings.tsv"
GRADED = ("later", "unseen", "second", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
GRADED += ("eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth")
GRADED += ("seventeenth", "eighteenth", "nineteenth")
VERDICTS = ("clean", "kept", "refused", "unread")


def read_facts(path: Path = FACTS) -> list[dict[str, str]]:
    """Read the rows of the corpus: where each script is, and what becomes of it."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def count_verdicts(rows: list[dict[str, str]]) -> dict[str, Counter[str]]:
    """Count the verdicts of each set: the scripts tuned to, and those held back."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row["set"], Counter())[row["verdict"]] += 1
    return counts | {"all": Counter(row["verdict"] for row in rows)}


def judge(name: str, text: str) -> str:
    """Import a script and say what became of it."""
    try:
        imported = import_script(Script(name, text))
    except JobgenError:
        return "refused"
    return "kept" if imported.body else "clean"


def rate_findings(findings: list[dict[str, str]]) -> str:
    """Say how many findings of lint are true, and how many faults it has found."""
    counts = Counter(row["verdict"] for row in findings)
    found = counts.total() - counts["missed"]
    kinds = [f"{counts[kind]} {kind}" for kind in ("true", "harmless", "false")]
    precision, recall = counts["true"] / found, counts["true"] / (counts["true"] + counts["missed"])
    return (
        f"lint: {found} findings: {', '.join(kinds)} (precision {100 * precision:.0f} %);"
        f" {counts['missed']} missed (recall {100 * recall:.0f} %)"
    )


def compare_findings(row: dict[str, str], text: str, findings: list[dict[str, str]]) -> list[str]:
    """List the findings in a script that are not graded, and those that are gone."""
    own = [
        each for each in findings if all(each[key] == row[key] for key in ("repository", "path"))
    ]
    graded = {(each["line"], each["rule"]) for each in own if each["verdict"] != "missed"}
    found = {(str(each.line), each.rule.id) for each in check(Script(Path(row["path"]).name, text))}
    where = f"{row['repository']}/{row['path']}"
    return [f"{where}:{line}: {rule} is new" for line, rule in sorted(found - graded)] + [
        f"{where}:{line}: {rule} is gone" for line, rule in sorted(graded - found)
    ]


def read_script(row: dict[str, str], folder: Path) -> bytes | None:
    """Read the script of a row in a folder of clones; None if it is not there."""
    place = folder / row["repository"].replace("/", "+")
    show = ["git", "-C", str(place), "show", f"{row['commit']}:{row['path']}"]
    shown = subprocess.run(show, capture_output=True)
    return None if shown.returncode else shown.stdout


def list_changes(rows: list[dict[str, str]], folder: Path) -> list[str]:
    """Import every script again; list those that are missing or have another verdict."""
    changes = []
    findings = read_facts(FINDINGS)
    for row in rows:
        script = read_script(row, folder)
        where = f"{row['repository']}/{row['path']}"
        if script is None:
            changes.append(f"{where}: not here")
            continue
        text = script.decode("utf-8-sig", "surrogateescape")
        verdict = judge(Path(row["path"]).name, text)
        if verdict != row["verdict"] and row["verdict"] != "unread":
            changes.append(f"{where}: {verdict}, was {row['verdict']}")
        if row["set"] in GRADED:
            changes += compare_findings(row, text, findings)
    return changes


def main() -> int:
    """Print the figures, and the changes where a folder is given."""
    rows = read_facts()
    for name, counts in count_verdicts(rows).items():
        total = counts.total() - counts["unread"]
        if not total:
            continue
        parts = [f"{counts[v]} {v} ({100 * counts[v] / total:.0f} %)" for v in VERDICTS[:-1]]
        print(f"{name}: {total} scripts: {', '.join(parts)}")
    print(rate_findings(read_facts(FINDINGS)))
    if len(sys.argv) < 2:
        return 0
    changes = list_changes(rows, Path(sys.argv[1]))
    print("\n".join(changes) or "no verdict has changed")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
