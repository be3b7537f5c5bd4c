"""Packages of npm that tests use: Pyodide and axe for the page, ajv for the schemas."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def fetch_package(name: str, version: str) -> Path:
    """Return the folder of an npm package, which is fetched once, with what it needs.

    Without npm the test is skipped; in CI it must be there.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "jobgen-tests")
    folder = cache / f"{name}-{version}"
    package = folder / "node_modules" / name
    if not package.exists():
        if shutil.which("npm") is None:
            assert not os.environ.get("CI"), "npm is not installed"
            pytest.skip("npm is not installed")
        cache.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as new:
            install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
            command = [*install, "--prefix", new, f"{name}@{version}"]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
            with contextlib.suppress(OSError):  # another test process was first
                os.rename(new, folder)
    return package
