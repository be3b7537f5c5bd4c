"""What a profile quotes: its own figures, and the words of the document at the commit it names.

The documents are not part of this repository; `fingerprints` keeps what tells their words apart.
With `JOBGEN_SOURCES`, a folder of clones, quotes are compared with the documents themselves.
"""

import re

import pytest
from fingerprints import CLONES, is_within, list_cited, read_document, read_passages
from golden import SITES

from jobgen.sites.profile import Limit

CITED = [cited for site in SITES for cited in list_cited(site)]
QUOTED = [(path, record, source) for path, record, source in CITED if record.quote]
# Those of a file of a public repository.
PINNED = [(path, record.quote or "", source.file) for path, record, source in QUOTED if source.file]


def list_figures(limit: Limit) -> set[str]:
    """The figures of a limit in the forms that documents have: 48 hours, 2 days, 02:00:00."""
    figures = {str(number) for ends in (limit.nodes, limit.gpus) if ends for number in ends}
    if limit.node_minutes:
        figures.add(f"{limit.node_minutes / 60:g}")
    if limit.times[1]:
        hours = limit.times[1] / 3600
        figures |= {f"{hours:g}", f"{hours:g}.0", f"{hours / 24:g}", f"{hours * 60:g}"}
        figures |= {f"{int(hours):02d}", "seven", "sept", "une"}
    return figures


def test_a_limit_has_the_figures_that_it_quotes(subtests: pytest.Subtests) -> None:
    assert len(QUOTED) >= 60
    for path, record, _ in QUOTED:
        with subtests.test(path):
            if isinstance(record, Limit):
                words = (record.quote or "").replace(",", "")
                said = set(re.findall(r"[0-9]+(?:\.[0-9]+)?|[a-z]+", words))
                assert said & list_figures(record), record.quote


def test_limits_of_a_file_at_a_commit_are_quoted() -> None:
    """A source that can be compared is compared: at least four of five of its limits."""
    pinned = [record for _, record, source in CITED if source.file and isinstance(record, Limit)]
    bare = [
        path
        for path, record, source in CITED
        if source.file and isinstance(record, Limit) and not record.quote
    ]
    assert len(bare) <= len(pinned) / 5, bare


def test_quotes_are_in_the_passages_of_their_documents(subtests: pytest.Subtests) -> None:
    passages = read_passages()
    assert len(PINNED) >= 60
    assert passages.keys() == {file for *_, file in PINNED}
    for path, quote, file in PINNED:
        with subtests.test(path):
            assert is_within(quote, passages[file]), quote


def test_a_quote_with_another_figure_or_word_is_in_no_passage(subtests: pytest.Subtests) -> None:
    passages = read_passages()
    for path, quote, file in PINNED:
        with subtests.test(path):
            other = re.sub(r"[0-9]+", "977", quote)
            other = f"{quote} otherwise" if other == quote else other
            assert not is_within(other, passages[file]), quote


def join_blanks(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.skipif(not CLONES, reason="JOBGEN_SOURCES names no folder of clones")
def test_quotes_are_in_their_documents(subtests: pytest.Subtests) -> None:
    compared = 0
    for path, quote, file in PINNED:
        if (text := read_document(file)) is not None:
            compared += 1
            with subtests.test(path):
                assert join_blanks(quote) in join_blanks(text), quote
    assert compared >= 50
