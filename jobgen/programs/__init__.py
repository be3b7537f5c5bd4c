"""What a training program does with processes and GPUs, read from its source before the queue.

Nothing is imported or run: `ast` reads the program and the modules of its project.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from jobgen.plan.plan import Plan
from jobgen.plan.review import list_copied, list_settings, review
from jobgen.programs.rules import SEVERAL, JobSize, Remark, check_program, make_remark
from jobgen.spec.launchers import read_names
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec
from jobgen.spec.roles import list_names

__all__ = ["SEVERAL", "JobSize", "Remark", "check_program", "list_doubts", "look_at"]


def list_doubts(loaded: LoadedSpec, plan: Plan) -> Iterator[str]:
    """Yield what a spec and its program can hardly mean, each with its place."""
    copied, known = list_copied(loaded.spec.snapshot), list_names(loaded.spec)
    yield from (f"warning: {problem}" for problem in review(loaded, plan, copied))
    apart = loaded.spec.resources.nodes != 1
    plans = [role.plan for role in plan.roles.members] if plan.roles else [plan]
    for one, part in zip(plans, loaded.programs(), strict=True):
        yield from map(str, look_at(one, copied, known, part.spec, apart=apart))


def look_at(
    plan: Plan,
    copied: tuple[str, ...] | None = None,
    known: Iterable[str] = (),
    spec: JobSpec | None = None,
    *,
    apart: bool = False,
) -> list[Remark]:
    """Return what a look into a plan's program finds, from the folder that jobs are submitted from.

    `known` are variables that the other roles of the job give it, which are `apart` on several
    nodes. There is nothing to find in a program that is not here, or not in Python.
    """
    words = list(plan.program.command)
    if plan.launch.body and plan.program.script:
        return _check_body(plan, words[1])
    size = _measure(plan, copied, known, spec)._replace(apart=apart)
    while words[1:] and os.path.basename(words[0]) in read_names("prefixes"):
        del words[0]
    if words and re.fullmatch(r"python[\d.]*|(ba|z)?sh", os.path.basename(words[0])):
        del words[0]
        while words and words[0][:1] == "-" and words[0] != "-m":
            del words[0]
    name, *arguments = words or [""]
    python = size._replace(arguments=tuple(arguments))
    if plan.launch.plain:  # it starts once on each node, and sees to the others by itself
        python = python._replace(world_size=1)
    if name == "-m":
        return _check_module(arguments[0], python._replace(arguments=tuple(arguments[1:])))
    path = os.path.expandvars(os.path.expanduser(name))
    started = "/" in name and words == [*plan.program.command] and os.path.isfile(path)
    shut = started and not os.access(path, os.X_OK)
    bits = [make_remark("not-a-program.bits", path)] if shut else []
    if path.endswith((".sh", ".bash")):
        from jobgen.programs.wrapper import check_wrapper

        return bits + check_wrapper(path, size._replace(arguments=tuple(arguments)))
    named = path.endswith(".py") or (name and not started and os.path.isdir(path))
    return bits + check_program(path, python) if named else bits


def _check_body(plan: Plan, script: str) -> list[Remark]:
    from jobgen.programs.wrapper import check_body
    from jobgen.rendering.render import render

    path = os.path.expandvars(os.path.expanduser(script.removeprefix("$work_dir/")))
    lines = render(plan).splitlines() if plan.can.sign else []
    return check_body(path, [line for line in lines if line.startswith(f"{plan.can.sign} ")])


def _measure(
    plan: Plan, copied: tuple[str, ...] | None, known: Iterable[str], spec: JobSpec | None
) -> JobSize:
    nodes, tasks = plan.nodes, plan.array.tasks if plan.array else ()
    own = f"{plan.program.command} {plan.environment.setup}"
    set_here = f"{own} {dict(plan.environment.variables)}"
    chain, group = plan.walltime.chain, nodes.own[0]
    args = spec.run.args if spec else None
    unset = (
        [name for name, value in args.items() if value is False] if isinstance(args, dict) else []
    )
    gpu = plan.requests.gpu_type or plan.defaults.gpu_type or plan.defaults.node.gpu or ""
    settings = [*list_settings(plan.program.command), ("gpu", gpu)]
    settings += [("variable", name) for name in plan.environment.variables]
    varied = [name for name in (tasks[0].variables if tasks else ()) if name not in own]
    return JobSize(
        nodes=len(nodes.processes),
        processes=max(nodes.processes),
        world_size=nodes.world_size,
        agents=not plan.launch.direct,
        gpus=max(group.gpus for group in nodes.groups),
        copied=copied,
        tasks=max(1, len(tasks)),
        # Tasks that differ by the variable alone.
        alike=bool(tasks) and not any(map(any, tasks)) and "JOBGEN_TASK" not in own,
        variables=_list_variables(plan, known),
        scheduler=plan.can.name,
        ray=plan.launch.ray,
        plain=plan.launch.plain,
        packed=nodes.together > 1,
        chained=(chain is not None and chain.goes_on)
        or plan.walltime.restarts + plan.launch.max_restarts > 0,
        cpus=(group.cpus or 0) // group.processes,
        swept=tuple(task.arguments for task in tasks[:20]) or ((),),
        unset=tuple(unset),
        setup=set_here,
        varied=tuple(varied),
        offline=plan.site.internet == "none" and not re.search("OFFLINE|WANDB_MODE", set_here),
        metrics=os.path.basename(spec.report.metrics or "") if spec and spec.report else "",
        roles=", ".join(f"${name}" for name in known if name.endswith("_ADDR")),
        settings="\n".join(map(" ".join, settings)),
        fewest=nodes.fewest or 0,
    )


def _list_variables(plan: Plan, known: Iterable[str]) -> frozenset[str] | None:
    """Return the variables that a job has; None where its environment may set others."""
    own = plan.environment
    sources = re.search(r"source|^ *\. |eval", own.setup or "")
    if own.modules or own.conda or own.container or sources:
        return None
    exported = re.findall(r"\b([A-Za-z_]\w*)=", own.setup or "")
    swept = plan.array.tasks[0].variables if plan.array else ()
    return frozenset((*known, *own.variables, *own.from_shell, *exported, *swept, *os.environ))


def _check_module(module: str, size: JobSize) -> list[Remark]:
    """Look into a module of this folder; one that its own package does not have is a remark."""
    base, top = module.replace(".", "/"), module.partition(".")[0]
    for path in (f"{base}.py", f"{base}/__main__.py"):
        if os.path.isfile(path):
            return check_program(path, size, "")
    if os.path.isdir(base):
        return [make_remark("not-a-program.package", base)]
    if os.path.isfile(f"{top}/__init__.py"):
        return [make_remark("module-missing", top, name=module)]
    return []
