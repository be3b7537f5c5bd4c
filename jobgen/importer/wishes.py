"""From directives to what a spec asks for beside nodes and time: QoS, e-mail, other jobs, ..."""

from __future__ import annotations

import re

from jobgen.importer.draft import Draft
from jobgen.importer.tasks import settle_range
from jobgen.script import Directive

_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*"
# Option, the form of its value that a spec takes, and its key.
_KEYS = {
    "slurm": {
        "--qos": (_LABEL, "qos"),
        "--reservation": (_LABEL, "reservation"),
        "--constraint": (r"[A-Za-z0-9_(\[][A-Za-z0-9_.:&|*,()\[\]-]*", "resources.constraint"),
        "--mail-user": (r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*", "notify.email"),
    },
    "pbs": {"-M": (r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*", "notify.email")},
}
_EXCLUSIVE = (("--exclusive", ""), ("-l", "place=scatter:excl"))
_EVENTS = {"BEGIN": "begin", "END": "end", "FAIL": "fail", "b": "begin", "e": "end", "a": "fail"}
_JOB = r":[0-9][0-9_]*(\[[0-9]*\])?(\.[A-Za-z0-9.-]+)?"
_DEPENDENCIES = rf"(afterok|afterany|afternotok|after)({_JOB})+"


def take(item: Directive, scheduler: str, draft: Draft) -> bool:
    """Put one directive into `draft`; False where a spec cannot say it."""
    form, key = _KEYS[scheduler].get(item.option, ("(?!)", ""))
    if re.fullmatch(form, item.value):
        draft.put(key, item.value)
    elif item.option in ("--mail-type", "-m"):
        return _events(item, draft)
    elif (item.option, item.value) in _EXCLUSIVE:
        draft.put("resources.exclusive", True)
    elif item.option == "--dependency":
        return _dependencies(item.value, draft)
    elif item.option == "-W" and item.value.startswith("depend="):
        return _dependencies(item.value.removeprefix("depend="), draft)
    elif item.option in ("--array", "-J"):
        return settle_range(item.value, draft)
    elif item.option == "--kill-on-invalid-dep":
        return item.value == "yes" and any(key.startswith("after") for key in draft.values)
    else:
        return False
    return True


def _events(item: Directive, draft: Draft) -> bool:
    words = item.value.split(",") if item.option == "--mail-type" else list(item.value)
    if not all(word in _EVENTS for word in words):
        return False
    draft.put("notify.on", list(dict.fromkeys(_EVENTS[word] for word in words)))
    return True


def _dependencies(text: str, draft: Draft) -> bool:
    parts = text.split(",")
    if not all(re.fullmatch(_DEPENDENCIES, part) for part in parts):
        return False
    found: dict[str, list[str]] = {}
    for part in parts:
        kind, *jobs = part.split(":")
        found.setdefault(kind, []).extend(jobs)
    if list(found) == ["afterok"]:
        draft.put("after", found["afterok"])
        return True
    for kind, jobs in found.items():
        draft.put(f"after.{kind}", jobs)
    return True
