"""For editors and shells: `jobgen schema`, `jobgen completion`, and what completes --set."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import click

from jobgen.errors import JobgenError

if TYPE_CHECKING:
    from jobgen.sites.profile import SiteProfile
    from jobgen.spec.fields import Kind


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


# As click's own, but for "=" and ":", which bash takes for words by themselves where jobgen reads
# `--set queue=gpu` as two words, and for the blank that would follow `queue=`.
_BASH = Path(__file__).with_name("completion.bash")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script: commands, options, files, sites, queues and jobs.

    For bash, add this to ~/.bashrc: eval "$(jobgen completion bash)"
    """
    from click.shell_completion import BashComplete, add_completion_class, get_completion_class

    class Bash(BashComplete):
        source_template = _BASH.read_text()

    add_completion_class(Bash)
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    command = context.find_root().command
    click.echo(shell_class(command, {}, "jobgen", "_JOBGEN_COMPLETE").source().strip())


def list_settings(
    begun: str, *, spec: str, site: str | None, overrides: Sequence[str]
) -> list[str]:
    """Return the words that continue `begun`, such as `queue=gpuvolta`, for the job's site.

    That is `site` if it is given, else what `overrides` or the file `spec` say.
    """
    from jobgen.sites import search
    from jobgen.spec.fields import is_record
    from jobgen.spec.model import JobSpec
    from jobgen.spec.words import list_paths

    known, (key, equals, _) = list_paths(JobSpec), begun.partition("=")
    if not equals:
        records = {path for path, kinds in known.items() if is_record(kinds[0].type)}
        ends = (path for path in known if path.rpartition(".")[0] in ("", *records))
        return [f"{path}=" for path in ends if path.startswith(begun) and path not in records]
    words = list(_list_values(known.get(key, ())))
    if key == "site":
        words = search.list_names()
    elif key in ("queue", "resources.gpu_type"):
        profile = _read_profile(spec, site, overrides)
        named = (profile.queues if key == "queue" else profile.gpu_types) if profile else None
        words = list(named or ())
    return [f"{key}={word}" for word in words if f"{key}={word}".startswith(begun)]


def _list_values(kinds: Iterable[Kind]) -> Iterator[str]:
    """Yield the words that a key takes, if they are few."""
    from jobgen.spec.fields import is_literal

    for kind in kinds:
        if is_literal(kind.type):
            yield from get_args(kind.type)
        elif kind.type is bool:
            yield from ("true", "false")


def _read_profile(spec: str, site: str | None, overrides: Sequence[str]) -> SiteProfile | None:
    from jobgen.sites import search
    from jobgen.spec.load import load

    given = [text.partition("=")[2] for text in overrides if text.startswith("site=")]
    try:
        if site is None and given:
            site = given[-1]
        elif site is None and os.path.isfile(spec):
            site = load(spec).spec.site
        return search.load(site) if site else None
    except (JobgenError, OSError):  # a shell is no place for a complaint
        return None
