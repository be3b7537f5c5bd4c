"""What a wheel has that is made as it is built: the man page, the JSON Schemas, the commit."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds share/man/man1/jobgen.1, share/jobgen/*.schema.json and jobgen/commit."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files below build/, and name them."""
        spec = importlib.util.spec_from_file_location("generate", f"{self.root}/docs/generate.py")
        assert spec
        assert spec.loader
        generate = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(generate)
        for name, text in generate.shared():
            path = Path(self.root, "build", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(path)] = name
        git = ["git", "-C", self.root, "rev-parse", "--short", "HEAD"]
        with contextlib.suppress(OSError):  # no git: `jobgen --version` does without
            commit = subprocess.run(git, capture_output=True, text=True, check=False)
            if commit.returncode == 0 and Path(self.root, ".git").exists():
                path = Path(self.root, "build", "commit")
                path.write_text(commit.stdout, encoding="utf-8")
                build_data["force_include"][str(path)] = "jobgen/commit"
