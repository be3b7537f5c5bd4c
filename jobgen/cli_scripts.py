"""The command that reads scripts people already have: `jobgen lint`."""

from __future__ import annotations

import sys

import click

from jobgen.errors import LintFoundError


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


COMMANDS = (lint,)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
