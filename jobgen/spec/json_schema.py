"""The records that `bind` validates, as JSON Schema draft-07: for editors and for CI.

It is made from the same declarations, in draft-07's words, as yaml-language-server reads no later
draft. The schema accepts whatever jobgen accepts; what takes more than one look at one record, such
as lists that are as long as the job has nodes, `jobgen check` alone tells. Patterns keep to what
ECMA 262 and Python read alike.
"""

from __future__ import annotations

import inspect
import json
from itertools import combinations
from typing import Any, get_args

from jobgen.spec import fields

Schema = dict[str, Any]

_SCALARS = {bool: "boolean", int: "integer", float: "number"}
_COMMENT = "`jobgen check` tells more than this schema can say."


def make_schema(cls: type, *, title: str) -> str:
    """Return the JSON Schema of the documents that are records of `cls`, always the same text."""
    definitions: dict[str, Schema] = {}
    root = _describe_record(cls, definitions)
    document = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": _COMMENT,
        "title": title,
        **root,
        "definitions": dict(sorted(definitions.items())),
    }
    return json.dumps(document, indent=2) + "\n"


def _describe_record(cls: type, definitions: dict[str, Schema]) -> Schema:
    keys = fields.read_fields(cls)
    defaults: dict[str, Any] = cls._field_defaults  # type: ignore[attr-defined]
    schema: Schema = {"description": " ".join(str(inspect.getdoc(cls)).split()), "type": "object"}
    schema["properties"] = {
        name: _describe_field(field, defaults.get(name), definitions)
        for name, field in keys.items()
    }
    required = [*fields.read_required(cls)]
    if required and "extends" in keys:  # the rest may stand in what it extends
        # Editors name what is missing; of two ways to be valid they would name the nearer one.
        there: Schema = _require(required)
        for name, other in getattr(cls, "alternatives", {}).items():
            there |= {"if": {"properties": {other: False}}, "then": _require([name])}
        schema |= {"if": {"properties": {"extends": False}}, "then": there}
    elif required:
        schema["required"] = required
    schema["additionalProperties"] = False
    excluding, conditions = _describe_choices(cls)
    if excluding:
        schema["dependencies"] = {
            key: {"properties": dict.fromkeys(others, False)} for key, others in excluding.items()
        }
    if conditions:
        schema["allOf"] = conditions
    return schema


def _describe_choices(cls: type) -> tuple[dict[str, list[str]], list[Schema]]:
    """Return which keys exclude which others, and of which one must be there.

    That one is there where at most one may be, what is extended may say.
    """
    excluding: dict[str, list[str]] = {}
    conditions: list[Schema] = []
    for keys, least, most in getattr(cls, "key_limits", ()):
        if most == 1:
            for one, other in combinations(keys, 2):
                excluding.setdefault(one, []).append(other)
        elif least:
            conditions.append({"anyOf": [_require([key]) for key in keys]})
    return excluding, conditions


def _require(keys: list[str]) -> Schema:
    """Keys that must be there; ajv with `strict: true` wants to see each of them beside that."""
    return {"properties": dict.fromkeys(keys, True), "required": keys}


def _describe_field(field: fields.Field, default: Any, definitions: dict[str, Schema]) -> Schema:
    schema: Schema = {"description": field.description}
    value = _describe_kinds(field.kinds, definitions)
    # Beside a $ref draft-07 reads nothing else.
    schema.update({"allOf": [value]} if "$ref" in value else value)
    if isinstance(default, str | int):
        schema["default"] = default
    return schema


def _describe_kinds(kinds: tuple[fields.Kind, ...], definitions: dict[str, Schema]) -> Schema:
    schemas: list[Schema] = []
    for kind in kinds:
        schema = _describe_kind(kind, definitions)
        schemas += schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _describe_kind(kind: fields.Kind, definitions: dict[str, Schema]) -> Schema:
    if fields.is_record(kind.type):
        return _refer_to(kind.type, definitions)
    if fields.is_literal(kind.type):
        # An editor offers the words of the first, and takes those of both.
        fixed = {"enum": [*get_args(kind.type)]}
        forms = {"type": "string", "pattern": f"^(?:{_join_spellings(kind)})$"}
        several = len(fields.list_spellings(kind.type)) > len(fixed["enum"])
        return {"anyOf": [fixed, forms]} if several else fixed
    if not kind.members:
        return _describe_value(kind, definitions)
    inner = _describe_kinds(kind.members, definitions)
    if kind.type is dict:
        schema = {"type": "object", "additionalProperties": inner}
        return schema | ({"propertyNames": _describe_text(kind.key)} if kind.key else {})
    items = {"type": "array", "items": inner} | _describe_range(kind.rule, "minItems", "maxItems")
    return {"anyOf": [items, _describe_list_as_text(kind)]} if kind.takes_text else items


def _describe_value(kind: fields.Kind, definitions: dict[str, Schema]) -> Schema:
    of_type, rule = kind.type, kind.rule
    # Nothing but its parser says what it takes.
    if isinstance(rule, fields.Parsed) and not rule.regex:
        return _describe_scalar(None) | {"examples": list(rule.examples)}
    if of_type in _SCALARS and not isinstance(rule, fields.Parsed):
        return {"type": _SCALARS[of_type]} | _describe_range(rule, "minimum", "maximum")
    if not isinstance(rule, fields.FreeText):
        return {"type": "string"} | _describe_text(rule)
    text = _describe_scalar(fields.CONTROL_IN_TEXT)
    more = [_refer_to(fields.Expandable, definitions)] if rule.expandable else []
    return {"anyOf": [*text["anyOf"], *more]}


def _refer_to(cls: type, definitions: dict[str, Schema]) -> Schema:
    """Return what names the schema of a record, and its short form if it has one."""
    if cls.__name__ not in definitions:
        definitions[cls.__name__] = {}  # it may hold itself
        definitions[cls.__name__] = _describe_record(cls, definitions)
    reference = {"$ref": f"#/definitions/{cls.__name__}"}
    if short := getattr(cls, "short_key", None):
        return {"anyOf": [reference, _describe_kind(fields.read_fields(cls)[short].kinds[0], {})]}
    return reference


def _describe_scalar(forbidden: str | None) -> Schema:
    """Text, a number or a truth value: one type in each, as ajv with `strict: true` wants it."""
    text = {"type": "string"} | (_forbid(forbidden) if forbidden else {})
    return {"anyOf": [text, {"type": "number"}, {"type": "boolean"}]}


def _describe_list_as_text(kind: fields.Kind) -> Schema:
    """One value in the place of a list, or text that holds several."""
    member = kind.text_member
    assert member is not None
    others = [one for one in kind.members if one != member]
    if isinstance(member.rule, fields.FreeText):
        return _describe_scalar(fields.CONTROL)
    if member.type is int:
        return _describe_kind(member, {})
    item = member.rule.regex if isinstance(member.rule, fields.Pattern) else _join_spellings(member)
    between = r"[, ;|\n]"
    form = f"^{between}*(?:{item})(?:{between}+(?:{item}))*{between}*$"
    text = {"type": "string", "pattern": form} | _forbid(fields.CONTROL_IN_TEXT)
    return {"anyOf": [text, *(_describe_kind(other, {}) for other in others)]} if others else text


def _join_spellings(kind: fields.Kind) -> str:
    return "|".join(fields.list_spellings(kind.type))


def _describe_range(rule: Any, least: str, most: str) -> Schema:
    if not isinstance(rule, fields.Range):
        return {}
    return {least: rule.least} | ({} if rule.most is None else {most: rule.most})


def _describe_text(rule: fields.Pattern | fields.Parsed | None) -> Schema:
    schema = _forbid(fields.CONTROL)
    if rule is not None and rule.regex:
        schema["pattern"] = f"^(?:{rule.regex})$"
    if rule is not None and rule.examples:
        schema["examples"] = list(rule.examples)
    return schema


def _forbid(characters: str) -> Schema:
    # `$` of Python also matches before a newline at the end, so a pattern alone would let it in.
    return {"not": {"type": "string", "pattern": characters}}
