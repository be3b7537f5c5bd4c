"""What a look into a training program finds, before the queue finds it.

A warning is certain from the files at hand; a note is likely. `# jobgen: ignore[rule]` in the line
silences one. What is said stands in `remarks.txt`.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from string import Template
from typing import Any

from jobgen.programs.reader import (
    Call,
    Module,
    Place,
    ReadProgram,
    Setting,
    classify,
    main_test,
    read_table,
)
from jobgen.records import NamedTuple


class JobSize(NamedTuple):
    """How the job starts the program."""

    nodes: int
    processes: int  # on the node that has most
    world_size: int
    agents: bool = True  # whether torchrun's start the processes
    gpus: int = 8  # on the node that has most
    arguments: tuple[str, ...] | None = None  # what the program is given; None if unknown
    variables: frozenset[str] | None = None  # that the job sets; None if unknown
    chained: bool = False  # whether the job is to go on where another ended
    copied: tuple[str, ...] | None = None  # files and folders, where it runs from a snapshot
    alike: bool = False  # whether tasks of an array differ by JOBGEN_TASK alone
    tasks: int = 1  # of an array

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
def _read_texts() -> dict[str, list[str]]:
    rows = [line.split(" | ") for line in read_table("remarks.txt")]
    return {name: texts for name, *texts in rows}


def make_remark(
    name: str, path: str, line: int = 1, /, *, certain: bool = True, **values: object
) -> Remark:
    """Return a remark, with the words that `remarks.txt` has for it and these values in them.

    `certain` tells whether one that is `likely` is a warning.
    """
    level, *texts = _read_texts()[name]
    message, hint = (Template(text).substitute(values, path=path) for text in texts)
    certain = certain if level == "likely" else level == "warning"
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
    look.find_form()
    sound = not look.remarks
    look.find_arguments()
    look.find_ends()
    if size.world_size > 1 and sound:
        look.find_groups()
        look.find_processes()
        look.find_devices()
        look.find_rendezvous()
    return sorted(dict.fromkeys(look.remarks), key=lambda one: (one.path != path, *one[:2]))


# Variables of a launcher that starts the agents here, and not the processes.
_AGENT_RANKS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
# Who reads one of these and trains nothing divides the work by itself.
_OWN_PART = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "PMI_RANK", *_AGENT_RANKS}
_RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK")
# What a program counts before it starts one process for each.
_COUNTS = "(?i)gpu|device_count|world_size|nprocs|n_?procs"
_LAUNCHERS = (
    r"\b(torchrun|torch\.distributed\.(run|launch)|accelerate launch|deepspeed(?!\.)|sbatch|qsub"
    r"|(srun|mpirun|mpiexec|horovodrun) (?=-|python))"
)
_CHOOSES_GPU = r"(?i)local_?rank|set_device|device_ids|gpu_id|device_count\(\)|cuda:\{|\.gpu\b"
# Calls that choose a GPU.
_CHOOSERS = ("set_device", "cuda", "to", "device", "DistributedDataParallel", "DDP")
_IGNORE = r"#\s*jobgen:\s*ignore\[([a-z, -]+)\]"
_IMPORTS = r"^\s*(?:from|import) [^(\n]*(?:\([^)]*\))?"
_ENVIRONMENT = r"""os\.environ\[["']{}["']\](?! *=[^=])"""
_TESTS_ARGV = r"len\(sys\.argv\)|IndexError|argparse"
# Variables that a node, the scheduler, the job or torchrun sets.
_GIVEN = (
    r"SLURM|PBS|NCPUS|JOBGEN|RAY_|MASTER_|TORCH|CUDA|NCCL|OMP|LOCAL_|GROUP_|ROLE_|PMI|OMPI|XDG|LC_|_"
    r"|(RANK|WORLD_SIZE|HOME|USER|LOGNAME|PATH|TMPDIR|HOSTNAME|PWD|SHELL|LANG)$"
)
# Libraries that make the group in an object that settings may name.
_CONFIGURED = {"lightning", "pytorch_lightning"}
_UNLESS_STARTED = r"""["'](LOCAL_)?RANK["'] (not )?in os\.environ"""
# What keeps the state of a program.
_SAVES = "(?i)save|checkpoint|ckpt|snapshot|resume|dump"


class _Look:
    """One look into a program, for the job that starts it."""

    def __init__(self, program: ReadProgram, size: JobSize) -> None:
        self.program, self.size = program, size
        self.remarks: list[Remark] = []
        kinds = {kind for call in program.calls for kind in call.kinds}
        # A library's class may be made from a file of settings.
        uses = [call.kinds for call in program.calls] + [one.kinds for one in program.imports]
        self.placed = any({"makes", "places"} <= kind for kind in uses)
        self.grouped, self.spawns = self.placed or "makes" in kinds, "spawns" in kinds
        self.trains = "trains" in kinds

    def _say(self, name: str, at: Place, /, **values: Any) -> None:
        """Keep a remark on a place, or a line of its file, unless a comment there silences it."""
        alone = f"each of the job's {self.size.world_size} processes runs the whole program alone"
        given: dict[str, Any] = {"alone": f"{alone}, and all write the same files"}
        given |= {"certain": at.certain} | self.size._asdict() | values
        line = given.pop("line", at.line)
        if isinstance(at, Call | Setting) and not self._is_called(at.module, line):
            return
        remark = make_remark(name, at.module.path, line, **given)
        (text, *_) = at.module.text.splitlines()[line - 1 : line] or [""]
        match = re.search(_IGNORE, text)
        if match is None or remark.rule not in re.split(r"[, ]+", match[1]):
            self.remarks.append(remark)

    def _is_called(self, module: Module, line: int) -> bool:
        """Whether a line is the program's own, or in what the program names outside of imports."""
        name = _name_around(module, line)
        if module is self.program.entry or not name:
            return True
        text = re.sub(_IMPORTS, "", self.program.text, flags=re.MULTILINE)
        return re.search(rf"(?<!def )(?<!class )(?<![\"'])\b{name}\b", text) is not None

    # --- the file ---

    def find_form(self) -> None:
        """A file that does nothing when it is started, or does not find its own modules."""
        entry = self.program.entry
        for one in self.program.missing:
            self._say("module-missing", one, name=one.name)
        copied = self.size.copied
        for module in self.program.modules if copied is not None else ():
            path = os.path.normpath(module.path)
            if not any(path == one or path.startswith(f"{one}/") for one in copied or ()):
                self._say("module-untracked", module)
        body = [node for node in entry.tree.body if not _is_text(node)]
        for node in body:
            if (name := main_test(node)) not in (None, "__main__"):
                self._say("main-not-called.test", entry, line=node.lineno, name=repr(name))
        first = entry.text.partition("\n")[0]
        if first.startswith("#!") and first.endswith("\r"):
            self._say("line-ends", entry)
        # What a file of imports alone starts is in what it imports.
        rest = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
        mains = [
            node for node in rest if re.match(r"(main|train$|run$)", getattr(node, "name", ""))
        ]
        if not body:
            self._say("empty", entry)
        elif rest and not any(map(_acts, rest)):
            rule, main = ("main-not-called", mains[0]) if mains else ("empty.names", body[0])
            line = main.lineno if mains else 1
            self._say(rule, entry, line=line, name=getattr(main, "name", ""))

    def find_arguments(self) -> None:
        """Options of the job that the program's own parser does not have, and tasks alike."""
        if self.size.alike and not re.search("JOBGEN_TASK|_ARRAY_", self.program.text):
            self._say("same-tasks", self.program.entry)
        if self.size.arguments is not None and "parse_args" in self.program.text:
            from jobgen.programs.arguments import refuse_arguments

            fault, write = refuse_arguments(self.program, self.size.arguments)
            if fault:
                self._say("unknown-argument", self.program.entry, fault=fault, write=write)
        size, text, entry = self.size, self.program.text, self.program.entry
        given = size.arguments or ()
        read = "sys.argv[" in text and size.arguments is not None
        for line, number in _find_lines(entry, r"^[^#\n]*\bsys\.argv\[(\d+)\]") if read else ():
            if int(number) > len(given):
                if not re.search(_TESTS_ARGV, text):
                    count = len(given)
                    self._say("missing-argument", entry, line=line, number=number, count=count)
                break
        read = "os.environ[" in text and size.variables is not None
        for line, name in _find_lines(entry, _ENVIRONMENT.format(r"(\w+)")) if read else ():
            reads = re.findall(_ENVIRONMENT.format(f"({name})"), text)
            alone = len(re.findall(rf"""["']{name}["']""", text)) == len(reads)
            if alone and name not in (size.variables or ()) and not re.match(_GIVEN, name):
                self._say("missing-variable", entry, line=line, name=name)
                return

    def find_ends(self) -> None:
        """Questions at a terminal, a place that all tasks write to, a chain that keeps nothing."""
        for call in self.program.calls:
            if "asks" in call.kinds and call.certain and call.module is self.program.entry:
                self._say("asks", call, name=call.short)
            elif call.short == "cuda" and call.certain and not self.size.gpus:
                self._say("no-gpu.cuda", call)
            elif call.name in ("torch.save", "numpy.save") and self.size.tasks > 1:
                places = [str(one) for one in call.words if not str(one).startswith("/tmp")]
                if places and "chdir" not in self.program.text:
                    self._say("same-place", call, place=places[-1])
        entry, own = self.program.entry, not (self.placed or self._list_strange())
        if self.size.chained and own and self.trains and not re.search(_SAVES, self.program.text):
            self._say("nothing-saved", entry)

    def _list_strange(self) -> list[str]:
        plain = {*read_table("plain_libraries.txt"), *sys.stdlib_module_names}
        return sorted(self.program.libraries - plain)

    # --- processes ---

    def find_groups(self) -> None:
        """Programs whose processes never meet: each trains alone."""
        program, entry = self.program, self.program.entry
        if self.grouped or self.spawns or program.libraries & _CONFIGURED:
            return
        strange = ", ".join(self._list_strange()[:3])
        if mpi := program.libraries & {"horovod", "mpi4py"}:
            if self.size.agents:
                self._say("other-launcher", entry, library=min(mpi))
        elif self.trains or not (strange or program.partial or program.variables & _OWN_PART):
            rule, certain = "no-process-group" + ".unseen" * bool(strange), not program.partial
            self._say(rule, entry, certain=certain, libraries=strange)

    def find_processes(self) -> None:
        """Processes and GPUs that the program takes by itself, under a launcher that did so."""
        for call in self.program.calls:
            if "submits" in call.kinds:
                self._say("own-launcher.jobs", call)
            elif "rays" in call.kinds:
                joins = call.short == "init" and (call.node.args or "address" in call.given)
                sure = call.module is self.program.entry or _is_likely(call)
                if (
                    sure
                    and not joins
                    and not any(one.rule == "own-processes" for one in self.remarks)
                ):
                    self._say("own-processes.ray", call)
            elif "spawns" in call.kinds and _is_likely(call):
                self._say("own-processes", call, name=call.short)
            elif "parallel" in call.kinds:
                causes = ("data-parallel", "other-launcher")  # one cause is enough
                repeated = any(one.rule in causes for one in self.remarks)
                if self.size.processes > 1 and not repeated and not (call.tests and self.grouped):
                    self._say("data-parallel", call, certain=self.grouped)
            elif (name := _find_launcher(call)) and not self._is_asked_for(call):
                self._say("own-launcher", call, name=name)

    def _is_asked_for(self, call: Call) -> bool:
        """Whether a call is for who starts the program by hand, or asks for it by an option."""
        name = _name_around(call.module, call.line)
        callers = [one.certain for one in self.program.calls if name and one.short == name]
        by_hand = re.search(_UNLESS_STARTED, call.module.text) is not None
        return by_hand or (bool(callers) and not any(callers))

    # --- GPUs ---

    def find_devices(self) -> None:
        """GPUs that are chosen by something other than the launcher."""
        if self.size.processes == 1 or self.spawns:
            return
        for one in self.program.settings:
            shown = one.literal or ""  # none, or -1, asks for the CPU
            count = len([part for part in shown.split(",") if part.strip()])
            few = 0 < count < self.size.processes and shown != "-1"
            if few and one.name == "CUDA_VISIBLE_DEVICES":
                self._say("visible-devices", one, count=count)
        if not self.grouped:
            return  # one cause is enough
        for call in self.program.calls if "device_map" in self.program.text else ():
            value = getattr(call.given.get("device_map"), "value", "")
            if value in ("auto", "balanced", "sequential"):
                self._say("device-map", call, value=value)
        if self.placed:
            self._find_local_rank()
            self._find_counts()
            return
        before = len(self.remarks)
        named = "cuda:" in self.program.text
        for call in self.program.calls:
            if call.node.args and (named or call.short in _CHOOSERS):
                self._find_chosen(call)
        if len(self.remarks) == before and re.search(r"\bcuda\b|nccl", self.program.text):
            group = next(filter(_starts_group, self.program.calls), None)
            if re.search(_CHOOSES_GPU, self.program.text):
                self._find_local_rank()
            elif group:
                self._say("first-gpu", group)

    def _find_counts(self) -> None:
        """Devices and nodes that Lightning is given; it refuses others than the job's."""
        for call in self.program.calls:
            given = call.given
            cpu = getattr(given.get("accelerator"), "value", "") == "cpu"
            others = cpu or None in given or "horovod" in self.program.libraries
            if "counts" not in call.kinds or call.tests or others:
                continue
            devices = _count(given.get("devices", given.get("gpus")), self.size.processes)
            number = _count(given.get("num_nodes"), 1)
            if devices and number and devices * number != self.size.world_size:
                self._say("devices", call, devices=devices, number=number)

    def _find_chosen(self, call: Call) -> None:
        """A GPU that is the same for all processes of a node, or that a node does not have."""
        gpus = call.node.args[:1] if call.short in ("set_device", "cuda", "to", "device") else []
        gpus += getattr(call.given.get("device_ids"), "elts", [])
        values = [getattr(one, "value", "") for one in gpus]
        fixed = [f"GPU {value}" for value in values if type(value) is int]
        arguments = [*call.node.args, *call.given.values()]
        for one in list(arguments):
            arguments += [one.body, one.orelse] if isinstance(one, ast.IfExp) else []
        texts = [str(getattr(one, "value", "")) for one in arguments]
        fixed += [text for text in texts if re.fullmatch(r"cuda:\d+", text)]
        passive = ("load", "add_argument", "load_state_dict", "autocast")
        if fixed and not call.tests and call.short not in passive:
            self._say("fixed-gpu", call, gpu=fixed[0])
        elif self.size.nodes > 1 and any(_is_global(one, call.module.assigned) for one in gpus):
            self._say("global-rank", call)

    def _find_local_rank(self) -> None:
        """A group of torch's own beside an option that the older launcher passed."""
        own = any(map(_starts_group, self.program.calls))
        known = self.program.variables & {"LOCAL_RANK", "SLURM_LOCALID", "RANK"}
        if (
            not own
            or known
            or re.search(r"\.local_rank *=(?! *(=|-?\d|\w+\.local_rank))", self.program.text)
        ):
            return
        for call in self.program.calls:
            default = getattr(call.given.get("default"), "value", 0)
            option = {"--local_rank", "--local-rank"}.intersection(map(str, call.words))
            if option and call.short == "add_argument" and default is not None:
                self._say("local-rank", call)
                return

    # --- rendezvous ---

    def find_rendezvous(self) -> None:
        """A rendezvous that the program sets over the job's."""
        if self.spawns:
            return
        reads = self.program.variables
        ranks = [name for name in _AGENT_RANKS if name in reads] if self.size.agents else []
        if ranks and self.grouped and not self.placed and not reads & {"RANK", "LOCAL_RANK"}:
            module = next(one for one in self.program.modules if ranks[0] in one.text)
            line = module.text.partition(ranks[0])[0].count("\n") + 1
            self._say("slurm-rank", module, line=line, variable=ranks[0])
        computed = {one.name for one in self.program.settings if one.literal is None}
        for one in self.program.settings:
            near = one.name == "MASTER_ADDR" and self.size.nodes == 1
            of_job = one.name in _RENDEZVOUS and not (one.name in computed and "RANK" in one.name)
            if of_job and one.certain and one.literal is not None and not near:
                self._say("own-rendezvous", one, name=one.name, value=one.literal)
        for call in self.program.calls:
            if _starts_group(call) and not call.tests:
                self._find_meeting(call)

    def _find_meeting(self, call: Call) -> None:
        """What a call of init_process_group is given."""
        given = {name: getattr(node, "value", None) for name, node in call.given.items()}
        if "nccl" in (given.get("backend"), *call.words[:1]) and not self.size.gpus:
            self._say("no-gpu", call)
        for name, value in given.items():
            number = name in ("rank", "world_size") and isinstance(value, int) and value >= 0
            if number or (name == "init_method" and str(value).startswith("tcp://")):
                self._say("own-rendezvous.call", call, name=name, value=repr(value))
        rank = call.given.get("rank")
        if rank is not None and self.size.nodes > 1 and _is_local(rank, call.module.assigned):
            self._say("own-rendezvous.rank", call, value=ast.unparse(rank))


def _name_around(module: Module, line: int) -> str:
    """Return the name of the outermost function or class around a line; empty if there is none."""
    around = [one for one in module.tree.body if one.lineno <= line <= (one.end_lineno or 0)]
    return getattr(around[0], "name", "") if around else ""


def _is_text(node: ast.stmt) -> bool:
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return constant or isinstance(node, ast.Pass)


_NAMING = (
    ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Pass
)


def _acts(node: ast.stmt) -> bool:
    """Whether a statement of the program does more than to name something."""
    if isinstance(node, _NAMING) or _is_text(node):
        return False
    if isinstance(node, ast.Assign | ast.AnnAssign):
        lambdas = [one for one in ast.walk(node) if isinstance(one, ast.Lambda)]
        later = {one for inner in lambdas for one in ast.walk(inner)}
        calls = [one for one in ast.walk(node) if isinstance(one, ast.Call) and one not in later]
        return any("names" not in classify(ast.unparse(call.func)) for call in calls)
    if isinstance(node, ast.If | ast.Try):
        handlers = [one for handler in getattr(node, "handlers", ()) for one in handler.body]
        return any(map(_acts, [*node.body, *node.orelse, *handlers]))
    return True


def _find_lines(module: Module, form: str) -> Iterator[tuple[int, str]]:
    for match in re.finditer(form, module.text, re.MULTILINE):
        yield module.text.count("\n", 0, match.end()) + 1, match[1]


def _starts_group(call: Call) -> bool:
    return call.name.endswith("init_process_group")


def _is_likely(call: Call) -> bool:
    """Whether processes are started always, or for each of several GPUs."""
    tests = call.tests
    return all(
        isinstance(one, ast.Compare) and re.search(_COUNTS, ast.unparse(one)) for one in tests
    )


def _is_global(node: ast.expr, assigned: dict[str, list[ast.expr]]) -> bool:
    """Whether an expression is the rank among all processes, also by names that stand for it."""
    if isinstance(node, ast.Name):
        values = assigned.get(node.id, [])
        return bool(values) and all(_is_global(value, {}) for value in values)
    text = ast.unparse(node)
    names = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in assigned]
    inner = isinstance(node, ast.JoinedStr) and any(_is_global(one, assigned) for one in names)
    rank = re.search(r"get_rank\(\)|['\"]RANK['\"]", text)
    return inner or (rank is not None and not re.search("%|LOCAL|if", text))


def _is_local(node: ast.expr, assigned: dict[str, list[ast.expr]]) -> bool:
    """Whether an expression is the rank on its node, also by a name that stands for it alone."""
    values = assigned.get(node.id, []) if isinstance(node, ast.Name) else [node]
    texts = [ast.unparse(value) for value in values]
    return bool(texts) and all(re.search(r"['\"]LOCAL_RANK['\"]", one) for one in texts)


def _count(node: ast.expr | None, default: int) -> int:
    """Return how many devices or nodes an argument means; 0 if it is computed."""
    if isinstance(node, ast.List):
        return len(node.elts)
    text = "auto" if node is None else str(getattr(node, "value", ""))
    return default if text in ("auto", "-1") else int(text) if text.isdecimal() else 0


def _find_launcher(call: Call) -> str:
    """Return the launcher in the words of a command that a call starts; they may have a name."""
    if "starts" not in call.kinds:
        return ""
    nodes: list[ast.AST] = [call.node]
    for inner in ast.walk(call.node):
        nodes += call.module.assigned.get(inner.id, ()) if isinstance(inner, ast.Name) else ()
    constants = [one for node in nodes for one in ast.walk(node) if isinstance(one, ast.Constant)]
    match = re.search(_LAUNCHERS, " ".join(str(one.value) for one in constants))
    return match[0].strip() if match else ""
