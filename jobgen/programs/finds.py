"""What rules ask for beside calls: whole files, options, and what holds in a place."""

from __future__ import annotations

import ast
import glob
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from jobgen.programs.arguments import list_ignored
from jobgen.programs.case import Case
from jobgen.programs.kinds import classify
from jobgen.programs.text import UNKNOWN, Call, read_form, unparse
from jobgen.review.subject import is_below
from jobgen.spec.table import read_here


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


def _find_swallowed(case: Case) -> list[Call]:
    """Return the `except` around the whole program by which the job ends well all the same."""
    entry, runs = case.source.project.entry, read_form("whole-program").search
    starts = (one for one in entry.tree.body if getattr(one, "name", "main") == "main")
    inner = chain(*(getattr(one, "body", ()) for one in (entry.tree, *starts)))
    tries = [one for one in inner if isinstance(one, ast.Try)]
    tries = [one for one in tries if any(map(runs, map(unparse, one.body)))]
    lasts = chain(*(one.handlers[-1:] for one in tries))
    return [entry.whole._replace(node=one) for one in lasts if _swallows(one, entry.code)]


def _swallows(last: ast.ExceptHandler, code: str) -> bool:
    leaves = any(isinstance(one, _GOES_ON) for one in ast.walk(last))
    behind = "".join(code.splitlines(keepends=True)[last.lineno - 1 :])
    every = unparse(last.type or UNKNOWN) in ("Exception", "BaseException", UNKNOWN.id)
    return every and not leaves and not read_form("ends-otherwise").search(behind)


_GOES_ON = (ast.Raise, ast.Return, ast.Break, ast.Continue, ast.Assign)


def _find_faults(case: Case) -> list[Call]:
    """Return what the program's parser says of the words that it is given."""
    whole = case.source.project.entry.whole
    ignores = any(list_ignored(case.source.project.code))
    faults = []
    for fault, write in case.read.faults.items():
        ignored = ignores and fault.startswith("it has no")
        end = "which parse_known_args() throws away" if ignored else "so the program ends at once"
        about = {"option": "".join(re.findall(r"--[\w-]+", fault)[:1]), "write": write}
        faults.append(whole._replace(about={**about, "fault": f"{fault}, {end}"}))
    return faults


def _find_variables(case: Case) -> list[Call]:
    """Return the variables by which tasks differ that the program does not name."""
    whole, names = case.source.project.entry.whole, case.size.varied
    own = [name for name in names if read_form("own-variable").match(name)]
    missed = [name for name in own if not re.search(rf"\b{name}\b", case.source.project.code)]
    return [whole._replace(about={"name": name}) for name in missed]


def _find_untracked(case: Case) -> list[Call]:
    """Return the files that a snapshot leaves out."""
    modules, copied = case.source.project.modules, case.size.copied or ()
    return [one.whole for one in modules if not is_below(os.path.normpath(one.path), copied)]


def _find_relative(case: Case) -> list[Call]:
    """Return the imports that need a package, which a script has none of.

    Where it is not known how the program starts, those that fail as a module, too.
    """
    project = case.source.project
    among = project.entry.imports if case.answers["given"] else project.missing
    own = [one for one in among if one.module is project.entry and one.name[0] == "."]
    return own if project.is_script else []


def _find_missing(case: Case) -> list[Call]:
    """Return the other imports of modules of the project that are not there."""
    relative = _find_relative(case)
    return [one for one in case.source.project.missing if one not in relative]


def _find_lacking(case: Case) -> list[Call]:
    """Return the imports of what the job's Python surely does not have."""
    has = {*(case.size.packages or ()), *sys.stdlib_module_names}
    return [one for one in case.source.project.outside if one.head not in has]


def _find_idle_settings(case: Case) -> list[Call]:
    """Return what is made by Accelerate, beside a file that `accelerate launch` alone reads."""
    calls = [one for one in case.source.find("makes") if one.head in ("accelerate", "trl")]
    calls += case.source.find("trainers")
    folder = glob.escape(os.path.dirname(case.source.project.entry.path))
    for path in glob.glob(os.path.join(folder, "*.y*ml"))[:50] if calls else ():
        kind = re.search(r"(?m)^distributed_type: *(FSDP|DEEPSPEED|MEGATRON_LM)", read_here(path))
        if kind:
            return [calls[0]._replace(about={"file": os.path.basename(path), "kind": kind[1]})]
    return []


FINDS: dict[str, Callable[[Case], list[Call]]] = {
    "empty": _find_idle_text,
    "swallowed": _find_swallowed,
    "unknown-argument": _find_faults,
    "unread-variable": _find_variables,
    "module-untracked": _find_untracked,
    "no-package": _find_lacking,
    "idle-settings": _find_idle_settings,
    "module-missing": _find_missing,
    "module-missing.path": lambda case: case.source.project.find_elsewhere(),
    "module-missing.relative": lambda case: _find_relative(case)[:1],
    "syntax.module": lambda case: case.source.project.broken,
}


_Quantity = Callable[[Iterable[object]], bool]  # any, or all


def _ask(ways: _Quantity, tests: _Quantity, form: str) -> Callable[[Case, Call], bool]:
    """Return whether, on any or all ways to a place, any or all tests have a form."""
    return lambda case, call: ways(
        tests(map(read_form(form).search, way)) for way in case.source.list_ways(call.place)
    )


def _is_lonely(case: Case, call: Call) -> bool:
    """Whether only rank 0 comes here, and the others meet it nowhere else."""
    if not _ask(all, any, "first-rank")(case, call):
        return False
    first, other = (read_form(name).search for name in ("first-rank", "other-ranks"))
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
    written = call.target if "writes" in classify(call.name) else call.text
    name = re.sub("^_?main", "", scope.name) if scope else ""  # with which programs begin
    words = [written, name, *tests]
    apart, switch = read_form("told-apart").search, read_form("switch").search
    return not (any(map(apart, words)) or any(map(switch, tests)))


def _has_option(call: Call, names: Sequence[str]) -> bool:
    """Whether the option that a call adds is one of these."""
    spelled = re.split("[ /]+", " ".join(map(str, call.words)))  # of click, --amp/--no-amp
    return not {word.lstrip("-") for word in spelled}.isdisjoint(names)


# What rules need of the place of a call.
PLACES: dict[str, Callable[[Case, Call], bool]] = {
    "certain": _ask(any, all, "shared-test"),
    "counted": _ask(any, all, "counts"),
    "first": _ask(any, all, "first-rank"),
    "if-there": _ask(any, all, "refuses"),
    "always": lambda case, call: not all(case.source.list_ways(call.place)),
    "leading": _is_leading,
    "lonely": _is_lonely,
    "common": _is_common,
    "ranked": _ask(all, any, "of-rank"),
    "tried": lambda _, call: call.place.tried,
    "hooked": lambda _, call: bool(call.place.scope and call.place.scope.free),
    "inside": lambda _, call: call.place.scope is not None,
    "entry": lambda case, call: call.module is case.source.project.entry,
    "passed": lambda case, call: _has_option(call, case.passed),
    "differing": lambda case, call: _has_option(call, case.swept),
    "left-off": lambda case, call: _has_option(call, [one.lstrip("-") for one in case.size.off]),
    "misshaped": lambda case, call: (
        math.prod(map(int, re.findall(r"\d+", call.about["shape"]))) != case.size.world_size
    ),
    "looked-for": _ask(all, all, "looks"),
}
