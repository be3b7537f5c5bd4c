"""Imports that take seconds, made where a test of a file runs and not in each worker that lists it.

A file with such tests has them below `if TYPE_CHECKING:`, and imports the fixture.
"""

import ast
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def import_late(request: pytest.FixtureRequest) -> None:
    """Make the imports below `if TYPE_CHECKING:` in the test's file; all need torch."""
    pytest.importorskip("torch", reason="it needs torch")
    for part in ast.parse(Path(request.path).read_text()).body:
        if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING":
            block = ast.Module(part.body, [])
            exec(compile(block, str(request.path), "exec"), vars(request.module))
