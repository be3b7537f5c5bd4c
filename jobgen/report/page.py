"""A report as a single HTML page without external files.

Jinja escapes the values, and the data of charts are escaped so that they cannot end their element.
The page's policy allows only its own scripts and styles, by their digests, and no address.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from jobgen.output import format_count, format_names, offer_line, simplify
from jobgen.report import figures
from jobgen.report.charts import draw_charts
from jobgen.report.facts import Report
from jobgen.report.ledger import draw_ledger

_FOLDER = Path(__file__).parent / "page"
# JSON has these characters only in strings, where an escape means the same. The last two end a
# line in JavaScript.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&'\u2028\u2029"}


def render_page(report: Report, *, now: float) -> str:
    """Return the page of a report, made at the moment `now`."""
    drawn = draw_charts(report)
    styles = [_read_file("uPlot.min.css"), _read_file("page.css")]
    scripts = [_read_file("uPlot.iife.min.js"), _read_file("page.js")]
    run = report.runs[0]
    text: str = (
        _make_environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            run=run,
            one=report.comparison is None,
            now=now,
            charts={chart.id: chart for chart in drawn},
            ledger_bar=draw_ledger(report.ledger) if report.ledger else [],
            data=_escape_json([simplify(chart) for chart in drawn]),
            styles=[Markup(style) for style in styles],
            scripts=[Markup(script) for script in scripts],
            policy=_make_policy(styles, scripts),
            format_count=format_count,
        )
    )
    return text


def _make_policy(styles: list[str], scripts: list[str]) -> str:
    """Return the page's Content-Security-Policy (<https://www.w3.org/TR/CSP3/>)."""
    return (
        f"default-src 'none'; style-src {_hash(styles)}; script-src {_hash(scripts)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(texts: list[str]) -> str:
    hashes = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)


def _escape_json(value: object) -> Markup:
    """Return JSON that is safe in a script element, whatever its strings contain."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_ESCAPES))


@cache
def _read_file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "span": figures.format_span,
        "moment": figures.format_moment,
        "figure": figures.format_number,
        "size": figures.format_size,
        "share": figures.format_share,
        "ranks": figures.format_ranks,
        "names": format_names,
        "offered": lambda words: offer_line(*words),
    }
    return environment
