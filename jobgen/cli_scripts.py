"""The commands that read scripts people already have: `jobgen lint` and `jobgen import`."""

from __future__ import annotations

import sys

import click

from jobgen.errors import LintFoundError, UsageError


@click.command()
@click.argument("scripts", nargs=-1, required=True, metavar="SCRIPT...")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
def lint(scripts: tuple[str, ...], as_json: bool) -> None:
    """Find the classic faults of #PBS and #SBATCH scripts; exit 8 if there are any.

    Output folders are looked for from the current folder, as if you submitted from here.
    """
    import json

    from jobgen import script
    from jobgen.lint import check

    found = [finding for path in dict.fromkeys(scripts) for finding in check(script.read(path))]
    if as_json:
        _print(json.dumps([finding.as_dict() for finding in found], indent=2) + "\n")
    else:
        _print("".join(f"{finding}\n" for finding in found))
    if found:
        faults = "1 fault" if len(found) == 1 else f"{len(found)} faults"
        raise LintFoundError(f"{faults} found; --json says why each is one, and where to read on")


@click.command("import")
@click.argument("script")
@click.option("-o", "--output", metavar="FILE", help="Write the spec there; never over a file.")
def import_(script: str, output: str | None) -> None:
    """Print the spec of an existing #PBS or #SBATCH script, for 'jobgen render' to start from.

    What a spec cannot say is kept verbatim where possible, and listed on stderr.
    """
    from jobgen.importer import import_script
    from jobgen.script import read

    imported = import_script(read(script))
    if output is None:
        _print(imported.yaml)
    else:
        try:
            with open(output, "x", encoding="utf-8") as file:
                file.write(imported.yaml)
        except FileExistsError:
            raise UsageError(f"{output}: is there already; jobgen does not replace it") from None
    for left in imported.left:
        click.echo(f"{script}: {left}", err=True)


COMMANDS = {"lint": lint, "import": import_}


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
