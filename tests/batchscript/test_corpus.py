"""How `import` and `lint` fare on public scripts: what docs say is what the facts are."""

import subprocess
import sys
from collections import Counter

from support import ROOT

from jobgen.batchscript.lint import RULES

FACTS = ROOT / "tests" / "batchscript" / "corpus.tsv"
FINDINGS = FACTS.with_name("findings.tsv")


def test_the_docs_have_the_figures_of_the_corpus() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "corpus.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    page = (ROOT / "docs" / "guides" / "existing-scripts.md").read_text()
    lines = ended.stdout.splitlines()
    assert len(lines) == 26
    assert all(f"    {line}\n" in page for line in lines[-2:])


def test_the_corpus_is_of_scripts_that_can_be_found_again() -> None:
    rows = [line.split("\t") for line in FACTS.read_text().splitlines()]
    head, *scripts = rows
    assert len(scripts) >= 150
    places = {tuple(row[head.index("repository") :]) for row in scripts}
    assert len(places) == len(scripts)
    assert all(len(row[head.index("commit")]) == 40 for row in scripts)
    verdicts = Counter(row[head.index("verdict")] for row in scripts)
    assert verdicts.keys() == {"clean", "kept", "refused", "unread"}
    assert verdicts["refused"] <= 0.05 * (len(scripts) - verdicts["unread"])
    held = sum(row[0] != "tuned" for row in scripts)
    assert held >= len(scripts) // 2


def test_lint_is_right_nine_times_in_ten_and_misses_one_in_ten_at_most() -> None:
    head, *rows = [line.split("\t") for line in FINDINGS.read_text().splitlines()]
    counts = Counter(row[head.index("verdict")] for row in rows)
    assert counts.keys() <= {"true", "harmless", "false", "missed"}
    found = counts.total() - counts["missed"]
    assert found >= 100
    assert counts["true"] >= 0.9 * found
    assert counts["true"] >= 0.9 * (counts["true"] + counts["missed"])
    assert {row[head.index("rule")] for row in rows} <= {rule.id for rule in RULES}
