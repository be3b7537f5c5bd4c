"""`jobgen page`: the page that composes a job in the browser."""

from __future__ import annotations

import click

from jobgen.cli.options import FILE, put_err
from jobgen.errors import UsageError


@click.command()
@click.option("--out", type=FILE, metavar="DIR", help="Write the page's files there.")
@click.option("--serve", is_flag=True, help="Show the page on this machine, until Ctrl-C.")
@click.option(
    "--pyodide",
    required=True,
    metavar="DIR|URL",
    help="Where the files of Pyodide 314.0.7 are (npm package 'pyodide').",
)
@click.option("--site", "sites", multiple=True, metavar="NAME", help="Offer this site; repeatable.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="For --serve; else any.")
def page(out: str | None, serve: bool, pyodide: str, sites: tuple[str, ...], port: int) -> None:
    """Write a web page that composes jobs, or show it here.

    The page renders in the browser what 'jobgen render' renders here, with the same package.
    """
    from jobgen.page.build import build_page

    if (out is None) == (not serve):
        raise UsageError("give one of --out DIR and --serve")
    if out is not None:
        built = build_page(out, pyodide=pyodide, sites=sites)
        put_err(f"{built.folder}: {built.size / 1e6:.1f} MB, for any web server")
        return
    _serve(pyodide, sites, port)


def _serve(pyodide: str, sites: tuple[str, ...], port: int) -> None:
    import os
    import tempfile
    import webbrowser

    from jobgen.page.build import build_page
    from jobgen.page.serve import make_server

    with tempfile.TemporaryDirectory() as folder:
        built = build_page(os.path.join(folder, "page"), pyodide=pyodide, sites=sites)
        with make_server(str(built.folder), pyodide=built.pyodide, port=port) as server:
            address = f"http://127.0.0.1:{server.server_port}/"
            put_err(f"{address} shows the page; Ctrl-C ends it")
            webbrowser.open(address)
            server.serve_forever()


COMMANDS = {"page": page}
