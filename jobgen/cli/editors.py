"""What helps to write elsewhere: `jobgen schema`, `jobgen completion` and `jobgen page`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Literal

import click

from jobgen.cli.options import options_of
from jobgen.cli.printing import put_err
from jobgen.errors import UsageError
from jobgen.output import offer_line


def write_schema(what: Literal["job", "site"], *, queues: Iterable[str] = ()) -> str:
    """Return the JSON Schema of job specs or of site profiles.

    A spec's editor completes the names of jobgen's own sites, and of `queues`.
    """
    from jobgen.sites.profile import SiteProfile
    from jobgen.spec.json_schema import make_schema
    from jobgen.spec.model import JobSpec

    cls = {"job": JobSpec, "site": SiteProfile}[what]
    text = make_schema(cls, title=f"jobgen {what}")
    if what == "site":
        return text
    import json

    from jobgen.sites.search import BUILT_IN

    document = json.loads(text)
    sites = (name[:-5] for name in os.listdir(BUILT_IN) if name.endswith(".yaml"))
    for key, names in (("site", sites), ("queue", queues)):
        if examples := sorted(names):
            document["properties"][key]["examples"] = examples
    return json.dumps(document, indent=2) + "\n"


@click.command()
@click.argument("what", type=click.Choice(["job", "site"]))
def schema(what: Literal["job", "site"]) -> None:
    """Print the JSON Schema (draft-07) of job specs or of site profiles, for editors and CI."""
    click.echo(write_schema(what), nl=False)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options, files, sites, queues and jobs.

    For bash, add this to ~/.bashrc: eval "$(jobgen completion bash)"
    """
    from click.shell_completion import get_completion_class

    shell_class = get_completion_class(shell)
    assert shell_class is not None
    command = context.find_root().command
    click.echo(shell_class(command, {}, "jobgen", "_JOBGEN_COMPLETE").source().strip())


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
        words = sys.argv[1:] if out or serve else ["page", "--serve"]
        line = f"{GET_PYODIDE}\n    {offer_line('jobgen', *words, '--pyodide', 'pyodide')}"
        raise UsageError(f"jobgen page needs Pyodide; get it and name its folder:\n{line}")
    if (out is None) == (not serve):
        raise UsageError("give either --out DIR or --serve")
    if out is not None:
        built = build_page(out, pyodide=pyodide, sites=sites)
        put_err(f"{built.folder}: {built.size / 1e6:.1f} MB, for any web server")
        return
    _serve(pyodide, sites, port)


def _serve(pyodide: str, sites: tuple[str, ...], port: int) -> None:
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
