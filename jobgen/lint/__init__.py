"""The classic faults of job scripts, found before the queue finds them."""

from __future__ import annotations

from jobgen.lint import directives, launching, rendezvous
from jobgen.lint.rule import Finding
from jobgen.script import Script

RULES = (*directives.RULES, *launching.RULES, *rendezvous.RULES)


def check(script: Script) -> list[Finding]:
    """Every fault that the rules know in a script, by line."""
    found = [
        Finding(script.path, line, column, rule, message)
        for rule in RULES
        for line, column, message in rule.check(script)
    ]
    return sorted(set(found), key=lambda finding: (finding.line, finding.column, finding.rule.id))
