"""What a spec needs and the script does not say: variables, PyTorch, the folder."""

from __future__ import annotations

import re

from jobgen.batchscript.bash import parse
from jobgen.batchscript.convert.directives import ARRAYS
from jobgen.batchscript.convert.draft import Draft
from jobgen.batchscript.convert.launch import ImportedJob, ImportRefusedError
from jobgen.batchscript.convert.options import MPI_LAUNCHERS
from jobgen.batchscript.convert.program import Candidate, name_program, spell
from jobgen.batchscript.convert.setup import GIVEN, Setup
from jobgen.batchscript.convert.statements import find_first_node_names
from jobgen.batchscript.expand import list_names
from jobgen.capabilities import get_capabilities

# ShellVariables that are there in every job, or come from whoever submits.
_AROUND = re.compile(
    r"IMPORTED_\w+|HOME|USER|LOGNAME|PATH|PWD|OLDPWD|SHELL|HOSTNAME|TMPDIR|LD_LIBRARY_PATH|PYTHONPATH|RANDOM"
    r"|SECONDS|UID|IFS|SLURM\w*|PBS\w*|JOBGEN_\w+|CUDA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES"
    r"|MODULEPATH|CPATH|LIBRARY_PATH|LD_PRELOAD|CONDA_\w+|BASH\w*|OMP_NUM_THREADS|SCRATCH|WORK"
    r"|NF|NR|FS|OFS"
)


# No launcher of PBS need hand it on; the setup begins in this folder.
_WORKDIR = "export PBS_O_WORKDIR=${PBS_O_WORKDIR:-$PWD}"
# Variables that Slurm sets for one way to ask for resources, and not for another.
_ASKED = re.compile(
    r"SLURM_(CPUS_PER_GPU|GPUS|GPUS_PER_\w+|GPUS_ON_NODE|NTASKS_PER_\w+|MEM_PER_\w+|TRES_\w+"
    r"|JOB_NUM_GPUS)(?<!NTASKS_PER_NODE)"
)
_TORCH_SIGNS = re.compile(
    r"torch|cuda|gpu|nccl|lightning|deepspeed|accelerate|transformers|megatron|ngpus|gres|rocm"
    r"|colossal|fairseq|xpu",
    re.IGNORECASE,
)
# Other ways to compute on GPUs, where nothing speaks of PyTorch.
_OTHERS = re.compile(
    r"tensorflow|(?<![a-z])jax(?![a-z])|horovod|keras|\bTF_|\bXLA_|\btf2?\b|\bdask|cupy|rapids|paddle|mindspore"
    r"|mxnet|chainer|theano",
    re.IGNORECASE,
)


# Files that make an environment, and read no variable of a job.
_FAMILIAR = re.compile(
    r"activate|conda|mamba|profile|rc$|module|lmod|setvars|spack|^/(etc|opt|usr)/"
)
# A binary that a script binds to its GPU, or the like.
_WRAPPED = re.compile(
    r"\S*\.sh \.{1,2}/([^.$]|\.\./)*|\S*(affinity|tile|numa|bind|gpu)\w*\.sh /[^.$]*"
)


def _check_sourced(job: ImportedJob, kept: str, defined: set[str]) -> None:
    """Name the variables of the script that a file which it reads no longer sees."""
    plain: set[str] = set()
    for step in job.script.steps:
        command = step.source
        if not command.words:
            plain |= {name for name, _, _ in command.variables()} - defined
        elif command.name in ("source", ".") and len(command.words) > 1:
            file = command.texts[1]
            names = ", ".join(sorted(name for name in plain if not GIVEN.fullmatch(name)))
            if names and file in kept and not _FAMILIAR.search(file):
                message = f"should {file} read it, export it in the script: it is not kept"
                job.draft.check(command.line, names, message)


def check_names(job: ImportedJob, setup: Setup, text: str, inside: set[str]) -> None:
    """Refuse a spec that uses a variable which the script sets and the spec does not."""
    script, draft = job.script, job.draft
    kept = draft.values.get("environment.setup", "")
    text = " ".join(
        [
            text,
            kept,
            str(draft.values.get("run.script", "")),
            str(draft.values.get("run.command", "")),
        ]
    )
    used = list_names(text)
    defined = setup.defined | inside | set(draft.values.get("environment.variables", {}))
    defined |= set(draft.values.get("environment.from_shell", ()))
    _check_sourced(job, kept, defined)
    aliases = find_first_node_names(script)
    outer = []
    for name in sorted(used - defined):
        if name in script.variables.assigned and name not in script.given:
            if GIVEN.fullmatch(name) or name in aliases:
                continue
            line = next(
                (
                    step.source.line
                    for step in script.steps
                    if name in {item for item, _, _ in step.source.variables()}
                ),
                0,
            )
            raise ImportRefusedError(
                script,
                line or 1,
                f"the program uses ${name}, whose value is known only where the script sets it",
                "write its value out",
            )
        if not _AROUND.fullmatch(name) and not GIVEN.fullmatch(name) and name not in script.given:
            outer.append(name)
    arrays = [
        name
        for name in outer
        if re.search(rf"\$\{{#?{name}\[", text) and not re.search(rf"\b{name}=\(", kept)
    ]
    if arrays:
        message = f"the program uses the array ${arrays[0]}, which another file sets"
        raise ImportRefusedError(script, 1, message, "write its values out")
    if outer:
        names = ", ".join(f"${name}" for name in outer)
        exported = re.search(r"(?m)^\s*(source|\.|eval)\s", kept)
        if exported:
            draft.setup([f"export {' '.join(outer)}"])
        draft.check(1, names, "the script does not set them: they come from where it is submitted")
    if script.scheduler == "pbs" and "PBS_O_WORKDIR" in used:
        draft.values["environment.setup"] = f"{_WORKDIR}\n{kept}"
    listed = any(left.text == "$0" for left in draft.left)
    if not listed and (re.search(r"\$\{?0\b|BASH_SOURCE", text.replace(kept, "")) or "$0" in kept):
        draft.check(1, "$0", "jobgen's script lies in another folder")
    outside = [item for item in parse(kept) if not item.function]
    own = " ".join(spell(item) for item in outside)
    bare = re.sub(r"'[^']*'", "", text.replace(kept, own))
    own_arguments = re.search(r"\$\{?[1-9@*#]", bare) if "@" in script.variables.assigned else None
    if own_arguments:
        shown = own_arguments[0].replace("{", "")
        draft.lose(1, shown, "the script sets its arguments itself: write them out")
    elif numbers := sorted(set(re.findall(r"\$[1-9]|\$\{[1-9]\b(?!:?-)", bare))):
        numbers += ["$#"] if "$#" in bare else []
        shown = ", ".join(number.replace("{", "") for number in numbers)
        draft.lose(1, shown, "arguments of sbatch or qsub: jobgen hands on none, write them out")
    elif moved := [item.name for item in outside if item.name in ("getopts", "shift")]:
        draft.lose(1, moved[0], "arguments of sbatch or qsub: jobgen hands on none")
    elif given := re.search(r"\$(\{?[@*]|\{[1-9]\b)", bare):
        message = "as if submitted without arguments: jobgen hands on none"
        draft.check(1, given[0].replace("{", ""), message)
    tasks = list_names(re.sub(r"\$\{\w+:?-[^}]*\}", "", text)) & {*ARRAYS.values()} - set(
        script.given
    )
    if tasks and not _is_array(draft):
        message = "no directive asks for an array: write one as `array`"
        draft.lose(1, f"${min(tasks)}", message)
    wrong = [
        name
        for name in ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK")
        if name in used and name not in script.given
    ]
    if wrong and draft.values.get("launch.mode") != "direct":
        draft.check(1, ", ".join(wrong), "of another value under jobgen: one task a node")
    asked = sorted(name for name in used - set(script.given) if _ASKED.fullmatch(name))
    if asked:
        message = "there only where the directives ask for it in these words"
        draft.check(1, ", ".join(asked), message)


def _is_array(draft: Draft) -> bool:
    """Whether the job of the spec is an array, by its own words or by a directive's."""
    directives = " ".join(map(str, draft.values.get("directives", ())))
    return "array.tasks" in draft.values or bool(
        re.search(r"--array|-a\b|#PBS.* -[Jt] ", directives)
    )


def check_mpi(job: ImportedJob, chosen: Candidate) -> None:
    """Say that processes of MPI do not find one another without srun's option for it."""
    values, draft = job.draft.values, job.draft
    each = values.get("launch.processes_per_node", 1)
    if values.get("launch.mode") != "plain" or each * job.nodes < 2:
        return
    for launcher in chosen.started.launchers:
        option = f"--mpi={launcher.value('--mpi')}"
        if any(left.text == option and left.line == chosen.line for left in draft.left):
            draft.left[:] = [left for left in draft.left if left.text != option]
            draft.lose(chosen.line, option, "an option of srun that is not kept: MPI may need it")


def check_torch(job: ImportedJob, chosen: Candidate) -> None:
    """Say where nothing in the script speaks of PyTorch."""
    script = job.script
    by_mpi = MPI_LAUNCHERS & {launcher.name for launcher in chosen.started.launchers}
    if by_mpi and re.search(r"mpi4py|horovod|\bhvd\b", script.text):
        if "torch" not in script.text.lower():
            shown = name_program(chosen.started.program)
            job.draft.check(chosen.line, shown, "jobgen's job ends where there is no torch")
        return
    program = chosen.started.name
    if _WRAPPED.fullmatch(" ".join(word.text for word in chosen.started.program[:2])):
        program = chosen.started.program[1].text
    text = re.sub(r"(?m)(^|\s)#(?!SBATCH|PBS|!).*$|\s#\s.*$", "", script.text)
    strong = re.search(r"torch|lightning|deepspeed|accelerate|transformers|megatron", text)
    pythonic = chosen.python or chosen.torchrun or chosen.agent or program.endswith((".sh", ".py"))
    pythonic = pythonic or program in ("bash", "sh")
    if chosen.torchrun:
        return
    if not _TORCH_SIGNS.search(text) or not pythonic:
        if not pythonic and (chosen.launched or not strong):
            raise ImportRefusedError(
                script,
                chosen.line,
                f"{name_program(chosen.started.program)!r} is not Python, as far as can be seen",
                "jobgen starts PyTorch programs",
            )
        ask_for_no_torch(job)
    if by_mpi and not strong:
        ask_for_no_torch(job)
    if _OTHERS.search(text) and "torch" not in text.lower():
        ask_for_no_torch(job)


def ask_for_no_torch(job: ImportedJob) -> None:
    """Start the same processes on nodes whose Python need not have PyTorch."""
    values = job.draft.values
    if values.get("launch.mode") == "direct":
        each = values.get("launch.processes_per_node") or max(1, job.gpus)
        job.draft.put("launch.processes_per_node", each if each != 1 else None)
        if each == 1:
            values.pop("launch.processes_per_node", None)
    job.draft.put("launch.mode", "plain")


def check_folder(job: ImportedJob, chosen: Candidate) -> None:
    """Say that PBS starts a script in the home folder, where it does not leave it."""
    script = job.script
    starts_at_home = get_capabilities(script.scheduler or "slurm").starts_at_home
    if not starts_at_home or re.search(
        r"-d\s|wd\b|sandbox", str(job.draft.values.get("directives"))
    ):
        return
    goes = any(
        step.command.name in ("cd", "pushd")
        and step.source.line < chosen.line
        and (not step.command.words[1:] or re.match(r"[/$~\"']", step.command.words[1].raw))
        for step in script.steps
    )
    if not goes:
        program = name_program(chosen.started.program)
        message = "PBS starts the script in the home folder; the spec's job, where it is submitted"
        job.draft.check(chosen.line, program, message)
