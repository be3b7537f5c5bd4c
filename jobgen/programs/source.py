"""What a program calls, and what of it is reached."""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

from jobgen.programs.kinds import classify
from jobgen.programs.project import Project
from jobgen.programs.text import OBJECT, Call, Module, Scope, Surroundings, unparse
from jobgen.programs.values import Values
from jobgen.spec.launchers import read_names

_RANKED = re.compile("(?i)rank|procid|device_count|world_size")
_CALLED = re.compile(r"(\w+)\(")


class Source:
    """A program: what it calls, and what of it is reached."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.values = Values(project.modules)
        self.calls = [call for module in project.modules for call in module.calls]
        self._reached: dict[tuple[int, tuple[ast.expr, ...]], bool] = {}
        self._kinds: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            for kind in classify(call.name):
                self._kinds[kind].append(call)
        self._uses: dict[str, list[tuple[str | None, Surroundings]]] = defaultdict(list)
        self._stems: dict[str, list[Module]] = defaultdict(list)  # by what they are imported as
        for module in project.modules:
            stem = re.sub(r"(/__init__)?\.py$", "", module.path)
            self._stems[os.path.basename(stem)].append(module)
            for name, owner, place in module.uses:
                self._uses[name].append((owner, place))

    def find(self, kinds: str) -> list[Call]:
        """Return the calls of kinds of `calls.txt` that may be reached."""
        calls = [call for kind in kinds.split() for call in self._kinds.get(kind, ())]
        return [call for call in calls if self.is_reached(call.place)]

    def has(self, kind: str) -> bool:
        """Whether it has calls of a kind, reached or not."""
        return bool(self._kinds.get(kind))

    def find_denied(self, kind: str) -> str:
        """Return the test that is known to keep it from a call of a kind; "" if none is."""
        for call in self._kinds.get(kind, ()):
            for place in (call.place, *self.list_uses(call.place.scope)):
                test = self.values.find_failing(place)
                if test is not None:
                    return unparse(test).removeprefix("not not ")
        return ""

    @cached_property
    def named(self) -> set[str]:
        """The full names of what it calls, of what it imports and uses, and of bases."""
        named = {call.name for call in self.calls if self.is_reached(call.place)}
        for module in self.project.modules:
            lasts = {full.rpartition(".")[2] for full in module.names.values()}
            uses = ((name, place) for name, _, place in module.uses if name in lasts)
            used = {name for name, place in uses if self.is_reached(place)}
            named |= {full for full in module.names.values() if full.rpartition(".")[2] in used}
            named.update(module.bases)
        return named

    def is_reached(self, place: Surroundings) -> bool:
        """Whether something that the program runs comes to a place."""
        key = id(place.scope), place.tests  # which many places share
        if key not in self._reached:
            entered = id(place.scope) in self._entered
            self._reached[key] = entered and self.values.find_failing(place) is None
        return self._reached[key]

    @cached_property
    def _entered(self) -> set[int]:
        """The functions and classes that something names which is reached; and none of them."""
        entered, size = {id(None)}, 0
        scopes = [scope for module in self.project.modules for scope in module.scopes]
        while size < len(entered):  # as each that is entered names others
            size = len(entered)
            entered |= {id(scope) for scope in scopes if self._is_entered(scope, entered)}
        return entered

    def _is_entered(self, scope: Scope, entered: set[int]) -> bool:
        """Whether a function or class is named in what is entered, or a library calls it."""

        def holds(place: Surroundings) -> bool:
            return id(place.scope) in entered and self.values.find_failing(place) is None

        called = (scope.free and not scope.is_class) or any(map(holds, self.list_uses(scope)))
        return called and holds(scope.place)

    def list_uses(self, scope: Scope | None) -> list[Surroundings]:
        """Return the places that name a function or a class, outside of it."""
        if scope is None:
            return []
        uses = self._uses.get(scope.name, [])
        named = [place for owner, place in uses if self._may_mean(scope, owner, place)]
        return [place for place in named if not _is_inside(place.scope, scope)]

    def _may_mean(self, scope: Scope, owner: str | None, place: Surroundings) -> bool:
        """Whether a name that is read, with its owner, may be that of a function or a class."""
        own = scope.place.module
        if scope.place.scope and scope.place.scope.is_class:
            return owner == OBJECT
        if owner is None:
            return place.module is own or "*" in place.module.names
        # A module hands on what it imports.
        owners = self._stems.get(owner.rpartition(".")[2], [])
        return any(one is own or {"*", scope.name} & one.names.keys() for one in owners)

    def list_ways(self, place: Surroundings, depth: int = 3) -> list[tuple[str, ...]]:
        """Return the open tests on each way to a place, through the functions around it."""
        open_ = [one for one in place.tests if not self.values.decide(one, place.module)]
        own = tuple(self._spell_test(one, place) for one in open_)
        around = place.scope
        if around and around.free and around.place.scope:  # a method that is called for its class
            around = around.place.scope
        uses = [one for one in self.list_uses(around) if depth and self.is_reached(one)]
        ways = [own + way for one in uses for way in self.list_ways(one, depth - 1)]
        return [*dict.fromkeys(ways)] or [own]

    def _spell_test(self, test: ast.expr, place: Surroundings) -> str:
        """Return a test as it is written; one of a rank or a count, by whatever name, says so."""
        text = unparse(test)
        full = Call(place, test, "").fill(text)
        if _RANKED.search(full):
            return full
        return f"{text} of rank" if any(map(self._is_ranked, _CALLED.findall(text))) else text

    def _is_ranked(self, name: str) -> bool:
        """Whether the program defines a function of this name that asks for the rank."""
        form = rf"(?m)^([ \t]*)def {name}\(.*\n(?:(?:\1[ \t].*)?\n)*"
        defined = (re.search(form, module.code) for module in self.project.modules)
        return any(_RANKED.search(one[0]) for one in defined if one)

    def tell(self, known: Mapping[str, object], options: Mapping[str, object]) -> None:
        """Take what the job decides: values of expressions, and of the program's options."""
        self.values.tell(known, options)
        self._reached.clear()
        for name in ("_entered", "named"):
            self.__dict__.pop(name, None)


def _is_inside(inner: Scope | None, scope: Scope | None) -> bool:
    """Whether a function or class is another, or stands in it."""
    while inner and inner is not scope:
        inner = inner.place.scope
    return inner is scope


def list_started(words: list[str]) -> list[str]:
    """Return the program of a command and its words, without what only starts it."""
    prefixes, shells = read_names("prefixes"), r"(.*/)?(python[\d.]*|(ba|z)?sh)"
    while len(words) > 1 and os.path.basename(words[0]) in prefixes:
        words = words[1:]
    if not re.fullmatch(shells, "".join(words[:1])):
        return words
    words = words[1:]
    while words and re.match("-(?!m$)", words[0]):
        words = words[1:]
    return words
