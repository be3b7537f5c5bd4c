"""The commands of `jobgen sites`: a part of the command line, printing as it does."""

from __future__ import annotations

import click


@click.group(invoke_without_command=True)
@click.pass_context
def sites(context: click.Context) -> None:
    """List the site profiles there are; `show` and `test` look into one."""
    from jobgen import describe, site

    if context.invoked_subcommand is None:
        lines = [describe.line(name, site.find(name)) for name in site.names()]
        click.echo("".join(lines), nl=False)


@sites.command()
@click.argument("name")
def show(name: str) -> None:
    """Print a profile with all that it extends, and the address that each fact is from."""
    from jobgen import describe, site

    click.echo(describe.text(site.find(name)), nl=False)


@sites.command()
@click.argument("file")
def test(file: str) -> None:
    """Check a profile before it is shipped: its form, what it extends, its sources."""
    from jobgen import describe, site

    click.echo(describe.verdict(file, site.read(file)), nl=False)


COMMANDS = {"sites": sites}
