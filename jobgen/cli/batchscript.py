"""The commands that read scripts people already have: `jobgen lint` and `jobgen import`."""

from __future__ import annotations

import click

from jobgen.cli.options import FILE, STDOUT, complete_words, json_option, put_err, put_out
from jobgen.errors import FaultsFoundError, LossesError, UsageError


@click.command()
@click.argument("scripts", nargs=-1, required=True, type=FILE, metavar="SCRIPT...")
@click.option(
    "--site",
    metavar="NAME",
    help="The cluster whose limits to check; else the one that the script has two signs of.",
    shell_complete=complete_words("sites.search", "list_names"),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    help="sarif is for code scanning, github for annotations in a pull request.",
)
@click.option(
    "--fix", is_flag=True, help="Mend what has one safe mend, in the files; list what is left."
)
@json_option
def lint(scripts: tuple[str, ...], site: str | None, form: str, fix: bool, as_json: bool) -> None:
    """Find the classic faults of #PBS and #SBATCH scripts; exit 8 if there are any.

    Notes, on what cannot be decided here, do not change the exit code. '# jobgen: ignore=RULE' in a
    line switches a rule off there. Output folders are looked for from the current folder, as if you
    submitted from here.
    """
    from jobgen.batchscript.lint import check
    from jobgen.batchscript.lint.formats import format_github, format_sarif
    from jobgen.batchscript.lint.mend import mend_text
    from jobgen.batchscript.reader import Script, read
    from jobgen.output import format_json

    findings = []
    for path in dict.fromkeys(scripts):
        script = read(path)
        here = check(script, site)
        if fix and here:
            mended = mend_text(script.text, here)
            if mended != script.text:
                with open(
                    path, "w", encoding="utf-8", newline="", errors="surrogateescape"
                ) as file:
                    file.write(mended)
                put_err(f"{path}: mended")
                here = check(Script(path, mended), site)
        findings += here
    if as_json or form == "json":
        put_out(format_json({"findings": [finding.as_dict() for finding in findings]}))
    elif form == "sarif":
        put_out(format_sarif(findings))
    elif form == "github":
        put_out(format_github(findings))
    else:
        put_out("".join(f"{finding}\n" for finding in findings))
    count = sum(not finding.note for finding in findings)
    if count:
        faults = "1 fault" if count == 1 else f"{count} faults"
        raise FaultsFoundError(f"{faults} found")


@click.command("import")
@click.argument("script", type=FILE)
@click.option(
    "-o", "--output", type=FILE, metavar="FILE", help="Write the spec there; never over a file."
)
@click.option(
    "--allow-losses", is_flag=True, help="Exit 0 also where the spec's job differs from the script."
)
@click.option("-v", "--verbose", is_flag=True, help="List also what is kept, or needs no keeping.")
@click.option(
    "--run-check",
    is_flag=True,
    help="Render the spec, and print what both scripts ask for and run, side by side.",
)
@json_option
def import_(
    script: str,
    output: str | None,
    allow_losses: bool,
    verbose: bool,
    run_check: bool,
    as_json: bool,
) -> None:
    """Print the spec of an existing #PBS or #SBATCH script, for 'jobgen render' to start from.

    What is lost, and what to check, stands on stderr and at the end of the spec. Exit 9 where
    something is lost, 3 where the script cannot become a spec.
    """
    from jobgen.batchscript.convert import import_script
    from jobgen.batchscript.convert.compare import compare_scripts, draw_rows
    from jobgen.batchscript.convert.draft import HEADINGS
    from jobgen.batchscript.reader import read
    from jobgen.output import format_json

    source = read(script)
    imported = import_script(source)
    rows = compare_scripts(source, imported.yaml) if run_check else []
    if output not in (None, STDOUT):
        try:
            with open(output, "x", encoding="utf-8") as file:
                file.write(imported.yaml)
        except FileExistsError:
            raise UsageError(f"{output} already exists; jobgen will not overwrite it") from None
    if as_json:
        compared = {"compared": rows} if run_check else {}
        put_out(format_json({**imported._asdict(), **compared}))
    elif run_check:
        put_out(draw_rows(rows))
    elif output in (None, STDOUT):
        put_out(imported.yaml)
    for kind, heading in {**HEADINGS, "kept": "Kept, or not needed."}.items():
        entries = [left for left in imported.left if left.kind == kind]
        if entries and (verbose or kind != "kept"):
            put_err(heading)
            for left in entries:
                put_err(f"  {script}: {left}")
    losses = sum(left.kind == "lost" for left in imported.left)
    if losses and not allow_losses:
        what = "1 thing is lost" if losses == 1 else f"{losses} things are lost"
        raise LossesError(f"{what}; with --allow-losses this exits 0")


COMMANDS = {"lint": lint, "import": import_}
