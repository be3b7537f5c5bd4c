"""Fixes for the findings that have one safe fix."""

from __future__ import annotations

import re

from jobgen.batchscript.lint.rule import Finding

MENDED = ("crlf", "srun-kill")


def mend_text(text: str, findings: list[Finding]) -> str:
    """A script without those of its findings that are in MENDED; what else it says stays."""
    lines = text.split("\n")
    for item in sorted(findings, key=lambda item: (-item.line, -item.column)):
        index = item.line - 1
        if item.note or index >= len(lines):
            continue
        line = lines[index]
        if item.rule.id == "crlf":
            lines = [other.removesuffix("\r") for other in lines]
        elif item.rule.id == "srun-kill":
            start = item.column - 1
            match = re.compile(r"srun\b(?! *-K [01]\b)").match(line, start)
            if match:
                lines[index] = f"{line[: match.end()]} --kill-on-bad-exit=1{line[match.end() :]}"
    return "\n".join(lines)
