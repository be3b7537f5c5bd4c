"""What rules ask for beside calls: whole files, options, and what holds in a place."""

from __future__ import annotations

import ast
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial

from jobgen.plan.review import is_below, list_settings
from jobgen.programs.case import Case
from jobgen.programs.kinds import classify
from jobgen.programs.text import SCOPES, Call, read_form, spell_form


def _find_idle_text(case: Case) -> list[Call]:
    """Return the program if it does nothing when it is started."""
    entry = case.source.project.entry
    working = [
        one for one in entry.calls if not one.place.scope and "names" not in classify(one.name)
    ]
    if working or read_form("decorated-main").search(entry.text):
        return []  # as a decorator may call what it stands above
    kinds = {type(one) for one in entry.tree.body} - {ast.Pass, ast.Expr}
    return [] if kinds and kinds <= {ast.Import, ast.ImportFrom} else [entry.whole]


def _find_uncalled(case: Case) -> list[Call]:
    """Return the function that a program seems to begin with, if nothing is called."""
    whole, idle = case.source.project.entry.whole, _find_idle_text(case)
    defined = [one for one in case.source.project.entry.tree.body if isinstance(one, SCOPES)]
    mains = [one for one in defined if re.match("main|train$|run$", one.name)]
    return (
        [whole._replace(node=mains[-1], about={"name": mains[-1].name})] if idle and mains else []
    )


def _find_faults(case: Case) -> list[Call]:
    """Return what the program's parser says of the words that it is given."""
    whole = case.source.project.entry.whole
    faults = []
    for fault, write in case.read.faults.items():
        option = re.search(r"--[\w-]+", fault)
        about = {"fault": fault, "write": write, "option": option[0] if option else ""}
        faults.append(whole._replace(about=about))
    return faults


def _find_unread(case: Case) -> list[Call]:
    """Return the options by which tasks differ whose values nothing in the program asks for."""
    options = [one for one in case.source.find("option") if _has_option(one, case.swept)]
    asks = r"vars\(|\*\*\w|asdict|__dict__|[.\"']{}\b"
    names = [str(one.words[-1]).lstrip("-").replace("-", "_") for one in options]
    searched = zip(options, names, strict=True)
    return [
        one for one, name in searched if not re.search(asks.format(name), case.source.project.code)
    ]


def _find_variables(case: Case) -> list[Call]:
    """Return the variables by which tasks differ that the program does not name."""
    whole, names = case.source.project.entry.whole, case.size.varied
    own = [name for name in names if read_form("own-variable").match(name)]
    missed = [name for name in own if not re.search(rf"\b{name}\b", case.source.project.code)]
    return [whole._replace(about={"name": name}) for name in missed]


def _find_braces(case: Case) -> list[Call]:
    """Return the words that name in braces what differs between tasks, which nothing fills in."""
    whole = case.source.project.entry.whole
    places = []
    for before, word in zip(("", *case.words), case.words, strict=False):
        name = re.search(r"(?<!\$)\{([\w-]+)\}", word)
        if name and name[1] in case.swept:
            places.append(whole._replace(about={"option": before, "place": word, "swept": name[1]}))
    return places


def _find_untracked(case: Case) -> list[Call]:
    """Return the files that a snapshot leaves out."""
    copied = case.size.copied or ()
    return [
        one.whole
        for one in case.source.project.modules
        if not is_below(os.path.normpath(one.path), copied)
    ]


def _find_mesh(case: Case) -> list[Call]:
    """Return the meshes that are not for as many processes as the job has."""
    places = []
    for call in case.source.find("meshes"):
        shape = [*call.node.args[1:2], *filter(None, [call.given.get("mesh_shape")])]
        sides = [case.source.values.find_value(one, call.module) for one in _list_parts(shape)]
        if sides and all(isinstance(one, int) for one in sides):
            places.append(call._replace(about={"shape": " x ".join(map(str, sides))}))
    return [one for one in places if _multiply(one.about["shape"]) != case.size.world_size]


def _list_parts(nodes: Sequence[ast.expr]) -> list[ast.expr]:
    """Return the parts of a tuple or list, where it is written as one."""
    return [part for node in nodes for part in getattr(node, "elts", ())]


def _multiply(shape: str) -> int:
    return math.prod(map(int, shape.split(" x ")))


def _find_empty_range(case: Case) -> list[Call]:
    """Return the ranges in which there is nothing, by the options that the job gives."""
    places = []
    for call in case.source.find("counts-up"):
        sides = [case.source.values.find_value(one, call.module) for one in call.node.args]
        first, end, *_ = [*map(ast.unparse, call.node.args), "", ""]
        numbers = [one for one in sides if isinstance(one, int)]
        if len(numbers) == len(sides) == 2 and numbers[0] >= numbers[1] and "." in first + end:
            places.append(call._replace(about={"first": first, "end": end}))
    return places


def _find_entries(case: Case, differs: Callable[[int, int], bool]) -> list[Call]:
    """Return the lists of which each task takes one entry, whose length differs so from theirs."""
    entry = case.source.project.entry
    numbers = [
        name
        for name, values in entry.assigned.items()
        if any(read_form("task-number").fullmatch(ast.unparse(value)) for _, value in values)
    ]
    index = "|".join([*map(re.escape, numbers), spell_form("task-number")])
    places = []
    for name in re.findall(rf"\b(\w+)\[(?:{index})\]", entry.code):
        values = entry.list_values(name, entry.whole._replace(node=ast.Pass(lineno=10**9)))
        for one in values:
            count = len(_list_parts([one]))
            if count and differs(count, case.size.tasks):
                about = {"name": name, "entries": str(count)}
                places.append(entry.whole._replace(node=one, about=about))
    return places


def _find_replaced(case: Case) -> list[Call]:
    """Return where a file's values take the place of those of options that the job gives."""
    own = {name.replace("-", "_") for name in (*case.passed, *case.swept)}
    keys = (key.partition(":") for key, _ in list_settings(case.words) if ":" in key)
    held = [(file, key) for file, _, key in keys if key in own]
    calls = case.source.find("replaces") if held else []
    replacing = [one for one in calls if read_form("own-options").search(ast.unparse(one.node))]
    return [one._replace(about={"file": held[0][0], "key": held[0][1]}) for one in replacing]


def _find_unwrapped(case: Case) -> list[Call]:
    """Return the calls of a model in training that leave out what shares its gradients."""
    training = {id(one.place.scope) for one in case.source.find("loops")}
    calls = [one for one in case.source.find("unwraps") if id(one.place.scope) in training]
    return [one for one in calls if not _is_without_gradients(one)]


def _is_without_gradients(call: Call) -> bool:
    blocks = (one for one in ast.walk(call.module.tree) if isinstance(one, ast.With))
    around = (one for one in blocks if one.lineno <= call.line <= (one.end_lineno or 0))
    heads = " ".join(ast.unparse(item) for one in around for item in one.items)
    return re.search("no_grad|inference_mode", heads) is not None


def _find_lacking(case: Case) -> list[Call]:
    """Return the imports of what the job's Python surely does not have."""
    has = {*(case.size.packages or ()), *sys.stdlib_module_names}
    return [one for one in case.source.project.outside if one.head not in has]


def _find_swallowed(case: Case) -> list[Call]:
    """Return each `except` around the whole program that only prints the failure."""
    entry, places = case.source.project.entry, list[Call]()
    waiting: list[ast.stmt] = [*entry.tree.body]
    for node in waiting:
        if isinstance(node, ast.If) or getattr(node, "name", "") == "main":
            waiting += getattr(node, "body", ())
        if not isinstance(node, ast.Try) or "exit(" in _write(node.finalbody):
            continue
        if read_form("whole-program").search(_write(node.body)):
            broad = [one for one in node.handlers if _is_broad(one)]
            printed = [one for one in broad if all(isinstance(x, _PRINTS) for x in one.body)]
            places += [entry.whole._replace(node=one) for one in printed]
    return places


_PRINTS = (ast.Expr, ast.Pass, ast.Import)


def _is_broad(handler: ast.ExceptHandler) -> bool:
    """Whether it takes every failure, and does not end the program by a code."""
    taken = "Exception" if handler.type is None else ast.unparse(handler.type)
    ends = re.search(r"exit\((?!0?\))", _write(handler.body))
    return taken in ("Exception", "BaseException") and not ends


def _write(body: list[ast.stmt]) -> str:
    return ast.unparse(ast.Module(body, []))


FINDS: dict[str, Callable[[Case], list[Call]]] = {
    "empty": _find_idle_text,
    "main-not-called": _find_uncalled,
    "unknown-argument": _find_faults,
    "unread-argument": _find_unread,
    "unread-variable": _find_variables,
    "same-place.braces": _find_braces,
    "module-untracked": _find_untracked,
    "no-package": _find_lacking,
    "mesh": _find_mesh,
    "empty-range": _find_empty_range,
    "no-entry": partial(_find_entries, differs=operator.lt),
    "no-entry.more": partial(_find_entries, differs=operator.gt),
    "replaced-argument": _find_replaced,
    "not-wrapped.module": _find_unwrapped,
    "swallowed": _find_swallowed,
    "module-missing": lambda case: case.source.project.missing,
    "module-missing.path": lambda case: case.source.project.find_elsewhere(),
    "module-missing.relative": lambda case: [
        one for one in case.source.project.entry.imports if one.name[0] == "."
    ][:1],
    "syntax.module": lambda case: case.source.project.broken,
}


def _is_under(form: str) -> Callable[[Case, Call], bool]:
    """Return whether, on a way to it, only tests of a form decide."""
    return lambda case, call: any(
        all(map(read_form(form).search, way)) for way in case.source.list_ways(call.place)
    )


def _is_lonely(case: Case, call: Call) -> bool:
    """Whether only rank 0 comes here, and the others meet it nowhere else."""
    first, other = (read_form(name).search for name in ("first-rank", "other-ranks"))
    ways = case.source.list_ways(call.place)
    if not all(any(map(first, way)) for way in ways):
        return False
    met = [way for one in case.source.find("collects") for way in case.source.list_ways(one.place)]
    return not any(any(map(other, way)) and not any(map(first, way)) for way in met)


def _is_leading(case: Case, call: Call) -> bool:
    """Whether rank 0 of each node comes here, and nothing tells the nodes apart."""
    first, ranked = read_form("first-on-node"), read_form("ranked").search
    own = read_form("local-variable")
    for way in case.source.list_ways(call.place):
        rests = [first.subn("", own.sub("local_rank", test)) for test in way]
        if not any(count for _, count in rests) or any(ranked(rest) for rest, _ in rests):
            return False
    return True


def _is_common(case: Case, call: Call) -> bool:
    """Whether nothing on any way to it, or in its words, tells processes apart."""
    scope, source = call.place.scope, case.source
    if (
        scope
        and scope.free
        and not (scope.place.scope and any(map(source.is_reached, source.list_uses(scope))))
    ):
        return False  # a decorator may do so, or the library that calls a method
    tests = [test for way in case.source.list_ways(call.place) for test in way]
    words = [call.text, scope.name if scope else "", *tests]
    apart, switch = read_form("told-apart").search, read_form("switch").search
    return not (any(map(apart, words)) or any(map(switch, tests)))


def _has_option(call: Call, names: Sequence[str]) -> bool:
    """Whether the option that a call adds is one of these."""
    return not {str(word).lstrip("-") for word in call.words}.isdisjoint(names)


# What rules need of the place of a call.
PLACES: dict[str, Callable[[Case, Call], bool]] = {
    "certain": _is_under("shared-test"),
    "counted": _is_under("counts"),
    "always": lambda case, call: not all(case.source.list_ways(call.place)),
    "leading": _is_leading,
    "lonely": _is_lonely,
    "common": _is_common,
    "ranked": lambda case, call: all(
        any(map(read_form("of-rank").search, way)) for way in case.source.list_ways(call.place)
    ),
    "tried": lambda _, call: call.place.tried,
    "hooked": lambda _, call: bool(call.place.scope and call.place.scope.free),
    "inside": lambda _, call: call.place.scope is not None,
    "entry": lambda case, call: call.module is case.source.project.entry,
    "passed": lambda case, call: _has_option(call, case.passed),
    "differing": lambda case, call: _has_option(call, case.swept),
    "left-off": lambda case, call: _has_option(call, [one.lstrip("-") for one in case.size.off]),
    "refused": lambda case, call: _has_option(
        call, read_form("denied-option").findall(" ".join(case.words))
    ),
}
