"""The commands that look at what a spec says: `jobgen check` and `jobgen explain`."""

from __future__ import annotations

from typing import Any

import click

from jobgen.cli_target import (
    DEFAULT_SPEC,
    FILE,
    json_option,
    plan_of,
    put_out,
    target_options,
)
from jobgen.errors import SpecError, StaleError, UsageError


@click.command()
@click.argument("paths", nargs=-1, type=FILE, metavar="[SPEC or SCRIPT]...")
@click.option(
    "--out-dir",
    type=FILE,
    metavar="DIR",
    help="Where the scripts of the specs are; beside them if not said.",
)
@json_option
def check(paths: tuple[str, ...], out_dir: str | None, as_json: bool) -> None:
    """Compare committed scripts with what their specs render today; exit 4 and a diff if stale."""
    from jobgen.check import compare
    from jobgen.plain import to_json

    report = compare(paths or (DEFAULT_SPEC,), out_dir)
    if as_json:
        put_out(to_json(report))
    else:
        put_out("".join(found.diff for found in report.scripts))
    if report.problems:
        raise SpecError(report.problems)
    stale = dict.fromkeys(found.script for found in report.scripts if found.stale)
    if stale or report.missing:
        lines = [f"{path}: stale; render it again" for path in stale]
        raise StaleError("\n".join([*lines, *report.missing]))


@click.command()
@click.argument("path", default=DEFAULT_SPEC, type=FILE, metavar="[SPEC]")
@json_option
@click.option("--svg", type=FILE, metavar="FILE", help="Draw who runs where, to this file.")
@target_options
def explain(path: str, as_json: bool, svg: str | None, **target: Any) -> None:
    """Print who runs where, the cost, and each directive and variable with reason and origin."""
    from jobgen.explain import explain as explain_plan

    if svg and as_json:
        raise UsageError("--svg and --json exclude each other")
    found = explain_plan(*plan_of(path, target))
    if svg is None:
        put_out(found.as_json() if as_json else found.as_text())
        return
    from pathlib import Path

    from jobgen.drawing import draw
    from jobgen.runs import write_atomically

    write_atomically(Path(svg), draw(found))


COMMANDS = {"check": check, "explain": explain}
