"""The classic faults of job scripts, found before the queue finds them."""

from __future__ import annotations

from jobgen.lint import directives, launching, rendezvous, sites
from jobgen.lint.rule import Finding
from jobgen.script import Script

RULES = (*directives.RULES, *launching.RULES, *rendezvous.RULES, sites.RULE)


def check(script: Script, site: str | None = None) -> list[Finding]:
    """Every fault that the rules know in a script, by line.

    `site` names the profile that the script is held to; where it is None, the one that the script
    is recognised to be for, if it is. Raises SpecError where there is no such site.
    """
    found = [
        Finding(script.path, line, column, rule, message)
        for rule in RULES
        for line, column, message in (
            sites.faults(script, site) if site and rule is sites.RULE else rule.check(script)
        )
    ]
    return sorted(set(found), key=lambda finding: (finding.line, finding.column, finding.rule.id))
