"""What starts programs on a command line, by name: the one table of launchers and wrappers.

`spec` finds a launcher within a program's words by it, and `batchscript` reads scripts by it.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Sequence

from jobgen.records import NamedTuple


def _list_names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Start a program once for each task, node or host.
MPI_LAUNCHERS = _list_names(
    "mpirun mpiexec mpiexec.hydra mpiexec.slurm orterun prterun prun aprun ibrun hydra_pmi_proxy"
)
STEP_LAUNCHERS = MPI_LAUNCHERS | _list_names(
    "srun jsrun lrun flux pbsdsh pbs_tmrsh pdsh clush parallel-ssh"
)
# Hand a job to a scheduler, or to a cloud.
SUBMITTERS = _list_names("sbatch qsub salloc bsub jobgen kubectl sky dstack modal")
# Start the processes of their node and join them into one world: programs that always do, those
# that do with one of these words after them, and modules that Python runs.
TORCHRUN_MODULES = _list_names("torch.distributed.run torch.distributed.launch torchrun_jsc")
AGENTS = _list_names(
    "torchrun torchrun_jsc torchx deepspeed composer horovodrun torchpippy msrun paddlerun"
)
# By their name alone; others are told by the word after it.
_BY_NAME = STEP_LAUNCHERS | SUBMITTERS | AGENTS
AGENT_COMMANDS = {
    "accelerate": _list_names("launch"),
    "lightning": _list_names("run"),
    "fabric": _list_names("run"),
    "colossalai": _list_names("run"),
    "ray": _list_names("start submit job"),
    "llamafactory-cli": _list_names("train"),
    "axolotl": _list_names("train preprocess evaluate"),
    "trl": _list_names("sft dpo grpo kto reward rloo"),
    "oumi": _list_names("distributed"),
    "wandb": _list_names("agent"),
}
AGENT_MODULES = {
    "accelerate": ("accelerate", "launch"),
    "accelerate.commands.launch": ("accelerate", "launch"),
    "accelerate.commands.accelerate_cli": ("accelerate", "launch"),
    "deepspeed.launcher.runner": ("deepspeed",),
    "deepspeed.launcher.launch": ("deepspeed",),
    "composer.cli": ("composer",),
    "horovod.runner.launch": ("horovodrun",),
    "colossalai.cli": ("colossalai", "run"),
}
CONTAINERS = _list_names("singularity apptainer shifter podman-hpc enroot podman docker")
# Run the command that follows them: in a project's environment, under a profiler, as it is.
RUNNERS = _list_names("uv poetry pixi pdm rye hatch pipenv conda mamba micromamba")
PROFILERS = _list_names("nsys ncu rocprof perf strace ltrace gdb valgrind py-spy scalene catchsegv")
PREFIXES = _list_names(
    "env exec nohup time stdbuf timeout nice ionice numactl taskset setsid command sudo chrt"
    " xvfb-run likwid-pin hwloc-bind unbuffer script"
)
WRAPPERS = PREFIXES | RUNNERS | PROFILERS | CONTAINERS
SHELLS = _list_names("bash sh zsh dash ksh")
# Commands that only a shell has, or that change nothing but the shell which runs them.
SHELL_WORDS = _list_names(
    "cd source . export module ml set unset alias eval if for while exit ulimit umask trap conda"
    " mamba micromamba"
)


# Those that start a program once for each task or node, and their options that take no value.
LAUNCHER_FLAGS = {
    "srun": "--exclusive --label --unbuffered --overlap --kill-on-bad-exit --exact --verbose"
    " --quiet --pty --no-kill --overcommit --immediate --contiguous --disable-status --preserve-env"
    " --spread-job --multi-prog --propagate --use-min-nodes --slurmd-debug --no-allocate"
    " --container-mount-home --no-container-mount-home --container-writable --container-readonly"
    " --container-remap-root --no-container-remap-root --container-entrypoint"
    " --no-container-entrypoint"
    " -l -u -v -q -K -k -E -O -s -X -Q -Z -lu -ul",
    "pbsdsh": "-v -s -o",
    "mpiexec": "",
    "ssh": "-n -f -t -T -x -X -q -A -4 -6",
    "pdsh": "-S",
    "clush": "-S -b -L",
    "pbs_tmrsh": "",
    "aprun": "-q",
}
LAUNCHER_FLAGS |= dict.fromkeys(("mpirun", "mpiexec.hydra", "orterun", "prun"), "") | {"ibrun": ""}
MPI_VALUES = re.compile(
    "--?(np?|ppn|N|npernode|ntasks|hostfile|machinefile|f|hosts?|H|map-by|bind-to|rank-by|cpu-bind|depth|d"
    "|mem-bind|gpu-bind|npersocket|output-filename|timeout|prefix|rankfile|rf|iface|host-list|cc|S|j"
    "|env|x|wdir|rmk|launcher|bootstrap|mca|genv|gmca|pernode|perhost)"
)
MPI_TWO_VALUES = {"mca", "genv", "gmca"}
# Options of containers that take a value as a word of its own.
CONTAINER_VALUES = re.compile(
    r"-[BHWSovewumV]|--(bind|volume|home|workdir|scratch|overlay|pwd|cwd|env|env-file|mount|app"
    r"|fuse-mount|security|network|hostname|image|module|entrypoint|user|name|conf|device|userns"
    r"|shm-size|ipc|ulimit|gpus|label|rc)"
)
# For these -e, -u and -w are flags.
SINGULARITY_VALUES = re.compile(CONTAINER_VALUES.pattern.replace("-[BHWSovewumV]", "-[BHWSo]"))
# Run a command as it is; those with a number here take as many words of their own.
WRAPPER_WORDS = {"env": 0, "exec": 0, "nohup": 0, "time": 0, "stdbuf": 0, "timeout": 1, "nice": 0}
WRAPPER_WORDS |= {"numactl": 0, "sudo": 0, "setsid": 0, "ionice": 0, "taskset": 1, "command": 0}
WRAPPER_VALUES = {
    "numactl": re.compile("-[CNmip]|--(cpunodebind|membind|physcpubind|interleave|preferred)"),
    "timeout": re.compile("-[ks]|--signal|--kill-after"),
    "nice": re.compile("-n"),
    "time": re.compile("-[of]|--(output|format)"),
    "env": re.compile("-[uCS]"),
}
# Run a command in the environment of a project.
PROJECT_RUNNERS = {"uv", "poetry", "pipenv", "pdm"}
# Options of agents that take no value.
AGENT_FLAGS = {"--standalone", "--no-python", "--run-path", "-m", "--module", "--use-env"}
AGENT_FLAGS |= {
    "--multi-gpu",
    "--cpu",
    "--use-deepspeed",
    "--use-fsdp",
    "--quiet",
    "-q",
    "--no-ssh",
}
AGENT_FLAGS |= {"--same-network", "--debug", "--verbose", "-v", "--force", "--no-local-rank"}
AGENT_FLAGS |= {"--enable-each-rank-log", "--no-wait", "--mps", "--use-xpu", "--bf16", "--fp16"}


class LauncherOptions(NamedTuple):
    """Options of a launcher for all tasks, those of a node, nodes, and which nodes it is to take.

    Without a number for a node, one node after the other is filled if it `fills`; without a number
    of all, `default` says it, or 0 for the job's own number.
    """

    tasks: tuple[str, ...]
    each: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    fills: bool = True
    default: int = 0


_MPI = LauncherOptions(
    ("-n", "-np", "--n", "--np", "-c", "--ntasks"),
    ("-ppn", "--ppn", "-npernode", "--npernode", "-N", "-perhost", "--perhost"),
    places=(
        *("-H", "-host", "--host", "-hosts", "--hosts", "--host-list", "-f"),
        *("-hostfile", "--hostfile", "-machinefile", "--machinefile"),
    ),
)
LAUNCHER_OPTIONS = {
    "srun": LauncherOptions(
        ("-n", "--ntasks"),
        ("--ntasks-per-node",),
        ("-N", "--nodes"),
        ("-w", "--nodelist", "-r", "--relative", "-x", "--exclude", "--het-group", "--multi-prog"),
        fills=False,
    ),
    "aprun": LauncherOptions(("-n",), ("-N",), places=("-L",), default=1),
    "pbsdsh": LauncherOptions(("-c",), places=("-n", "-h", "-u")),
    "ibrun": LauncherOptions(("-n", "-np"), places=("-o",)),
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun"), _MPI),
}


class OtherAgent(NamedTuple):
    """A program other than torchrun that starts the processes of its node.

    `rank`, `address` and `port` are its options for the node's number and the first node's place.
    """

    words: tuple[str, ...]  # that it is called by
    nodes: tuple[str, ...]
    processes: tuple[str, ...]
    rank: tuple[str, ...]
    address: tuple[str, ...]
    port: tuple[str, ...]
    total: bool  # whether `processes` counts those of all nodes


# Words | nodes | processes | rank | address | port; and + if processes are those of all nodes.
_OTHER_AGENTS = """
accelerate launch | --num_machines --num-machines | --num_processes --num-processes +\
 | --machine_rank --machine-rank | --main_process_ip --main-process-ip\
 | --main_process_port --main-process-port
composer | --nnodes | -n --nproc | --node_rank | --master_addr | --master_port
deepspeed | --num_nodes | --num_gpus | --node_rank | --master_addr | --master_port
fabric run | --num-nodes --num_nodes | --devices | --node-rank --node_rank\
 | --main-address --main_address | --main-port --main_port
colossalai run | --num_nodes | --nproc_per_node | --node_rank | --master_addr | --master_port
"""


def _read_agent(row: str) -> OtherAgent:
    cells = [tuple(cell.split()) for cell in row.replace("+", "").split("|")]
    words, nodes, processes, rank, address, port = cells
    return OtherAgent(words, nodes, processes, rank, address, port, total="+" in row)


TORCHRUN_AGENT = _read_agent("torchrun | --nnodes | --nproc-per-node | --node-rank | |")
OTHER_AGENTS = tuple(map(_read_agent, _OTHER_AGENTS.strip().splitlines()))


def find_launcher(words: Sequence[str]) -> str:
    """Return the launcher that a command starts its program with, or the empty string."""
    for index, word in enumerate(words):
        name, following = os.path.basename(word), words[index + 1 :]
        if launcher := _name_launcher(name, following):
            return launcher
        if re.fullmatch(r"python[\d.]*", name):
            return _find_in_python(following)
        if name in SHELLS:
            pairs = itertools.pairwise(following)
            scripts = (script for flag, script in pairs if re.fullmatch(r"-[a-z]*c", flag))
            return find_launcher_in_text(next(scripts, ""))
        first_is_program = index == 0 and name not in WRAPPERS and not re.match(r"\w+=", word)
        if first_is_program or re.search(r"\.(py|sh)$", name):
            return ""
    return ""


def find_module_launcher(module: str) -> str:
    """Return the name of a Python module if it is a launcher, or the empty string."""
    return module if module in TORCHRUN_MODULES or module in AGENT_MODULES else ""


def find_launcher_in_text(text: str) -> str:
    """Return the launcher that a line of bash starts something with, or the empty string."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        bare = re.sub(r"(^|\s)#.*", "", line) if "#" in line else line
        for command in re.split(r"&&|\|\|?|;|\bthen\b|\bdo\b|[(){}]", bare):
            if launcher := find_launcher(split_words(command)):
                return launcher
    return ""


def name_kind(launcher: str) -> str:
    """Return what a launcher does: `submitter`, `step` (one start a task), `ray` or `agent`."""
    name = launcher.rpartition("/")[2]
    if name.startswith("ray "):
        return "ray"
    return "submitter" if name in SUBMITTERS else "step" if name in STEP_LAUNCHERS else "agent"


def split_words(text: str) -> list[str]:
    """Return the words of a command line; an open quote is taken for an ordinary character."""
    if set("'\"\\").isdisjoint(text):  # shlex takes a hundred times as long
        return text.split()
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _name_launcher(name: str, following: Sequence[str]) -> str:
    if name in _BY_NAME:
        return name
    first = next((word for word in following if not word.startswith("-")), "")
    if first in AGENT_COMMANDS.get(name, ()):
        return f"{name} {first}"
    if name == "tune" and first == "run" and any("nproc" in word for word in following):
        return "tune run"
    return ""


def _find_in_python(words: Sequence[str]) -> str:
    """Return the launcher that Python runs as a module, or as a file of a venv."""
    for index, word in enumerate(words):
        if word in ("-W", "-X"):
            continue
        if word.startswith("-m"):
            module = word[2:] or next(iter(words[index + 1 :]), "")
            known = find_module_launcher(module)
            return f"python -m {module}" if module in TORCHRUN_MODULES else known
        if not word.startswith("-"):
            return _name_launcher(os.path.basename(word), words[index + 1 :])
    return ""


def show_program(words: Sequence[str]) -> str:
    """Return the program behind a launcher as keys of `run`."""
    line = " ".join(words)
    if match := re.search(r"(?:^|\s)(\S+\.py)(?=\s|$)(.*)$", line):
        args = ", ".join(match[2].split())
        return f"script: {match[1]}" + f", args: [{args}]" * bool(args)
    modules = re.findall(r"(?<!python)\s(?:-m|--module)\s+(\S+)", line)
    programs = [f"module: {one}" for one in modules if not find_module_launcher(one)]
    return (programs or ["script: train.py"])[0]
