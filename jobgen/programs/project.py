"""The files of a program: that which is started, the modules of its project, and of its venv."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator
from functools import cache

from jobgen.plan.plan import NodeEnvironment
from jobgen.plan.program import read_packages
from jobgen.programs.kinds import list_heads
from jobgen.programs.text import Call, Module, is_newer, read_form
from jobgen.spec import tables
from jobgen.spec.table import read_here

MOST_TEXT = 300_000  # characters of a project, about 8,000 lines; the rest is not read


class Project:
    """The file that is started, and the modules of its project that it imports."""

    def __init__(self, path: str, *roots: str) -> None:
        """Read a program, and what it imports from `roots`: from beside it and from here; from src.

        Raises what `Module` does; a module of the project that cannot be read is left out.
        """
        self.entry = Module(path, started=True)
        self.is_script = not roots  # whether it is started by its file, and not as a module
        above = [".."] if read_form("adds-path").search(self.entry.text) else []
        self._roots = (*(roots or dict.fromkeys((os.path.dirname(path), ""))), "src", *above)
        self.missing: list[Call] = []  # imports of modules of the project that are not there
        self.broken: list[Call] = []  # of those that do not parse
        self.outside: list[Call] = []  # imports of what is not of the project
        self.partial = False  # whether some of the project is not read
        self.modules = [self.entry]
        self._has_own = cache(_has_own)  # as each import asks for it
        self._read()
        self.libraries = {one.head for one in self.outside}
        self.code = "\n".join(module.code for module in self.modules)  # without comments

    def _read(self) -> None:
        """Read what the program imports, and what that does, while there is room."""
        room, seen = MOST_TEXT, {os.path.realpath(self.entry.path)}
        for module in self.modules:  # and those that are found, which come behind
            room -= len(module.text)
            for one, path in self._find_imported(module):
                real = os.path.realpath(path)
                if real in seen:
                    continue
                if room < 0:
                    self.partial = True
                    return
                seen.add(real)
                self._read_module(one, path)

    def _read_module(self, one: Call, path: str) -> None:
        try:
            self.modules.append(Module(path))
        except SyntaxError as error:
            self.partial = True
            about = {"file": f"{path}:{error.lineno}", "fault": error.msg}
            self.broken += [] if is_newer(error) else [one._replace(about=about)]
        except (OSError, ValueError):
            self.partial = True

    def _find_imported(self, module: Module) -> Iterator[tuple[Call, str]]:
        """Yield the imports of a module that name files of the project, with each file."""
        for one in module.imports:
            base = self._find_base(one)
            if base is None:
                self.outside.append(one)
                continue
            files = _list_files(base, one)
            yield from ((one, file) for file in files)
            if not files and self._is_missing(base, one):
                self.missing.append(one)

    def _is_missing(self, base: str, one: Call) -> bool:
        """Whether there is no such module, nor a folder of modules, nor a compiled one.

        What is not beside the program may be installed, too, with other modules.
        """
        own = not one.head or self._has_own(self._roots[0], one.head)
        return own and not os.path.isdir(base) and not glob.glob(f"{glob.escape(base)}.*")

    def _find_base(self, one: Call) -> str | None:
        """Return the path of a module of the project without its suffix; None for a library's."""
        dots = len(one.name) - len(one.name.lstrip("."))
        words = one.name.strip(".").split(".")
        if dots:
            above = os.path.join(os.path.dirname(one.module.path), *[os.pardir] * (dots - 1))
            return os.path.normpath(os.path.join(above, *words))
        for place, root in enumerate(self._roots):
            if place and self.is_script and _is_library(words[0]):
                continue  # Python does not look there, and has it as a library
            if self._has_own(root, words[0]):
                return os.path.normpath(os.path.join(root, *words))
        return None

    def find_elsewhere(self) -> list[Call]:
        """Return imports of what is in the current folder, where Python does not look."""
        beside = os.path.dirname(self.entry.path)
        if not beside or not self.is_script or read_form("adds-path").search(self.code):
            return []
        sure = [one for one in self.entry.imports if not (one.place.tried or one.place.scope)]
        here = [one for one in sure if one.head and not _is_library(one.head)]
        own = self._has_own
        return [one for one in here if own("", one.head) and not own(beside, one.head)]


def _list_files(base: str, one: Call) -> list[str]:
    """Return the files that an import reads, of a module at `base` and of modules below it."""
    names = [base, *(f"{base}/{name.name}" for name in one.node.names)]
    ways = [f"{name}{end}" for name in names for end in (".py", "/__init__.py")]
    return [*filter(os.path.isfile, ways)]


@cache
def list_plain() -> frozenset[str]:
    """Return the libraries that start no processes, and those of Python."""
    return sys.stdlib_module_names.union(tables.read_lines("plain_libraries.txt", room="programs"))


def _is_library(name: str) -> bool:
    """Whether jobgen knows a library of this name."""
    return name in list_plain() or name in list_heads()


def _has_own(root: str, name: str) -> bool:
    """Whether a folder has a module of this name, or a folder of modules.

    Only this name is looked up: a folder beside the program may hold a million images.
    """
    path = os.path.join(root, name)
    return os.path.isfile(f"{path}.py") or any(glob.iglob("*.py", root_dir=path))


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
