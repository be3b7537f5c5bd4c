"""A file of the project that has the name of a module, which programs then get in its place."""

from __future__ import annotations

import os
import re
import sys

from jobgen.diagnose.exceptions import FOREIGN

# How Python says that a module lacks something: its name, and its file, where it tells that.
_LACKS = re.compile(
    r"(cannot import name .* from |module )(partially initialized module )?"
    r"'(?P<name>\w+)'(.*?(?P<file>/[^'()]*\.py))?"
)


def advise_renaming(words: str, project: str) -> str:
    """Return what to do where a module of Python that lacks something is a file of the project."""
    lacks = _LACKS.search(words)
    if lacks is None or lacks["name"] not in sys.stdlib_module_names:
        return ""
    name = lacks["name"]
    file = lacks["file"] or f"{project}/{name}.py"
    hides = not FOREIGN.search(file) and (lacks["file"] or os.path.isfile(file))
    own = os.path.relpath(file, project)
    return f"rename {own}, which hides Python's own module {name}" if hides else ""
