"""What the commands share that take a spec: its options, its plan, and how they print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jobgen.loaded import LoadedSpec
    from jobgen.plan import Plan

Command = Callable[..., Any]
DEFAULT_SPEC = "job.yaml"
FILE = click.Path(readable=False)  # completes names of files, and checks nothing
json_option = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


def completes(module: str, function: str) -> Callable[..., list[str]]:
    """For a shell's completion: the words that a function of a module of jobgen gives."""

    def complete(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
        from importlib import import_module

        words: list[str] = getattr(import_module(f"jobgen.{module}"), function)()
        return [word for word in words if word.startswith(begun)]

    return complete


def _settings(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """For a shell's completion: what may follow --set."""
    from jobgen.completion import settings

    params = context.params
    # Click leaves arguments in `args` where the option at the end has no value yet.
    paths = (*context.args, *(params.get("specs") or ()), params.get("path") or DEFAULT_SPEC)
    overrides = params.get("overrides") or ()
    return settings(begun, spec=paths[0], site=params.get("site"), overrides=overrides)


def settle_first() -> None:
    """Before a command looks at jobs: what became of submissions that were interrupted."""
    from jobgen import settle

    for message in settle():
        click.echo(message, err=True)


def target_options(command: Command) -> Command:
    """--scheduler, --site, --set and --no-limits, which all that renders takes."""
    for decorate in (
        click.option(
            "--no-limits", is_flag=True, help="Do not check what the site's profile forbids."
        ),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="PATH=VALUE",
            help="Set one value of the spec, such as resources.nodes=4; null takes it out.",
            shell_complete=_settings,
        ),
        click.option(
            "--site",
            metavar="NAME",
            help="The cluster's profile, not the spec's.",
            shell_complete=completes("site", "names"),
        ),
        click.option(
            "--scheduler",
            type=click.Choice(["slurm", "pbs", "local"]),
            help="The scheduler, not the spec's.",
        ),
    ):
        command = decorate(command)
    return command


def plan_of(
    path: str, target: Mapping[str, Any], task: int | None = None
) -> tuple[LoadedSpec, Plan]:
    """The spec in a file and its plan, by the target options; what there is to note is said.

    With `task`, that of this task of its array alone.
    """
    loaded = _load(path, target)
    plan = _resolve(loaded, target, task)
    for note in plan.notes:
        click.echo(note, err=True)
    return loaded, plan


def plans_of(path: str, target: Mapping[str, Any]) -> list[Plan]:
    """The plans of all tasks of a spec's array, each alone; of a spec without one, its plan."""
    loaded = _load(path, target)
    if loaded.spec.array is None:
        return [plan_of(path, target)[1]]
    plans = [_resolve(loaded, target, task) for task, _ in enumerate(loaded.spec.array.choices())]
    for note in plans[0].notes:
        click.echo(note, err=True)
    return plans


def _load(path: str, target: Mapping[str, Any]) -> LoadedSpec:
    from jobgen import load

    given = target["scheduler"] or target["site"]
    return load(path, target["overrides"], user=True, target=given)


def _resolve(loaded: LoadedSpec, target: Mapping[str, Any], task: int | None) -> Plan:
    from jobgen import resolve

    limits, site = not target["no_limits"], target["site"]
    return resolve(loaded, scheduler=target["scheduler"], site=site, limits=limits, task=task)


def put_out(text: str) -> None:
    """Data to stdout, now: a pipe that is closed is noticed here and not when Python ends."""
    sys.stdout.write(text)
    sys.stdout.flush()
