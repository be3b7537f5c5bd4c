"""Records as JSON: one form for all that a program reads (`docs/json.md`)."""

from __future__ import annotations

import json
from typing import Any


def plain(value: Any) -> Any:
    """`value` with records as mappings of their fields, all the way down."""
    if hasattr(value, "_asdict"):
        return {key: plain(item) for key, item in value._asdict().items()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def to_json(value: Any) -> str:
    """The text that a command with --json prints."""
    return json.dumps(plain(value), indent=2) + "\n"
