"""What a part of a plan is decided from, and what a decision says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from jobgen.errors import Problem
from jobgen.records import NamedTuple
from jobgen.sites.profile import SiteProfile
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec

T = TypeVar("T", covariant=True)


class Context(NamedTuple):
    """The spec, its site, and what the command line says beside them.

    `today` (YYYY-MM-DD) is the day by which a site's limits are old; with `limits` they are
    checked. `task` is the task of the spec's array that becomes a separate job.
    """

    loaded: LoadedSpec
    site: SiteProfile
    limits: bool = True
    today: str | None = None
    task: int | None = None

    @property
    def spec(self) -> JobSpec:
        """What the user wrote."""
        return self.loaded.spec


class Decision(Generic[T]):
    """The value of a part; its conflicts, and what to tell the user."""

    def __init__(
        self,
        value: T,
        *,
        problems: Iterable[Problem] = (),
        notes: Iterable[str] = (),
    ) -> None:
        self.value = value
        self.problems = tuple(problems)
        self.notes = tuple(notes)
