"""The records that `bind` validates, as JSON Schema draft-07: for editors and for CI.

It is made from the same annotations, and said in draft-07's words as yaml-language-server reads no
later draft. What a record's `conflicts` says of several keys stands here once more, in
`_CONDITIONS`, as far as draft-07 can say it; `LIMITS` is what it cannot. Patterns keep to what
ECMA 262 and Python read alike.
"""

from __future__ import annotations

import inspect
import json
import re
from itertools import combinations
from typing import Any, Literal, get_args, get_origin

from jobgen.bind import (
    CONTROL,
    CONTROL_IN_TEXT,
    Field,
    Kind,
    Parsed,
    Pattern,
    Range,
    Text,
    fields,
    is_record,
)
from jobgen.fields import TAKEN
from jobgen.profile import Address, Limit, SiteProfile
from jobgen.software import Container, Environment
from jobgen.spec import After, JobSpec, Launch, Notify, Resources, Run, Walltime
from jobgen.sweep import FIXED, MAX_TASKS, Array

Schema = dict[str, Any]

ROOTS = {"job": JobSpec, "site": SiteProfile}

LIMITS = (
    "jobgen checks more than this schema can say: that the lists of GPUs and processes are as long"
    " as the job has nodes, and a range of nodes in order; that an amount of memory with a fraction"
    " is a whole number of KB; that"
    " whole numbers are written in decimal, without leading zeros or a fraction; that keys are"
    " printable, given once and no merge keys; that the sources, queues and types of GPU that a"
    " profile names are there, its ranges in order, and its regular expressions some; what the site"
    " has to say; that what a spec extends is there, and says what the spec leaves out, where null"
    " takes a key out."
)

_EMPTY_LISTS = {
    "resources": {"properties": {"gpus_per_node": {"minItems": 1}}},
    "launch": {"properties": {"processes_per_node": {"minItems": 1}}},
    "after": {"minItems": 1},
}
_OPTION_LIKE = {
    "anyOf": [{"type": "string", "pattern": "^-"}, {"type": "number", "exclusiveMaximum": 0}]
}
_TWO_PYTHONS = (["venv", "conda"], ["venv", "stage"], ["conda", "stage"])
# What a task of an array is given: no path that cannot differ, no list for a variable, and in a
# list for an argument nothing like an option.
_NO_LIST = {"not": {"type": "array"}}
_KEYS = {"propertyNames": {"not": {"pattern": f"^(?:{FIXED})$"}}}
_OF_VARIABLE = r"^environment\.variables\."
_GIVEN = {
    **_KEYS,
    "patternProperties": {_OF_VARIABLE: _NO_LIST},
    "additionalProperties": {"items": {"not": _OPTION_LIKE}},
}
_VARIED = {
    **_KEYS,
    "minProperties": 1,
    "patternProperties": {_OF_VARIABLE: {"minItems": 1, "items": _NO_LIST}},
    "additionalProperties": {"minItems": 1, "items": {"items": {"not": _OPTION_LIKE}}},
}
_PROGRAM = ("module", "script", "command")
_CONDITIONS: dict[type, list[Schema]] = {
    Resources: [{"not": {"required": ["cpus_per_gpu", "cpus_per_node"]}}],
    Environment: [
        *({"not": {"required": pair}} for pair in _TWO_PYTHONS),
        {"properties": {"variables": {"propertyNames": {"not": {"pattern": f"^(?:{TAKEN})$"}}}}},
    ],
    Launch: [
        {
            "if": {"properties": {"mode": {"const": "direct"}}, "required": ["mode"]},
            "then": {
                "properties": {"rendezvous": {"type": "null"}, "max_restarts": {"type": "null"}}
            },
        }
    ],
    Container: [
        {
            "not": {
                "properties": {"runtime": {"const": "edf"}, "binds": {"minItems": 1}},
                "required": ["runtime", "binds"],
            }
        }
    ],
    Run: [
        *({"not": {"required": list(pair)}} for pair in combinations(_PROGRAM, 2)),
        {"properties": {"command": {"minItems": 1}}},
        {
            "if": {"properties": {"args": {"type": "object"}}},
            "then": {
                "properties": {
                    "args": {"additionalProperties": {"items": {"not": _OPTION_LIKE}}},
                }
            },
        },
    ],
    Array: [
        {"oneOf": [{"required": [key]} for key in ("values", "zip", "list", "tasks")]},
        {"properties": dict.fromkeys(("values", "zip"), _VARIED)},
        {"properties": {"list": {"minItems": 1, "maxItems": MAX_TASKS, "items": _GIVEN}}},
    ],
    Notify: [{"minProperties": 1}, {"properties": {"on": {"minItems": 1, "uniqueItems": True}}}],
    After: [
        {"minProperties": 1},
        {"properties": {key: {"minItems": 1} for key in After._fields}},
    ],
    JobSpec: [
        {
            "if": {"not": {"required": ["extends"]}},
            "then": {"properties": {"run": {"anyOf": [{"required": [k]} for k in _PROGRAM]}}},
        },
        {"properties": _EMPTY_LISTS},
    ],
    Walltime: [
        {
            "if": {"required": ["at_most"]},
            "then": {
                "required": ["then"],
                "properties": {"then": {"enum": ["requeue", "resubmit"]}},
            },
        }
    ],
    Limit: [
        {
            "properties": {
                **{key: {"minItems": 1, "maxItems": 2} for key in ("nodes", "gpus", "cpus")},
                "walltime": {"minItems": 2, "maxItems": 2},
            }
        }
    ],
    Address: [{"oneOf": [{"required": [key]} for key in ("suffix", "domain", "resolve")]}],
    SiteProfile: [
        *(
            {
                "not": {
                    "properties": {
                        "scheduler": {"const": scheduler},
                        "launch": {
                            "properties": {"launcher": {"const": launcher}},
                            "required": ["launcher"],
                        },
                    },
                    "required": ["launch"],
                }
            }
            for scheduler, launcher in (("slurm", "pbsdsh"), ("pbs", "srun"))
        ),
        {"dependencies": {"gpu_type": ["gpu_types"]}},
        {
            "if": {"required": ["cited"], "properties": {"cited": {"minProperties": 1}}},
            "then": {"required": ["sources"]},
        },
    ],
}


def schema(what: Literal["job", "site"]) -> str:
    """The JSON Schema of job specs or site profiles, as text; always the same."""
    cls = ROOTS[what]
    definitions: dict[str, Schema] = {}
    root = _record(cls, definitions)
    document = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": LIMITS,
        "title": f"jobgen {what}",
        **root,
        "definitions": dict(sorted(definitions.items())),
    }
    return json.dumps(document, indent=2) + "\n"


def _record(cls: type, definitions: dict[str, Schema]) -> Schema:
    keys = fields(cls)
    defaults: dict[str, Any] = cls._field_defaults  # type: ignore[attr-defined]
    found: Schema = {"description": " ".join((inspect.getdoc(cls) or "").split())}
    found["type"] = "object"
    found["properties"] = {
        name: _field(field, defaults.get(name), definitions) for name, field in keys.items()
    }
    required = [name for name, field in keys.items() if field.required]
    if required and cls is JobSpec:  # what it extends may say the rest
        found["anyOf"] = [{"required": ["extends"]}, {"required": required}]
    elif required:
        found["required"] = required
    found["additionalProperties"] = False
    if cls in _CONDITIONS:
        found["allOf"] = _CONDITIONS[cls]
    return found


def _field(field: Field, default: Any, definitions: dict[str, Schema]) -> Schema:
    found: Schema = {"description": field.description}
    value = _kinds(field.kinds, definitions)
    # Beside a $ref draft-07 reads nothing else.
    found.update({"allOf": [value]} if "$ref" in value else value)
    if isinstance(default, str | int):
        found["default"] = default
    return found


def _kinds(kinds: tuple[Kind, ...], definitions: dict[str, Schema]) -> Schema:
    found = [_kind(kind, definitions) for kind in kinds]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _kind(kind: Kind, definitions: dict[str, Schema]) -> Schema:
    of_type, rule = kind.type, kind.rule
    if is_record(of_type):
        if of_type.__name__ not in definitions:
            definitions[of_type.__name__] = {}  # it may hold itself
            definitions[of_type.__name__] = _record(of_type, definitions)
        return {"$ref": f"#/definitions/{of_type.__name__}"}
    if of_type is dict:
        found = {"type": "object", "additionalProperties": _kinds(kind.members, definitions)}
        return found | ({"propertyNames": _text(kind.key)} if kind.key else {})
    if of_type is tuple:
        return {"type": "array", "items": _kinds(kind.members, definitions)}
    if get_origin(of_type) is Literal:
        return {"enum": list(get_args(of_type))}
    if isinstance(rule, Text):
        return {"type": ["string", "number", "boolean"], **_without(CONTROL_IN_TEXT)}
    if of_type is bool:
        return {"type": "boolean"}
    if of_type in (int, float) and not isinstance(rule, Parsed):
        limits = {"minimum": rule.least, "maximum": rule.most} if isinstance(rule, Range) else {}
        return {"type": "integer" if of_type is int else "number"} | {
            k: v for k, v in limits.items() if v is not None
        }
    if isinstance(rule, Parsed) and not rule.regex:  # nothing but its parser says what it takes
        return {"type": ["string", "number", "boolean"], "examples": list(rule.examples)}
    return {"type": "string"} | _text(rule)


def _text(rule: Pattern | Parsed | None) -> Schema:
    """One line of text of a certain form."""
    found = _without(CONTROL)
    if rule is not None and rule.regex:
        found["pattern"] = f"^(?:{rule.regex})$"
        # What yaml-language-server says in the place of the pattern.
        found["patternErrorMessage"] = (
            f"This is not {rule.meaning}."
            if isinstance(rule, Pattern)
            else f"Write it as {' or '.join(rule.examples)}."
        )
    if rule is not None and rule.examples:
        found["examples"] = list(rule.examples)
    return found


def _without(characters: re.Pattern[str]) -> Schema:
    # `$` of Python also matches before a newline at the end, so a pattern alone would let it in.
    return {"not": {"type": "string", "pattern": characters.pattern}}
