"""The commands of `jobgen sites`: a part of the command line, printing as it does."""

from __future__ import annotations

import click

from jobgen.cli_target import FILE, completes, json_option, put_out


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def sites(context: click.Context, as_json: bool) -> None:
    """List the site profiles there are; `show` and `test` look into one."""
    from jobgen import describe, site
    from jobgen.plain import to_json

    if context.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(f"give --json to {context.invoked_subcommand}")
        return
    found = {name: site.find(name) for name in site.names()}
    if as_json:
        put_out(to_json({"sites": [describe.summary(name, found[name]) for name in found]}))
    else:
        put_out("".join(describe.line(name, found[name]) for name in found))


@sites.command()
@click.argument("name", shell_complete=completes("site", "names"))
@json_option
def show(name: str, as_json: bool) -> None:
    """Print a profile with all that it extends, and the address that each fact is from."""
    from jobgen import describe, site
    from jobgen.plain import to_json

    found = site.find(name)
    if as_json:
        said = {"name": name, "files": found.files, "profile": describe.data(found.profile)}
        put_out(to_json(said))
    else:
        put_out(describe.text(found))


@sites.command()
@click.argument("file", type=FILE)
@json_option
def test(file: str, as_json: bool) -> None:
    """Check a profile before it is shipped: its form, what it extends, its sources."""
    from jobgen import describe, site
    from jobgen.plain import to_json

    found = site.read(file)
    if as_json:
        said = {"file": file, "scheduler": found.profile.scheduler}
        put_out(to_json({**said, "remarks": describe.remarks(found)}))
    else:
        put_out(describe.verdict(file, found))


COMMANDS = {"sites": sites}
