"""Findings for other programs: SARIF, and annotations of GitHub's pull requests."""

from __future__ import annotations

import json
from collections.abc import Iterable

from jobgen.batchscript.lint.rule import Finding
from jobgen.output import format_annotation

_LEVELS = {"fault": "error", "note": "note"}


def format_sarif(findings: Iterable[Finding]) -> str:
    """The findings as SARIF 2.1.0, which code scanning reads."""
    findings = list(findings)
    rules = {item.rule.id: item.rule for item in findings}
    driver = {
        "name": "jobgen lint",
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.title},
                "fullDescription": {"text": rule.why},
                "help": {"text": f"{rule.fix[0].upper()}{rule.fix[1:]}."},
                "helpUri": rule.reference,
            }
            for _, rule in sorted(rules.items())
        ],
    }
    results = [
        {
            "ruleId": item.rule.id,
            "level": _LEVELS[item.level],
            "message": {"text": f"{item.message}; {item.fix}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": item.file},
                        "region": {"startLine": item.line, "startColumn": item.column},
                    }
                }
            ],
        }
        for item in findings
    ]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=2) + "\n"


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
