"""For editors and shells: `jobgen schema`, `jobgen completion`, and what completes --set."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args, get_origin

import click

from jobgen.errors import JobgenError

if TYPE_CHECKING:
    from jobgen.sites.profile import SiteProfile


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
    from jobgen.spec.model import JobSpec

    key, equals, _ = begun.partition("=")
    if not equals:
        return [f"{path}=" for path in _list_keys(JobSpec) if path.startswith(begun)]
    words = _list_values(key)
    if key == "site":
        words = search.list_names()
    elif key in ("queue", "resources.gpu_type"):
        profile = _read_profile(spec, site, overrides)
        known = (profile.queues if key == "queue" else profile.gpu_types) if profile else None
        words = list(known or ())
    return [f"{key}={word}" for word in words if f"{key}={word}".startswith(begun)]


def _list_keys(cls: type, above: str = "") -> Iterator[str]:
    from jobgen.spec.fields import is_record, read_fields

    for name, field in read_fields(cls).items():
        if is_record(field.kinds[0].type):
            yield from _list_keys(field.kinds[0].type, f"{above}{name}.")
        else:
            yield above + name


def _list_values(key: str) -> list[str]:
    """Return the words that a key takes, if they are few."""
    from jobgen.spec.fields import is_record, read_fields
    from jobgen.spec.model import JobSpec

    cls: type = JobSpec
    *outer, last = key.split(".")
    for name in outer:
        field = read_fields(cls).get(name)
        if field is None or not is_record(field.kinds[0].type):
            return []
        cls = field.kinds[0].type
    field = read_fields(cls).get(last)
    for kind in field.kinds if field else ():
        if get_origin(kind.type) is Literal:
            return list(get_args(kind.type))
        if kind.type is bool:
            return ["true", "false"]
    return []


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
