"""The commands for editors and shells: `jobgen schema` and `jobgen completion`."""

from __future__ import annotations

from typing import Literal

import click


@click.command()
@click.argument("what", type=click.Choice(["job", "site"]))
def schema(what: Literal["job", "site"]) -> None:
    """Print the JSON Schema (draft-07) of job specs or of site profiles, for editors and CI."""
    from jobgen.schema import schema as schema_of

    click.echo(schema_of(what), nl=False)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options, files, sites and jobs."""
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    of_shell = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}[shell]
    command = context.find_root().command
    click.echo(of_shell(command, {}, "jobgen", "_JOBGEN_COMPLETE").source().strip())


COMMANDS = {"schema": schema, "completion": completion}
