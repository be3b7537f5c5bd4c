"""A report as one HTML page, which needs nothing but itself.

Values are escaped by Jinja, the data of the charts so that they cannot end their element; and a
policy in the page allows no script, style or address but the page's own, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from jobgen.plain import plain
from jobgen.report import words
from jobgen.report.charts import charts
from jobgen.report.facts import Report
from jobgen.report.timeline import timeline

_FOLDER = Path(__file__).parent / "page"
# In JSON these stand in strings alone, where an escape is the same. The last two end a line of
# JavaScript.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&'\u2028\u2029"}


def page(report: Report, *, now: float) -> str:
    """The page of `report`, made at the moment `now`."""
    drawn = charts(report)
    styles = [_file("uPlot.min.css"), _file("page.css")]
    scripts = [_file("uPlot.iife.min.js"), _file("page.js")]
    run = report.runs[0]
    text: str = (
        _environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            run=run,
            one=report.comparison is None,
            now=now,
            charts={chart.id: chart for chart in drawn},
            timeline=timeline(run, now=now),
            data=_data([plain(chart) for chart in drawn]),
            styles=[Markup(style) for style in styles],
            scripts=[Markup(script) for script in scripts],
            policy=_policy(styles, scripts),
            w=words,
        )
    )
    return text


def _policy(styles: list[str], scripts: list[str]) -> str:
    """Of the page's content: <https://www.w3.org/TR/CSP3/>."""
    return (
        f"default-src 'none'; style-src {_digests(styles)}; script-src {_digests(scripts)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digests(texts: list[str]) -> str:
    hashes = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)


def _data(value: object) -> Markup:
    """JSON that can stand in a script element, whatever is in its strings."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_ESCAPES))


@cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "span": words.span,
        "moment": words.moment,
        "figure": words.figure,
        "size": words.size,
        "share": words.share,
        "ranks": words.ranks,
        "names": words.names,
    }
    return environment
