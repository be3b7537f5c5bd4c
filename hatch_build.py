"""What the wheel has beside the package, made as it is built: the man page, the JSON Schemas."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds share/man/man1/jobgen.1 and share/jobgen/*.schema.json."""

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
