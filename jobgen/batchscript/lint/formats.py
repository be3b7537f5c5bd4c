"""Findings for other programs: annotations of GitHub's pull requests."""

from __future__ import annotations

from collections.abc import Iterable

from jobgen.batchscript.lint.rule import Finding
from jobgen.output import format_annotation


def format_github(findings: Iterable[Finding]) -> str:
    """The findings as commands of a GitHub workflow, which shows them at their lines."""
    return "".join(
        format_annotation(
            "notice" if item.note else "error",
            f"{item.message}; {item.fix}",
            file=item.file,
            line=item.line,
            column=item.column,
            title=item.rule.title,
        )
        for item in findings
    )
