"""The commands that read existing scripts: `jobgen lint` and `jobgen import`."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import click

from jobgen.cli.options import DEFAULT_SPEC, FILE, SPEC_ENDS, STDOUT, options_of
from jobgen.cli.printing import put_answer, put_err, put_out
from jobgen.errors import FaultsFoundError, LossesError, UsageError
from jobgen.output import format_annotation, format_count, offer_line
from jobgen.schedulers.registry import SCRIPT_ENDS

if TYPE_CHECKING:
    from jobgen.batchscript.convert import Imported
    from jobgen.batchscript.lint.rule import Finding
    from jobgen.batchscript.reader import Script
    from jobgen.programs import Remark


def _refuse_others(paths: Iterable[str], most: int | None = None) -> None:
    """Raise UsageError for a folder, a spec, a program, or a file of another tool."""
    from jobgen.spec.table import explain_file, is_spec, point_to_spec, read_here

    for path in paths:
        if path == STDOUT:
            raise UsageError("a script is read from a file alone; write it into one, and name that")
        if os.path.isdir(path):
            raise UsageError(f"{path} is a folder, not a job script{_name_scripts(path, most)}")
        about = explain_file(path, read_here(path))
        if about and "script" not in about["say"]:
            raise _refuse(path, about["say"], about["hint"])
        if is_spec(path):
            raise UsageError(f"{path} is a job spec, not a job script")
        if path.endswith(SPEC_ENDS) and not about:
            raise _refuse(path, "is not a job script", point_to_spec(path))


def _name_scripts(folder: str, most: int | None) -> str:
    """Return the line for the scripts in a folder, at most so many; empty without any."""
    files = sorted(glob.glob(os.path.join(glob.escape(folder), "*")))
    scripts = [one for one in files if one.endswith(SCRIPT_ENDS)][:most]
    line = offer_line("jobgen", click.get_current_context().info_name or "", *scripts)
    return f"; type: {line}" if scripts else ""


def _refuse(path: str, what: str, hint: str) -> UsageError:
    """Return the error of a file that is neither a spec nor a script."""
    hint = re.sub(r"(\S+)( starts it|): name that", r"\1\2; type: jobgen check \1", hint)
    return UsageError(f"{path} {what.replace('job spec', 'job script')}; {hint}")


@click.command()
@click.argument("scripts", nargs=-1, required=True, type=FILE, metavar="SCRIPT...")
@options_of("lint")
def lint(scripts: tuple[str, ...], site: str | None, form: str, fix: bool, as_json: bool) -> None:
    """Find common mistakes in #PBS and #SBATCH scripts and in training programs (train.py).

    Exits with 8 if it finds any.

    Notes do not change the exit code. A comment '# jobgen: ignore=RULE' turns a rule off for its
    line. Relative paths are checked from the current folder, as if you submitted from here.
    """
    from jobgen.batchscript.reader import read

    paths = list(dict.fromkeys(scripts))
    programs = [path for path in paths if path.endswith(".py")]
    _refuse_others(path for path in paths if path not in programs)
    if programs and form == "github":
        raise UsageError(f"--format {form} is for job scripts; {programs[0]} is a program")
    others = [read(path) for path in paths if path not in programs]
    findings = _check_scripts(others, site, fix=fix)
    every: list[Finding | Remark] = [*findings, *_check_started(others), *_check_programs(programs)]
    shown = map(_annotate, findings) if form == "github" else map("{}\n".format, every)
    rows = [one.as_dict() for one in every]
    put_answer({"findings": rows}, "".join(shown), as_json=as_json)
    if count := [row["level"] for row in rows].count("fault"):
        raise FaultsFoundError(f"{format_count(count, 'fault')} found")


def _annotate(one: Finding) -> str:
    """Return a command of a GitHub workflow, which shows a finding at its line."""
    file, line, column, rule, message, fix = one
    text, title = f"{message}; {fix}", rule.title
    return format_annotation("error", text, file=file, title=title, line=line, column=column)


def _check_scripts(scripts: Iterable[Script], site: str | None, *, fix: bool) -> list[Finding]:
    from jobgen.batchscript.lint import check
    from jobgen.batchscript.readable import SHELLS, find_shell

    every: list[Finding] = []
    for script in scripts:
        if (shell := find_shell(script)) not in SHELLS:
            put_err(f"{script.path}: {shell} runs it, and lint reads bash")
        findings = check(script, site)
        if findings and fix:
            findings = check(_fix(script, findings), site)
        every += findings
    return every


def _check_started(scripts: Sequence[Script]) -> list[Remark]:
    """Look into the Python programs that scripts start, where those are found."""
    known = [script for script in scripts if ".py" in script.text]
    if not known:
        return []
    from jobgen.programs.wrapper import check_started

    return list(chain.from_iterable(map(check_started, known)))


def _check_programs(paths: Sequence[str]) -> list[Remark]:
    if not paths:
        return []
    from jobgen.programs import SEVERAL, check_program

    put_err(f"{', '.join(paths)}: checked as the program of {SEVERAL}")
    return [remark for path in paths for remark in check_program(path, SEVERAL)]


def _fix(script: Script, findings: list[Finding]) -> Script:
    """Fix in its file what can be fixed safely; return the script as it is then."""
    from jobgen.batchscript.lint.rule import mend_text

    fixed = mend_text(script.text, findings)
    if fixed == script.text:
        return script
    with open(script.path, "w", encoding="utf-8", newline="", errors="surrogateescape") as file:
        file.write(fixed)
    put_err(f"{script.path}: fixed")
    return type(script)(script.path, fixed)


@click.command("import")
@click.argument("script", type=FILE)
@options_of("import")
def import_(
    script: str, output: str | None, allow_losses: bool, verbose: bool, as_json: bool
) -> None:
    """Convert a #PBS or #SBATCH script to a spec, and print it.

    If jobgen understands every line, the script becomes a short spec. Otherwise, the directives
    become keys and bash runs the rest unchanged; -o writes that to NAME.body.sh beside the spec.
    Exits with 9 if something is lost, and with 3 if the text is not a job.
    """
    from jobgen.batchscript.convert import import_script
    from jobgen.batchscript.reader import read

    _refuse_others([script], most=1)
    text = read(script)
    imported = import_script(text, os.path.dirname(output or ""))
    if text.scheduler is None:
        put_err(f"{script} has no #SBATCH or #PBS line: write scheduler and resources in the spec")
    files = _write_new(imported, output)
    _put_spec(imported, as_json=as_json, written=bool(files))
    _tell_left(script, imported, verbose=verbose)
    if imported.body and files:  # a spec that is printed tells it, too
        _tell_fault(text, imported)
    if files:
        spec = [] if output == DEFAULT_SPEC else files[:1]
        check, submit = (offer_line("jobgen", what, *spec) for what in ("check", "submit"))
        put_err(f"{', '.join(files)}: written; then: {check}, {submit}")
    losses = [left.kind for left in imported.left].count("lost")
    if losses and not allow_losses:
        what = format_count(losses, "thing is lost", "things are lost")
        raise LossesError(f"{what}; --allow-losses accepts this")


def _put_spec(imported: Imported, *, as_json: bool, written: bool) -> None:
    """Print the spec, unless a file has it."""
    if as_json:
        put_out(imported._asdict())
    elif not written:
        put_out(imported.yaml)
    if imported.body and not written:
        put_err(f"the spec runs {imported.body_file}; -o FILE writes it beside the spec")


def _tell_left(script: str, imported: Imported, *, verbose: bool) -> None:
    """Print what the spec does not say, by kinds."""
    from jobgen.batchscript.draft import HEADINGS

    headings = HEADINGS | ({"kept": "Kept, or not needed."} if verbose else {})
    for kind, heading in headings.items():
        entries = [f"  {script}: {left}" for left in imported.left if left.kind == kind]
        if entries:
            put_err("\n".join([heading, *entries]))


def _tell_fault(script: Script, imported: Imported) -> None:
    """Say how the launch of a body that is kept fails, and what lets jobgen start its program."""
    from jobgen.batchscript.lint import ABOUT_LAUNCH, check

    fault = next((one for one in check(script) if one.rule.id in ABOUT_LAUNCH), None)
    if fault is None:
        return
    keys = _write_clean(script, fault, imported)
    write = ["to fix it, write in the spec, instead of run.body:", *keys]
    put_err(f"{imported.body_file} is the script's body as it is, and still has its fault:")
    put_err(f"  {fault.file}:{fault.line}: {fault.message} [{fault.rule.id}]")
    put_err("\n  ".join(write) if keys else f"to fix it: {fault.fix}")


def _write_clean(script: Script, fault: Finding, kept: Imported) -> list[str]:
    """Return the keys of a spec that has jobgen start what a script starts on its first node.

    Those that a kept spec has, too, are left out; there are none if a body would be kept again.
    """
    from jobgen.batchscript.convert import import_script
    from jobgen.spec.yaml_nodes import parse
    from jobgen.spec.yaml_text import write_value

    lines, at = list(script.lines), fault.column - 1
    line = lines[fault.line - 1]
    if fault.rule.id != "first-node-only" or line[:at].strip():
        return []
    lines[fault.line - 1] = f"mpiexec --ppn 1 {line[at:]}"  # which is read for either scheduler
    clean = import_script(type(script)(script.path, "\n".join(lines)))
    # That line itself is what runs where jobgen would not start the program in its place.
    kept_line = "\n  command: [mpiexec" in clean.yaml
    if clean.body or kept_line or "lost" in [left.kind for left in clean.left]:
        return []
    own, other = (parse(one.yaml, file="job.yaml").items for one in (clean, kept))
    new = [name for name in own if write_value(own[name]) != write_value(other.get(name, ""))]
    return [f"{name}: {write_value(own[name])}" for name in new]


def _list_new(imported: Imported, output: str | None) -> dict[str, str]:
    """Return the texts of a spec and of what it runs beside it, unless that is there already."""
    if output is None or output == STDOUT:
        return {}
    files = {output: imported.yaml}
    if imported.body and _read(imported.body_file) != imported.body:
        files[imported.body_file] = imported.body
    return files


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _write_new(imported: Imported, output: str | None) -> list[str]:
    """Write a spec, and what it runs beside it; return the files, of which none may exist."""
    files = _list_new(imported, output)
    for path in files:
        if os.path.lexists(path):
            raise UsageError(f"{path} already exists; jobgen will not overwrite it")
    for path, text in files.items():
        with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    return list(files)
