"""The figures of `jobgen import` on public scripts: what docs say is what the facts are."""

import subprocess
import sys

from support import ROOT

FACTS = ROOT / "tests" / "batchscript" / "corpus.tsv"


def test_the_docs_have_the_figures_of_the_corpus() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "corpus.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    page = (ROOT / "docs" / "guides" / "existing-scripts.md").read_text()
    lines = ended.stdout.splitlines()
    assert len(lines) == 2
    assert all(f"    {line}\n" in page for line in lines)


def test_the_corpus_is_of_scripts_that_can_be_found_again() -> None:
    rows = [line.split("\t") for line in FACTS.read_text().splitlines()]
    head, *scripts = rows
    assert len(scripts) >= 150
    places = {tuple(row[head.index("repository") :]) for row in scripts}
    assert len(places) == len(scripts)
    assert all(len(row[head.index("commit")]) == 40 for row in scripts)
    held = sum(row[0] == "held-back" for row in scripts)
    assert held >= len(scripts) // 3
