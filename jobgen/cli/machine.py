"""The commands about clusters and this machine: `jobgen doctor`, `jobgen init`, `jobgen sites`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any

import click

from jobgen.cli.options import (
    DEFAULT_SPEC,
    FILE,
    STDOUT,
    complete_words,
    options_of,
    refuse_together,
)
from jobgen.cli.printing import can_ask, put_answer, put_err, put_out
from jobgen.cli.target import add_target_options, read_spec, try_plan
from jobgen.errors import FaultsFoundError, Problem, UsageError
from jobgen.output import offer_line, write_file
from jobgen.schedulers.registry import PACKAGES, SCRIPT_ENDS

if TYPE_CHECKING:
    from jobgen.machine.checks import Check
    from jobgen.machine.first_spec import Machine, Question, Wishes
    from jobgen.plan.plan import Plan

# Doubts of which the checks of paths tell, too.
_OF_PATHS = (
    r": (run\.script|environment\.(venv|stage|container\.image)): .* (is not here|has no bin/)"
)


@click.command()
@click.argument("path", required=False, type=FILE, metavar="[SPEC]")
@options_of("doctor")
@add_target_options
def doctor(path: str | None, as_json: bool, **target: Any) -> None:
    """Check that this machine can submit jobs, and the queue, account and paths of a spec.

    Reads job.yaml if it is in this folder. Takes a few seconds. Exits with 8 if something would
    make jobs fail.
    """
    from jobgen.machine.checks import find_worst, format_checks
    from jobgen.machine.doctor import check_machine
    from jobgen.programs import list_doubts

    loaded, plan, site = None, None, None
    of_spec: Sequence[Check] = ()
    if path is None and os.path.exists(DEFAULT_SPEC):
        path = DEFAULT_SPEC
    if path is not None:
        loaded = read_spec(path, target)
        plan, refused, notes = try_plan(loaded, target)
        put_err("".join(f"{note}\n" for note in notes), end="")
        of_spec = _check_spec(refused, list_doubts(loaded, plan))
        site = target["site"] or loaded.spec.site
    elif any(target.values()):
        raise UsageError("--scheduler, --site, --set and --no-limits need a spec")
    checks = [*check_machine(plan, site, loaded), *of_spec]
    data = {"verdict": find_worst(checks), "checks": checks}
    put_answer(data, format_checks(checks), as_json=as_json)
    if failed := dict.fromkeys(check.what for check in checks if check.verdict == "fail"):
        raise FaultsFoundError(f"not ready: {', '.join(failed)}")


def _check_spec(refused: Sequence[Problem], doubts: Iterable[str]) -> list[Check]:
    """Return what a plan refuses, and what is doubtful in its spec, as checks of this machine."""
    from jobgen.machine.checks import Check

    rest = (one for one in doubts if not re.search(_OF_PATHS, one))
    return [
        *(Check("spec", "fail", str(one._replace(hint="")), one.hint) for one in refused),
        *(Check("spec", "warn", one.removeprefix("warning: ")) for one in rest),
    ]


@click.command()
@click.argument("file", default=DEFAULT_SPEC, type=FILE, metavar="[FILE]")
@options_of("init")
def init(file: str, force: bool, as_json: bool, **given: Any) -> None:
    """Inspect this machine and write a commented job.yaml (`-`: stdout).

    On a terminal, asks for what it cannot detect.
    """
    from jobgen.machine.first_spec import Wishes, inspect_machine, write

    wishes = Wishes(**given)
    refuse_together({"--site": wishes.site, "--scheduler": wishes.scheduler})
    refuse_together({"--script": wishes.script, "--module": wishes.module})
    refuse_together({"--json": as_json, "a file called -": file == STDOUT})
    if file != STDOUT:
        _refuse_file(file, force=force)
    machine = inspect_machine()
    if can_ask():
        wishes = _ask_wishes(machine, wishes)
    text, plan = write(machine, wishes, file=DEFAULT_SPEC if file == STDOUT else file)
    for note in plan.notes:
        put_err(note)
    if file == STDOUT:
        put_out(text)
        return
    write_file(file, text)
    _write_schema_beside(file, plan)
    if as_json:
        put_out({"file": file, "scheduler": plan.scheduler, "notes": plan.notes})
    spec = [] if file == DEFAULT_SPEC else [file]
    explain, submit = (offer_line("jobgen", what, *spec) for what in ("explain", "submit"))
    put_err(f"{file}: written; read it, then: {explain}, {submit}")


def _write_schema_beside(file: str, plan: Plan) -> None:
    """Write the schema that the first line of a spec names, unless it is there."""
    from jobgen.cli.editors import write_schema

    schema = os.path.join(os.path.dirname(file), "job.schema.json")
    if not os.path.lexists(schema):  # nothing is written through a link
        write_file(schema, write_schema("job", queues=plan.site.queues or ()))


def _refuse_file(file: str, *, force: bool) -> None:
    from jobgen.spec.table import names_program, offer_init

    ending = os.path.splitext(file)[1]
    if not ending:
        line = offer_line("jobgen", "init", re.sub("/$", "/job", file) + ".yaml")
        raise UsageError(f"{file} does not name a YAML file; type: {line}")
    if ending == ".py":
        other = "job.yaml starts it; for one more, " * names_program("job.yaml", file)
        line = offer_init(file)[0]
        raise UsageError(f"{file} is a program, and init writes a spec; {other}type: {line}")
    if ending in SCRIPT_ENDS:
        line = offer_line("jobgen", "import", file, "-o", f"{os.path.splitext(file)[0]}.yaml")
        raise UsageError(f"{file} is a job script, and init writes a spec; type: {line}")
    if os.path.lexists(file) and not force:
        raise UsageError(f"{file} already exists; --force overwrites it")


def _ask_wishes(machine: Machine, wishes: Wishes) -> Wishes:
    import textwrap

    from jobgen.machine.first_spec import ask_for_cluster, asks_for_cluster, list_questions
    from jobgen.sites import search

    if asks_for_cluster(machine, wishes):
        known = f"Known clusters: {', '.join(search.list_names())}."
        put_err(textwrap.fill(known, 78, break_on_hyphens=False))
        where = _ask(ask_for_cluster())
        wishes = wishes._replace(**{"scheduler" if where in PACKAGES else "site": where})
    for question in list_questions(machine, wishes):
        wishes = wishes._replace(**{question.key: _ask(question)})
    return wishes


def _ask(question: Question) -> Any:
    """Ask until the answer is valid."""

    def read(answer: object) -> Any:
        try:
            return question.read(str(answer))
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return click.prompt(question.words, default=question.default, value_proc=read, err=True)


@click.group(invoke_without_command=True)
@options_of("sites")
@click.pass_context
def sites(context: click.Context, as_json: bool) -> None:
    """List, show, test, capture or check profiles."""
    from jobgen.sites import describe, search

    if context.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(f"give --json to {context.invoked_subcommand}")
        return
    profiles = [(name, search.find(name)) for name in search.list_names()]
    data = {"sites": list(starmap(describe.summarise, profiles))}
    put_answer(data, "".join(starmap(describe.format_line, profiles)), as_json=as_json)


@sites.command()
@click.argument("name", shell_complete=complete_words("sites.search", "list_names"))
@options_of("sites show")
def show(name: str, as_yaml: bool, as_json: bool) -> None:
    """Show what jobgen knows about a site: queues, GPUs, network, rules, and their sources."""
    from jobgen.sites import describe, search
    from jobgen.sites.sheet import format_sheet

    site = search.find(name)
    if as_json:
        data = {"name": name, "files": site.files, "profile": describe.make_data(site.profile)}
        put_out(data)
    elif as_yaml:
        put_out(describe.format_text(site))
    else:
        put_out(format_sheet(name, site, today=time.strftime("%Y-%m-%d")))


@sites.command()
@click.argument("file", type=FILE)
@options_of("sites test")
def test(file: str, as_json: bool) -> None:
    """Check a profile: its form, what it extends, and its sources."""
    from jobgen.sites import describe, search

    site = search.read(file)
    remarks = describe.list_remarks(site)
    data = {"file": file, "scheduler": site.profile.scheduler, "remarks": remarks}
    rows = [f"{file}: valid, for {site.profile.scheduler}", *remarks, ""]
    put_answer(data, "\n".join(rows), as_json=as_json)


@sites.command()
@click.argument("name", required=False, shell_complete=complete_words("sites.search", "list_names"))
@click.pass_context
def check(context: click.Context, name: str | None) -> None:
    """Compare a profile with this cluster: scheduler, modules, paths and interfaces.

    Without NAME, checks the site that jobgen recognises here. Exits with 8 if anything differs.
    """
    from jobgen.machine import cluster, site_check
    from jobgen.process import TIMEOUT_SECONDS
    from jobgen.sites import search

    today = time.strftime("%Y-%m-%d")
    if name is not None:
        search.load(name)  # what is wrong with the name comes before any question
    captured = cluster.capture(today=today, timeout=TIMEOUT_SECONDS)
    if name is None:
        host = cluster.get_host_name(timeout=TIMEOUT_SECONDS)
        own = captured.recognise.cluster
        known = cluster.recognise(host=host, cluster=own, environment=os.environ).sites
        if not known:
            raise click.UsageError("no profile recognises this machine; name one: sites check NAME")
        name = known[0].name
    profile = search.load(name)
    differences = [
        *site_check.compare_scheduler(profile, captured),
        *site_check.compare_machine(profile),
    ]
    put_out(site_check.report(name, differences, today))
    if differences:
        context.exit(8)


@sites.command()
@options_of("sites capture")
def capture(name: str | None, output: str | None, force: bool) -> None:
    """Print a profile of this cluster, with the queues, limits and nodes of its scheduler.

    With --name, specs can use it as `site: NAME`.
    """
    from jobgen.machine import cluster
    from jobgen.process import TIMEOUT_SECONDS
    from jobgen.sites import search

    refuse_together({"--name": name, "--output": output})
    if output == STDOUT:
        output = None
    if name is not None:
        output = search.name_own_file(name)
    if output is not None and os.path.exists(output) and not force:
        raise click.UsageError(f"{output} already exists; --force overwrites it")
    captured = cluster.capture(today=time.strftime("%Y-%m-%d"), timeout=TIMEOUT_SECONDS)
    if output is None:
        put_out(cluster.write_profile(captured))
        return
    write_file(output, cluster.write_profile(captured))
    check = offer_line("jobgen", "sites", "test", output)
    put_err(f"{output}: written from {captured.title}; check it with {check}")
