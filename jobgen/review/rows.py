"""The rows of `review.txt`: facts, words and regular expressions."""

from __future__ import annotations

import re
from functools import cache

from jobgen.spec.tables import read_rows


@cache
def list_rows(kind: str) -> list[list[str]]:
    """Return the cells of a kind's rows in `review.txt`, without the first, which lists kinds."""
    rows = read_rows("review.txt", room="review")
    return [cells for kinds, *cells in rows if kind in kinds.split()]


@cache
def read_form(name: str) -> re.Pattern[str]:
    """Return a regular expression of `review.txt`."""
    return re.compile(dict(list_rows("form"))[name])
