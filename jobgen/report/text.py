"""A report for a terminal: what its page says, without charts, spec and script."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from textwrap import wrap

from jobgen.output import format_table, make_printable
from jobgen.report.facts import Report
from jobgen.report.page import render_page

_WIDTH = 100
_MOST_ROWS = 16  # of a table that the page scrolls
_HIDDEN = {"head", "script", "svg", "figure", "details", "noscript", "footer"}
_CELLS = {"th", "td", "dt", "dd"}
_BLOCKS = {"h1", "h2", "table", "ul"}


def format_text(report: Report, *, now: float) -> str:
    """Return the text of a report's page, made at the moment `now`."""
    reader = _PageReader()
    reader.feed(render_page(report, now=now))
    return "".join(f"{make_printable(line)}\n" for line in reader.lines)


class _PageReader(HTMLParser):
    """The words of a page in `lines`, its tables in columns."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._hidden = ""  # the element around, of which nothing is shown
        self._inside = 0  # how many of its kind are in it
        self._words: list[str] = []
        self._title = ""  # of a part that has no line yet
        self._rows: list[list[str]] = []
        self._row = ""  # the element that is a row, inside of one
        self._scrolls = False
        self._whole = False  # whether sentences keep to one line each, as people search for them
        # What the ends of elements outside of rows make of the words.
        self._ends = {
            "h1": self._end_text,
            "p": self._end_text,
            "li": self._end_text,
            "h2": self._end_title,
            "pre": self._end_lines,
            "table": self._end_table,
            "main": self._end_table,
        }

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element: a line, a row of a table or a cell of one."""
        about = dict(attrs)
        kinds = (about.get("class") or "").split()
        if self._hidden:
            self._inside += tag == self._hidden
        elif tag in _HIDDEN or "state" in kinds:
            self._hidden, self._inside = tag, 1
        elif tag == "tr" or "row" in kinds:
            self._rows.append([])
            self._row = tag
        elif tag == "dt":
            self._rows.append([])
        elif tag in ("small", "br"):
            self._words.append("; ")
        else:
            self._begin_block(tag, kinds)

    def _begin_block(self, tag: str, kinds: list[str]) -> None:
        in_row = bool(self._row)
        if tag in _BLOCKS or (tag in ("p", "pre") and not in_row):
            self._end_table()
            self._scrolls = self._scrolls and tag == "table"
        elif tag == "div" and not in_row:
            self._scrolls = "high" in kinds
            self._whole = self._whole or "note" in kinds

    def handle_endtag(self, tag: str) -> None:
        """End it: what stands in it is complete."""
        if self._hidden:
            self._inside -= tag == self._hidden
            self._hidden = self._hidden if self._inside else ""
        elif tag in _CELLS or (self._row not in ("", "tr") and tag in ("span", "p")):
            self._rows[-1].append(self._take_words())
        elif tag == self._row:
            self._row = ""
        elif tag in self._ends:
            self._ends[tag]()

    def handle_data(self, data: str) -> None:
        """Take words of the page."""
        if not self._hidden:
            self._words.append(data)

    def _take_words(self) -> str:
        text = re.sub(r"\s*\n\s*", " ", "".join(self._words)).strip()
        self._words.clear()
        return text

    def _add(self, lines: list[str]) -> None:
        if self._title and lines:
            self.lines += ["", self._title]
        self._title = "" if lines else self._title
        indent = "  " if "" in self.lines else ""
        self.lines += [indent + line for line in lines]

    def _end_text(self) -> None:
        text = self._take_words()
        self._add([text] if self._whole else wrap(text, _WIDTH, break_on_hyphens=False))

    def _end_title(self) -> None:
        self._title, self._whole = self._take_words(), False

    def _end_lines(self) -> None:
        self._add("".join(self._words).splitlines())
        self._words.clear()

    def _end_table(self) -> None:
        rows = [row for row in self._rows if row]
        lines = format_table(_drop_empty(rows)) if rows else []
        more = len(lines) - _MOST_ROWS - 1 if self._scrolls else 0
        if more > 0:
            lines = [*lines[:-more], f"and {more:,} more"]
        self._add(lines)
        self._rows.clear()


def _drop_empty(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows, of one length, without the columns that are empty below the first row."""
    width = max(map(len, rows))
    rows = [row + [""] * (width - len(row)) for row in rows]
    columns = [at for at in range(width) if any(row[at] for row in rows[1:] or rows)]
    return [[row[at] for at in columns] for row in rows]
