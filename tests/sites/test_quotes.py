"""What a profile quotes: its own figures, and the words of the document at the commit it names.

The documents are not part of this repository. `JOBGEN_SOURCES` is a folder of git clones, each at
OWNER/NAME or OWNER+NAME/repo, that have the commits; without it the second test is skipped.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from golden import SITES

from jobgen.sites import search
from jobgen.sites.profile import Charge, Limit, SiteSource, walk_records

CLONES = os.environ.get("JOBGEN_SOURCES", "")


def list_cited(site: str) -> Iterator[tuple[str, Limit | Charge, SiteSource]]:
    """Yield each limit and charge of a profile with its path and its source."""
    profile = search.load(site)
    for path, record in walk_records(profile):
        if isinstance(record, Limit | Charge):
            queue = profile.find_queue(path.split(".")[1]) if path.startswith("queues.") else None
            source = profile.find_source(record.source or (queue.source if queue else None))
            if source is not None:
                yield f"{site}: {path}", record, source


CITED = [cited for site in SITES for cited in list_cited(site)]
QUOTED = [(path, record, source) for path, record, source in CITED if record.quote]


def join_blanks(text: str) -> str:
    return " ".join(text.split())


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


@cache
def read_document(file: str) -> str | None:
    """The text of OWNER/NAME@COMMIT:PATH with its blanks joined; None if no clone is here."""
    repository, _, rest = file.partition("@")
    for clone in (Path(CLONES, repository), Path(CLONES, repository.replace("/", "+"), "repo")):
        if clone.is_dir():
            argv = ["git", "-C", str(clone), "show", rest]
            return join_blanks(
                subprocess.run(argv, capture_output=True, text=True, check=True).stdout
            )
    return None


@pytest.mark.skipif(not CLONES, reason="JOBGEN_SOURCES names no folder of clones")
def test_quotes_are_in_their_documents(subtests: pytest.Subtests) -> None:
    compared = 0
    for path, record, source in QUOTED:
        if source.file and (text := read_document(source.file)) is not None:
            compared += 1
            with subtests.test(path):
                assert join_blanks(record.quote or "") in text, record.quote
    assert compared >= 50
