"""What a training program does with processes and GPUs, read from its source before the queue.

Nothing is imported or run: `ast` reads the program and the modules of its project.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from jobgen.plan.limits import has_option
from jobgen.plan.plan import Plan
from jobgen.programs.look import check_program
from jobgen.programs.project import list_packages
from jobgen.programs.remark import SEVERAL, JobSize, Remark, make_remark
from jobgen.programs.source import list_started
from jobgen.review import review
from jobgen.review.facts import parts_tasks
from jobgen.review.files import list_copied, list_roots
from jobgen.review.subject import TASK
from jobgen.spec.launchers import load_launchers
from jobgen.spec.load import LoadedSpec
from jobgen.spec.value_types import make_option

__all__ = ["SEVERAL", "JobSize", "Remark", "check_program", "list_doubts", "look_at"]


def list_doubts(loaded: LoadedSpec, plan: Plan) -> Iterator[str]:
    """Yield what a spec and its program can hardly mean, each with its place."""
    copied = list_copied(loaded.spec.snapshot)
    yield from (f"warning: {problem}" for problem in review(loaded, plan, copied))
    for part, one in zip(loaded.programs(), plan.parts, strict=True):
        given = part.spec.run.keyed_args.items()
        off = tuple(make_option(key) for key, value in given if value is False)
        venv = part.spec.environment.venv or ""
        packages = list_packages(venv, one.environment)
        known = {"packages": packages, "venv": venv, "roles": "|".join(plan.list_elsewhere(one))}
        others = [other.program.command for other in plan.parts if other is not one]
        known["ports"] = "|".join(re.findall(r"--port[= ',]+(\d+)", f"{others}"))
        for remark in look_at(one, copied=copied, off=off, **known):
            yield f"{remark.level}: {_place(part, remark)} [{remark.rule}]"


def _place(loaded: LoadedSpec, remark: Remark) -> object:
    """Return a remark; one about an argument that the spec gives with its place there."""
    name = remark.option.lstrip("-")
    names = dict.fromkeys((name, name.replace("-", "_"), name.replace("_", "-")))
    tasks = len(loaded.spec.array.list or ()) if loaded.spec.array else 0
    heads = ["run.args", "array.values", "array.zip", *map("array.list[{}]".format, range(tasks))]
    keys = [f"{head}.{word}" for head in heads for word in names]
    given = [key for key in keys if name and loaded.find_path(key) in loaded.positions]
    if given or remark.rule == "unknown-argument":
        path = [*given, "run.args"][0]
        return loaded.problem(path, f"{remark.path}: {remark.message}", remark.hint)
    return f"{remark.path}:{remark.line}: {remark.message}; {remark.hint}"


def look_at(plan: Plan, **known: Any) -> list[Remark]:
    """Return what a look into a plan's program finds, from the folder that jobs are submitted from.

    `known` are fields of a JobSize that the spec tells and its plan does not. There is nothing to
    find in a program that is not here, or not in Python.
    """
    words = list(plan.program.command)
    if plan.launch.body and plan.program.script:
        return _check_body(plan, _expand(words[1].removeprefix("$work_dir/")))
    launcher, behind = "", words
    if words[0] in load_launchers()["launcher_flags"]:
        from jobgen.programs.wrapper import take_launcher

        launcher, behind = take_launcher(words)
    started = list_started(behind)
    name, *arguments = started or [""]
    itself = words == started and "/" in name
    known |= {"arguments": tuple(arguments), "itself": itself, "stepped": launcher}
    size = _measure(plan)._replace(**known)
    return _check_started(_expand(name), list_roots(plan.environment.variables), size)


def _check_started(path: str, roots: Sequence[str], size: JobSize) -> list[Remark]:
    """Look into a shell script, a Python program or, by -m, its module, which the job starts."""
    if path.endswith((".sh", ".bash")):
        from jobgen.programs.wrapper import check_wrapper

        return check_wrapper(path, size)
    # Where plain mode starts it once on each node, it sees to the others by itself.
    size = size._replace(world_size=1) if size.plain and size.processes == 1 else size
    if path == "-m":
        module, *arguments = size.arguments or ("",)
        return _check_module(module, roots, size._replace(arguments=tuple(arguments)))
    return check_program(path, size) if path.endswith(".py") or os.path.isdir(path) else []


def _check_module(module: str, roots: Sequence[str], size: JobSize) -> list[Remark]:
    """Look into a module of this folder, or of the first of `roots` that has it."""
    base = module.replace(".", "/")
    paths = [f"{root}{base}{end}" for root in roots for end in (".py", "/__main__.py")]
    for path in filter(os.path.isfile, paths):
        return check_program(path, size, *(root.rstrip("/") for root in roots))
    folders = filter(os.path.isdir, (root + base for root in roots))
    return [make_remark("not-a-program.package", folder) for folder in folders][:1]


def _expand(path: str) -> str:
    return os.path.expandvars(os.path.expanduser(path))


def _check_body(plan: Plan, path: str) -> list[Remark]:
    from jobgen.programs.wrapper import check_body
    from jobgen.rendering.render import render

    lines = render(plan).splitlines() if plan.can.sign else []
    return check_body(path, [line for line in lines if line.startswith(f"{plan.can.sign} ")])


def _measure(plan: Plan) -> JobSize:
    nodes, tasks, environment = plan.nodes, plan.array.tasks, plan.environment
    walltime = plan.walltime
    again = {"on_walltime": walltime.chain.goes_on, "on_failure": walltime.restarts}
    again["launch.max_restarts"] = plan.launch.max_restarts
    again["--requeue"] = has_option(plan.requests.directives, "--requeue")
    setup = f"{plan.program.command} {environment.setup} {dict(environment.variables)}"
    alike = bool(tasks) and not any(map(any, tasks)) and not re.search(TASK, setup)
    return JobSize(
        nodes=len(nodes.processes),
        processes=max(nodes.processes),
        world_size=nodes.world_size,
        agents=not plan.launch.direct,
        # Of a role on a part of its nodes, its own.
        gpus=max(group.gpus for group in nodes.own),
        tasks=1 if parts_tasks(plan) else max(1, len(tasks)),
        alike=alike,
        varied=tuple(name for name in (tasks[0].variables if tasks else ()) if name not in setup),
        scheduler=plan.can.name,
        ray=plan.launch.ray,
        plain=plan.launch.plain,
        lone=plan.lone and "hydra/launcher=" not in setup,  # which starts others
        chained=" and ".join(key for key, starts in again.items() if starts),
        goes_on=walltime.chain.goes_on,
        resubmits=walltime.chain.then in ("resubmit", "held"),
        swept=tuple(task.arguments for task in tasks[:20]) or ((),),
        batch=plan.can.batch,
        setup=setup,
        asked=f"{plan.launch.launcher} {plan.can.own_path=} {plan.requests} {environment}",
        offline=plan.site.internet == "none",
        fewest=nodes.fewest or 0,
        cpus=nodes.own[0].cpus or 0,
    )
