"""Describe a site profile: its facts, its files and its sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobgen.schedulers.registry import PACKAGES
from jobgen.sites.profile import Limit, SiteProfile, SiteQueue, SiteSource, walk_records
from jobgen.sites.search import LoadedProfile
from jobgen.spec.units import format_duration, format_memory
from jobgen.spec.yaml_text import write_data

# Keys of a profile whose values have no place for a source.
_UNSOURCED = (
    *PACKAGES.keys() & set(SiteProfile._fields),  # the dialect of each
    *("gpu_type", "gpu_type_required", "walltime_required", "directives"),
    *("interface", "internet"),
)
_NOTHING: tuple[Any, ...] = (None, (), {}, False)
GRADES = {
    "docs": "documentation",
    "scripts": "users' scripts",
    "captured": "captured",
    "ran": "jobs that ran",
}


def format_line(name: str, loaded: LoadedProfile) -> str:
    """Return the profile's line in the list of all."""
    profile = loaded.profile
    grade = GRADES[profile.verified] if profile.verified else "-"
    title = profile.title or "-"
    return f"{name:20} {profile.scheduler:6} {profile.as_of or '-':10} {grade:15} {title}\n"


def summarise(name: str, loaded: LoadedProfile) -> dict[str, Any]:
    """Return the same, for programs."""
    profile = loaded.profile
    keys = ("scheduler", "title", "as_of", "verified")
    return {"name": name, **{key: getattr(profile, key) for key in keys}, "files": loaded.files}


def format_text(loaded: LoadedProfile) -> str:
    """The whole profile as YAML that can be read again, each source with its address."""
    return "".join(f"# {file}\n" for file in reversed(loaded.files)) + write_yaml(loaded.profile)


def write_yaml(profile: SiteProfile) -> str:
    """A profile as YAML, the name of each source with its address."""
    sources = {key: source.address for key, source in profile.sources.items()}
    rows, cited = [], False
    for row in write_data(make_data(profile), block=("limits",)).splitlines():
        key, _, value = row.strip().partition(": ")
        cited = row == "cited:" or (cited and row.startswith(" "))
        address = sources.get(value) if key == "source" or cited else None
        rows.append(f"{row}  # {address}\n" if address else f"{row}\n")
    return "".join(rows)


def list_remarks(loaded: LoadedProfile) -> list[str]:
    """Yield the facts of a valid profile that have no source or date."""
    profile = loaded.profile
    rows = [
        f"sources.{key}: has no date, so limits from it never count as old"
        for key, source in profile.sources.items()
        if not (source.dated or profile.as_of)
    ]
    cited = profile.cited
    for key in _UNSOURCED:
        if getattr(profile, key) != profile._field_defaults[key] and key not in cited:
            rows.append(f"{key}: is not in cited, so it names no source")
    return rows + [f"{path}: names no source" for path in _list_unsourced(profile)]


def _list_unsourced(profile: SiteProfile) -> Iterator[str]:
    queue = SiteQueue()
    for path, record in walk_records(profile):
        if isinstance(record, Limit):  # it has the source of its queue
            continue
        says = any(value not in _NOTHING for value in record)
        if isinstance(record, SiteQueue):
            queue, says = record, bool(record.limits)
        inherited = queue.source if path.startswith("queues.") else None
        if says and (record.source or inherited) is None:
            yield path


def make_data(record: Any) -> Any:
    """A profile, or a part of one, as data that is a profile again; without what is as by default.

    Times and memory are text, as in the file.
    """
    values = record if isinstance(record, dict) else record._asdict()
    defaults = getattr(record, "_field_defaults", {})
    return {
        key: _convert_value(key, value)
        for key, value in values.items()
        if key not in defaults or value != defaults[key]
    }


def _convert_value(key: str, value: Any) -> Any:
    if isinstance(value, SiteSource) and value == SiteSource(value.address):
        return value.address  # it says nothing else
    if isinstance(value, dict) or hasattr(value, "_asdict"):
        return make_data(value)
    if isinstance(value, tuple):
        return [_convert_value(key, item) for item in value]
    if not isinstance(value, int):
        return value
    if key.endswith("walltime"):
        return format_duration(value)
    return format_memory(value) if key.startswith(("disk", "memory", "default_memory")) else value
