"""Python functions as jobs: calls are pickled before the job, and results after it."""

from __future__ import annotations

import io
import os
import pickle
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import MethodType
from typing import Any

from jobgen.errors import JobFailedError, JobgenError, SpecError, UsageError
from jobgen.jobs import call
from jobgen.jobs.files import RUNS, read_if_left, read_run_file, write_run_file
from jobgen.jobs.journal import create_token
from jobgen.jobs.record import JobRecord
from jobgen.jobs.submission import Submission, prepare_plan
from jobgen.plan.resolve import resolve
from jobgen.rendering import header
from jobgen.spec.load import LoadedSpec, Source, load
from jobgen.spec.model import JobSpec

Call = tuple[Sequence[Any], Mapping[str, Any]]
_HOW = ("at_once", "together")  # what an array says of tasks that are a map's values


class RemoteError(Exception):
    """The cause of an exception from a job: its traceback there."""

    def __str__(self) -> str:
        """Return the traceback as Python prints it, on separate lines."""
        return "\n" + str(self.args[0])


def prepare_calls(function: Callable[..., Any], calls: Sequence[Call], spec: Source) -> Submission:
    """Return a job that calls a function, of an array a task for each of several calls.

    `spec` needs no `run`; as keys and values also no `name` and no `resources`. Without an
    environment the job uses this Python's own. Raises UsageError for what cannot be imported by its
    name, or pickled.
    """
    module, name = _name_function(function)
    if not calls:
        raise UsageError(f"{name}: there are no values to call it with")
    if isinstance(spec, Mapping):
        spec = {"name": name.replace(".", "-"), "resources": {}, **spec}
    bare = _load_bare(spec, name)
    # By its whole path it is found again by a rerun from elsewhere, and from a snapshot.
    folder = Path(RUNS, bare.spec.name, "calls", create_token()).absolute()
    overrides = _complete_spec(bare.spec, folder, len(calls))
    path = _list_path(snapshot=bool(bare.spec.snapshot))
    program = function.__module__ == "__main__"
    files: dict[str, object] = {"about": (path, module, name, program)}
    files |= {str(task): _read_arguments(name, *each) for task, each in enumerate(calls)}
    try:
        pickled = {key: pickle.dumps(value) for key, value in files.items()}
    except Exception as error:  # whatever the user's objects raise
        raise UsageError(f"{name}: its arguments cannot be pickled: {error}") from None
    for key, data in pickled.items():
        write_run_file(folder / f"{key}.pickle", data, sync=False)
    source = Path(call.__file__).read_text(encoding="utf-8")
    write_run_file(folder / "call.py", source)
    try:
        loaded = load(spec, overrides, user=True)
        return prepare_plan(loaded, resolve(loaded))
    except JobgenError:
        shutil.rmtree(folder)
        raise


def _read_arguments(name: str, args: Any, named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call; raise UsageError for one where a list of them should be."""
    kind = type(args).__name__
    if isinstance(args, str | bytes | Mapping | Set) or not isinstance(args, Iterable):
        hint = "write args=[VALUE], also for one"
        raise UsageError(f"{name}: args is a {kind}, and not a list of arguments; {hint}")
    if not isinstance(named, Mapping):
        kind, hint = type(named).__name__, "write kwargs={NAME: VALUE}"
        raise UsageError(f"{name}: kwargs is a {kind}, and not a dict of arguments; {hint}")
    return tuple(args), dict(named)


def _list_path(*, snapshot: bool) -> list[str]:
    """Return where the job looks for modules: where this program does, or in the copy of that."""
    path = [*map(os.path.abspath, sys.path), os.getcwd()]
    return [os.path.relpath(one) if snapshot and _is_own(Path(one)) else one for one in path]


def _is_own(folder: Path) -> bool:
    """Whether a folder is of this project, and not of its environment."""
    return folder.is_relative_to(os.getcwd()) and not folder.is_relative_to(sys.prefix)


def _load_bare(spec: Source, name: str, **tasks: int) -> LoadedSpec:
    """Return the spec, with any program; UsageError if it has roles, each of which is one."""
    try:
        return load(spec, {"run": {"command": ["true"]}, **tasks}, user=True)
    except SpecError as error:
        words = {one.path: one.message for one in error.problems}
        if "has none of" in words.get("array", ""):  # as only the values say which tasks there are
            return _load_bare(spec, name, **{"array.tasks": 1})
        if "with run" in words.get("roles", ""):
            hint = "leave them out, or call it in one of them and use jobgen.submit"
            raise UsageError(f"{name}: a function is one program, not roles; {hint}") from None
        raise


def _complete_spec(spec: JobSpec, folder: Path, calls: int) -> dict[str, Any]:
    """The script, the tasks, and this Python if the spec has no environment."""
    script = str(folder / "call.py")
    script = os.path.relpath(script) if "$" in script else script  # which would be a variable
    overrides: dict[str, Any] = {"run": {"script": script}, "array": None}
    if calls > 1:
        how = {key: getattr(spec.array, key, None) for key in _HOW}
        given = {key: value for key, value in how.items() if value is not None}
        overrides["array"] = {"tasks": calls, **given}
    own = spec.environment
    if not any((own.venv, own.uv, own.conda, own.container, own.modules, own.stage)):
        overrides["environment.venv"] = sys.prefix
    return overrides


def _name_function(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the names of its module and of itself, by which a job finds it.

    Raises UsageError if they do not lead back to it: then a job would call something else.
    """
    home, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not name:
        hint = "give a function of a module, and its arguments"
        raise UsageError(f"a {type(function).__name__} object is not a function; {hint}")
    module = _name_program() if home == "__main__" else home
    spec = getattr(sys.modules.get(module), "__spec__", None)
    if getattr(spec, "_initializing", False):  # as in each process of the job
        hint = 'put what submits it below: if __name__ == "__main__":'
        raise UsageError(f"{name}: whatever imports {module} would submit a job; {hint}")
    named = _find_named(home if module else "", name)
    # Of a class method each look makes another object.
    if named is not function and not (isinstance(named, MethodType) and named == function):
        hint = "give that, with its object as the first argument, or a function of another name"
        words = f"is not what {module}.{name} is, which a job would call"
        raise UsageError(f"{name}: this {type(function).__name__} {words}; {hint}")
    return module, name


def _find_named(module: str, name: str) -> Any:
    """Return what has this name in a module; raise UsageError if there is no such thing."""
    try:
        return attrgetter(name)(import_module(module))
    except Exception:  # whatever a module raises as it is imported
        hint = "define it at the top level of a .py file, from which a job imports it"
        raise UsageError(f"{name}: a job cannot import it; {hint}") from None


def _name_program() -> str:
    """Return the name by which others import the program that runs; empty without a file.

    What a job returns of the program's own classes is then of the classes that run here.
    """
    program = sys.modules["__main__"]
    spec, file = getattr(program, "__spec__", None), getattr(program, "__file__", None) or ""
    stem, end = os.path.splitext(os.path.basename(file))
    name = spec.name if spec else stem * (end == ".py" and "." not in stem)
    if name:
        sys.modules.setdefault(name, program)
    return str(name)


def check_call(job: JobRecord) -> None:
    """Raise UsageError for a job that calls no function, or several."""
    about = header.read(read_if_left(f"{job.whole_dir}/script"))
    if about and not re.search(r"/calls/[^/]+/call\.py", " ".join(about.overrides)):
        raise UsageError(f"job {job.id} calls no function, and has no result; ask job.wait()")
    if job.tasks:
        hint = "ask its tasks, such as job.task(0).result()"
        raise UsageError(f"job {job.id} is an array; {hint}")


def read_result(job: JobRecord, state: str) -> Any:
    """Return what the function has returned, or raise what it has raised.

    Raises JobFailedError if the job has left neither, and for what would end this program, such as
    SystemExit, which is its cause then.
    """
    try:
        good, value, text = pickle.load(io.BytesIO(read_run_file(job.run_dir / "result.pickle")))
    except OSError:
        raise JobFailedError(f"job {job.id} has left no result: {state}") from None
    if good:
        return value
    if not isinstance(value, BaseException):
        raise JobFailedError(f"job {job.id}: {text}")
    if isinstance(value, Exception):
        raise value from RemoteError(text)
    value.__cause__ = RemoteError(text)
    raise JobFailedError(f"job {job.id}: its function has not returned: {value!r}") from value
