"""The form of the page: every key of a job's JSON Schema, in sections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from jobgen.records import NamedTuple
from jobgen.spec.json_schema import make_schema
from jobgen.spec.model import JobSpec

# text: a line of plain text; block: several; yaml: a line of YAML; lines: several; choice: a word.
Widget = Literal["text", "block", "yaml", "lines", "choice"]
# A key belongs to the first section that names it or a key around it. The last section takes the
# rest, so a new key of the spec is in the form without a change here.
_SECTIONS = (
    ("Cluster", ("site", "scheduler", "account", "queue", "qos", "reservation", "filesystems")),
    ("Program", ("name", "run")),
    ("Resources", ("resources",)),
    ("Environment", ("environment",)),
    ("Before the time limit", ("on_walltime",)),
    ("More", ("",)),
)
# Keys that the title of a section stands for.
_TOLD = {"run", "resources", "environment", "on_walltime"}
# Parts of keys as people write them.
_WORDS = {
    "gpu": "GPU",
    "gpus": "GPUs",
    "cpu": "CPU",
    "cpus": "CPUs",
    "qos": "QoS",
    "args": "arguments",
    "venv": "virtual environment",
    "conda": "Conda environment",
    "uv": "project managed by uv",
}
_EVERYDAY = {
    *("site", "scheduler", "account", "queue", "name"),
    *("run.module", "run.script", "run.command", "run.args"),
    *("resources.nodes", "resources.gpus_per_node", "resources.walltime"),
    *("resources.cpus_per_gpu", "resources.memory_per_node"),
    *("environment.modules", "environment.venv", "environment.conda"),
    *("environment.variables", "environment.setup"),
    *("on_walltime.notice", "on_walltime.then", "on_walltime.at_most"),
}


class Control(NamedTuple):
    """One control of the form. Only the widget `choice` has `choices`."""

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
    """A part of the form: common controls, and folded ones."""

    title: str
    controls: tuple[Control, ...]
    advanced: tuple[Control, ...]


def make_form() -> tuple[Section, ...]:
    """Return the sections of the form, each control once."""
    schema = json.loads(make_schema(JobSpec, title="jobgen job"))
    controls = list(_walk(schema, "", schema["definitions"]))
    sections = []
    for title, prefixes in _SECTIONS:
        starts = tuple(prefix and f"{prefix}." for prefix in prefixes)
        own = [control for control in controls if f"{control.path}.".startswith(starts)]
        controls = [control for control in controls if control not in own]
        everyday = tuple(control for control in own if control.path in _EVERYDAY)
        folded = tuple(control for control in own if control.path not in _EVERYDAY)
        sections.append(Section(title, everyday, folded))
    return tuple(sections)


def _walk(record: dict[str, Any], path: str, definitions: dict[str, Any]) -> Iterator[Control]:
    """Yield the controls of a record's keys, and of the records in it."""
    for key, field in record["properties"].items():
        inside = f"{path}.{key}" if path else key
        kinds = field.get("allOf") or field.get("anyOf") or [{}]
        if "$ref" in kinds[0]:
            name = kinds[0]["$ref"].rpartition("/")[2]
            inner = definitions[name]
            if inner.get("type") == "object" and inner.get("properties"):
                yield from _walk(inner, inside, definitions)
                continue
        yield _make_control(inside, field)


def _make_control(path: str, field: dict[str, Any]) -> Control:
    kinds = field.get("anyOf", [field])
    types = [kind.get("type") for kind in kinds]
    choices = tuple(str(word) for kind in kinds for word in kind.get("enum", ()))
    if set(types) == {"boolean"}:
        choices = ("true", "false")
    widget = "choice" if choices else _pick_widget(types)
    example = next((str(kind["examples"][0]) for kind in kinds if kind.get("examples")), "")
    description = field.get("description", "")
    return Control(path, widget, _write_label(path), description, choices, example)


def _pick_widget(types: list[str | None]) -> Widget:
    if set(types) == {"string"}:
        return "text"
    if types == ["string", "number", "boolean"]:
        return "block"
    return "yaml" if "integer" in types or "number" in types else "lines"


def _write_label(path: str) -> str:
    """Return a key in words: `GPUs per node`, or `Array: at once` in a section of many keys."""
    keys = [key for key in path.split(".") if key not in _TOLD]
    words = [" ".join(_WORDS.get(word, word) for word in key.split("_")) for key in keys]
    label = ": ".join(words)
    return label[:1].upper() + label[1:]
