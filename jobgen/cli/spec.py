"""The commands that look at what a spec says: `jobgen check` and `jobgen explain`."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import click

from jobgen.cli.options import (
    DEFAULT_SPEC,
    FILE,
    STDOUT,
    add_target_options,
    json_option,
    load_plan,
    put_err,
    put_out,
)
from jobgen.errors import SpecError, StaleError, UsageError


@click.command()
@click.argument("paths", nargs=-1, type=FILE, metavar="[SPEC or SCRIPT]...")
@click.option(
    "--out-dir",
    type=FILE,
    metavar="DIR",
    help="Where the scripts of the specs are; by default beside them.",
)
@click.option(
    "--all", "every", is_flag=True, help="All specs and rendered scripts below folders; else here."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "github"]),
    default="text",
    help="github: annotations in a pull request.",
)
@json_option
def check(
    paths: tuple[str, ...], out_dir: str | None, every: bool, form: str, as_json: bool
) -> None:
    """Check specs, and that committed scripts are what they render today; exit 4 if stale.

    A valid spec without a script is no fault, unless --out-dir says that it has one. With --all,
    scripts and YAML files that are not jobgen's are left alone.
    """
    from jobgen.output import format_annotation, format_json
    from jobgen.rendering.check import compare

    if every and out_dir:
        raise UsageError("--all looks for scripts beside their specs; leave --out-dir out")
    if as_json and form != "text":
        raise UsageError("--format and --json exclude each other")
    report = compare(paths or ("." if every else DEFAULT_SPEC,), out_dir, every=every)
    if form == "github":
        for problem in report.problems:
            where = problem.where
            put_out(
                format_annotation(
                    "error", str(problem), file=where.file, line=where.line, column=where.column
                )
            )
        for script in report.scripts:
            if script.stale or script.note:
                words = script.note or f"{script.script}: stale; render it again"
                level = "error" if script.stale else "notice"
                put_out(format_annotation(level, words, file=script.script))
        for words in report.orphans:
            put_out(format_annotation("error", words, file=words.partition(": ")[0]))
    elif as_json:
        put_out(format_json(report))
    else:
        put_out("".join(script.diff for script in report.scripts))
    for script in report.scripts:
        if script.note:
            put_err(script.note)
    for note in report.notes:
        put_err(note)
    if report.problems:
        raise SpecError(report.problems)
    lines = [
        f"{script.script}: stale; render it again" for script in report.scripts if script.stale
    ]
    lines = [*dict.fromkeys(lines), *report.orphans, *report.missing]
    if len(lines) > len(report.missing) or (report.missing and out_dir):
        raise StaleError("\n".join(lines))
    for line in lines:
        put_err(line)


@click.command()
@click.argument("path", default=DEFAULT_SPEC, type=FILE, metavar="[SPEC]")
@json_option
@click.option("--all", "defaults", is_flag=True, help="Also what is as always.")
@click.option("--svg", type=FILE, metavar="FILE", help="Draw who runs where, to this file.")
@add_target_options
def explain(path: str, as_json: bool, defaults: bool, svg: str | None, **target: Any) -> None:
    """Print who runs where, the cost, and each directive and variable with reason and origin.

    What you have to check comes first; defaults are told with --all.
    """
    from jobgen.rendering.explain import explain as explain_plan

    if svg and as_json:
        raise UsageError("--svg and --json exclude each other")
    explanation = explain_plan(*load_plan(path, target))
    if svg is None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        text = explanation.as_json() if as_json else ""
        put_out(text or explanation.as_text(defaults=defaults, width=width))
        return
    from pathlib import Path

    from jobgen.output import write_file
    from jobgen.rendering.drawing import draw

    if svg == STDOUT:
        put_out(draw(explanation))
    else:
        write_file(Path(svg), draw(explanation))


COMMANDS = {"check": check, "explain": explain}
