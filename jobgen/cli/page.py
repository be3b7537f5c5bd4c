"""`jobgen page`: the page that composes a job in the browser."""

from __future__ import annotations

import click

from jobgen.cli.options import options_of
from jobgen.cli.printing import put_err
from jobgen.errors import UsageError


@click.command()
@options_of("page")
def page(
    out: str | None, serve: bool, pyodide: str | None, sites: tuple[str, ...], port: int
) -> None:
    """Build a web page that composes jobs, or serve it here.

    The page runs jobgen in the browser and renders the same scripts as `jobgen render`.
    """
    from jobgen.page.build import GET_PYODIDE, build_page

    if pyodide is None:
        raise UsageError(f"jobgen page needs Pyodide; get it and name its folder:\n{GET_PYODIDE}")
    if (out is None) == (not serve):
        raise UsageError("give either --out DIR or --serve")
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
            put_err(f"serving {address}; stop with Ctrl-C")
            webbrowser.open(address)
            server.serve_forever()
