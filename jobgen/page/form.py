"""The form of the page: every key of a job's JSON Schema, in sections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from jobgen.spec.json_schema import make_schema
from jobgen.spec.model import JobSpec

# One line of plain text, several of them, one line of YAML, several of them, one of some words.
Widget = Literal["text", "block", "yaml", "lines", "choice"]


class Control(NamedTuple):
    """One control of the form. `choices` are empty but for the widget `choice`."""

    path: str
    widget: Widget
    label: str
    description: str
    choices: tuple[str, ...]
    example: str

    @property
    def name(self) -> str:
        """An id for HTML."""
        return "field-" + self.path.replace(".", "-").replace("_", "-")


class Section(NamedTuple):
    """A part of the form: what everybody fills in, and what is folded away."""

    title: str
    controls: tuple[Control, ...]
    advanced: tuple[Control, ...]


# Each key of the spec belongs to the first section that names it or a key around it; the last takes
# what is left, so that a key that the spec gains is in the form too.
_SECTIONS = (
    ("Cluster", ("site", "scheduler", "account", "queue", "qos", "reservation", "filesystems")),
    ("Program", ("name", "run")),
    ("Resources", ("resources",)),
    ("Environment", ("environment",)),
    ("Before the time limit", ("on_walltime",)),
    ("More", ("",)),
)
_EVERYDAY = {
    *("site", "scheduler", "account", "queue", "name"),
    *("run.module", "run.script", "run.command", "run.args"),
    *("resources.nodes", "resources.gpus_per_node", "resources.walltime"),
    *("resources.cpus_per_gpu", "resources.memory_per_node"),
    *("environment.modules", "environment.venv", "environment.conda"),
    *("environment.variables", "environment.setup"),
    *("on_walltime.notice", "on_walltime.then", "on_walltime.at_most"),
}


def make_form() -> tuple[Section, ...]:
    """Return the sections of the form, each control once."""
    schema = json.loads(make_schema(JobSpec, title="jobgen job"))
    controls = list(_walk(schema, "", schema["definitions"]))
    sections = []
    for title, prefixes in _SECTIONS:
        own = [control for control in controls if _belongs(control.path, prefixes)]
        controls = [control for control in controls if control not in own]
        everyday = tuple(control for control in own if control.path in _EVERYDAY)
        folded = tuple(control for control in own if control.path not in _EVERYDAY)
        sections.append(Section(title, everyday, folded))
    return tuple(sections)


def _belongs(path: str, prefixes: tuple[str, ...]) -> bool:
    return any(not prefix or f"{path}.".startswith(f"{prefix}.") for prefix in prefixes)


def _walk(record: dict[str, Any], path: str, definitions: dict[str, Any]) -> Iterator[Control]:
    """Yield the controls of a record's keys; a key that only holds a record stands for its keys."""
    for key, field in record["properties"].items():
        inside = f"{path}.{key}" if path else key
        if field.get("doNotSuggest"):
            continue  # the old name of another
        kinds = field.get("allOf") or field.get("anyOf") or [{}]
        if "$ref" in kinds[0]:
            name = kinds[0]["$ref"].rpartition("/")[2]
            if _is_form_like(definitions[name]):
                yield from _walk(definitions[name], inside, definitions)
                continue
        yield _make_control(inside, field)


def _is_form_like(record: dict[str, Any]) -> bool:
    return record.get("type") == "object" and bool(record.get("properties"))


def _make_control(path: str, field: dict[str, Any]) -> Control:
    kinds = field.get("anyOf", [field])
    label = path.rpartition(".")[2].replace("_", " ")
    example = next((str(kind["examples"][0]) for kind in kinds if kind.get("examples")), "")
    choices = tuple(str(word) for kind in kinds for word in kind.get("enum", ()))
    if all(kind.get("type") == "boolean" for kind in kinds):
        choices = ("true", "false")
    types = [kind.get("type") for kind in kinds]
    widget: Widget = "lines"
    if choices:
        widget = "choice"
    elif all(of_type == "string" for of_type in types):
        widget = "text"
    elif types == ["string", "number", "boolean"]:
        widget = "block"
    elif "integer" in types or "number" in types:
        widget = "yaml"
    return Control(path, widget, label, field.get("description", ""), choices, example)
