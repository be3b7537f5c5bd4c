"""What a look into a training program finds, before the queue finds it.

A warning is certain from the files at hand; a note is likely. `# jobgen: ignore[rule]` in the line
silences one.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator

from jobgen.programs.reader import Call, Module, ReadProgram, read_program
from jobgen.records import NamedTuple


class JobSize(NamedTuple):
    """How the job starts the program."""

    nodes: int
    processes: int  # on the node that has most
    world_size: int
    agents: bool = True  # whether torchrun's start the processes

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
        place: dict[str, str | int] = {"file": self.path, "line": self.line, "column": 1}
        return place | {
            "level": level,
            "rule": self.rule,
            "message": self.message,
            "fix": self.hint,
        }

    def __str__(self) -> str:
        level = "warning" if self.certain else "note"
        return f"{self.path}:{self.line}: {level}: {self.message}; {self.hint} [{self.rule}]"


# Calls that make the process group, or have a library make it; by their full names.
_MAKERS = re.compile(
    r"torch\.distributed\.(init_process_group|(device_mesh\.)?init_device_mesh|rpc\.init_rpc)"
    r"|accelerate\.(.+\.)?(Accelerator|PartialState|AcceleratorState)"
    r"|transformers\.(.+\.)?\w*(Trainer|TrainingArguments)"
    r"|trl\.(.+\.)?\w*(Trainer|Config)"
    r"|sentence_transformers\.(.+\.)?\w*Trainer(Arguments|ingArguments)?"
    r"|(lightning|pytorch_lightning|lightning_fabric)\.(.+\.)?(Trainer|Fabric|LightningCLI)(\..+)?"
    r"|deepspeed\.(init_distributed|initialize|comm\.init_distributed)"
    r"|ignite\.distributed\..+|composer\.(.+\.)?Trainer|(jobgen\.)?loop\.join"
    r"|(colossalai|torch_xla)\..+|horovod\..+\.init|hvd\.init|ray\..+Trainer|ray\.train\..+|mpi4py\..+"
    r"|jax\.distributed\.initialize|tensorflow\.distribute\..+|.*\.distribute\.\w+Strategy"
    r"|.*[._](init|initialize|setup|launch|prepare)_?"
    r"(ddp|dist|distrib\w*|process_group|torch_distributed|megatron|parallel|data_parallel)\w*"
    r"|.*\.(ddp|dist|distributed)_(init|setup)\w*"
)
_SPAWNERS = re.compile(
    r"torch\.multiprocessing\.(spawn|start_processes)|.*notebook_launcher|.*\.elastic_launch"
    r"|torch_xla\..+\.spawn|detectron2\.engine\.(launch\.)?launch"
)
_SUBMITTERS = re.compile(r"submitit\.(\w+\.)*\w*Executor|dask_jobqueue\.\w+Cluster")
# What a program counts before it starts one process for each.
_COUNTS = re.compile(r"gpu|device_count|world_size|nprocs|n_?procs", re.I)
_STARTERS = re.compile(r"os\.(system|popen|execv\w*)|subprocess\.\w+")
_LAUNCHERS = re.compile(
    r"\b(torchrun|torch\.distributed\.(run|launch)|accelerate launch|deepspeed|sbatch|qsub)\b"
)
_RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK")
# Who reads one of these and trains nothing divides the work by itself.
_OWN_PART = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}
_IGNORE = re.compile(r"#\s*jobgen:\s*ignore\[([a-z, -]+)\]")


def check_program(path: str, size: JobSize) -> list[Remark]:
    """Return what a look into a program finds, in the order of files and lines.

    A file that cannot be read is one remark. Only Python is read.
    """
    if os.path.isdir(path):
        message, hint = "is a folder", "name the file in it that is to run"
        return [Remark(path, 1, "not-a-program", message, hint, True)]
    try:
        program = read_program(path)
    except SyntaxError as error:
        message = f"Python cannot read it: {error.msg}"
        return [Remark(path, error.lineno or 1, "syntax", message, "correct it", True)]
    except (OSError, ValueError):
        return []
    remarks = [*_find_form(program), *_find_missing(program)]
    if size.world_size > 1 and not remarks:
        for rule in (_find_groups, _find_launches, _find_devices, _find_rendezvous):
            remarks += rule(program, size)
    texts = {module.path: module.text.splitlines() for module in program.modules}
    kept = [one for one in dict.fromkeys(remarks) if not _is_ignored(one, texts.get(one.path, []))]
    return sorted(kept, key=lambda one: (one.path != path, one.path, one.line))


def _is_ignored(remark: Remark, lines: list[str]) -> bool:
    if not 0 < remark.line <= len(lines):
        return False
    match = _IGNORE.search(lines[remark.line - 1])
    return match is not None and remark.rule in re.split(r"[, ]+", match[1])


def _find_form(program: ReadProgram) -> Iterator[Remark]:
    """A file that does nothing when it is started."""
    entry = program.entry
    if not any(not _is_text(node) for node in entry.tree.body):
        yield Remark(entry.path, 1, "empty", "there is nothing in it to run", "name another", True)
        return
    first = entry.text.partition("\n")[0]
    if first.startswith("#!") and first.endswith("\r"):
        message = (
            "its lines end with CR and LF, so its first line names a program that is not there"
        )
        yield Remark(entry.path, 1, "line-ends", message, f"dos2unix {entry.path}", False)
    body = [node for node in entry.tree.body if not _is_text(node)]
    # What a file of imports alone starts is in what it imports.
    if any(map(_acts, body)) or all(isinstance(node, ast.Import | ast.ImportFrom) for node in body):
        return
    functions = [node for node in entry.tree.body if isinstance(node, ast.FunctionDef)]
    for main in functions:
        if re.fullmatch(r"main\w*|train|run", main.name):
            message = f"nothing calls {main.name}(), so the program ends at once"
            hint = f"call {main.name}() at its end"
            yield Remark(entry.path, main.lineno, "main-not-called", message, hint, True)
            return
    message = "it only defines names, so it ends at once"
    yield Remark(entry.path, 1, "empty", message, "name the program that uses them", True)


# Calls that a module makes for its names alone.
_NAMING = re.compile(r"(.*\.)?(get\w*|TypeVar|namedtuple|compile|Path|join|partial|set|dict)")
_PASSIVE = (
    ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Pass
)


def _acts(node: ast.stmt) -> bool:
    """Whether a statement of the program does more than to name something."""
    if isinstance(node, _PASSIVE) or _is_text(node):
        return False
    if isinstance(node, ast.Assign | ast.AnnAssign):
        later = {
            one for inner in ast.walk(node) if type(inner) is ast.Lambda for one in ast.walk(inner)
        }
        calls = [one for one in ast.walk(node) if isinstance(one, ast.Call) and one not in later]
        return any(not _NAMING.fullmatch(ast.unparse(call.func)) for call in calls)
    if isinstance(node, ast.If | ast.Try):
        handlers = [one for handler in getattr(node, "handlers", ()) for one in handler.body]
        return any(map(_acts, [*node.body, *node.orelse, *handlers]))
    return True


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _find_missing(program: ReadProgram) -> Iterator[Remark]:
    for path, one in program.missing:
        message = f"the module {one.module} of this project is not there"
        yield Remark(path, one.line, "module-missing", message, "add it, or correct its name", True)


def _makes_group(program: ReadProgram) -> bool:
    return any(_MAKERS.fullmatch(call.name) for _, call in program.calls)


def _find_groups(program: ReadProgram, size: JobSize) -> Iterator[Remark]:
    """Programs whose processes never meet: each trains alone."""
    if _makes_group(program) or _spawns(program):
        return
    strange = sorted(
        name for name in program.libraries - _read_plain_libraries() - sys.stdlib_module_names
    )
    variables = {name for module in program.modules for name in module.variables}
    trains = any(call.name.endswith((".backward", ".step")) for _, call in program.calls)
    if not trains and (strange or program.partial or variables & _OWN_PART):
        return
    alone = (
        f"each of the job's {size.world_size} processes runs the whole program alone, and all"
        " write the same files"
    )
    hint = (
        "call torch.distributed.init_process_group() and wrap the model in"
        " DistributedDataParallel, or ask for one process"
    )
    if strange:
        libraries = ", ".join(strange[:3])
        message = f"no process group is visible; unless {libraries} makes one, {alone}"
    else:
        message = f"it makes no process group, so {alone}"
    certain = not strange and not program.partial
    yield Remark(program.entry.path, 1, "no-process-group", message, hint, certain)


def _read_plain_libraries() -> set[str]:
    with open(os.path.join(os.path.dirname(__file__), "plain_libraries.txt")) as lines:
        return {line.strip() for line in lines if not line.startswith("#")}


def _spawns(program: ReadProgram) -> bool:
    return any(_SPAWNERS.fullmatch(call.name) for _, call in program.calls)


def _find_launches(program: ReadProgram, size: JobSize) -> Iterator[Remark]:
    """Processes and GPUs that the program takes by itself, under a launcher that did so already."""
    grouped = _makes_group(program)
    for module, call in program.calls:
        short = call.name.rpartition(".")[2]
        if _SUBMITTERS.fullmatch(call.name):
            message = "it submits jobs, and jobgen starts it in every process"
            hint = "name the program that these jobs run in job.yaml"
            yield Remark(module.path, call.line, "own-launcher", message, hint, True)
        elif _SPAWNERS.fullmatch(call.name) and _is_likely(call):
            message = (
                f"{short}() starts its own processes in each of the {size.world_size} that"
                " the job starts"
            )
            hint = "leave that to jobgen: call the function once, with rank and world size from"
            hint += " RANK, LOCAL_RANK and WORLD_SIZE"
            certain = not call.conditional
            yield Remark(module.path, call.line, "own-processes", message, hint, certain)
        elif (
            short == "DataParallel"
            and "Fully" not in call.name
            and not (call.conditional and grouped)
        ):
            message = (
                f"DataParallel drives all GPUs of a node from each of its {size.processes}"
                " processes"
            )
            hint = "use DistributedDataParallel, or ask for processes_per_node: 1"
            if size.processes > 1 and call.name.startswith(("torch.nn", "nn.", "DataParallel")):
                yield Remark(module.path, call.line, "data-parallel", message, hint, grouped)
        elif _STARTERS.fullmatch(call.name) and (launcher := _find_launcher(call.node)):
            message = f"it starts {launcher}, and jobgen starts it in every process"
            hint = "name the program that it starts in job.yaml"
            yield Remark(
                module.path, call.line, "own-launcher", message, hint, not call.conditional
            )


def _is_likely(call: Call) -> bool:
    """Whether processes are started always, or for each of several GPUs."""
    compared = [test for test in call.tests if isinstance(test, ast.Compare)]
    return len(compared) == len(call.tests) and all(
        _COUNTS.search(ast.unparse(test)) for test in compared
    )


def _find_launcher(node: ast.Call) -> str:
    words = " ".join(
        inner.value
        for inner in ast.walk(node)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    )
    match = _LAUNCHERS.search(words)
    return match[0] if match else ""


def _find_devices(program: ReadProgram, size: JobSize) -> Iterator[Remark]:
    """GPUs that are chosen by something other than the launcher."""
    if size.processes == 1 or _spawns(program):
        return
    for module in program.modules:
        yield from _find_visible_devices(module, size)
    if not _makes_group(program):
        return  # one cause is enough
    for module, call in program.calls:
        yield from _find_device_map(module, call)
    if _placed_by_library(program):
        yield from _find_local_rank(program)
        return
    fixed = [one for module, call in program.calls for one in _find_fixed_device(module, call)]
    yield from fixed
    if not fixed:
        yield from _find_first_gpu(program, size)


def _find_visible_devices(module: Module, size: JobSize) -> Iterator[Remark]:
    for setting in module.settings:
        literal = setting.literal
        if setting.name != "CUDA_VISIBLE_DEVICES" or setting.default or literal is None:
            continue
        count = len([part for part in literal.split(",") if part.strip()])
        if count < size.processes and literal not in ("", "-1"):  # which ask for the CPU
            message = f"it shows {count} GPUs to each of the node's {size.processes} processes"
            hint = "leave CUDA_VISIBLE_DEVICES to the scheduler"
            certain = not setting.conditional
            yield Remark(module.path, setting.line, "visible-devices", message, hint, certain)


def _find_device_map(module: Module, call: Call) -> Iterator[Remark]:
    for keyword in call.node.keywords:
        value = keyword.value
        if (
            keyword.arg == "device_map"
            and isinstance(value, ast.Constant)
            and value.value in ("auto", "balanced", "sequential")
        ):
            message = f"device_map={value.value!r} spreads the model over all GPUs in every process"
            hint = 'write device_map={"": int(os.environ["LOCAL_RANK"])}, or leave it out'
            yield Remark(module.path, call.line, "device-map", message, hint, not call.conditional)


# Libraries that put each process on its GPU.
_PLACING = re.compile(
    r"(accelerate|transformers|trl|sentence_transformers|lightning\w*|pytorch_lightning|deepspeed"
    r"|composer|loop|jobgen|ray|ignite)\..+"
)


def _placed_by_library(program: ReadProgram) -> bool:
    makers = [call.name for _, call in program.calls if _MAKERS.fullmatch(call.name)]
    return any(map(_PLACING.match, makers))


def _find_fixed_device(module: Module, call: Call) -> Iterator[Remark]:
    short = call.name.rpartition(".")[2]
    if call.conditional or short in ("load", "add_argument", "load_state_dict", "autocast"):
        return
    numbers = [node.value for node in call.node.args[:1] if isinstance(node, ast.Constant)]
    words = [
        node.value
        for argument in (*call.node.args, *(one.value for one in call.node.keywords))
        for node in (
            argument,
            *([argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else ()),
        )
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    fixed = next((word for word in words if re.fullmatch(r"cuda:\d+", word)), "")
    if short in ("set_device", "cuda") and numbers and isinstance(numbers[0], int):
        fixed = f"{short}({numbers[0]})"
    if fixed:
        message = f"{fixed} is the same GPU for every process of a node"
        hint = 'take the GPU from int(os.environ["LOCAL_RANK"])'
        yield Remark(module.path, call.line, "fixed-gpu", message, hint, False)


def _find_local_rank(program: ReadProgram) -> Iterator[Remark]:
    """A group of torch's own beside an option that the older launcher passed."""
    arguments = [
        (module, call)
        for module, call in program.calls
        if call.name.endswith("add_argument")
        and any(
            isinstance(node, ast.Constant) and node.value in ("--local_rank", "--local-rank")
            for node in call.node.args
        )
        and not any(
            one.arg == "default" and isinstance(one.value, ast.Constant) and one.value.value is None
            for one in call.node.keywords
        )
    ]
    makes = any(call.name == "torch.distributed.init_process_group" for _, call in program.calls)
    reads = {name for module in program.modules for name in module.variables}
    if arguments and makes and not reads & {"LOCAL_RANK", "SLURM_LOCALID", "RANK"}:
        module, call = arguments[0]
        message = "torchrun passes no --local_rank, and LOCAL_RANK is not read"
        hint = 'take its default from int(os.environ["LOCAL_RANK"])'
        yield Remark(module.path, call.line, "local-rank", message, hint, False)


def _find_first_gpu(program: ReadProgram, size: JobSize) -> Iterator[Remark]:
    """A group of torch's own whose processes all take the first GPU: none of them chooses."""
    text = "\n".join(module.text for module in program.modules)
    if not re.search(r"\bcuda\b|nccl", text):
        return
    if re.search(
        r"local_?rank|set_device|device_ids|gpu_id|device_count\(\)|cuda:\{|\.gpu\b", text, re.I
    ):
        yield from _find_local_rank(program)
        return
    line = next(
        (call for _, call in program.calls if call.name.endswith("init_process_group")), None
    )
    message = f"nothing chooses a GPU, so all {size.processes} processes of a node use the first"
    hint = 'call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) first'
    yield Remark(program.entry.path, line.line if line else 1, "first-gpu", message, hint, False)


def _find_rendezvous(program: ReadProgram, size: JobSize) -> Iterator[Remark]:
    """A rendezvous that the program sets over the job's."""
    if _spawns(program):
        return
    reads = {name for module in program.modules for name in module.variables}
    own = _makes_group(program) and not _placed_by_library(program)
    if size.agents and own and "SLURM_PROCID" in reads and not reads & {"RANK", "LOCAL_RANK"}:
        module = next(one for one in program.modules if "SLURM_PROCID" in one.variables)
        line = module.text.partition("SLURM_PROCID")[0].count("\n") + 1
        message = "SLURM_PROCID is the number of the node's agent, not of the process"
        hint = "take the rank from RANK and LOCAL_RANK, or write launch: {mode: direct}"
        yield Remark(module.path, line, "slurm-rank", message, hint, False)
    hint = "leave it to jobgen, which sets it for every process"
    for module in program.modules:
        for setting in module.settings:
            literal = setting.literal
            if setting.name not in _RENDEZVOUS or setting.default or setting.conditional:
                continue
            if literal is None or (setting.name == "MASTER_ADDR" and size.nodes == 1):
                continue
            message = f"it sets {setting.name} to {literal}, over what the job has set"
            yield Remark(module.path, setting.line, "own-rendezvous", message, hint, True)
    for module, call in program.calls:
        if not call.name.endswith("init_process_group") or call.conditional:
            continue
        for keyword in call.node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            own_address = keyword.arg == "init_method" and str(value).startswith("tcp://")
            if own_address or (
                keyword.arg in ("rank", "world_size") and isinstance(value, int) and value >= 0
            ):
                message = f"{keyword.arg}={value!r} is the same in every process"
                yield Remark(module.path, call.line, "own-rendezvous", message, hint, True)
