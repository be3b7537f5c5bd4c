"""The commands that look at what a spec says: `jobgen check` and `jobgen explain`."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from jobgen.cli.options import DEFAULT_SPEC, FILE, SPEC_ENDS, options_of, refuse_together
from jobgen.cli.printing import put_answer, put_err
from jobgen.cli.target import SpecCommand, add_target_options, load_plan, read_spec, try_plan
from jobgen.errors import Problem, SpecError, StaleError, UsageError
from jobgen.output import format_annotation

if TYPE_CHECKING:
    from jobgen.rendering.check import CheckReport

_STALE = "stale; render it again"


@click.command(cls=SpecCommand)
@click.argument("paths", nargs=-1, type=FILE, metavar="[SPEC or SCRIPT]...")
@options_of("check")
@add_target_options
def check(
    paths: tuple[str, ...],
    out_dir: str | None,
    every: bool,
    form: str,
    as_json: bool,
    **target: Any,
) -> None:
    """Check specs (default: job.yaml), and whether their committed scripts are up to date.

    Exits with 3 if a spec is invalid and with 4 if a script is stale. A spec may have no script,
    unless you give --out-dir. --all skips scripts and YAML files that jobgen did not write.
    With options that change the spec, checks only the spec, as `submit` would use it.
    """
    from jobgen.rendering.check import compare

    refuse_together({"--format": form != "text", "--json": as_json})
    changed = any(target.values())
    refuse_together({"--all": every, "--out-dir": out_dir, "options that change specs": changed})
    named = paths or ("." if every else DEFAULT_SPEC,)
    report = _check_changed(named, target) if changed else compare(named, out_dir, every=every)
    doubts = [*_list_doubts(report, named, target)]
    diffs = (script.diff for script in report.scripts)
    text = "".join(_format_annotations(report) if form == "github" else diffs)
    put_answer(report, text, as_json=as_json)
    _tell_notes(report, doubts, every=every)
    _tell_faults(report, needs_scripts=bool(out_dir))


def _tell_notes(report: CheckReport, doubts: Sequence[str], *, every: bool) -> None:
    """Print what is to be known of specs and scripts; unless `every`, which are up to date."""
    notes = filter(None, (script.note for script in report.scripts))
    usual = (one.script for one in report.scripts if not (every or one.stale or one.note))
    fresh = map("{}: up to date".format, usual)
    for line in (*report.left_out, *notes, *report.notes, *doubts, *fresh):
        put_err(line)


def _tell_faults(report: CheckReport, *, needs_scripts: bool) -> None:
    """Raise SpecError or StaleError for what is wrong; print what is only missing."""
    if report.problems:
        raise SpecError(report.problems)
    stale = {f"{one.script}: {_STALE}": None for one in report.scripts if one.stale}
    lines = [*stale, *report.orphans, *report.missing]
    if stale or report.orphans or (report.missing and needs_scripts):
        raise StaleError("\n".join(lines))
    for line in lines:
        put_err(line)


def _format_annotations(report: CheckReport) -> Iterator[str]:
    """Yield what is wrong with specs and scripts as commands of a GitHub workflow."""
    for problem in report.problems:
        yield format_annotation("error", str(problem), **problem.where._asdict())
    for script in report.scripts:
        if script.stale or script.note:
            words = script.note or f"{script.script}: {_STALE}"
            level = "error" if script.stale else "notice"
            yield format_annotation(level, words, file=script.script)
    for words in report.orphans:
        yield format_annotation("error", words, file=words.partition(": ")[0])


@click.command(cls=SpecCommand)
@click.argument("path", default=DEFAULT_SPEC, type=FILE, metavar="[SPEC]")
@options_of("explain")
@add_target_options
def explain(path: str, as_json: bool, defaults: bool, **target: Any) -> None:
    """Show the plan of a spec (default: job.yaml).

    Lists what you should check first, then the ranks of each node, the cost, and each directive
    and variable with its reason and origin.
    """
    from jobgen.rendering.explain import explain as explain_plan

    explanation = explain_plan(*load_plan(path, target))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    text = explanation.as_text(defaults=defaults, width=width)
    put_answer(explanation, text, as_json=as_json)


def _check_changed(paths: tuple[str, ...], target: Mapping[str, Any]) -> CheckReport:
    from jobgen.rendering.check import CheckReport, is_script

    problems: list[Problem] = []
    notes: list[str] = []
    for path in paths:
        if is_script(path):
            raise UsageError(f"{path}: a rendered script already has its values; name its spec")
        try:
            load_plan(path, target)
        except SpecError as error:
            problems += error.problems
            notes += error.warnings
        else:
            put_err(f"{path}: the spec is valid with these options")
    return CheckReport([], [], notes, [], problems, [])


def _list_doubts(
    report: CheckReport, paths: tuple[str, ...], target: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what specs, and the programs they name, can hardly mean.

    What keeps one from being read here, as `submit` reads it, is added to the problems.
    """
    from jobgen.jobs.code import refuse_lacking
    from jobgen.programs import list_doubts

    for path in filter(lambda one: one.endswith(SPEC_ENDS), paths):
        try:
            loaded = read_spec(path, target)
            refuse_lacking(loaded)
        except SpecError as error:
            report.problems.extend(one for one in error.problems if one not in report.problems)
            continue
        with contextlib.suppress(SpecError):  # nothing says where it is to run
            plan, *_ = try_plan(loaded, target)
            yield from list_doubts(loaded, plan)
