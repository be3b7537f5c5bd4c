"""The tables of reasons: what a script says, and why, by the kinds of job that say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from string import Template

from jobgen.spec.tables import read_rows


def select_rows(
    name: str, kinds: Iterable[str], facts: Mapping[str, object]
) -> Iterator[list[str]]:
    """Yield the rows of a table that a job has, with its facts in the place of each $NAME.

    It is of the `kinds`, and of those that facts which are not empty are named for.
    """
    has = {*kinds, *(fact for fact, value in facts.items() if value)}
    for asked, *cells in read_rows(name, room="rendering"):
        wanted = {kind for kind in asked.split() if kind[0] not in "!-"}
        refused = {kind[1:] for kind in asked.split() if kind[0] == "!"}
        if wanted <= has and not refused & has:
            yield [Template(cell).substitute(facts) for cell in cells]
