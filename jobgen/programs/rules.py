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
from collections.abc import Callable, Sequence
from functools import cache
from string import Template
from typing import Any

from jobgen.plan.review import is_below, list_settings
from jobgen.programs.program import ReadProgram, classify, read_table
from jobgen.programs.reader import Fact, Module, Part
from jobgen.records import NamedTuple


class JobSize(NamedTuple):
    """How the job starts the program."""

    nodes: int
    processes: int  # on the node that has most
    world_size: int
    agents: bool = True  # whether torchrun's start the processes
    gpus: int = 8  # on the node that has most
    cpus: int = 0  # for each process; 0 if unknown
    arguments: tuple[str, ...] | None = None  # what the program is given; None if unknown
    swept: tuple[tuple[str, ...], ...] = ((),)  # what some tasks of an array are given beside it
    setup: str = ""  # what the job's lines of setup say, and what it writes
    scheduler: str = ""  # what the variables that it sets begin with
    chained: bool = False  # whether the job is to go on where another ended
    copied: tuple[str, ...] | None = None  # files and folders, where it runs from a snapshot
    alike: bool = False  # whether tasks of an array differ by JOBGEN_TASK alone
    tasks: int = 1  # of an array
    ray: bool = False  # whether it starts once, in a Ray of all nodes
    plain: bool = False  # whether it starts once on each node, and may start others
    packed: bool = False  # whether several tasks of an array share a job
    roles: str = ""  # the variables with the addresses of the job's roles on other nodes
    offline: bool = False  # whether the nodes have no internet
    settings: str = ""  # options with their values, a line each, and those of files that they name
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

    def __str__(self) -> str:
        level = "warning" if self.certain else "note"
        return f"{self.path}:{self.line}: {level}: {self.message}; {self.hint} [{self.rule}]"


@cache
def read_rules() -> dict[str, dict[str, str]]:
    """Return the records of `remarks.txt` by their names."""
    rules: dict[str, dict[str, str]] = {}
    name = ""
    for line in read_table("remarks.txt"):
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

    `certain` tells whether one that is `likely` is a warning.
    """
    rule = read_rules()[name]
    message, hint = (Template(rule[key]).substitute(values, path=path) for key in ("says", "write"))
    certain = certain if rule["level"] == "likely" else rule["level"] == "warning"
    return Remark(path, line, name.partition(".")[0], message, hint, certain)


def check_program(path: str, size: JobSize, *roots: str) -> list[Remark]:
    """Return what a look into a program finds, in the order of files and lines.

    A file that cannot be read is one remark. Only Python is read. Modules of the project are those
    in `roots`: by default beside the program, and in the current folder.
    """
    if os.path.isdir(path):
        return [make_remark("not-a-program", path)]
    try:
        look = _Look(ReadProgram(path, *roots), size)
    except SyntaxError as error:
        return [make_remark("syntax", path, error.lineno or 1, fault=error.msg)]
    except (OSError, ValueError):
        return []
    look.take()
    remarks = list(look.remarks.values())
    if any(one.rule == "own-launcher" and one.certain for one in remarks):
        # What it starts is the program.
        remarks = [one for one in remarks if one.rule != "no-process-group"]
    return sorted(remarks, key=lambda one: (one.path != path, *one[:2]))


_NEVER = "(?!)"
_IGNORE = r"#\s*jobgen:\s*ignore\[([a-z, -]+)\]"
# Variables that libraries read, or a node, the scheduler, the job and torchrun set.
_GIVEN = (
    r"JOBGEN|RAY_|MASTER_|TORCH|CUDA|NCCL|OMP|LOCAL_|GROUP_|ROLE_|PMI|OMPI|XDG|LC_|_"
    r"|PYTHON|PYTORCH|HF_|WANDB|MKL|TRITON|LD_|GLOO|UCX|FI_|TOKENIZERS|TRANSFORMERS|DS_|XLA|TF_"
    r"|(RANK|WORLD_SIZE|HOME|USER|LOGNAME|PATH|TMPDIR|HOSTNAME|PWD|SHELL|LANG|NCPUS)$"
)
# Who reads one of these and trains nothing divides the work by itself.
_OWN_PART = r"[\"'](RANK|LOCAL_RANK|WORLD_SIZE|PMI_RANK|SLURM_PROCID|OMPI_COMM_WORLD_RANK)[\"']"
# Libraries that make the group in an object that settings may name.
_CONFIGURED = {"lightning", "pytorch_lightning"}
_OF_MPI = {"horovod", "mpi4py"}
# What a program counts before it starts one process for each.
_COUNTS = r"(?i)(gpu|device_count|world_size|n_?procs).*[<=>]|is_initialized"

# How a program asks for the number of processes.
_ASKS = r"(int\(os\.environ\[.WORLD_SIZE.\]\)|world_size|[\w.]*get_world_size\(\))"
# An option with a word for no.
_DENIED = r"(?<!\S)(--?[\w-]+)[ =](?i:false|no|off|0)(?!\S)"
# What holds on a way to a call that the first rank alone takes, or others.
_MAIN = r"[\w.]*(is_main|is_master|master_process|is_rank_?(0|zero))\w*(\(\))?"
_RANK = r"([\w.]*(rank|process_index)(\(\))?|int\([^;()]*RANK[^;()]*\))"
_FIRST_RANK = re.compile(
    rf"; ([^;]* and )?({_RANK} (== 0|in (\[|\()(-1, 0|0, -1)(\]|\)))|(not not )?{_MAIN})( and |;|$)"
    rf"|; not ({_RANK} (!= 0|> 0)|not {_MAIN})( or |;|$)"
)
_OTHER_RANKS = re.compile(r"rank.*(!=|>|<| in |== [1-9])|; not .*(rank|main|master)")
# A switch that is not known: whether it is on; or a model without a wrapper or a method.
_FLAG = re.compile(r"; (not )?[\w.]+( is (not )?None)?(;|$)|; not hasattr\(")
# What may tell processes apart.
_RANKED = re.compile(
    r"(?i)rank|main|master|verb|chief|primary|leader|zero|world_size|process_?(index|id)"
    r"|(gpu|device|process)(\(\))? *(==|!=)"
)


# A call or file, a line that is not its own, and values.
_Place = tuple[Fact, int, dict[str, Any]]


class _Look:
    """One look into a program, for the job that starts it."""

    def __init__(self, program: ReadProgram, size: JobSize) -> None:
        self.program, self.size = program, size
        self.remarks: dict[str, Remark] = {}  # the first with each message
        self.answers = _answer(size)  # by the words of `needs`
        self.values = _list_values(size)  # what records name by $value and <<value>>
        named = re.findall(r"[\"']([\w./-]+\.(?:ya?ml|json))[\"']", program.entry.text)
        files = list_settings([f"={name}" for name in named[:9]])
        self.settings = "\n".join([size.settings, *map(" ".join, files)])

    def take(self) -> None:
        """Keep all remarks: by the functions here, then by the records."""
        self.find_modules()
        self.find_form()
        self.answers["sound"] = not self.remarks  # whether it does something when it is started
        self.find_places()
        self.find_arguments()
        self.describe()
        for name, rule in read_rules().items():
            if "needs" in rule:
                self.apply(name, rule)

    def say(self, name: str, at: Fact, line: int = 0, /, **values: Any) -> None:
        """Keep a remark on a place, or a line of its file, unless a comment there silences it."""
        given = (
            self.values
            | {"certain": at.certain, "call": at.short, "full": f"{at.head}.{at.short}".strip(".")}
            | values
        )
        remark = make_remark(name, at.module.path, line or at.line, **given)
        (text, *_) = at.module.text.splitlines()[remark.line - 1 : remark.line] or [""]
        match = re.search(_IGNORE, text)
        silenced = match is not None and remark.rule in re.split(r"[, ]+", match[1])
        if not silenced and self.program.is_reached(at.part):
            self.remarks.setdefault(remark.message, remark)

    def describe(self) -> None:
        """Answer what the rules need of the program, as its arguments decide it."""
        program, libraries = self.program, self.program.libraries
        strange, mpi = sorted(libraries - _list_plain()), self._list_imported() & _OF_MPI
        configured = bool(libraries & _CONFIGURED)
        placed = configured or any(classify(name) >= {"makes", "places"} for name in program.named)
        made, trains = placed or program.may_call("makes"), bool(program.find("trains"))
        self.answers |= {
            "joined": bool(program.find("joins")),
            "wrapped": any(call.certain for call in program.find("grouped")),
            "one": not (program.find("spawns") or program.find("rays")),
            "made": made,
            "placed": placed,
            "own": made and not placed,
            "mpi": bool(mpi),
            "strange": bool(strange),
            "partial": program.partial,
            "trains": trains,
            "alone": not made and not mpi and (trains or not self._may_divide(strange)),
        }
        self.values |= {"libraries": ", ".join(strange[:3]), "library": min(mpi, default="")}

    def _may_divide(self, strange: list[str]) -> bool:
        """Whether a program that trains nothing may divide its work by itself, or a library may."""
        reads = re.search(_OWN_PART, self.program.text)
        return bool(strange or reads or self.program.partial)

    def _list_imported(self) -> set[str]:
        """Return the modules that are imported without a `try`, where something comes to it."""
        imports = [one for module in self.program.modules for one in module.imports]
        reached = [one for one in imports if self.program.is_reached(one.part)]
        return {one.head for one in reached if not one.part.tried}

    def apply(self, name: str, rule: dict[str, str]) -> None:
        """Say a rule of `remarks.txt` wherever it holds."""
        needs = {need.strip("!"): need[0] != "!" for need in rule["needs"].split()}
        of_place = PLACES.keys() & needs
        if any(self.answers[need] != needs[need] for need in needs.keys() - of_place):
            return
        for match in re.finditer(self._fill(rule.get("job", r"\A")), self.settings, re.MULTILINE):
            self.values |= match.groupdict()
            places = self._find_calls(rule) if "calls" in rule else self._find_text(rule)
            fits = [
                one
                for one in places
                if all(PLACES[need](self, one[0]) == needs[need] for need in of_place)
            ]
            if fits and self._allows(rule):
                for at, line, values in fits:
                    self.say(name, at, line, **values)

    def _find_text(self, rule: dict[str, str]) -> list[_Place]:
        """Return the first place in the text of the program that a rule is about."""
        form, unless = self._fill(rule.get("with", "")), rule.get("unless", _NEVER)
        return [*itertools.islice(self.program.search(form, unless), 1)]

    def _find_calls(self, rule: dict[str, str]) -> list[_Place]:
        """Return the calls that a rule is about, each with the values in its words."""
        where, unless = self._fill(rule.get("where", "^")), rule.get("unless", _NEVER)
        places: list[_Place] = []
        for call in self.program.find(rule["calls"]):
            words = call.text if {"where", "unless"} & {*rule} else ""
            if not re.search(unless, words):
                places += [(call, 0, match.groupdict()) for match in re.finditer(where, words)]
        return places

    def _allows(self, rule: dict[str, str]) -> bool:
        """Whether the text of the program has what a rule asks for, and nothing that denies it."""
        form = self._fill(rule.get("with", "")) if "calls" in rule else ""
        if form and not any(self.program.search(form, _NEVER)):
            return False
        without = re.compile(self._fill(rule.get("without", _NEVER)))
        return not (without.search(self.program.text) and without.search(self.program.used))

    def _fill(self, form: str) -> str:
        return re.sub("<<(.+?)>>", lambda match: str(self.values[match[1]]), form)

    # --- rules that no record can say ---

    def find_modules(self) -> None:
        """Modules of the project that are not there, are hidden, or that a snapshot leaves out."""
        entry, copied = self.program.entry, self.size.copied
        for name in read_table("hidden.txt"):
            if os.path.isfile(os.path.join(os.path.dirname(entry.path), f"{name}.py")):
                self.say("module-hidden", entry.whole, name=name)
        for one in self.program.missing:
            if one.module is entry or not one.part.scope:
                self.say("module-missing", one, name=one.name)
        for one, file, name in self.program.list_lacking():
            self.say("module-missing.name", one, file=file, name=name)
        if copied is not None:
            self._find_untracked(copied)

    def _find_untracked(self, copied: Sequence[str]) -> None:
        for module in self.program.modules:
            if not is_below(os.path.normpath(module.path), copied):
                self.say("module-untracked", module.whole)

    def find_places(self) -> None:
        """What a script takes from where Python does not look for it, by the script's place."""
        entry, path = self.program.entry, os.path.normpath(self.program.entry.path)
        if not self.program.is_script or "__package__" in entry.text or self.size.arguments is None:
            return
        module = os.path.splitext(path)[0].replace("/", ".")
        package = path[:1] not in "./" and "/" in path
        start = f"run: {{module: {module}}}" if package else "the import without dots"
        taken = [one for one in entry.imports if not (one.part.tried or one.part.scope)]
        relative = next((one for one in taken if one.name[0] == "."), None)
        if relative:
            self.say("module-missing.relative", relative, name=relative.name, start=start)
        absent = set() if self._finds_elsewhere() else self.program.list_elsewhere() - _list_plain()
        for one in taken:
            if one.head in absent:
                self.say("module-missing.path", one, name=one.head, start=start)

    def _finds_elsewhere(self) -> bool:
        """Whether the project may be installed, or its path be set."""
        installed = any(map(os.path.isfile, ("pyproject.toml", "setup.py", "setup.cfg")))
        named = "PYTHONPATH" in self.settings + self.size.setup
        return installed or named or "sys.path" in self.program.entry.text

    def find_form(self) -> None:
        """A file that does nothing when it is started."""
        entry = self.program.entry
        self.apply("main-not-called.test", read_rules()["main-not-called.test"])
        marks = [mark for node in entry.tree.body for mark in getattr(node, "decorator_list", ())]
        outside = [call for call in entry.calls if not call.part.scope and call.node not in marks]
        if all("names" in classify(call.name) for call in outside):
            self._find_idle()

    def _find_idle(self) -> None:
        """What a file without calls defines."""
        entry = self.program.entry
        defined = [one for one in entry.tree.body if not isinstance(one, ast.Pass | ast.Expr)]
        # What a file of imports alone starts is in what it imports.
        rest = [one for one in defined if not isinstance(one, ast.Import | ast.ImportFrom)]
        names = {getattr(one, "name", ""): one.lineno for one in reversed(rest)}
        mains = [name for name in names if re.match(r"(main|train$|run$)", name)]
        if not defined:
            self.say("empty", entry.whole)
        elif mains:
            self.say("main-not-called", entry.whole, names[mains[-1]], name=mains[-1])
        elif rest:
            self.say("empty.names", entry.whole)

    def find_arguments(self) -> None:
        """Arguments that the program's own parser does not have or lacks, or that nothing reads."""
        base, kinds = self.size.arguments, ("parses", "skips", "hydra", "declares", "signs")
        if base is None or not any(map(self.program.find, kinds)):
            return
        from jobgen.programs.arguments import read_arguments

        answer = read_arguments(self.program, [(*base, *one) for one in self.size.swept])
        if answer.fault:
            about = {"fault": answer.fault, "write": answer.write}
            self.say("unknown-argument", self.program.entry.whole, **about)
        swept = [word.partition("=")[0] for word in self.size.swept[0]]
        for name in answer.unread if self.size.tasks > 1 else ():
            if f"--{name}" in swept:
                self.say("unread-argument", self.program.entry.whole, name=name)
        self.program.assign(answer.values)


@cache
def _list_plain() -> frozenset[str]:
    """Return the libraries that start no processes, and those of Python."""
    return sys.stdlib_module_names.union(read_table("plain_libraries.txt"))


def _answer(size: JobSize) -> dict[str, bool]:
    """Answer what the rules need of the job."""
    return {key: bool(value) for key, value in size._asdict().items()} | {
        "given": size.arguments is not None,
        "arguments": bool(size.arguments or size.swept[0]),
        "several": size.world_size > 1,
        "shared": size.processes > 1,
        "nodes": size.nodes > 1,
        "idle": size.processes == 1 < size.gpus,
        "array": size.tasks > 1,
    }


def _list_values(size: JobSize) -> dict[str, Any]:
    given = (*(size.arguments or ()), *size.swept[0])
    return size._asdict() | {
        "asks": _ASKS,
        "given": _GIVEN,
        "few": size.processes - 2,
        "there": "|".join(map(str, range(size.gpus))),
        "fitting": "|".join(map(str, range(size.cpus + 1))),
        "argv": "|".join(map(str, range(len(given) + 1))),
        "denied": "|".join(re.findall(_DENIED, " ".join(given))) or _NEVER,
        "count": len(given),
        "span": f"{size.fewest} to {size.nodes}" if size.fewest else size.nodes,
        "own": 'int(os.environ["SLURM_NNODES"])' if size.fewest else size.nodes,
    }


def _is_counted(look: _Look, call: Fact) -> bool:
    """Whether it happens always, or for each of several GPUs or processes."""
    tests = [test for test in call.part.tests if not call.module.decide(test)]
    return all(re.search(_COUNTS, ast.unparse(test)) for test in tests)


def _is_asked(look: _Look, call: Fact) -> bool:
    """Whether the function around it is called under a test of something else than processes."""
    uses = look.program.list_uses(call.part.scope)
    return bool(uses) and all(map(_is_chosen, uses))


def _is_chosen(part: Part) -> bool:
    tests = [ast.unparse(test) for test in part.tests if not part.module.decide(test)]
    return not all(re.search(rf"{_COUNTS}|distributed|ddp", test) for test in tests)


def _is_sole(look: _Look, call: Fact) -> bool:
    """Whether the program never computes a rank that it sets here."""
    same = [one for one in look.program.calls if one.name == call.name and "RANK" in one.name]
    return all(re.search(r"\((str\()?('[^']*'|\d+)\)+$", one.text) for one in same)


def _are_other_counts(look: _Look, call: Fact) -> bool:
    """Whether Lightning is never given the numbers of devices and nodes that the job has."""
    return all(_is_other_count(look.size, one) for one in look.program.find("counts"))


def _is_other_count(size: JobSize, call: Fact) -> bool:
    given = call.given
    if None in given:  # by **
        return False
    module, one = call.module, ast.Constant(1)
    alone = "'cpu'" in ast.unparse(given.get("accelerator", one))
    devices = given.get("devices", given.get("gpus", one if alone else None))
    counts = (_count(module, devices, size.processes), _count(module, given.get("num_nodes"), 1))
    # Without num_nodes it is one, whatever the devices are.
    missing = "num_nodes" not in given and size.nodes > 1
    wanted = (size.processes, 0 if size.fewest else size.nodes)
    return missing or any(one and one != want for one, want in zip(counts, wanted, strict=True))


def _count(module: Module, node: ast.expr | None, default: int) -> int:
    """Return how many devices or nodes an argument means; 0 if it is computed."""
    if isinstance(node, ast.IfExp) and "cuda.is_available" in ast.unparse(node.test):
        node = node.body
    node = node if node is None else module.resolve(node)
    if isinstance(node, ast.List):
        return len(node.elts)
    text = "auto" if node is None else str(getattr(node, "value", ""))
    return default if text in ("auto", "-1") else int(text) if text.isdecimal() else 0


def _is_lonely(look: _Look, call: Fact) -> bool:
    """Whether rank 0 alone comes here, and the others meet it nowhere else."""
    if not _is_first(look, call):
        return False
    branch = call.part.body if call.part.tests else ()
    leaves = any(isinstance(one, ast.Return | ast.Continue) for one in branch)
    met = [way for one in look.program.find("collects") for way in look.program.list_ways(one.part)]
    others = [way for way in met if _OTHER_RANKS.search(way) and not _FIRST_RANK.search(way)]
    return not leaves and not others


def _is_first(look: _Look, call: Fact) -> bool:
    """Whether rank 0 alone comes here."""
    return all(map(_FIRST_RANK.search, look.program.list_ways(call.part)))


def _is_common(look: _Look, call: Fact) -> bool:
    """Whether nothing on any way to it, or in its words, tells processes apart."""
    scope = call.part.scope
    if scope and not look.program.list_uses(scope):
        return False
    name = scope.name.replace("main", "") if scope else ""
    texts = [call.text, name, *look.program.list_ways(call.part)]
    return not any(_RANKED.search(text) or _FLAG.search(text) for text in texts)


# What rules need of the place of a call.
PLACES: dict[str, Callable[[_Look, Fact], bool]] = {
    "certain": lambda look, call: call.certain and not _is_asked(look, call),
    "entry": lambda look, call: call.module is look.program.entry,
    "tried": lambda _, call: call.part.tried,
    "counted": _is_counted,
    "othercounts": _are_other_counts,
    "asked": _is_asked,
    "sole": _is_sole,
    "lonely": _is_lonely,
    "common": _is_common,
    "straight": lambda _, call: all(map(call.module.decide, call.part.past)),
}
