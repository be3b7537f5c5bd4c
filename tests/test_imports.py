"""Who imports whom: the order of the rooms, one library a room, and bounds that help readers."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support import EXAMPLES, ROOT

from jobgen.capabilities import SCHEDULERS

PACKAGE = ROOT / "jobgen"

# A room imports from the lines above its own, and of its own line nothing but itself.
ROOMS = """
errors output capabilities
process
spec
sites
plan
schedulers
machine rendering
jobs batchscript
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
    "markupsafe": {"rendering", "report"},
    "click": {"cli"},
}
# What the trainer uses beyond torch, where it is installed.
TRAINER_LIBRARIES = {
    "flags": {"yaml"},
    "hub": {"datasets", "huggingface_hub", "safetensors", "transformers"},
    "tokenizers": {"tiktoken"},
    "trackers": {"wandb"},
}
MOST_LINES, MOST_FILES, MOST_ROOMS = 500, 16, 13
SCHEDULER_ROOMS = {"capabilities", "schedulers", "trainer"}
MOST_COMPARISONS = 15


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, those in functions and for type checkers included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name_room(path: Path) -> str:
    """Return the room a file is in; a file beside the rooms is one of its own."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def find_misplaced_imports(path: Path) -> Iterator[str]:
    """Yield what a file of the tool imports and should not."""
    room = name_room(path)
    for name in imported_modules(path):
        library, _, rest = name.partition(".")
        if library == "jobgen":
            target = rest.split(".")[0]
            if target != room and target in LEVEL and LEVEL[target] >= LEVEL[room]:
                yield f"{path.relative_to(ROOT)}: {room} must not import {name}"
        elif library not in sys.stdlib_module_names and room not in LIBRARIES.get(library, ()):
            yield f"{path.relative_to(ROOT)}: {room} must not import {library}"


def find_foreign_imports(path: Path) -> Iterator[str]:
    """Yield what keeps a file of the trainer from being copied anywhere."""
    depth = len(path.relative_to(PACKAGE / "trainer").parts)
    known = sys.stdlib_module_names | {"torch", "numpy"} | TRAINER_LIBRARIES.get(path.stem, set())
    for name in imported_modules(path):
        if name.startswith("." * (depth + 1)):
            yield f"{path.relative_to(ROOT)}: {name} is outside of the trainer"
        elif not name.startswith(".") and name.partition(".")[0] not in known:
            yield f"{path.relative_to(ROOT)}: the trainer must not import {name}"


def test_the_house_is_in_order() -> None:
    """One list of all that is out of place: imports, long files, full folders, rooms."""
    faults: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        in_trainer = name_room(path) == "trainer"
        if path != PACKAGE / "__init__.py":
            faults += find_foreign_imports(path) if in_trainer else find_misplaced_imports(path)
        if (lines := len(path.read_text().splitlines())) > MOST_LINES:
            faults.append(f"{path.relative_to(ROOT)}: {lines} lines, more than {MOST_LINES}")
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    for folder in sorted(folders):
        if (files := len(list(folder.glob("*.py")))) > MOST_FILES:
            faults.append(f"{folder.relative_to(ROOT)}: {files} files, more than {MOST_FILES}")
    rooms = {path.name for path in folders if path.parent == PACKAGE}
    if len(rooms) > MOST_ROOMS:
        faults.append(f"{len(rooms)} rooms, more than {MOST_ROOMS}: {sorted(rooms)}")
    faults += [f"jobgen/{room}: not in the order" for room in rooms - {*LEVEL, "trainer"}]
    assert not faults, "\n".join(faults)


def find_name_comparisons(path: Path) -> Iterator[str]:
    """Yield where a file compares something with the name of a scheduler."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            ends = (node.left, *node.comparators)
            parts = [part for end in ends for part in ast.walk(end)]
            values = {part.value for part in parts if isinstance(part, ast.Constant)}
            # bash has a word `local`, which stands beside others of its own.
            if values & SCHEDULERS.keys() and not values & {"export", "read"}:
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"


def test_other_rooms_ask_what_a_scheduler_can_and_not_for_its_name() -> None:
    """`jobgen/capabilities.py` knows it; each exception has its reason beside it."""
    rooms = [
        path for path in sorted(PACKAGE.rglob("*.py")) if name_room(path) not in SCHEDULER_ROOMS
    ]
    comparisons = [line for path in rooms for line in find_name_comparisons(path)]
    assert len(comparisons) <= MOST_COMPARISONS, "\n".join(comparisons)


def test_render_imports_nothing_slow() -> None:
    program = (
        "import sys, atexit\n"
        "from jobgen.cli.main import main\n"
        "slow = {'torch', 'numpy', 'difflib', 'subprocess', 'jobgen.jobs'}\n"
        "atexit.register(lambda: print(sorted(slow & sys.modules.keys()), file=sys.stderr))\n"
        "main()\n"
    )
    argv = [sys.executable, "-c", program, "render", EXAMPLES[0]]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("#!/bin/bash\n")
    assert ended.stderr == "[]\n"
