"""The commands of `jobgen sites`: a part of the command line, printing as it does."""

from __future__ import annotations

import os

import click

from jobgen.cli_target import FILE, completes, json_option, put_out


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def sites(context: click.Context, as_json: bool) -> None:
    """List the site profiles there are; `show` and `test` look into one, `capture` makes one."""
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


@sites.command()
@click.option("--name", metavar="NAME", help="Keep it as your own profile of that name.")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Write it there.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def capture(name: str | None, output: str | None, force: bool) -> None:
    """Print a profile of this cluster: queues, limits and nodes, as its scheduler tells them.

    With --name, jobs can say `site: NAME` from then on.
    """
    import time
    from pathlib import Path

    from jobgen import capture as capturing
    from jobgen import site
    from jobgen.process import TIMEOUT_SECONDS
    from jobgen.runs import write_atomically

    if name is not None and output is not None:
        raise click.UsageError("--name and --output exclude each other")
    if name is not None:
        output = site.own_file(name)
    if output is not None and os.path.exists(output) and not force:
        raise click.UsageError(f"{output}: is there already; --force replaces it")
    found = capturing.capture(today=time.strftime("%Y-%m-%d"), timeout=TIMEOUT_SECONDS)
    if output is None:
        put_out(capturing.text(found))
        return
    write_atomically(Path(output), capturing.text(found))
    click.echo(f"{output}: what {found.name} tells; 'jobgen sites test' checks it", err=True)


COMMANDS = {"sites": sites}
