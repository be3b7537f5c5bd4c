"""What the commands share that take a spec: its options, what stands behind `--`, its plan."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from jobgen.cli.options import DEFAULT_SPEC, FILE, SPEC_ENDS, Command, options_of
from jobgen.cli.printing import put_err
from jobgen.errors import JobgenError, Position, Problem, SpecError
from jobgen.output import offer_line
from jobgen.schedulers.registry import SCRIPT_ENDS

if TYPE_CHECKING:
    from jobgen.plan.plan import Plan
    from jobgen.spec.load import LoadedSpec

# Options of sbatch and qsub for what changes from job to job: each sets one value of the spec.
SHORTCUTS = {
    "resources.nodes": (("-N", "--nodes"), "N", "Set resources.nodes."),
    "resources.gpus_per_node": (("--gpus-per-node",), "N", "Set resources.gpus_per_node."),
    "resources.walltime": (("-t", "--time"), "TIME", "Set resources.walltime, such as 4h."),
    "account": (("-A", "--account"), "NAME", "Set account."),
    "queue": (("-p", "-q", "--partition", "--queue"), "NAME", "Set queue, or partition on Slurm."),
    "name": (("-J", "--name"), "NAME", "Set name."),
}


def list_settings() -> list[str]:
    """Return what --set takes before a value, for each key of a spec."""
    from jobgen.spec.fields import is_record, list_paths
    from jobgen.spec.model import JobSpec

    known = list_paths(JobSpec)
    records = {path for path, field in known.items() if is_record(field.kinds[0].type)}
    ends = (path for path in known if path.rpartition(".")[0] in ("", *records))
    return [f"{path}=" for path in ends if path not in records]


def _complete_queue(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Complete the queues of the site that --site or the spec names."""
    from jobgen.sites import search
    from jobgen.spec.load import load

    params = context.params
    # Click leaves arguments in `args` while the option at the end has no value.
    paths = [*context.args, *(params.get("specs") or ()), params.get("path") or DEFAULT_SPEC]
    path: str = paths[0]
    try:
        site = params.get("site") or load(path).spec.site
        queues = search.load(site).queues if site else None
    except (JobgenError, OSError):  # a shell is no place for a complaint
        return []
    return [queue for queue in queues or () if queue.startswith(begun)]


class SpecCommand(click.Command):
    """A command whose words behind `--` are arguments of the program, over those of the spec."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as usual, with the words behind `--` as one override."""
        at = args.index("--") if "--" in args else len(args)
        before, words, override = args[:at], args[at + 1 :], list[str]()
        if words:
            from jobgen.spec.arguments import write_words

            override = ["--set", write_words(words)]
        rest = super().parse_args(ctx, before + override)
        if specs := self._list_specs(ctx):
            _refuse_values(ctx, specs)
            _refuse_taken(ctx)
        return rest

    def _list_specs(self, ctx: click.Context) -> Sequence[str]:
        """Return the specs given, or the usual one; none while a shell completes."""
        files = [param.name or "" for param in self.params if param.type is FILE]
        if ctx.resilient_parsing or not files:  # `rerun` takes a job
            return ()
        given: str | Sequence[str] = ctx.params[files[0]] or DEFAULT_SPEC
        return [given] if isinstance(given, str) else given

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Its usage, with the words behind `--`."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGUMENT...]"]


def _refuse_values(ctx: click.Context, specs: Sequence[str]) -> None:
    """Refuse what no spec is in the place of one, and the tasks of an array in that of a name."""
    parted = any("=" not in text for text in ctx.params.get("overrides") or ())
    absent = [path for path in specs if not os.path.exists(path)]
    others = [path for path in absent if "=" in path or parted]
    if others := _list_words(specs, absent) or others:
        ctx.fail(f"Got unexpected extra argument ({' '.join(others)})")
    if tasks := re.fullmatch(r"(\d+)-(\d+)", str(ctx.params.get("name"))):
        count = int(tasks[2]) - int(tasks[1]) + 1
        ctx.fail(f"-J is the name of the job; an array is --set array.tasks={count}")


def _refuse_taken(ctx: click.Context) -> None:
    """Refuse a spec as the value of an option whose own value is missing."""
    for path, (names, metavar, _) in SHORTCUTS.items():
        value, name = str(ctx.params.get(path.replace(".", "__"))), names[-1]
        if value.endswith(SPEC_ENDS) and os.path.isfile(value):
            line = offer_line("jobgen", ctx.info_name or "", name, metavar, value)
            ctx.fail(f"{name} lacks its value, and {value} stands in its place; type: {line}")


def _list_words(specs: Sequence[str], absent: Sequence[str]) -> list[str]:
    """Return a program, and words that name no file, in the place of specs beside a spec."""
    ends = (*SPEC_ENDS, *SCRIPT_ENDS)
    words = {one for one in absent if re.fullmatch(r"[\w.=+~-]+", one) and not one.endswith(ends)}
    return [one for one in specs[1:] if one in words or one.endswith(".py")]


def _merge_shortcuts(command: Command) -> Command:
    """Have a command get the options of `SHORTCUTS` among its overrides."""

    @wraps(command)
    def run(**params: Any) -> Any:
        for path in SHORTCUTS:
            if (text := params.pop(path.replace(".", "__"))) is not None:
                params["overrides"] += (f"{path}={text}",)
        return command(**params)

    return run


def add_target_options(command: Command) -> Command:
    """Add the options that every command takes that renders: where to, and changes of the spec."""
    command = _merge_shortcuts(command)
    for path, (names, metavar, about) in reversed(SHORTCUTS.items()):
        words: dict[str, Any] = {"metavar": metavar, "help": about}
        words |= {"shell_complete": _complete_queue} if path == "queue" else {}
        command = click.option(*names, path.replace(".", "__"), **words)(command)
    return options_of("target")(command)


def load_plan(
    path: str, target: Mapping[str, Any], task: int | None = None
) -> tuple[LoadedSpec, Plan]:
    """Return the spec in a file, and its plan or that of one task; print the plan's notes."""
    loaded = read_spec(path, target)
    return loaded, make_plans(loaded, target, [task])[0]


def make_plans(
    loaded: LoadedSpec, target: Mapping[str, Any], tasks: Sequence[int | None]
) -> list[Plan]:
    """Return the plans of tasks of a spec's array, each alone, or the plan of all for None.

    Their notes, which are the same, are printed.
    """
    plans = [make_plan(loaded, target, task) for task in tasks]
    for note in plans[0].notes:
        put_err(note)
    return plans


def read_spec(path: str, target: Mapping[str, Any]) -> LoadedSpec:
    """Return the spec in a file, by the target options."""
    from jobgen import load

    given = target["scheduler"] or target["site"]
    return load(path, target["overrides"], user=True, target=given)


def make_plan(loaded: LoadedSpec, target: Mapping[str, Any], task: int | None = None) -> Plan:
    """Return the plan of a spec, by the target options."""
    from jobgen import resolve

    limits, site = not target["no_limits"], target["site"]
    return resolve(loaded, scheduler=target["scheduler"], site=site, limits=limits, task=task)


def try_plan(
    loaded: LoadedSpec, target: Mapping[str, Any]
) -> tuple[Plan, Sequence[Problem], Sequence[str]]:
    """Return the plan of a spec, what is refused in it, and its notes."""
    try:
        plan = make_plan(loaded, target)
    except SpecError as refused:
        if refused.plan is None:
            raise
        return refused.plan, refused.problems, refused.warnings
    return plan, (), plan.notes


def explain_error(error: JobgenError, argv: Sequence[str]) -> str:
    """Return what an error says, and what the table knows of it beside what was typed."""
    from jobgen.spec.table import find_rule, join_words

    text = "\n".join(str(_name_place(one, argv)) for one in error.problems) or str(error)
    words = "\0".join(re.sub(r"^(--[\w-]+)=", "\\1\0", one) for one in argv).split("\0")
    facts = {"message": text, "plain": join_words(words), "at": argv[0]}  # an option apart
    say = find_rule("usage", facts).get("say", "")
    return f"{text}; {say}".rstrip() if say else text


def _name_place(problem: Problem, argv: Sequence[str]) -> Problem:
    """Return what is wrong with a setting, at the option that gave it; what solves it beside."""
    path = problem.where.file.removeprefix("--set ")
    if path == problem.where.file:
        return problem
    names = SHORTCUTS.get(path, [()])[0]
    options = [Position(name) for name in names for one in argv if one.startswith(name)]
    rest = f", as by {offer_line('--set', problem.setting)}" * problem.setting.endswith("=null")
    return problem._replace(where=[*options, problem.where][0], hint=f"{problem.hint}{rest}")
