"""The packages of a job's Python, where they are surely known before the queue."""

from __future__ import annotations

import os
import re

from jobgen.plan.plan import NodeEnvironment
from jobgen.plan.program import read_packages
from jobgen.spec.table import read_here


def list_packages(venv: str, environment: NodeEnvironment) -> frozenset[str] | None:
    """Return the modules that a job's venv has; None where others may be seen, or come.

    A venv may see those of the Python that made it, as its pyvenv.cfg tells, and folders that path
    files name (docs.python.org/3/library/venv, and site).
    """
    folder = os.path.expanduser(venv)
    named = [*os.environ, *environment.from_shell, *environment.variables]
    if (
        "include-system-site-packages = false" not in read_here(f"{folder}/pyvenv.cfg")
        or any((environment.setup, environment.modules, environment.container))
        or "PYTHONPATH" in named
    ):
        return None  # before any folder is read: a job without a venv has none
    files, linked = read_packages(venv)
    if re.search(r"(?m)^[./]|editable", linked):
        return None
    return frozenset(os.path.basename(one).partition(".")[0] for one in files)
