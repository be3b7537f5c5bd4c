"""What a program's words say before anything runs: launchers in them, a shell's words, a file's.

jobgen starts one program on every node and for every process. A launcher among its words would
start more of them, each for itself: worlds of their own, which end well and have trained apart.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from jobgen.spec.bind import ShellPath

# A problem of a record: key, message, what to write.
Conflict = tuple[str, str, str]

# Modules and programs that start processes of their own.
TORCHRUN_MODULES = {"torch.distributed.run", "torch.distributed.launch", "torchrun_jsc"}
AGENT_MODULES = {
    "accelerate.commands.launch": ("accelerate", "launch"),
    "accelerate.commands.accelerate_cli": ("accelerate", "launch"),
    "deepspeed.launcher.runner": ("deepspeed",),
    "deepspeed.launcher.launch": ("deepspeed",),
    "composer.cli": ("composer",),
    "horovod.runner.launch": ("horovodrun",),
    "colossalai.cli": ("colossalai", "run"),
    "accelerate": ("accelerate", "launch"),
}
_AGENTS = "torchrun torchrun_jsc torchx deepspeed composer horovodrun torchpippy msrun paddlerun"
_AGENT_COMMANDS = {
    "accelerate": ("launch",),
    "lightning": ("run",),
    "fabric": ("run",),
    "colossalai": ("run",),
    "ray": ("start", "submit", "job"),
    "llamafactory-cli": ("train",),
    "axolotl": ("train", "preprocess", "evaluate"),
    "trl": ("sft", "dpo", "grpo", "kto", "reward", "rloo"),
    "oumi": ("distributed",),
    "wandb": ("agent",),
}
_LAUNCHERS = (
    "srun mpirun mpiexec mpiexec.hydra orterun prun aprun jsrun lrun flux pbsdsh pbs_tmrsh ibrun"
    " mpiexec.slurm pdsh clush parallel-ssh prterun hydra_pmi_proxy"
)
_SUBMITTERS = "sbatch qsub salloc bsub jobgen kubectl sky dstack modal"
# What runs the command that follows it.
_WRAPPERS = (
    "env exec nohup time stdbuf timeout nice ionice numactl taskset setsid command sudo chrt uv"
    " poetry pixi pdm rye hatch pipenv conda mamba micromamba apptainer singularity docker podman"
    " podman-hpc shifter enroot nsys ncu rocprof perf strace ltrace gdb valgrind xvfb-run py-spy"
    " scalene catchsegv likwid-pin hwloc-bind unbuffer script"
)
_SHELLS = "bash sh zsh dash ksh"
_SHELL_WORDS = (
    "cd source . export module ml set unset alias eval if for while exit ulimit umask trap conda"
)
_OF_SHELL = re.compile(r"&&|\|\|?|;;?|&|[0-9]?[<>]{1,2}(&[0-9])?|2>&1")
_NOT_PYTHON = {
    ".sh": "bash",
    ".bash": "bash",
    ".zsh": "zsh",
    ".sbatch": "bash",
    ".slurm": "bash",
    ".pbs": "bash",
    ".job": "bash",
    ".jl": "julia",
    ".r": "Rscript",
    ".pl": "perl",
    ".lua": "lua",
}
# An option and its value in one word: argparse and its like know no option of this name.
_TWO_WORDS = re.compile(r"--?[A-Za-z][\w.-]*[ \t]+\S.*")
# What a shell would expand: $NAME, ${NAME}, a leading ~; and what it would run.
_TEMPLATE = re.compile(r"\{\{ *[A-Za-z_][\w.]* *\}\}")
_EXPANDABLE = re.compile(r"\$\{?[A-Za-z_]|^~(/|$)|[=:]~/")
_COMMAND_INSIDE = re.compile(r"\$\(|`")


def find_launcher(words: Sequence[str]) -> str:
    """Return the launcher that a command starts its program by, as people call it; else nothing."""
    for index, word in enumerate(words):
        name = os.path.basename(word)
        following = words[index + 1 :]
        if launcher := _name_launcher(name, following):
            return launcher
        if re.fullmatch(r"python[\d.]*", name):
            return _find_in_python(following)
        if name in _SHELLS.split():
            return _find_in_shell(following)
        if index == 0 and name not in _WRAPPERS.split() and not re.match(r"\w+=", word):
            return ""
        if re.search(r"\.(py|sh)$", name):
            return ""
    return ""


def _name_launcher(name: str, following: Sequence[str]) -> str:
    if name in f"{_AGENTS} {_LAUNCHERS} {_SUBMITTERS}".split():
        return name
    first = next((word for word in following if not word.startswith("-")), "")
    if first in _AGENT_COMMANDS.get(name, ()):
        return f"{name} {first}"
    if name == "tune" and first == "run" and any("nproc" in word for word in following):
        return "tune run"
    return ""


def _find_in_python(words: Sequence[str]) -> str:
    """Return the launcher that Python is given as a module, or as a file of a venv."""
    for index, word in enumerate(words):
        if word in ("-W", "-X"):
            continue
        if word == "-m" or (word.startswith("-m") and len(word) > 2):
            module = word[2:] or next(iter(words[index + 1 :]), "")
            if module in TORCHRUN_MODULES:
                return f"python -m {module}"
            return find_module_launcher(module)
        if not word.startswith("-"):
            return _name_launcher(os.path.basename(word), words[index + 1 :])
    return ""


def find_module_launcher(module: str) -> str:
    """Return the launcher that a Python module is; else nothing."""
    if module in TORCHRUN_MODULES:
        return module
    return module if module in AGENT_MODULES else ""


def _find_in_shell(words: Sequence[str]) -> str:
    for index, word in enumerate(words[:-1]):
        if re.fullmatch(r"-[a-z]*c", word):
            return find_launcher_in_text(words[index + 1])
    return ""


def find_launcher_in_text(text: str) -> str:
    """Return the launcher that a line of bash starts something by; else nothing."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        bare = re.sub(r"(^|\s)#.*", "", line)
        for command in re.split(r"&&|\|\|?|;|\bthen\b|\bdo\b|[(){}]", bare):
            try:
                words = shlex.split(command)
            except ValueError:
                words = command.split()
            if launcher := find_launcher(words):
                return launcher
    return ""


def show_program(words: Sequence[str]) -> str:
    """Return the program behind a launcher as keys of `run`."""
    words = [part for word in words for part in (word.split() if " " in word else [word])]
    for index, word in enumerate(words):
        if word.endswith(".py"):
            rest = words[index + 1 :]
            return f"script: {word}" + (f", args: [{', '.join(rest)}]" if rest else "")
        if word in ("-m", "--module") and index and words[index - 1 : index] != ["python"]:
            module = next(iter(words[index + 1 :]), "")
            if module and not find_module_launcher(module):
                return f"module: {module}"
    return "script: train.py"


def check_words(key: str, words: Sequence[str], *, own_launch: bool) -> Iterator[Conflict]:
    """Yield what is wrong with the words of `run.command`, or with those of its arguments.

    `own_launch` says that one process on each node is started, which may start more by itself.
    """
    if key == "command":
        yield from _check_program(words, own_launch=own_launch)
        if is_shell_command(words):
            return  # what is inside is the shell's
    for index, word in enumerate(words):
        where = f"{key}[{index}]"
        if _TWO_WORDS.fullmatch(word) and not (index and words[index - 1] in ("-c", "-e")):
            option, _, value = word.partition(" ")
            message = f"{word!r} is one word, an option and its value"
            yield where, message, f"write {option}, {value.strip()}"
        elif _OF_SHELL.fullmatch(word):
            message = f"{word!r} is of a shell, and the program would get it as a word"
            yield where, message, "write command: [bash, -c, '...']"


def _check_program(words: Sequence[str], *, own_launch: bool) -> Iterator[Conflict]:
    first = words[0] if words else ""
    launcher = find_launcher([*first.split(), *words[1:]])
    if launcher and not own_launch:
        yield "command", *tell_launcher(launcher, words)
    elif re.search(r"\s", first):
        try:
            split = ", ".join(shlex.split(first))
        except ValueError:  # a quote is open
            split = ", ".join(first.split())
        yield "command", f"{first!r} is no program, but a line", f"write command: [{split}]"
    elif re.match(r"[A-Za-z_]\w*=", first):
        name, _, value = first.partition("=")
        hint = f"write environment: {{variables: {{{name}: {value}}}}}"
        yield "command", f"{first!r} is no program, but a variable", hint
    elif first in _SHELL_WORDS.split():
        hint = "write such lines in environment.setup, or command: [bash, -c, '...']"
        yield "command", f"{first!r} is a word of the shell, and no program", hint


def tell_launcher(launcher: str, words: Sequence[str]) -> tuple[str, str]:
    """Return what is wrong with a launcher inside of the launcher, and what to write."""
    name = launcher.rpartition("/")[2]
    if name in _SUBMITTERS.split():
        message = f"{name} would submit another job from every process of this one"
        return message, "write the program that the job runs"
    program = show_program(words)
    if name in _LAUNCHERS.split():
        message = f"jobgen starts the program on every node; {name} in it would start it once more"
        program = program if any(word.endswith(".py") for word in words) else "the program alone"
        hint = f"write {program}; launch.launcher chooses between srun, pbsdsh and mpiexec"
        return message, hint
    message = f"jobgen starts torchrun on every node; {name} in it would start worlds of its own"
    direct = "launch: {mode: direct, processes_per_node: 1}"
    return message, f"write {program}; or, for {name} to start the processes, {direct}"


def check_script(script: str) -> Iterator[Conflict]:
    """Yield what is wrong with the file of `run.script`, which Python is to run."""
    words = script.split()
    suffix = os.path.splitext(script)[1].lower()
    launcher = find_launcher(words)
    if launcher:
        yield "script", *tell_launcher(launcher, words)
    elif words[:1] and re.fullmatch(r"(.*/)?python[\d.]*", words[0]) and len(words) > 1:
        file = " ".join(word for word in words[1:2])
        hint = f"write script: {file}" + (", and args" if len(words) > 2 else "")
        yield "script", f"{script!r} is a command, and no file", hint
    elif match := re.fullmatch(r"(\S+\.\w+)\s+(\S.*)", script):
        if match[1].endswith(".py") or match[2].startswith("-"):
            arguments = ", ".join(match[2].split())
            hint = f"write script: {match[1]}, args: [{arguments}]"
            yield "script", f"{script!r} holds arguments", hint
    elif suffix in _NOT_PYTHON:
        hint = f"write command: [{_NOT_PYTHON[suffix]}, {script}]"
        yield "script", f"{script!r} is no Python file", hint
    elif suffix == ".ipynb":
        hint = f"convert it: jupyter nbconvert --to script {script}"
        yield "script", f"{script!r} is a notebook, and no Python file", hint


def check_module(module: str, *, own_launch: bool) -> Iterator[Conflict]:
    """Yield what is wrong with the name of `run.module`."""
    if module.endswith(".py"):
        hint = f"write script: {module}, or module: {module[:-3]}"
        yield "module", f"{module!r} is a file, and no module", hint
    elif (launcher := find_module_launcher(module)) and not own_launch:
        yield "module", *tell_launcher(launcher, ())


def describe_unexpanded(path: str, text: str) -> Iterator[str]:
    """Yield a note on a value, taken as it is, that a shell would expand."""
    if isinstance(text, ShellPath):
        return
    if _COMMAND_INSIDE.search(text):
        yield (
            f"note: {path}: {text!r} reaches the program as it is, nothing in it runs; where it"
            " should, export it in environment.setup"
        )
    elif _TEMPLATE.search(text):
        yield (
            f"note: {path}: {text!r} reaches the program as it is, as jobgen fills in no templates;"
            " array.values gives each task a value of its own"
        )
    elif _EXPANDABLE.search(text):
        yield (
            f"note: {path}: {text!r} reaches the program as it is; where it should expand, write"
            f" {{value: {text}, expand: true}}, or export it in environment.setup"
        )


def is_shell_command(words: Sequence[str]) -> bool:
    """Whether a command's words are for a shell, to which `$` says something."""
    return bool(words) and os.path.basename(words[0]) in _SHELLS.split()
