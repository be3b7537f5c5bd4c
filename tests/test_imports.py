"""Who imports whom: the order of the rooms, no circles, and one library a room."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support import EXAMPLES, ROOT

from jobgen.schedulers.registry import PACKAGES

PACKAGE = ROOT / "jobgen"

# A room imports from the lines above its own, and of its own line nothing but itself.
ROOMS = """
records
errors output capabilities
process
spec
sites
plan
schedulers review
machine rendering
jobs batchscript
programs
diagnose
report
api page
cli
__main__
""".splitlines()
LEVEL = {room: level for level, line in enumerate(ROOMS) for room in line.split()}
LIBRARIES = {
    "yaml": {"spec"},
    "jinja2": {"rendering", "report", "page"},
    "markupsafe": {"report"},
    "click": {"cli"},
    "torch": {"loop"},
}
# What the trainer uses beyond torch, where it is installed.
TRAINER_LIBRARIES = {"tokenizers": {"tiktoken"}}
REGISTRY = "schedulers.registry"
SCHEDULER_ROOMS = {"capabilities", "schedulers", "trainer"}
# What a word means elsewhere that is also a scheduler's name, and how often it stands there.
OTHER_MEANINGS = {
    "batchscript": (14, "bash's local, and the tables by which `import` reads two syntaxes"),
    "plan/launch.py": (2, "a launcher"),
    "rendering/explain.py": (1, "a launcher"),
    "rendering/view.py": (1, "a launcher"),
    "spec/model.py": (1, "a launcher"),
}


@cache
def list_nodes(path: Path) -> list[ast.AST]:
    """Return all that a file is made of."""
    return [*ast.walk(ast.parse(path.read_text()))]


@cache
def imported_modules(path: Path) -> list[str]:
    """Return the modules that a file imports, those in functions and for type checkers included."""
    found = []
    for node in list_nodes(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.append("." * node.level + (node.module or ""))
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def name_room(path: Path) -> str:
    """Return the room a file is in; a file beside the rooms is one of its own.

    The registry of schedulers and what each can do belong to `capabilities`, on the ground floor.
    """
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "capabilities" if parts[-1] in ("registry", "capabilities") else parts[0]


def find_misplaced_imports(path: Path) -> Iterator[str]:
    """Yield what a file of the tool imports and should not."""
    room = name_room(path)
    for name in imported_modules(path):
        library, _, rest = name.partition(".")
        if library == "jobgen":
            target = rest.split(".")[0]
            target = "capabilities" if rest.startswith(REGISTRY) else target
            if target != room and target in LEVEL and LEVEL[target] >= LEVEL[room]:
                yield f"{path.relative_to(ROOT)}: {room} must not import {name}"
        elif library not in sys.stdlib_module_names and room not in LIBRARIES.get(library, ()):
            yield f"{path.relative_to(ROOT)}: {room} must not import {library}"


def find_foreign_imports(path: Path) -> Iterator[str]:
    """Yield what keeps the trainer from being copied anywhere, with loop.py in the folder above."""
    depth = len(path.relative_to(PACKAGE / "trainer").parts)
    known = sys.stdlib_module_names | {"torch", "numpy"} | TRAINER_LIBRARIES.get(path.stem, set())
    for name in imported_modules(path):
        if name.startswith("." * (depth + 1)) and name != "." * (depth + 1) + "loop":
            yield f"{path.relative_to(ROOT)}: {name} is outside of the trainer"
        elif not name.startswith(".") and name.partition(".")[0] not in known:
            yield f"{path.relative_to(ROOT)}: the trainer must not import {name}"


def test_the_house_is_in_order() -> None:
    """One list of every import that is out of place, and of the rooms that the order lacks."""
    faults: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        in_trainer = name_room(path) == "trainer"
        if path != PACKAGE / "__init__.py":
            faults += find_foreign_imports(path) if in_trainer else find_misplaced_imports(path)
    rooms = {path.parent.name for path in PACKAGE.glob("*/*.py")}
    faults += [f"jobgen/{room}: not in the order" for room in rooms - {*LEVEL, "trainer"}]
    assert not faults, "\n".join(faults)


def find_scheduler_names(path: Path) -> Iterator[str]:
    """Yield the lines of a file on which the name of a scheduler stands, as text of any use."""
    for node in list_nodes(path):
        if isinstance(node, ast.Constant) and node.value in PACKAGES:
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"


def test_no_other_room_knows_a_scheduler_by_its_name() -> None:
    """A scheduler is one folder; other rooms ask its object, and what it can."""
    names: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if name_room(path) not in SCHEDULER_ROOMS:
            place = place if place in OTHER_MEANINGS else name_room(path)
            names.setdefault(place, []).extend(find_scheduler_names(path))
    for place, found in names.items():
        allowed, _ = OTHER_MEANINGS.get(place, (0, ""))
        assert len(found) <= allowed, "\n".join(found)


def find_circles(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of which each imports itself in the end."""

    def reach(start: str) -> set[str]:
        known: set[str] = set()
        ahead = [start]
        while ahead:
            new = graph[ahead.pop()] - known
            known |= new
            ahead += new
        return known

    return [f"{module} imports itself in the end" for module in graph if module in reach(module)]


def test_no_module_imports_itself_in_the_end() -> None:
    """Imports in functions and for type checkers count, inside a room as between them."""
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = path
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = [name for name in imported_modules(path) if name in modules]
        names += [
            parent
            for name in imported_modules(path)
            if name not in modules and (parent := name.rpartition(".")[0]) in modules
        ]
        graph[module] = {name for name in names if name not in (module, "jobgen")}
    assert not find_circles(graph), "\n".join(find_circles(graph))


def test_modules_of_records_keep_annotations_as_text() -> None:
    """Python 3.14 keeps those of a class as a function else, and a record would have no fields."""
    for path in PACKAGE.rglob("*.py"):
        names = imported_modules(path)
        assert "jobgen.records.NamedTuple" not in names or "__future__.annotations" in names, path


def test_render_imports_nothing_slow() -> None:
    program = (
        "import sys, atexit, uuid\n"  # uuid, as click has it, brings subprocess on Python 3.10
        "slow = {'torch', 'numpy', 'difflib', 'subprocess', 'jobgen.jobs'} - sys.modules.keys()\n"
        "from jobgen.cli.main import main\n"
        "atexit.register(lambda: print(sorted(slow & sys.modules.keys()), file=sys.stderr))\n"
        "main()\n"
    )
    argv = [sys.executable, "-c", program, "render", EXAMPLES[0]]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("#!/bin/bash\n")
    assert ended.stderr == "[]\n"
