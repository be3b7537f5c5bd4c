"""The texts of a spec that rows of `review.txt` search, with their places."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator

from jobgen.review.roles import read_text
from jobgen.review.rows import read_form
from jobgen.review.subject import Subject

# What a text is, its place, and itself.
_Texts = Iterator[tuple[str, str, str]]


def collect_texts(job: Subject) -> dict[str, list[tuple[str, str]]]:
    """Return the texts of a spec with their places, by what rows say that they are of."""
    texts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for source, path, text in (*_list_lines(job), *_list_words(job), *_list_places(job)):
        if text:
            texts[source].append((path, text))
    return texts


def _list_lines(job: Subject) -> _Texts:
    """Yield the lines of setup, each variable, and the value of each key."""
    loaded, environment = job.loaded, job.plan.environment
    yield "setup", "environment.setup", job.setup
    own = job.own_setup
    yield "own", "environment.setup", own
    yield "read", "environment.setup", re.sub(r"(?m)(?:^|\s)#.*", "", own)
    yield "started", "environment.setup", own and f"{job.spec.run.script}\n{own}"
    for path, name, value in job.list_variables():
        yield "variable", path, f"{name}={value}"
        if name.endswith("_SOCKET_IFNAME"):
            yield "interface", path, value
    variables = [f"{name}={value}" for name, value in environment.variables.items()]
    yield "names", "environment", " ".join([*environment.from_shell, *variables])
    lines = loaded.text.split("\n")
    pasted = ((at, one) for at, one in enumerate(lines, 1) if one.startswith(("#SBATCH ", "#PBS ")))
    for at, line in itertools.islice(pasted, 1):
        yield "pasted", f"{loaded.file}:{at}", line
    for path, where in loaded.positions.items():
        if where.file == loaded.file and 0 < where.line <= len(lines):
            text = lines[where.line - 1][where.column - 1 :]
            yield "line", path, text
            yield "key", path, f"{path} {text}"
            yield "paired", path, "\n".join([path, *job.plan.program.command])


def _list_words(job: Subject) -> _Texts:
    """Yield the words of the program and of its role, and each of its options with its value."""
    command, own = job.spec.run.words, job.spec.environment
    yield "command", "run.command", re.sub(r"^\S*/", "", " ".join(command))
    yield "read", "run.command", " ".join(command)
    yield "python", "run.command", " ".join(filter(None, (own.venv, own.conda, *command[:1])))
    yield "read", "run.script", job.spec.run.script or ""
    whole = job.plan.program.command
    before = {job.spec.run.script, *command, *filter(read_form("prose").match, whole)}
    yield "read", "run.args", " ".join(itertools.filterfalse(before.__contains__, whole))
    yield "directives", "directives", "\n".join([f"{job.plan.can.sign} ", *job.spec.directives])
    if job.role:
        text, name = read_text(job.role), job.role.name.upper()
        yield "role", "run", f"{name}\n{text}"
        others = (f"{one.name.upper()} {' '.join(one.plan.program.command)}" for one in job.roles)
        settings = map(" ".join, job.settings)
        form = job.role.test[1] if job.role.test[:1] == ("log",) else ""
        yield "logged", f"roles.{job.role.name}.ready.log", form
        yield "asking", "run", "\n".join([name, text, *settings, "---", *others])
    yield "given", "run.command" if command else "run.args", " ".join(whole)
    for option, value in job.settings:
        yield "word", "run.args", f"{option} {value}"


def _list_places(job: Subject) -> _Texts:
    """Yield the files that keys name, the interface and the modules."""
    own, modules = job.spec.environment, job.plan.environment.modules
    image = {"environment.container.image": job.container.image, "environment.venv": own.venv}
    for path, file in ({"run.script": job.spec.run.script} | image).items():
        if file and not own.stage and not job.provides(file):
            yield "file", path, file
    yield "interface", "launch.interface", job.plan.launch.interface or ""
    yield "modules", "environment.modules", " ".join(modules.load) if modules else ""
    yield "read", "environment.conda", str(own.conda)
    yield "options", "environment.container.options", " ".join(job.container.options)
    given = ["---", " ".join(job.plan.program.command)]
    yield "binds", "environment.container.binds", "\n".join([*job.container.binds, *given])
