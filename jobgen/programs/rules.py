"""What a look into a training program finds, before the queue finds it.

A warning is certain from the files at hand; a note is likely. `# jobgen: ignore[rule]` in the line
silences one. Most rules are records of `remarks.txt`; the others are the functions here.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from string import Template
from typing import Any

from jobgen.plan.review import is_below, list_settings
from jobgen.programs.kinds import classify
from jobgen.programs.program import ReadProgram, list_plain
from jobgen.programs.reader import SCOPES, Fact, is_newer, mentions, read_form, spell_form
from jobgen.records import NamedTuple
from jobgen.spec import tables


class JobSize(NamedTuple):
    """How the job starts the program."""

    nodes: int
    processes: int  # on the node that has most
    world_size: int
    agents: bool = True  # whether torchrun's start the processes
    gpus: int = 8  # on the node that has most
    arguments: tuple[str, ...] | None = None  # what the program is given; None if unknown
    swept: tuple[tuple[str, ...], ...] = ((),)  # what some tasks of an array are given beside it
    off: str = ""  # options that the spec leaves out by false, as a regular expression
    batch: bool = False  # whether it leaves its nodes to other jobs
    scheduler: str = ""  # what the variables that it sets begin with
    chained: str = ""  # the keys by which it may start again, to go on where it ended
    copied: tuple[str, ...] | None = None  # files and folders, where it runs from a snapshot
    alike: bool = False  # whether tasks of an array differ by JOBGEN_TASK alone
    tasks: int = 1  # of an array, which may write to the same place
    ray: bool = False  # whether it starts once, in a Ray of all nodes
    itself: bool = False  # whether its first line is to name what reads it
    plain: bool = False  # whether it starts once on each node, and may start others
    lone: bool = False  # whether it is the job's one process, and gets no rank variables
    packed: bool = False  # whether several tasks of an array share a job
    offline: bool = False  # whether the nodes have no internet
    settings: str = ""  # lines: options with their values, those of files, of setup, variables
    fewest: int = 0  # nodes, where the scheduler may give fewer than `nodes`

    def __str__(self) -> str:
        return f"a job with {self.nodes} nodes of {self.processes} processes"


# What a program is held to if no spec says how it starts.
SEVERAL = JobSize(nodes=2, processes=4, world_size=8)


class Remark(NamedTuple):
    """One thing that the program does and the job does not mean."""

    path: str
    line: int
    rule: str
    message: str
    hint: str
    certain: bool

    def as_dict(self) -> dict[str, str | int]:
        """The keys that a finding in a job script has too, for JSON."""
        level = "fault" if self.certain else "note"
        rest = {"level": level, "rule": self.rule, "message": self.message, "fix": self.hint}
        return {"file": self.path, "line": self.line, "column": 1, **rest}

    @property
    def level(self) -> str:
        """How sure it is."""
        return "warning" if self.certain else "note"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.level}: {self.message}; {self.hint} [{self.rule}]"


@cache
def read_rules() -> dict[str, dict[str, str]]:
    """Return the records of `remarks.txt` by their names."""
    rules: dict[str, dict[str, str]] = {}
    name = ""
    for line in tables.read_lines("remarks.txt", room="programs"):
        key, _, value = line.strip().partition(" ")
        if line[0] == " ":
            rules[name][key] = value
        else:
            name = key
            rules[name] = {"level": value}
    return rules


def make_remark(
    name: str, path: str, line: int = 1, /, *, certain: bool = True, **values: object
) -> Remark:
    """Return a remark, with the words that `remarks.txt` has for it and these values in them.

    `certain` tells whether one that is `likely` or `sized` is a warning.
    """
    base = name.partition(".")[0]
    rule = read_rules().get(base, {}) | read_rules()[name]
    message, hint = (Template(rule[key]).substitute(values, path=path) for key in ("says", "write"))
    warns = {"warning": True, "note": False}.get(rule["level"], certain)
    return Remark(path, line, base, message, hint, warns)


def check_program(path: str, size: JobSize, *roots: str) -> list[Remark]:
    """Return what a look into a program finds, in the order of files and lines.

    Modules of the project are those in `roots`: by default beside it, and in the current folder.
    """
    if os.path.isdir(path):
        return [make_remark("not-a-program", path)]
    try:
        look = _Look(ReadProgram(path, *roots), size)
    except SyntaxError as error:
        return [_describe_syntax(path, error)]
    except (OSError, ValueError):
        return []
    look.take()
    remarks = [_join(*same) for same in look.remarks.values()]
    return sorted(remarks, key=lambda one: (one.path != path, *one[:2]))


def _describe_syntax(path: str, error: SyntaxError) -> Remark:
    """Return that this Python cannot read a program, which a newer one may."""
    old = is_newer(error)
    unless = ", unless the job's Python is 3.12 or newer, and reads it" if old else ""
    values = {"reader": _PYTHON, "fault": error.msg, "unless": unless}
    return make_remark("syntax", path, error.lineno or 1, certain=not old, **values)


_NEVER = "(?!)"
_MOST_FILES = 30
_PYTHON = "Python {}.{}".format(*sys.version_info)
# What holds once a remark is heeded: what is wrong behind a spawn is said with it.
_FREED = {("own-processes", True): {"one": True}}
# Variables that every process has.
_TOLD = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_OF_NODES = {"sys.platform": "linux", "os.name": "posix", "platform.system()": "Linux"}
# Libraries that make the group in an object that settings may name.
_CONFIGURED = {"lightning", "pytorch_lightning", "composer"}
_STARTS = ("spawns", "launches", "rays")  # the kinds of calls that start processes
_OF_MPI = {"horovod", "mpi4py"}


class _Look:
    """One look into a program, for the job that starts it."""

    def __init__(self, program: ReadProgram, size: JobSize) -> None:
        self.program, self.size = program, size
        self.remarks: dict[str, list[Remark]] = {}  # by their messages, as they are found
        # By the words of `needs`, and the names of records, whether they are said.
        self.answers = dict.fromkeys(read_rules(), False) | _answer(size)
        self.values = _list_values(size)  # what records name by $value and <<value>>
        files = re.findall(r"[\"']([\w./-]+\.(?:ya?ml|json))[\"']", program.entry.text)
        settings = list_settings([f"={name}" for name in files[:_MOST_FILES]])
        swept = [f"swept --{word} {word.replace('-', '_')}" for word in _list_swept(size)]
        self.settings = "\n".join([size.settings, *swept, *map(" ".join, settings)])
        self.known: Mapping[str, ast.expr] = {}  # values of options, as the job has them
        self.texts = program.text + self.settings

    def take(self) -> None:
        """Keep all remarks: by the functions here, then by the records."""
        self.find_form()
        self.answers["sound"] = not self.remarks  # whether it does something when it is started
        self.find_modules()
        self.find_arguments()
        self.describe()
        self.program.suppose(self.known)
        for name, rule in read_rules().items():
            if "needs" in rule:
                self.apply(name)

    def say(self, name: str, at: Fact, /, **values: Any) -> None:
        """Keep a remark on a place, unless a comment there silences it."""
        line, module = at.line, at.module
        full = f"{at.head}.{at.short}".strip(".")
        guessed = self.size.arguments is None and read_rules()[name]["level"] == "sized"
        about = {"call": at.short, "full": full, "module": at.name, "head": at.head}
        values = {**self.values, **about, **at.about, **values}
        certain = module.is_sure(at) and not guessed
        remark = make_remark(name, module.path, line, certain=certain, **values)
        first = "" if "os" in module.names else "import os, and "
        remark = remark._replace(hint=re.sub(r"\A(?=.*os\.environ\[)", first, remark.hint))
        if self.program.is_reached(at.part) and not module.silences(line, remark.rule):
            self.remarks.setdefault(remark.message, []).append(remark)
            self.answers |= {name: True, remark.rule: True}
            self.answers |= _FREED.get((name, remark.certain), {})

    def describe(self) -> None:
        """Answer what the rules need of the program, as its arguments decide it."""
        program, strange, placed = self.program, self._list_strange(), self._is_placed()
        mpi = _OF_MPI & {full.partition(".")[0] for full in program.named}
        made, trains = placed or self._may_join(), bool(program.find("trains"))
        self.values["test"] = denied = program.find_denied("makes")[0]
        # Nothing where the test is of the local rank, and else what stands in no call.
        self.values["by_rank"] = re.escape(re.sub("(?s).*local_rank.*", "", denied))
        self.answers |= {
            "joined": bool(program.find("joins")),
            "wrapped": any(call.part.certain for call in program.find("grouped")),
            "ordered": program.may_call("orders") or program.partial,
            "one": not any(map(program.find, _STARTS)),
            "made": made,
            "placed": placed,
            "own": made and bool(program.find("makes")) and not placed,
            "mpi": bool(mpi),
            "strange": bool(strange),
            "partial": program.partial,
            "trains": trains,
            "denied": bool(denied),
            "script": program.is_script,
            "installed": any(map(os.path.isfile, ("pyproject.toml", "setup.py", "setup.cfg"))),
            "pathed": "PYTHONPATH" in self.settings,
            "tells": mentions(self.texts, "tells"),
            "alone": not made and not mpi and (trains or not self._may_divide(strange)),
        }
        self.values |= {"libraries": ", ".join(strange[:3]), "library": min(mpi, default="")}
        self.values["start"] = self._name_start()
        if made and not placed:
            self.look_for_unasked()

    def _is_placed(self) -> bool:
        """Whether a library makes the group, and gives each process its GPU."""
        program = self.program
        # With a loop of its own, it takes only classes of these.
        if program.libraries & _CONFIGURED and not program.find("loops"):
            return True
        return any(classify(one) >= {"makes", "places"} for one in program.named)

    def _may_join(self) -> bool:
        """Whether it may make a group, and not only one of one process that it may do without."""
        small, groups = re.compile(r"\bworld_size=1[,)]"), self._list_groups("makes")
        alone = [small.search(one.text) and _is_asked(self, one) for one in groups]
        return not (alone and all(alone)) and self.program.may_call("makes")

    def look_for_unasked(self) -> None:
        """Answer whether options and settings, as they are, seem to keep it from a group."""
        supposed = self.known
        if self.size.arguments is None and any(map(self._is_open, self.program.find("makes"))):
            supposed = self._read_arguments()[2]
        self.program.suppose(supposed)
        denied, failing = self._find_denied()
        self.program.suppose({})
        words = re.findall(r"\w+", failing)
        fields = [one for one in words if isinstance(supposed.get(one), ast.Constant)]
        self.answers["unasked"] = bool(fields)
        if fields:
            field, value = fields[-1], ast.literal_eval(supposed[fields[-1]])
            self.values["is"] = "off" if value in (None, False) else repr(value)
            self.values["on"] = "true" if value is False else "VALUE"
            self.values["field"] = re.sub("[-_]", "[-_]", field)
            self.values |= {"test": denied, "variable": field.upper()}

    def _is_open(self, call: Fact) -> bool:
        """Whether tests that are not known decide about a call, or about a way to it."""
        return any(self.program.list_ways(call.part))

    def _find_denied(self) -> tuple[str, str]:
        """Return what keeps it from all calls that make a group, or start processes."""
        reached = self._list_groups(" ".join(("makes", *_STARTS)))
        return ("", "") if reached else self.program.find_denied("makes")

    def _list_groups(self, kinds: str) -> list[Fact]:
        """Return the calls of kinds, but those of functions that make a group by others in them."""
        own = {scope.name for scope in self.program.scopes}
        return [one for one in self.program.find(kinds) if one.short not in own]

    def _list_strange(self) -> list[str]:
        """Return the libraries that may make the group, and modules that are not there.

        A program with a training loop of its own has it made by a function for that.
        """
        program = self.program
        form = spell_form("sets-up") if program.find("loops") else ""
        lacking = tuple(f"{one.name.strip('.')}." for one in program.missing)
        unknown = program.libraries - list_plain()
        named = (full for full in program.named | unknown if re.search(form, full))
        heads = ((full.partition(".")[0], full) for full in named)
        return sorted({head for head, full in heads if head in unknown or full.startswith(lacking)})

    def _may_divide(self, strange: list[str]) -> bool:
        """Whether a program that trains nothing may divide its work by itself, or others may."""
        unknown = bool(strange) and "torch" not in self.program.libraries
        named = bool(self.program.find("instantiates"))  # by a file of settings
        return unknown or named or read_form("own-part").search(self.program.text) is not None

    def apply(self, name: str) -> None:
        """Say a rule of `remarks.txt` wherever it holds."""
        rule = read_rules()[name]
        of_job, of_place = tables.read_needs(rule["needs"], _OF_PLACE)
        if not (of_job.items() <= self.answers.items() and self._names(rule)):
            return
        for match in re.finditer(self._fill(rule.get("job", r"\A")), self.settings, re.MULTILINE):
            self.values |= match.groupdict()
            places = self._find_calls(rule) if "calls" in rule else self._find_text(rule)
            places = [one for one in places if self._fits(one, of_place)]
            for at in places if places and self._allow(rule) else ():
                self.say(name, at)

    def _names(self, rule: dict[str, str]) -> bool:
        """Whether the program has what a rule is about, by what costs least to see."""
        words = rule.get("word", "").split("|")
        called = "calls" not in rule or self.program.find(rule["calls"])
        return bool(called) and any(map(self.texts.__contains__, words))

    def _fits(self, at: Fact, of_place: Mapping[str, bool]) -> bool:
        return all(PLACES[need](self, at) == wanted for need, wanted in of_place.items())

    def _find_text(self, rule: dict[str, str]) -> list[Fact]:
        """Return the first place in the text of the program that a rule is about."""
        form = self._fill(rule.get("with", ""))
        unless = self._fill(rule.get("unless", _NEVER))
        return [*itertools.islice(self.program.search(form, unless), 1)]

    def _find_calls(self, rule: dict[str, str]) -> list[Fact]:
        """Return the calls that a rule is about, each with the values in its words."""
        where, unless = self._fill(rule.get("where", "^")), rule.get("unless", _NEVER)
        calls, asks = self.program.find(rule["calls"]), bool({"where", "unless"} & rule.keys())
        places: list[Fact] = []
        for call in calls:
            words = call.text if asks else ""
            if not re.search(unless, words):
                groups = [match.groupdict() for match in re.finditer(where, words)]
                places += [call._replace(about={**call.about, **one}) for one in groups]
        return [] if "every" in rule and len(places) < len(calls) else places

    def _allow(self, rule: dict[str, str]) -> bool:
        """Whether the text has what a rule asks for beside its calls, and nothing against it."""
        if "without" in rule and re.search(self._fill(rule["without"]), self.program.used):
            return False
        beside = "calls" in rule and "with" in rule
        return not beside or any(self.program.search(self._fill(rule["with"]), _NEVER))

    def _fill(self, form: str) -> str:
        return re.sub("<<(below )?(.+?)>>", self._give, form)

    def _give(self, word: re.Match[str]) -> str:
        if word[1]:
            return "|".join(map(str, range(self.values[word[2]])))
        return str(self.values[word[2]] if word[2] in self.values else spell_form(word[2]))

    def find_modules(self) -> None:
        """Modules of the project that a snapshot leaves out."""
        copied = self.size.copied
        for module in self.program.modules:
            if copied is not None and not is_below(os.path.normpath(module.path), copied):
                self.say("module-untracked", module.whole)

    def _name_start(self) -> str:
        """Return what to write for a script, so that its imports find what is beside it."""
        path = os.path.normpath(self.program.entry.path)
        module = os.path.splitext(path)[0].replace("/", ".")
        package = "/" in path and path[0] not in "./"
        return f"run: {{module: {module}}}" if package else "the import without dots"

    def find_form(self) -> None:
        """A file that does nothing when it is started."""
        entry = self.program.entry
        self.apply("main-not-called.test")
        outside = [call for call in entry.calls if not call.part.scope]
        working = [call for call in outside if "names" not in classify(call.name)]
        kinds = {type(one) for one in entry.tree.body} - {ast.Pass, ast.Expr}
        if working or read_form("decorated-main").search(entry.text):
            return  # as the decorator may call it
        # What a program seems to begin with.
        named = (one for one in entry.tree.body if isinstance(one, SCOPES))
        mains = [one for one in named if re.match("main|train$|run$", one.name)]
        if mains:
            at = entry.whole._replace(line=mains[-1].lineno)
            self.say("main-not-called", at, name=mains[-1].name)
        elif not kinds:
            self.say("empty", entry.whole)
        elif kinds - {ast.Import, ast.ImportFrom}:  # which may start something
            self.say("empty.names", entry.whole)

    def find_arguments(self) -> None:
        """Arguments that the program's own parser does not have or lacks."""
        self.program.assign(_tell(self.size))
        if self.size.arguments is None:
            return
        values, faults, likely = self._read_arguments()
        self.known = likely
        for fault, write in faults.items():
            self.say("unknown-argument", self.program.entry.whole, fault=fault, write=write)
        owners = {name.partition(".")[0] for name in values}
        self.answers["read"] = bool(owners) and not (faults or owners & self.program.handed)
        self.program.assign(values)

    def _read_arguments(self) -> tuple[Any, ...]:
        """Return what the program makes of its arguments; where they are unknown, of none."""
        if not any(map(self.program.find, ("parses", "hydra"))):
            return {}, {}, {}
        from jobgen.programs.arguments import read_arguments

        tasks = [(*(self.size.arguments or ()), *one) for one in self.size.swept]
        return read_arguments(self.program, tasks)


_MOST_PLACES = 4  # that a message names beside the first


def _join(first: Remark, *others: Remark) -> Remark:
    """Return the first of remarks with one message, which names the lines of the others."""
    same = {f"{one.path}:{one.line}": one for one in sorted(others) if one[:2] != first[:2]}
    places, more = [*same][:_MOST_PLACES], len(same) - _MOST_PLACES
    if more > 0:
        places.append(f"{more} more")
    also = f" (so in {', '.join(places)})" if places else ""
    return first._replace(message=first.message + also)


def _answer(size: JobSize) -> dict[str, bool]:
    return {key: bool(value) for key, value in size._asdict().items()} | {
        "given": size.arguments is not None,
        "arguments": bool(size.arguments or size.swept[0]),
        "several": size.world_size > 1,
        "shared": size.processes > 1,
        "nodes": size.nodes > 1,
        "idle": size.processes == 1 < size.gpus,
        "array": size.tasks > 1,
    }


def _tell(size: JobSize) -> dict[str, ast.expr]:
    """Return what the job decides of what a program asks for, by its words."""
    count = "torch.cuda.device_count()"
    known = _OF_NODES | {
        "torch.cuda.is_available()": size.gpus > 0,
        count: size.gpus,
        f"int({count})": size.gpus,
    }
    for name in () if size.lone or size.ray or size.plain else _TOLD:
        known |= {f"'{name}' in os.environ": True, f"'{name}' not in os.environ": False}
    return {key: ast.Constant(value) for key, value in known.items()}


def _list_swept(size: JobSize) -> list[str]:
    return re.findall(r"(?<!\S)--([\w-]+)", " ".join(size.swept[0]))


def _list_values(size: JobSize) -> dict[str, Any]:
    words = [*(size.arguments or ()), *size.swept[0]]
    given = " ".join(words)
    alone = size.world_size <= size.gpus  # whether each rank is the number of a GPU
    return size._asdict() | {
        "few": size.processes - 2,
        "reader": _PYTHON,
        "others": size.processes - 1,
        "missing": "" if size.nodes > 1 else _NEVER,
        "shares": r"\d+" if alone else "|".join(map(str, range(size.processes, size.gpus + 1))),
        "all_gpus": size.nodes * size.gpus,
        "named": "|".join(re.findall(r"(?<!\S)--?[\w-]+", given)) or _NEVER,
        "denied": "|".join(read_form("denied-option").findall(given)) or _NEVER,
        "count": len(words),
        "parts": "|".join(_list_swept(size)).replace("-", "_") or _NEVER,
    }


def _is_tested(form: str) -> Callable[[_Look, Fact], bool]:
    """Return whether it happens always, or where tests of a form hold alone."""

    def holds(look: _Look, call: Fact) -> bool:
        fits, tests = read_form(form).search, look.program.list_tests(call.part)
        return all(fits(one) or fits(call.fill(one)) for one in tests)

    return holds


def _is_behind(form: str) -> Callable[[_Look, Fact], bool]:
    """Return whether a test of a form holds on a way to a place."""
    return lambda look, call: any(map(read_form(form).search, look.program.list_ways(call.part)))


def _is_asked(look: _Look, call: Fact) -> bool:
    """Whether each way to the function around it has a test of something else than processes."""
    uses = filter(look.program.is_reached, look.program.list_uses(call.part.scope))
    ways = [way.split("; ")[1:] for use in uses for way in look.program.list_ways(use)]
    shared = [all(map(read_form("shared-test").search, tests)) for tests in ways]
    return bool(ways) and not any(shared)


def _is_first(look: _Look, call: Fact) -> bool:
    """Whether only rank 0 comes here."""
    return all(map(read_form("first-rank").search, look.program.list_ways(call.part)))


def _is_lonely(look: _Look, call: Fact) -> bool:
    """Whether only rank 0 comes here, and the others meet it nowhere else."""
    program, first = look.program, read_form("first-rank").search
    branch = call.part.body if call.part.tests else ()
    leaves = any(isinstance(one, ast.Return | ast.Continue) for one in branch)
    if leaves or not _is_first(look, call):
        return False
    met = [way for one in program.find("collects") for way in program.list_ways(one.part)]
    return not any(read_form("other-ranks").search(way) and not first(way) for way in met)


def _is_leading(look: _Look, call: Fact) -> bool:
    """Whether rank 0 of each node comes here, and nothing tells the nodes apart."""
    own, first = read_form("local-variable"), read_form("first-on-node")
    ways = (call.fill(call.fill(way)) for way in look.program.list_ways(call.part))
    rests = [first.subn("", own.sub("local_rank", way)) for way in ways]
    return all(count and not read_form("ranked").search(rest) for rest, count in rests)


def _is_common(look: _Look, call: Fact) -> bool:
    """Whether nothing on any way to it, or in its words, tells processes apart."""
    scope = call.part.scope
    hooked = scope and scope.free and read_form("hook").match(scope.name)
    used = any(map(look.program.is_reached, look.program.list_uses(scope)))
    if scope and (scope.marked or not (hooked or used)):
        return False
    name = getattr(scope, "name", "").replace("main", "")
    texts = [call.text, ast.unparse(call.node), name, *look.program.list_ways(call.part)]
    return not any(map(read_form("told-apart").search, texts))


def _is_of_fsdp(_: _Look, call: Fact) -> bool:
    """Whether it is called of what FSDP has returned, in the same file."""
    values = call.module.assigned.get(call.name.rpartition(".")[0], ())
    return re.search(r"FSDP\(|FullySharded", " ".join(map(ast.unparse, values))) is not None


def _is_named_again(look: _Look, call: Fact) -> bool:
    """Whether the program names a file that it opens once more, as it may read it."""
    names = map(re.escape, re.findall(r"([^/']+\.\w+)'", call.text))
    lines = ([*look.program.search(name, _NEVER)] for name in names)
    return call.name != "open" or any(len(one) > 1 for one in lines)


# What rules need of the place of a call.
PLACES: dict[str, Callable[[_Look, Fact], bool]] = {
    "certain": lambda look, call: call.part.certain and not _is_asked(look, call),
    "inside": lambda _, call: call.part.scope is not None,
    "entry": lambda look, call: call.module is look.program.entry,
    "tried": lambda _, call: call.part.tried,
    "loaded": lambda look, call: id(call.module) in look.program.loaded,
    "of-fsdp": _is_of_fsdp,
    "fsdp-denied": _is_behind("fsdp-denied"),
    "counted": _is_tested("counts"),
    "joint": _is_tested("shared-test"),
    "asked": _is_asked,
    "first": _is_first,
    "lonely": _is_lonely,
    "common": _is_common,
    "leading": _is_leading,
    # Where a file is not there yet, which the next start finds.
    "kept": _is_behind("kept"),
    "named-again": _is_named_again,
    "straight": lambda _, call: all(map(call.module.decide, call.part.past)),
}
_OF_PLACE = frozenset(PLACES)
