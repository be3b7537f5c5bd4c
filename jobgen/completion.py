"""What may be typed behind --set: keys of a spec, and the values that a key or the site knows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Literal, get_args, get_origin

from jobgen import site as sites
from jobgen.bind import fields, is_record
from jobgen.errors import JobgenError
from jobgen.loaded import load
from jobgen.profile import SiteProfile
from jobgen.spec import JobSpec


def settings(begun: str, *, spec: str, site: str | None, overrides: Sequence[str]) -> list[str]:
    """Words that go on from `begun`, such as `queue=gpuvolta`, of the site that the job is for.

    That is `site` if it is given, else what `overrides` or the file `spec` say.
    """
    key, equals, _ = begun.partition("=")
    if not equals:
        return [f"{path}=" for path in _keys(JobSpec) if path.startswith(begun)]
    words = _values(key)
    if key == "site":
        words = sites.names()
    elif key in ("queue", "resources.gpu_type"):
        profile = _profile(spec, site, overrides)
        known = (profile.queues if key == "queue" else profile.gpu_types) if profile else None
        words = list(known or ())
    return [f"{key}={word}" for word in words if f"{key}={word}".startswith(begun)]


def _keys(cls: type, above: str = "") -> Iterator[str]:
    for name, field in fields(cls).items():
        if is_record(field.kinds[0].type):
            yield from _keys(field.kinds[0].type, f"{above}{name}.")
        else:
            yield above + name


def _values(key: str) -> list[str]:
    """The words that a key takes, where they are few."""
    cls: type = JobSpec
    *outer, last = key.split(".")
    for name in outer:
        field = fields(cls).get(name)
        if field is None or not is_record(field.kinds[0].type):
            return []
        cls = field.kinds[0].type
    field = fields(cls).get(last)
    for kind in field.kinds if field else ():
        if get_origin(kind.type) is Literal:
            return list(get_args(kind.type))
        if kind.type is bool:
            return ["true", "false"]
    return []


def _profile(spec: str, site: str | None, overrides: Sequence[str]) -> SiteProfile | None:
    said = [text.partition("=")[2] for text in overrides if text.startswith("site=")]
    try:
        if site is None and said:
            site = said[-1]
        elif site is None and os.path.isfile(spec):
            site = load(spec).spec.site
        return sites.load(site) if site else None
    except (JobgenError, OSError):  # a shell is no place for a complaint
        return None
