"""For editors and shells: `jobgen schema` and `jobgen completion`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal

import click


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
