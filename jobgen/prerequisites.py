"""What a job needs beside its cluster: the script, the environment, torch in it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator

from jobgen.environment import NodeEnvironment
from jobgen.errors import RefusedError, SchedulerUnavailableError
from jobgen.plan import Plan
from jobgen.process import run
from jobgen.program import ShellPath
from jobgen.verdict import Check


def check_paths(plan: Plan) -> Iterator[Check]:
    """The script and environment that the spec names."""
    own = plan.environment
    conda = own.conda if own.conda and "/" in own.conda else None
    for what, path, inner in (
        ("script", plan.script, ""),
        ("image", own.image_file, ""),
        ("archive", own.stage, ""),
        ("venv", own.venv, "bin/activate"),
        ("conda", conda, "bin/python"),
    ):
        if path is None or (inner and _elsewhere(own)):
            continue
        real, unset = expanded(path)
        if unset:
            yield Check(what, "unknown", f"{path}: {unset} is not set here; jobs may know it")
        elif os.path.exists(os.path.join(real, inner).rstrip("/")):
            yield Check(what, "ok", f"{real} is there")
        else:
            made = {"venv": f"python3 -m venv {real}, then install torch in it"}
            yield Check(what, "fail", f"{real} is not there", made.get(what, "see the path"))


def _elsewhere(own: NodeEnvironment) -> str:
    """What the job's Python is in, where it cannot be looked at from here."""
    if own.container is not None or own.step_options:
        return "container"
    return "archive" if own.stage else ""


def expanded(path: str) -> tuple[str, str]:
    """A path as the job will read it, and the first variable that is not set here."""
    real = os.path.expanduser(path)
    if isinstance(path, ShellPath):
        real = os.path.expandvars(real)
        unset = re.search(r"\$\{?[A-Za-z_]\w*\}?", real, re.ASCII)
        return real, unset[0] if unset else ""
    return real, ""


def check_torch(plan: Plan | None, *, timeout: float) -> Iterator[Check]:
    """Whether torch can be imported where a job will import it, as far as that is known here."""
    python, own = "python3", plan.environment if plan is not None else NodeEnvironment()
    if where := _elsewhere(own):
        yield Check("torch", "unknown", f"not tried: it is in the job's {where}")
        return
    if own.venv or (own.conda and "/" in own.conda):
        real, unset = expanded(own.venv or own.conda or "")
        python = os.path.join(real, "bin", "python3")
        if unset or not os.access(python, os.X_OK):
            return  # said of the path
    elif own.modules or own.conda:
        what = f"conda environment {own.conda}" if own.conda else "modules"
        said = f"not tried: the job's {what} are not loaded here"
        yield Check("torch", "unknown", said, "load them, then: python3 -c 'import torch'")
        return
    here = shutil.which(python)
    remedy = "name an environment that has it: environment.venv, conda or modules"
    if here is None:
        yield Check("torch", "unknown" if plan is None else "fail", f"there is no {python}", remedy)
        return
    try:
        program = "import torch; print(torch.__version__)"
        version = run([here, "-c", program], timeout=timeout).strip()
    except RefusedError as error:
        said = f"{here}: {str(error).strip().splitlines()[-1]}"
        yield Check("torch", "unknown" if plan is None else "fail", said, remedy)
    except SchedulerUnavailableError:
        said = f"{here} has not imported it within {timeout:.0f} s; its file system may be slow"
        yield Check("torch", "unknown", said, f"try: time {here} -c 'import torch'")
    else:
        yield Check("torch", "ok", f"{version}, imported by {here}")
