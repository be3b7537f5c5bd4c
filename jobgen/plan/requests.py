"""What a job asks of its scheduler beside nodes and time: queue, features, e-mail, other jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jobgen.capabilities import Capabilities, get_capabilities
from jobgen.errors import Problem, UsageError
from jobgen.plan.decision import Context, Decision
from jobgen.plan.left_out import takes_constraint
from jobgen.plan.plan import Dependency, Mail, Plan, Requests
from jobgen.spec.model import After
from jobgen.spec.value_types import OF_CHUNK

_OPTION = re.compile(r"(?<!\S)(--[^\s=]+|-[^\s-])(?=(?:=|\s+)?(\S*))")  # and what follows it
_QUOTED = re.compile(r"\"[^\"]* -[^\"]*\"|'[^']* -[^']*'")  # what may look like options
_OF_CHUNKS = (
    *("resources.cpus_per_node", "resources.cpus_per_gpu", "resources.gpus_per_node"),
    *("resources.memory_per_node", "resources.constraint", "launch.processes_per_node"),
)


def decide(context: Context, plan: Plan) -> Decision[Requests]:
    """Decide what the scheduler is asked for, as far as it knows it."""
    spec, can, defaults = context.spec, context.site.can, plan.defaults
    after, problems = _plan_after(context)
    problems = [*_find_conflicts(context), *problems]
    if not can.batch:
        return Decision(Requests(after=after), problems=problems)
    account, suffix = spec.account, defaults.node.account_suffix or ""
    mail = spec.notify  # whose events are begin, end and fail in order
    constraint = _join_constraints(defaults.node.constraint, spec.resources.constraint)
    requests = Requests(
        account=account and account.removesuffix(suffix) + suffix,
        queue=defaults.queue,
        gpu_type=defaults.gpu_type,
        filesystems=defaults.filesystems,
        qos=spec.qos or defaults.qos,
        reservation=spec.reservation,
        constraint=constraint,
        exclusive=bool(spec.resources.exclusive),
        mail=mail and Mail(mail.email, tuple(sorted(mail.on or ("end", "fail")))),
        after=after,
        directives=tuple(line for line in spec.directives if line.startswith(f"{can.sign} ")),
    )
    problems += _find_repeats(context, plan._replace(requests=requests))
    notes = _advise(context, requests, lost=plan.left_out)
    return Decision(requests, problems=problems, notes=notes)


def parse_dependency(text: str, scheduler: str) -> Dependency:
    """Parse `ID` (which has to end well) or `KIND:ID[:ID]...`; raises UsageError."""
    kind, colon, rest = text.partition(":")
    if not colon:
        kind, rest = "afterok", text
    names = []
    can = get_capabilities(scheduler)
    for job in rest.split(":"):
        name = _write_id(job, can)
        if kind not in After._fields or not job:
            hint = f"write an id, or KIND:ID with one of {', '.join(After._fields)}"
            raise UsageError(f"--after {text!r}: {hint}")
        if name is None:
            raise UsageError(f"--after {text!r}: {_explain_id(job, can)}")
        names.append(name)
    return Dependency(kind, tuple(names))


def list_options(text: str) -> Iterator[str]:
    """Yield the options of a directive without its sign: `-l walltime`, `--gres gpu`, `--time`."""
    for option, value in _OPTION.findall(_QUOTED.sub("''", text)):
        if option in ("-l", "-W"):
            yield from (f"{option} {part.partition('=')[0]}" for part in value.split(","))
        else:
            yield f"{option} {value.partition(':')[0]}" if option == "--gres" else option


def _find_repeats(context: Context, plan: Plan) -> Iterator[Problem]:
    if not (context.spec.directives or plan.defaults.directives):
        return
    known, written = _list_keys(context), {*_list_written(plan)}
    # The author of a body may say in other words what the keys say.
    keys = known if context.spec.run.body is None else {}
    for index, line in enumerate(context.spec.directives):
        sign, _, text = line.partition(" ")
        for option in list_options(text) if sign == plan.can.sign else ():
            key, hint = keys.get(option), plan.can.refused.get(option)
            lost = "" if keys or option == "-l place" else _find_given(context, known.get(option))
            rules = {
                "option_counts": lost,
                "option_away": hint,
                "option_moves": option in plan.can.moves,
                "option_array": key == "array" and not plan.array.tasks,
                "option_twice": key in written,
            }
            facts = {"index": index, "option": option, "key": key, "hint": hint, "lost": lost}
            yield from context.refuse(rules, **facts)
    yield from _find_repeats_of_site(context, plan, keys, written)


def _find_repeats_of_site(
    context: Context, plan: Plan, keys: dict[str, str], written: set[str]
) -> Iterator[Problem]:
    for text in plan.defaults.directives:
        for option in list_options(text):
            key = keys.get(option)
            # A switch may stand in both; it is written once.
            rules = {"site_option": key in written and "=" in text}
            yield from context.refuse(rules, key=key, text=text)


def _find_given(context: Context, key: str | None) -> str:
    """Return what the command line gives of a key that a body's own directive decides."""
    keys = (key, *(_OF_CHUNKS if key == "resources.nodes" and context.site.can.chunks else ()))
    places = context.loaded.positions
    return next(
        (one for one in keys if one in places and places[one].file.startswith("--set ")), ""
    )


def _list_keys(context: Context) -> dict[str, str]:
    by_qos = {"-p": "", "--partition": "", "-q": "queue", "--qos": "queue"}
    own = by_qos if context.site.slurm.queue_option == "qos" else {}
    return {**context.site.option_keys, **own}


def _list_written(plan: Plan) -> Iterator[str]:
    """Yield the keys that the directives of a plan say, whether the spec or the site decided."""
    requests, groups, chain = plan.requests, plan.nodes.asked, plan.walltime.chain
    yield from ("name", "resources.nodes")
    for key, value in {
        # A body says by itself how many, unless the spec does.
        "launch.processes_per_node": any((not plan.launch.body, plan.nodes.tasks_asked)),
        "account": requests.account,
        "queue": requests.queue or (plan.can.reservation_queue and requests.reservation),
        "qos": requests.qos,
        "reservation": requests.reservation,
        "resources.gpus_per_node": plan.nodes.gpus,
        "resources.cpus_per_node": plan.nodes.cpus_asked and any(group.cpus for group in groups),
        "resources.memory_per_node": any(group.memory for group in groups),
        "resources.disk_per_node": plan.nodes.disk,
        "resources.constraint": requests.constraint,
        "resources.exclusive": requests.exclusive,
        "resources.walltime": plan.walltime.seconds,
        "on_walltime.notice": not chain.timer,
        "environment.from_shell": plan.environment.from_shell,
        "array": plan.array.tasks,
        "after": requests.after,
        "notify.email": requests.mail and requests.mail.email,
        "notify.on": requests.mail,
    }.items():
        if value:
            yield key


def _join_constraints(site: str | None, own: str | None) -> str | None:
    """Join the site's constraint and the spec's own, as sbatch takes one --constraint alone."""
    if site is None or own is None:
        return site or own
    if site in re.split(r"[&|,()\[\]*]", own):
        return own
    return f"{site}&({own})" if "|" in own and own[0] not in "[(" else f"{site}&{own}"


def _find_conflicts(context: Context) -> Iterator[Problem]:
    site, constraint = context.site, context.spec.resources.constraint or ""
    parts = constraint.split(":")
    chunk = "=" in constraint and takes_constraint(context)
    taken = sorted({"ncpus", "ngpus", "mem", "mpiprocs"} & {part.split("=")[0] for part in parts})
    simple = re.fullmatch(r"[A-Za-z0-9_.-]*", constraint)
    rules = {
        "qos_is_queue": context.spec.qos is not None and site.slurm.queue_option == "qos",
        "chunk_key": chunk and taken,
        "chunk_form": chunk and not all(re.fullmatch(OF_CHUNK, part) for part in parts),
        "chunk_name": not chunk and site.pbs.constraint is not None and not simple,
    }
    yield from context.refuse(rules, taken=taken, constraint=constraint)


def _advise(context: Context, requests: Requests, *, lost: tuple[str, ...]) -> Iterator[str]:
    site, can = context.site, context.site.can
    fails_alone = requests.mail and requests.mail.on == ("fail",)
    rules = {
        "no_mail": "notify" in lost and site.mail == "none",
        "late_mail": fails_alone and not can.mails_any_failure,
    }
    wishes = {  # about the nodes, and the job may get others
        "no_chunk": "resources.constraint" in lost and can.chunks,
        "no_feature": "resources.constraint" in lost and not can.chunks,
        "no_gpu_type": "resources.gpu_type" in lost and not site.queues,
    }
    yield from context.warn(wishes)
    about = site.find_source(site.cited.get("mail"))
    yield from context.note(rules, where=site.title or "this site", about=about)


def _plan_after(context: Context) -> tuple[tuple[Dependency, ...], list[Problem]]:
    """Return what the job waits for, and what is wrong with the ids in it."""
    asked, can = context.spec.after, context.site.can
    kinds: dict[str, Any] = asked._asdict() if isinstance(asked, After) else {"": asked}
    after: list[Dependency] = []
    problems: list[Problem] = []
    for kind, jobs in kinds.items():
        names = [_write_id(job, can) for job in jobs or ()]
        for index, name in enumerate(names):
            if name is None:
                path = f"after.{kind}[{index}]".replace(".[", "[")
                problems.append(context.loaded.problem(path, _explain_id(jobs[index], can)))
        if names:
            after.append(Dependency(kind or "afterok", tuple(filter(None, names))))
    return tuple(after), problems


def _write_id(job: int | str, can: Capabilities) -> str | None:
    """Spell an id as the scheduler does: Slurm 12_3, PBS 12[3]; None if it is another's."""
    match = re.fullmatch(can.job_id, str(job))
    if match is None:
        return None
    number, underscored, bracketed, server = match.groups("")
    task = underscored or bracketed
    if can.bracketed_tasks:
        return f"{number}[{task}]{server}" if match[2] or match[3] is not None else number + server
    return f"{number}_{task}" if task else number


def _explain_id(job: int | str, can: Capabilities) -> str:
    owner = can.title if can.batch else "this machine"
    example = can.job_id_example
    return f"{str(job)!r} is not the id of a job of {owner}; such an id looks like {example}"
