"""What a spec says that is right in form and can hardly be meant: numbers, paths and characters.

`check` and `submit` ask for it; a render does not, which stays as fast as it is.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from jobgen.errors import JobgenError, Problem
from jobgen.plan import review_checks as checks
from jobgen.plan.plan import Plan
from jobgen.plan.program import read_sources
from jobgen.plan.review_checks import Subject
from jobgen.spec.launchers import find_launcher, name_kind
from jobgen.spec.load import LoadedSpec
from jobgen.spec.yaml_nodes import Mapping as YamlMapping
from jobgen.spec.yaml_nodes import parse_value, walk_leaves

_MOST_BYTES = 30_000  # of a configuration file, which take some 20 ms


def review(loaded: LoadedSpec, plan: Plan, copied: Sequence[str] | None = None) -> list[Problem]:
    """Return what the spec can hardly mean, in the order of its lines.

    `copied` are the files and folders of its snapshot, by `list_copied`; None without one.
    """
    roles = plan.roles.members
    problems: set[Problem] = set()
    for part, role in zip(loaded.programs(), roles or [None], strict=True):
        own = role.plan if role else plan
        settings = tuple(list_settings(_list_own_words(own.program.command)))
        job = Subject(part, own, settings, copied, roles, role)
        facts = _list_facts(job)
        problems.update(_apply_table(job, facts), _check_names(job))
        problems.update(_check_numbers(job), _check_sums(job, facts))
        doubts = [check(job) for check in checks.CHECKS]
        doubts += [check(job, role) for check in checks.ROLE_CHECKS if role]
        for name, path, values in itertools.chain(*doubts):
            message, hint = _read_words()[name]
            problems.add(_say(job, path, message, hint, values))
    return sorted(problems)


def _say(job: Subject, path: str, message: str, hint: str, values: Mapping[str, Any]) -> Problem:
    finding, write = (Template(one).safe_substitute(values) for one in (message, hint))
    return job.loaded.problem(path, finding, write)


@cache
def _read_words() -> dict[str, tuple[str, str]]:
    """Return message and hint of what checks find, by its name."""
    return {name: (message, hint) for name, message, hint in checks.list_rows("say")}


def _apply_table(job: Subject, facts: dict[str, Any]) -> Iterator[Problem]:
    """Yield what `review.txt` has for the texts of a spec."""
    texts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for source, path, text in (*_list_lines(job), *_list_words(job), *_list_places(job)):
        if text:
            texts[source].append((path, text))
    for source, places in texts.items():
        for asked, form, message, hint in checks.list_rows(source):
            named: list[str] = []  # what is wrong with a list is said of the list alone
            for path, text in places if _holds(asked, facts) else ():
                match, place = re.search(form, text, re.MULTILINE), re.sub(r"[.\[]", "/", path)
                if match and not checks.is_below(place, named):
                    named.append(place)
                    yield _say(job, path, message, hint, facts | match.groupdict())


def _holds(asked: str, facts: Mapping[str, Any]) -> bool:
    needs = asked.replace("-", "").split()
    return all(bool(facts.get(one.strip("!"))) != ("!" in one) for one in needs)


def _list_facts(job: Subject) -> dict[str, Any]:
    spec, plan, role = job.spec, job.plan, job.role
    own = checks.describe_role(job, role) if role else {}
    container, tasks = plan.environment.container, plan.array.tasks
    servers = [one.name.upper() for one in job.roles if checks.serves(one)]
    return {
        "nodes": plan.nodes.total if plan.nodes.total > 1 else 0,
        "processes": plan.nodes.world_size if plan.nodes.world_size > 1 else 0,
        "batch": plan.can.batch,
        "agents": plan.launch.mode == "torchrun" and plan.nodes.world_size > plan.nodes.total,
        "chained": plan.walltime.chain.goes_on,
        "requeues": plan.walltime.chain.then == "requeue",
        "plain": plan.launch.plain,
        "body": plan.launch.body,
        "lone": plan.lone,
        "gpus": sum(plan.nodes.gpus_of_each),
        "container": container,
        "podman": container and container.runtime == "podman-hpc",
        "modules": spec.environment.modules,
        "relative": re.match(r"[^/~$]", spec.run.script or ""),
        "offline": plan.site.internet == "none",
        "site": spec.site or "this site",
        "scheduler": plan.scheduler,
        "chosen": spec.scheduler,
        "tasks": len(tasks),
        "python": bool(tasks) and "import" in (read_sources(plan) or ""),
        "apart": job.whole.resources.nodes != 1,
        "asks": "" if role and checks.serves(role) else "".join(servers[:1]),
        **checks.count_job(job),
        **own,
    }


# What a text is, its place, and itself.
_Texts = Iterator[tuple[str, str, str]]


def _list_lines(job: Subject) -> _Texts:
    """Yield the lines of setup, each variable, and the value of each key."""
    loaded, environment = job.loaded, job.plan.environment
    yield "setup", "environment.setup", job.setup
    yield "read", "environment.setup", job.setup
    yield "started", "environment.setup", job.setup and f"{job.spec.run.script}\n{job.setup}"
    for path, name, value in checks.list_variables(job):
        yield "variable", path, f"{name}={value}"
        if name.endswith("_SOCKET_IFNAME"):
            yield "interface", path, value
            yield "interfaces", path, f"{job.plan.launch.interface} {name}={value}"
    variables = [f"{name}={value}" for name, value in environment.variables.items()]
    yield "names", "environment", " ".join([*environment.from_shell, *variables])
    lines = loaded.text.split("\n")
    for path, where in loaded.positions.items():
        if where.file == loaded.file and 0 < where.line <= len(lines):
            text = lines[where.line - 1][where.column - 1 :]
            yield "line", path, text
            yield "key", path, f"{path} {text}"


def _list_words(job: Subject) -> _Texts:
    """Yield the words of the program and of its role, and each of its options with its value."""
    command = job.spec.run.words
    yield "command", "run.command", re.sub(r"^\S*/", "", " ".join(command))
    yield "read", "run.command", " ".join(command)
    yield "read", "run.args", " ".join(job.plan.program.command)
    if job.spec.directives:
        lines = [f"{job.plan.can.sign} ", *job.spec.directives]
        yield "directives", "directives", "\n".join(lines)
    if job.role:
        text, name = checks.read_text(job.role), job.role.name.upper()
        yield "role", "run", f"{name}\n{text}"
        others = "\n".join(" ".join(one.plan.program.command) for one in job.roles)
        yield "asking", "run", f"{name}\n{text}\n---\n{others}"
    for option, value in job.settings:
        yield "word", "run.args", f"{option} {value}"


def _list_places(job: Subject) -> _Texts:
    """Yield the files that keys name, the interface and the modules."""
    own, modules = job.spec.environment, job.plan.environment.modules
    files = {"run.script": job.spec.run.script, "environment.venv": own.venv}
    for path, file in (files | {"environment.container.image": job.container.image}).items():
        if file and not own.stage and not job.mentions(file):
            yield "file", path, file
    yield "interface", "launch.interface", job.plan.launch.interface or ""
    yield "modules", "environment.modules", " ".join(modules.load) if modules else ""


def list_copied(snapshot: bool | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the files and folders that a snapshot has; None without one, or without git."""
    from jobgen.process import list_tracked_files

    tracked = list_tracked_files() if snapshot else None
    named = map(os.path.normpath, snapshot if isinstance(snapshot, tuple) else ())
    return None if tracked is None else (*tracked, *named)


def _list_own_words(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a program, without those of what starts it once for each task."""
    if name_kind(find_launcher(words)) != "step":
        return words
    program = re.compile(r"(\S*/)?python[\d.]*|\S+\.(py|sh)")
    return words[next((i for i, word in enumerate(words) if program.fullmatch(word)), 0) :]


def list_settings(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command, and what the configuration files that it names hold."""
    for option, value in checks.list_options(words):
        yield option, value
        if re.fullmatch(r"[^$*?\[{:]+\.(ya?ml|json)", value) and os.path.isfile(value):
            yield from _read_settings(value)


def _read_settings(path: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of a configuration file, with their values; none of a large or broken one."""
    try:
        text = Path(path).read_text("utf-8") if os.path.getsize(path) <= _MOST_BYTES else ""
        if path.endswith(".json"):  # which tabs may indent, and no text within it has one
            text = text.replace("\t", " ")
        tree = parse_value(text, file=path, explain=False)
    except (OSError, ValueError, RecursionError, JobgenError):
        return  # it is for the program to say so
    if isinstance(tree, YamlMapping):
        leaves = walk_leaves(tree, f"{path}:", joint=":")
        yield from ((key, leaf.text) for key, leaf in leaves)


def _check_numbers(job: Subject) -> Iterator[Problem]:
    has = checks.count_processes(job)
    for names, relation, fact, message, hint in checks.list_rows("number"):
        right, known = has[fact], names.split()
        numbers = [one for one in checks.list_numbers(job.settings) if one[0] in known and right]
        for _, option, number in numbers:
            holds = {"=": number == right, "<=": number <= right, "times": number % right == 0}
            if not holds[relation]:
                values = {"option": option, "value": number, "has": right}
                yield _say(job, "run.args", message, hint, values)


def _check_sums(job: Subject, facts: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what the numbers of a node do not allow, for each kind of node."""
    for group in dict.fromkeys(job.plan.nodes.own):
        sums = dict(facts) | checks.count_node(job, group)
        for asked, compared, path, message, hint in checks.list_rows("sum"):
            left, _, right = compared.partition(" > ")
            if _holds(asked, sums) and sums[left] > int(sums.get(right, right)):
                yield _say(job, Template(path).substitute(sums), message, hint, sums)


def _check_names(job: Subject) -> Iterator[Problem]:
    """Yield misspelt names of variables; those of options the scheduler refuses by itself."""
    known = checks.list_rows("known")[0][0].split()
    for name in job.spec.environment.named_variables.keys() - {*known}:
        from jobgen.spec.spelling import find_near

        if near := find_near(name, known, cutoff=0.85):
            path = f"environment.variables.{name}"
            yield job.loaded.problem(path, f"nothing reads {name}", f"did you mean {near}?")
