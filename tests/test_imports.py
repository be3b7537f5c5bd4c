"""Who imports whom: the layers of the design, one module for each library, no file too long."""

import ast
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from support import EXAMPLES, ROOT

PACKAGE = ROOT / "jobgen"
FILES = sorted(PACKAGE.rglob("*.py"))
TOOL = [path for path in FILES if "trainer" not in path.parts]
TRAINER = [path for path in FILES if "trainer" in path.parts]

# A module imports from the lines above its own, and of its own line nothing.
LAYERS = """
jobgen
jobgen.errors jobgen.plain jobgen.tail
jobgen.units jobgen.document jobgen.fold
jobgen.bind
jobgen.fields
jobgen.software jobgen.sweep
jobgen.spec jobgen.queues
jobgen.profile
jobgen.overlay
jobgen.loaded
jobgen.site jobgen.limits jobgen.nodes jobgen.program jobgen.request jobgen.dependencies
jobgen.array
jobgen.rules jobgen.describe jobgen.container jobgen.chain jobgen.preflight
jobgen.environment
jobgen.choose jobgen.start
jobgen.plan jobgen.schema
jobgen.schedulers.base jobgen.schedulers.pbs_jobs
jobgen.schedulers.used
jobgen.schedulers.slurm jobgen.schedulers.pbs jobgen.schedulers.local
jobgen.schedulers.slurm_queue jobgen.schedulers.pbs_queue
jobgen.schedulers jobgen.header jobgen.topology jobgen.cost jobgen.batch
jobgen.exports
jobgen.render jobgen.explain
jobgen.check jobgen.drawing
jobgen.process jobgen.runs jobgen.shell jobgen.progress
jobgen.live jobgen.recognise jobgen.verdict
jobgen.capture jobgen.folder jobgen.prerequisites
jobgen.doctor jobgen.init
jobgen.links jobgen.intents jobgen.schedulers.submitted
jobgen.handover
jobgen.settle
jobgen.traces
jobgen.launchers
jobgen.script
jobgen.lint.rule jobgen.importer.draft
jobgen.importer.tasks
jobgen.importer.wishes
jobgen.lint.directives jobgen.lint.launching jobgen.lint.rendezvous jobgen.importer.directives
jobgen.importer.containers
jobgen.lint.sites jobgen.importer.own jobgen.importer.body
jobgen.lint
jobgen.importer
jobgen.status
jobgen.watch jobgen.overview
jobgen.diagnose.cause jobgen.diagnose.reading jobgen.diagnose.flight
jobgen.diagnose.evidence
jobgen.diagnose.scheduler jobgen.diagnose.script jobgen.diagnose.machine jobgen.diagnose.program
jobgen.diagnose.stall
jobgen.submission
jobgen.submit jobgen.logs jobgen.diagnose
jobgen.report.words jobgen.report.facts
jobgen.report.figures jobgen.report.timeline
jobgen.report.charts
jobgen.report.history jobgen.report.efficiency jobgen.report.compare jobgen.report.png
jobgen.report.page jobgen.report.folder jobgen.report.text
jobgen.report.gather
jobgen.report
jobgen.api
jobgen.remote
jobgen.completion
jobgen.cli_target jobgen.cli_host
jobgen.cli_machine
jobgen.cli_scripts jobgen.cli_editors jobgen.cli_sites jobgen.cli_plan
jobgen.cli_jobs jobgen.cli_report jobgen.cli_status
jobgen.cli
jobgen.__main__
"""
LAYER = {name: layer for layer, line in enumerate(LAYERS.splitlines()) for name in line.split()}
HOME = {
    "yaml": {"document"},
    "jinja2": {"render", "page"},
    "markupsafe": {"render", "page"},
    "matplotlib": {"png"},
    "click": {
        *(
            "cli",
            "cli_editors",
            "cli_host",
            "cli_machine",
            "cli_jobs",
            "cli_plan",
            "cli_report",
            "cli_scripts",
            "cli_sites",
            "cli_status",
            "cli_target",
        )
    },
}
# What the trainer uses beyond torch, where it is installed.
TRAINERS_HOME = {
    "flags": {"yaml"},
    "hub": {"datasets", "huggingface_hub", "safetensors", "transformers"},
    "tokenizers": {"tiktoken"},
    "trackers": {"wandb"},
    "digits": {"sklearn"},
}


def name_of(path: Path) -> str:
    """The module in a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, inside functions and for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.ImportFrom):
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (members & LAYER.keys()) or {node.module or ""}


@pytest.mark.parametrize("path", TOOL, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    own = [name for name in imports(path) if name.partition(".")[0] == "jobgen"]
    above = [name for name in own if LAYER[name] >= LAYER[name_of(path)]]
    assert not above


@pytest.mark.parametrize("path", TOOL, ids=name_of)
def test_a_library_is_known_to_one_module(path: Path) -> None:
    for name in imports(path):
        library = name.partition(".")[0]
        if library not in sys.stdlib_module_names and library != "jobgen":
            assert path.stem in HOME.get(library, ()), library


@pytest.mark.parametrize("path", TRAINER, ids=name_of)
def test_the_trainer_can_be_copied_anywhere(path: Path) -> None:
    libraries = {name.partition(".")[0] for name in imports(path) if not name.startswith(".")}
    known = {"torch", "numpy"} | TRAINERS_HOME.get(path.stem, set())
    assert libraries <= sys.stdlib_module_names | known
    depth = len(path.relative_to(PACKAGE / "trainer").parts)
    assert not any(name.startswith("." * (depth + 1)) for name in imports(path))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_can_be_read_at_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 320


def lines_of_code(path: Path) -> int:
    """Return how many lines there are without imports, docstrings, comments and empty ones."""
    text, aside = path.read_text(), {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE}
    aside |= {tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [t for t in tokenize.generate_tokens(StringIO(text).readline) if t.type not in aside]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, (ast.Import, ast.ImportFrom)):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def test_the_trainer_can_be_read_in_an_hour() -> None:
    assert sum(map(lines_of_code, (PACKAGE / "trainer").glob("*.py"))) <= 1500


def test_render_imports_nothing_slow() -> None:
    program = (
        "import sys, atexit\n"
        "from jobgen.cli import main\n"
        "slow = {'torch', 'numpy', 'difflib', 'subprocess', 'jobgen.runs'}\n"
        "atexit.register(lambda: print(sorted(slow & sys.modules.keys()), file=sys.stderr))\n"
        "main()\n"
    )
    argv = [sys.executable, "-c", program, "render", EXAMPLES[0]]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("#!/bin/bash\n")
    assert ended.stderr == "[]\n"
