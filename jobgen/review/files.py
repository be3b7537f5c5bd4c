"""What a job reads, starts or imports: whether it is here, and whether its nodes see it."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobgen.plan.program import find_module, read_packages
from jobgen.review.rows import read_form
from jobgen.review.settings import list_options
from jobgen.review.subject import Found, Subject, is_below, is_here
from jobgen.spec.spelling import find_near_file
from jobgen.spec.value_types import name_option


def list_copied(snapshot: bool | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the files and folders that a snapshot has; None without one, or if git is to tell."""
    from jobgen.process import list_tracked_files

    tracked = list_tracked_files() if snapshot else None
    named = [*map(os.path.normpath, snapshot if isinstance(snapshot, tuple) else ())]
    return (*(tracked or ()), *named) if named or tracked is not None else None


def list_roots(variables: Mapping[str, str]) -> list[str]:
    """Return what is before the paths of modules that Python finds from here: "" and, say, src/."""
    named = map(os.path.normpath, filter(None, variables.get("PYTHONPATH", "").split(":")))
    return ["", *(f"{one}/" for one in named if one != "." and os.path.isdir(one))]


def check_binds(job: Subject) -> Found:
    """Yield paths that the container does not see, or sees elsewhere."""
    for option, value in list_options(job.plan.program.command if job.container.image else ()):
        if is_below(value, job.seen):
            continue
        about = {"option": option, "value": value, "folder": os.path.dirname(value)}
        inside = [to + value.removeprefix(of) for of, to in job.binds if is_below(value, [of])]
        if inside:
            yield "bound-path", "run.args", about | {"inside": inside[0]}
        elif _is_outside(value) and not is_below(value, job.of_site):
            yield "unseen-path", "run.args", about


def _is_outside(path: str) -> bool:
    """Whether a path is surely of the nodes, and not of a container's image."""
    outside = os.path.exists(path) or read_form("shared").match(path)
    return bool(outside and read_form("outside").match(path))


def check_venv(job: Subject) -> Found:
    """Yield a venv without bin/activate, or one that the container does not see."""
    venv = job.spec.environment.venv or ""
    folder = os.path.expanduser(venv)
    values = {"venv": venv, "folder": os.path.dirname(venv)}
    if os.path.exists(folder) and not os.path.isfile(f"{folder}/bin/activate"):
        kind = ".conda" if os.path.isdir(f"{folder}/conda-meta") else ""
        yield f"no-venv{kind}", "environment.venv", values
    if job.container.image and venv[:1] == "/" and not is_below(venv, job.seen):
        yield "unseen-venv", "environment.venv", values


def check_files(job: Subject) -> Found:
    """Yield files and folders that the job reads and that are not here, or not in its snapshot."""
    lines = f"{job.setup} {' '.join(job.container.options)}"
    moved = re.search(r"\b(?:cd|pushd|pwd|workdir)\b|(?<!\S)-w\b", lines)
    for path, file, text in _list_files(job):
        made = path != "environment.setup" and job.mentions(file)
        in_image = job.container.image and path.startswith(("run", "environment.v"))
        elsewhere = in_image if os.path.isabs(file) else moved
        own = job.own_folders if path == "environment.venv" else ()
        if _is_missing(file, own) and not made and not elsewhere:
            yield from _tell_missing(path, file, text)
        elif path in ("run.args", "environment.setup") and _is_left_out(file, job.copied):
            yield "left-out", path, {"text": text, "file": file}


def _tell_missing(path: str, file: str, text: str) -> Found:
    near = find_near_file(file)
    if not near and read_form("joined").fullmatch(f"{path} {text}"):
        return
    kinds = {"environment.container.image": ".image", "environment.venv": ".venv"}
    kind = kinds.get(path, "" if file[:1] in "/~$" else ".relative")
    yield f"not-here{'.near' if near else kind}", path, {"text": text, "near": near}


def _is_left_out(name: str, copied: Sequence[str] | None) -> bool:
    """Whether a file of this folder is not in the job's snapshot."""
    return is_here(name) and copied is not None and not is_below(os.path.normpath(name), copied)


def _list_files(job: Subject) -> Iterator[tuple[str, str, str]]:
    """Yield what is read, with its place in the spec, and with what is before it."""
    own, run, spec = job.spec.environment, job.spec.run, job.spec
    variables = job.plan.environment.variables
    image = (job.plan.environment.image_file or "").removeprefix("$PWD/")
    named: dict[str, Sequence[str | None]] = {
        "environment.stage": [own.stage],
        "snapshot": spec.snapshot if isinstance(spec.snapshot, tuple) else (),
        "send": spec.send,
        "environment.setup": read_form("sourced").findall(job.own_setup),
        "environment.container.image": [image],
        "environment.container.binds": read_form("bound").findall(" ".join(job.container.binds)),
        "run.script": [run.script],
        "run.body": [run.body],
        "run.command": [find_program(run.words)],
        "environment.venv": [own.venv],
        "environment.variables.PYTHONPATH": variables.get("PYTHONPATH", "").split(":"),
    }
    yield from _list_arguments(job)
    for path, files in named.items():
        yield from ((path, name, name) for name in files if name)


def check_start(job: Subject) -> Found:
    """Yield a file of this folder that is the command, and that the kernel does not start."""
    file = "".join(job.spec.run.words[:1])
    is_here = "/" in file and os.path.isfile(file) and not job.mentions(file)
    if is_here and not (job.container.image or os.access(file, os.X_OK)):
        yield "no-bit", "run.command", {"text": file}


def check_module(job: Subject) -> Found:
    """Yield a module that is not here, or in a folder where Python does not look for it."""
    own, run, named = job.spec.environment, job.spec.run, read_form("module").findall
    module = run.module or "".join(named(" ".join(run.words)))
    base = module.replace(".", "/")
    roots = list_roots(job.plan.environment.variables)
    given = f"{job.setup} {own.from_shell} {run.words}"
    is_seen = any(map(_is_module, (root + base for root in roots)))
    if not module or is_seen or job.container.image or read_form("finds").search(given):
        return
    folder, file = find_module(module)
    if not folder or f"{folder}/" in roots:
        for root in roots:
            yield from _tell_module(module, base, root)
    elif not _is_installed(base, own.venv or ""):
        yield "unseen-module", "run.module", {"file": file, "folder": folder}


def _is_module(base: str) -> bool:
    return os.path.isdir(base) or bool(glob.glob(f"{glob.escape(base)}.*"))


def _tell_module(module: str, base: str, root: str) -> Found:
    """Yield what is nearly so called, or that a package below `root` does not have it."""
    folder = os.path.dirname(f"./{root}{base}")
    near = find_near_file(f"{root}{base}.py") if len(module) > 3 and os.path.isdir(folder) else ""
    if near:
        near = near.removeprefix(root).removesuffix(".py").replace("/", ".")
        yield "not-here.near", "run.module", {"text": module, "near": near}
    elif any(os.path.isfile(f"{one}/__init__.py") for one in (folder, root + base.split("/")[0])):
        yield "no-module", "run.module", {"text": module}


def _is_installed(base: str, venv: str) -> bool:
    """Whether a project may be installed in its venv, or in an environment that is not known."""
    files, linked = read_packages(venv)
    has = base.partition("/")[0] in map(os.path.basename, files) or os.getcwd() in linked
    project = any(map(os.path.isfile, ("pyproject.toml", "setup.py", "setup.cfg")))
    return project and (has or not venv or not files)


def _list_arguments(job: Subject) -> Iterator[tuple[str, str, str]]:
    """Yield the options of a program that name files which it reads."""
    sources = job.sources or "exists"
    forms = ["read"] if read_form("tests-files").search(sources) else ["read", "resumed"]
    tasks = (task.arguments for task in job.plan.array.tasks[:20])  # of thousands
    for option, value in list_options([*job.plan.program.command, *itertools.chain(*tasks)]):
        text, name = f"{option} {value}", name_option(option)
        is_read = any(read_form(form).fullmatch(text) for form in forms)
        if is_read and name not in read_form("folded").findall(sources):
            yield "run.args", value, text


def find_program(command: Sequence[str]) -> str:
    """Return the script that a command is, or that its Python or shell runs; empty without one."""
    if "-c" in command:
        return ""
    line = " ".join(word for word in command if word[:1] != "-")
    return next(iter(read_form("runs").findall(line)), "")


def _is_missing(name: str, own: Iterable[str]) -> bool:
    """Whether a path is not on this machine, though its folder is, or would be.

    Every machine has a home folder, which need not be the cluster's if it is not among its `own`.
    """
    path = os.path.expandvars(os.path.expanduser(name))
    if "$" in path or "://" in path or os.path.exists(path):
        return False
    folder = os.path.dirname(path)
    anywhere = ("/", os.path.expanduser("~"))
    here = is_below(os.path.abspath(path), own)
    return here or not os.path.isabs(path) or (folder not in anywhere and os.path.isdir(folder))
