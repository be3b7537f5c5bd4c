"""The classic faults of job scripts, found before the queue finds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from itertools import product

from jobgen.batchscript.directives import share_totals
from jobgen.batchscript.lint import body, directives, launching, rendezvous
from jobgen.batchscript.lint.rule import Finding, Rule, list_rules
from jobgen.batchscript.purposes import FORMS
from jobgen.batchscript.readable import SHELLS, find_shell, find_template, list_submissions
from jobgen.batchscript.reader import Script
from jobgen.rendering import header

RULES = list_rules(directives, launching, rendezvous, body)
ABOUT_LAUNCH = {*FORMS["of-launch"].pattern.split("|")}
TOLD = [rule for rule in RULES if FORMS["of-words"].fullmatch(rule.id)]  # by import, too


def check(script: Script, site: str | None = None) -> list[Finding]:
    """Every fault that the rules know in a script, by line, in order of place.

    `site` names the profile that the script is held to. Raises SpecError if there is no such site.
    """
    script.site = site
    findings = [
        Finding(script.path, fault.line, fault.column, rule, fault.message, fault.fix or rule.fix)
        for job in _list_jobs(script)
        for rule in _choose_rules(job)
        if job.text == script.text or not FORMS["of-file"].fullmatch(rule.id)
        for fault in rule.check(job)
    ]
    for end in [x.line for x in findings if x.rule.id == "bash-syntax"]:  # where bash ends, too
        findings = [x for x in findings if x.line <= end and x.rule.id != "hidden-exit"]
    ignored = _read_ignored(script)
    ignored |= {(x.line, "shellcheck") for x in findings if x.rule.id == "no-command"}  # one cause
    findings = [item for item in set(findings) if (item.line, item.rule.id) not in ignored]
    late = FORMS["late"].findall  # true of most scripts: it comes after what is rarer, and dearer
    return sorted(findings, key=lambda x: (late(x.rule.id), *x[1:3], x.rule.id, x.message))


def _list_jobs(script: Script) -> Iterator[Script]:
    """Yield a script, and jobs in its here-documents, at their lines, as its shell has them."""
    docs = [doc for command in script.commands for doc in command.heredocs]
    texts = [re.sub(r"\\([$`\\])", r"\1", "\n" * (doc.line - 1) + doc.body) for doc in docs]
    for job in [copy(script), *(Script(script.path, x) for x in texts if FORMS["job"].match(x))]:
        job.request = share_totals(job)
        yield job


def _choose_rules(script: Script) -> tuple[Rule, ...]:
    if find_template(script) or FORMS["in-braces"].search(script.text):
        return tuple(rule for rule in RULES if rule.id == "placeholder")
    # Of what jobgen rendered, only the directives may be somebody's own, and no shell runs Python.
    is_own = header.read(script.text) is None and find_shell(script).endswith("sh")
    rules = RULES if is_own else list_rules(directives)
    itself, others = FORMS["submits-itself"].search(script.text), [*list_submissions(script)]
    about = map(bool, (script.directives, itself, others, find_shell(script) in SHELLS))
    state = " ".join(map(str, about))
    return tuple(rule for rule in rules if not FORMS["left-out"].fullmatch(f"{rule.id} {state}"))


def _read_ignored(script: Script) -> set[tuple[int, str]]:
    ignored = set[tuple[int, str]]()
    for number, line in enumerate(script.lines, 1):
        alone = bool(re.match(r"\s*#(?!SBATCH|PBS)", line))
        for rules in FORMS["ignore"].findall(line)[:1]:
            ignored.update(product((number, number + alone), re.split(r"[, ]+", rules.strip())))
    return ignored
