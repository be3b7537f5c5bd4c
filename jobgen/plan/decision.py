"""What a part of a plan is decided from, and what a decision says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from jobgen.errors import Problem
from jobgen.plan.plan import Plan
from jobgen.records import NamedTuple
from jobgen.sites.profile import SiteProfile
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec
from jobgen.spec.tables import Conflict, Rules, refuse

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

    def find_broken(self, rules: Rules, **facts: object) -> Iterator[Conflict]:
        """Yield the key, message and hint of each rule that is broken, of those in `rules.txt`."""
        if any(rules.values()):  # few are, and the facts of the site take time
            yield from refuse(rules, "plan", spec=self.spec, can=self.site.can, **facts)

    def refuse(self, rules: Rules, **facts: object) -> Iterator[Problem]:
        """Yield the problem of each rule that is broken."""
        return (self.loaded.problem(*conflict) for conflict in self.find_broken(rules, **facts))

    def warn(self, rules: Rules, **facts: object) -> Iterator[str]:
        """Yield these as warnings."""
        return (f"warning: {problem}" for problem in self.refuse(rules, **facts))

    def note(self, rules: Rules, **facts: object) -> Iterator[str]:
        """Yield the note of each rule that applies."""
        for path, message, hint in self.find_broken(rules, **facts):
            words = ": ".join(filter(None, ("note", self.loaded.find_path(path), message)))
            yield f"{words}; {hint}" if hint else words


Parts = Mapping[str, "Callable[[Context, Plan], Decision[Any]]"]


def decide_parts(context: Context, plan: Plan, parts: Parts) -> Decision[Plan]:
    """Decide parts of a plan in turn: each may ask it for those before."""
    problems: list[Problem] = []
    notes: list[str] = []
    for part, decide in parts.items():
        decision = decide(context, plan)
        plan = plan._replace(**{part: decision.value})
        problems += decision.problems
        notes += decision.notes
    return Decision(plan, problems=problems, notes=notes)


class Decision(Generic[T]):
    """The value of a part; its conflicts, and what to tell the user."""

    def __init__(
        self, value: T, problems: Iterable[Problem] = (), notes: Iterable[str] = ()
    ) -> None:
        self.value, self.problems, self.notes = value, problems, notes
