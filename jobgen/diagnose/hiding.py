"""A file of the project that has the name of a module, which programs then get in its place."""

from __future__ import annotations

import os
import re
import sys

from jobgen.diagnose.exceptions import FOREIGN

# How Python says that a module lacks something: its name, and its file, where it tells that.
_LACKS = re.compile(
    r"(cannot import name .* from |module )(?P<partly>partially initialized module )?"
    r"'(?P<name>\w+)'(.*?(?P<file>/[^'()]*\.py))?"
)


def advise_renaming(words: str, project: str) -> str:
    """Return what to do where the module that lacks something is a file of the project.

    It hides Python's own module of its name. If it has another name, a library may be meant, or the
    program's own module that lacks something.
    """
    lacks = _LACKS.search(words)
    file = _find_file(lacks["name"], lacks["file"], project) if lacks else ""
    if not (lacks and file):
        return ""
    name = lacks["name"]
    if name in sys.stdlib_module_names:
        return f"rename {file} of the project, which hides Python's own module {name}"
    if lacks["partly"] or not (lacks["file"] or "").startswith(f"{project}/"):
        return ""
    return f"if a library called {name} is meant, rename {file} of the project, which hides it"


def _find_file(name: str, told: str | None, project: str) -> str:
    """Return a module's file or folder, by its last name, if it is not of a library."""
    path = told or f"{project}/{name}.py"
    for end in (f"{name}.py", f"{name}/__init__.py"):
        if path.endswith(f"/{end}") and not FOREIGN.search(path):
            return end.removesuffix("__init__.py") if told or os.path.isfile(path) else ""
    return ""
