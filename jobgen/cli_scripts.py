"""The commands that read scripts people already have: `jobgen lint` and `jobgen import`."""

from __future__ import annotations

import click

from jobgen.cli_target import FILE, completes, json_option, put_out
from jobgen.errors import FaultsFoundError, UsageError


@click.command()
@click.argument("scripts", nargs=-1, required=True, type=FILE, metavar="SCRIPT...")
@click.option(
    "--site",
    metavar="NAME",
    help="The cluster whose limits to check; else the one that the directives are seen to be for.",
    shell_complete=completes("site", "names"),
)
@json_option
def lint(scripts: tuple[str, ...], site: str | None, as_json: bool) -> None:
    """Find the classic faults of #PBS and #SBATCH scripts; exit 8 if there are any.

    Output folders are looked for from the current folder, as if you submitted from here.
    """
    from jobgen import script
    from jobgen.lint import check
    from jobgen.plain import to_json

    found = [
        finding for path in dict.fromkeys(scripts) for finding in check(script.read(path), site)
    ]
    if as_json:
        put_out(to_json({"findings": [finding.as_dict() for finding in found]}))
    else:
        put_out("".join(f"{finding}\n" for finding in found))
    if found:
        faults = "1 fault" if len(found) == 1 else f"{len(found)} faults"
        raise FaultsFoundError(f"{faults} found")


@click.command("import")
@click.argument("script", type=FILE)
@click.option(
    "-o", "--output", type=FILE, metavar="FILE", help="Write the spec there; never over a file."
)
@json_option
def import_(script: str, output: str | None, as_json: bool) -> None:
    """Print the spec of an existing #PBS or #SBATCH script, for 'jobgen render' to start from.

    What a spec cannot say is kept verbatim where possible, and listed on stderr.
    """
    from jobgen.importer import import_script
    from jobgen.plain import to_json
    from jobgen.script import read

    imported = import_script(read(script))
    if as_json:
        put_out(to_json(imported))
    elif output is None:
        put_out(imported.yaml)
    if output is not None:
        try:
            with open(output, "x", encoding="utf-8") as file:
                file.write(imported.yaml)
        except FileExistsError:
            raise UsageError(f"{output}: is there already; jobgen does not replace it") from None
    for left in imported.left:
        click.echo(f"{script}: {left}", err=True)


COMMANDS = {"lint": lint, "import": import_}
