"""A site profile in words: what it says, from which file, on whose word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobgen.profile import Queue, SiteProfile, records
from jobgen.site import Found
from jobgen.units import format_duration, format_memory

# Keys of a profile whose values have no place for a source.
_UNSOURCED = (
    "slurm",
    "pbs",
    "gpu_type",
    "gpu_type_required",
    "walltime_required",
    "directives",
    "interface",
    "internet",
)
_NOTHING: tuple[Any, ...] = (None, (), False)


def line(name: str, found: Found) -> str:
    """The profile's line in the list of all."""
    profile = found.profile
    words = {"docs": "documentation", "scripts": "users' scripts", "captured": "captured"}
    grade = words[profile.verified] if profile.verified else "-"
    title = profile.title or "-"
    return f"{name:20} {profile.scheduler:6} {profile.as_of or '-':8} {grade:15} {title}\n"


def summary(name: str, found: Found) -> dict[str, Any]:
    """The same, for programs."""
    profile = found.profile
    keys = ("scheduler", "title", "as_of", "verified")
    return {"name": name, **{key: getattr(profile, key) for key in keys}, "files": found.files}


def text(found: Found) -> str:
    """The whole profile as YAML that can be read again, each source with its address."""
    return "".join(f"# {file}\n" for file in reversed(found.files)) + yaml(found.profile)


def yaml(profile: SiteProfile) -> str:
    """A profile as YAML."""
    return "".join(f"{row}\n" for row in _rows(profile, profile.sources or {}, depth=0))


def verdict(file: str, found: Found) -> str:
    """What `sites test` says of a profile that is valid."""
    rows = [f"{file}: valid, for {found.profile.scheduler}", *remarks(found)]
    return "".join(f"{row}\n" for row in rows)


def remarks(found: Found) -> list[str]:
    """What of a valid profile has no source or date."""
    profile = found.profile
    rows = []
    if profile.sources and profile.as_of is None:
        rows.append("as_of: is missing, so its limits never count as old")
    cited = profile.cited or {}
    for key in _UNSOURCED:
        if getattr(profile, key) != profile._field_defaults[key] and key not in cited:
            rows.append(f"{key}: is not in cited, so it names no source")
    queue = Queue()
    for path, record in records(profile):
        if isinstance(record, Queue):
            queue, says = record, bool(record.limits)
        else:
            says = any(value not in _NOTHING for value in record)
        inherited = queue.source if path.startswith("queues.") else None
        if says and (record.source or inherited) is None:
            rows.append(f"{path}: names no source")
    return rows


def data(record: Any) -> Any:
    """A profile, or a part of one, as data that is a profile again; without what is as by default.

    Times and memory are text, as in the file.
    """
    return {key: _data(key, value) for key, value in _said(record).items()}


def _data(key: str, value: Any) -> Any:
    if isinstance(value, dict) or hasattr(value, "_asdict"):
        return data(value)
    if isinstance(value, tuple):
        return [_data(key, item) for item in value]
    words = _in_words(key, value)
    return value if words is None else words


def _said(record: Any) -> dict[str, Any]:
    """What a record or a mapping says; not what is as by default."""
    if isinstance(record, dict):
        return record
    default = getattr(type(record), "_field_defaults", {})
    return {
        key: value
        for key, value in record._asdict().items()
        if key not in default or value != default[key]
    }


def _in_words(key: str, value: Any) -> str | None:
    """A time or an amount of memory as a profile says it; None for what is neither."""
    if isinstance(value, int) and key == "walltime":
        return format_duration(value)
    if isinstance(value, int) and key.startswith("memory"):
        return "{}{}B".format(*format_memory(value))
    return None


def _rows(
    record: Any, sources: dict[str, str], *, depth: int, cited: bool = False
) -> Iterator[str]:
    """The lines of a record, or of a mapping; what is as by default is left out."""
    pad = "  " * depth
    for key, value in _said(record).items():
        if isinstance(value, dict) or hasattr(value, "_asdict"):
            yield f"{pad}{key}:"
            yield from _rows(value, sources, depth=depth + 1, cited=key == "cited")
        elif isinstance(value, tuple) and value and hasattr(value[0], "_asdict"):
            yield f"{pad}{key}:"
            for item in value:
                first, *rest = _rows(item, sources, depth=depth + 2)
                yield f"{pad}  - {first.strip()}"
                yield from rest
        else:
            address = sources.get(value) if key == "source" or cited else None
            note = f"  # {address}" if address else ""
            yield f"{pad}{key}: {_value(key, value)}{note}"


def _value(key: str, value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_value(key, item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    words = _in_words(key, value)
    if words is not None:
        return words
    if isinstance(value, int | float):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"
