"""Rules on how programs start: launchers, their options, signals, and exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from jobgen.batchscript.launchers import Launcher, list_inner, unwrap
from jobgen.batchscript.lint.nodes import count_tasks
from jobgen.batchscript.lint.rule import BASH, SRUN, TRAINS, Fault, rule
from jobgen.batchscript.reader import Script

_MATTER = {"torchrun", "srun", "mpirun", "mpiexec", "pbsdsh", "accelerate", "deepspeed"}


def _list_sruns(script: Script) -> Iterator[Launcher]:
    """Each srun that starts a program of the kind that trains."""
    seen = set()
    for launch in script.launches:
        for launcher in launch.started.launchers:
            key = (launcher.word.line, launcher.word.column)
            if launcher.name == "srun" and key not in seen:
                seen.add(key)
                inner = list_inner(launch.started, launch.command)
                programs = [unwrap(item.words).name for item in inner] or [launch.started.name]
                open_ = any(option[0] == "$" for option, _ in launcher.options)
                ends = [word.text for word in launch.started.program[:2]] == ["ray", "stop"]
                if any(map(TRAINS.fullmatch, programs)) and not open_ and not ends:
                    yield launcher


def _sets(script: Script, name: str) -> bool:
    return any(name == set_ for command in script.commands for set_, _, _ in command.variables())


@rule("srun-cpus", "srun without CPUs", SRUN)
def _check_srun_cpus(script: Script) -> Iterator[Fault]:
    """srun gives a task one CPU unless told; between 22.05 and 23.02 it does not take the number
    from sbatch, and all processes share one core.

    Fix: add --cpus-per-task to srun itself
    """
    if _sets(script, "SRUN_CPUS_PER_TASK"):
        return
    for srun in _list_sruns(script):
        stated = srun.value("-c", "--cpus-per-task", "--cpus-per-gpu") or script.value(
            "--cpus-per-gpu"
        )
        asked = script.value("--cpus-per-task")
        if stated is None and asked not in (None, "1"):
            whole = script.value("--exclusive") is not None
            message = "srun is not told the CPUs of a task"
            yield Fault(srun.word.line, srun.word.column, message, whole)


@rule("srun-kill", "srun without --kill-on-bad-exit", SRUN)
def _check_srun_kill(script: Script) -> Iterator[Fault]:
    """By default the other tasks go on when one fails, and wait for it for minutes or hours.

    Fix: add --kill-on-bad-exit=1 to srun
    """
    if _sets(script, "SLURM_KILL_BAD_EXIT"):
        return
    for srun in _list_sruns(script):
        flag = srun.value("-K", "--kill-on-bad-exit")
        if flag in (None, "0") and count_tasks(script, srun)[1] != 1:
            message = "srun goes on when one of its tasks has failed"
            yield Fault(srun.word.line, srun.word.column, message)


@rule("early-expansion", "A task's own variable, expanded too early", SRUN)
def _find_early(script: Script) -> Iterator[Fault]:
    """The shell of the script expands the line before srun starts a task, so every task gets the
    first one's number.

    Fix: put the command in single quotes: srun ... bash -c '...'
    """
    pattern = re.compile(r"\$\{?(SLURM_(?:PROCID|NODEID|LOCALID))\b")
    if script.directives and script.nodes == 1 and script.request.tasks == 1:
        return
    agents = [launch.torchrun for launch in script.launches]
    under_c10d = any(agent.value("--rdzv-backend") == "c10d" for agent in agents if agent)
    for command in script.commands:
        if {"function", "heredoc"} & set(command.inside):
            continue
        launched = any(launcher.name == "srun" for launcher in unwrap(command.words).launchers)
        words = command.words if launched else tuple(word for _, word, _ in command.variables())
        for word in words:
            match = pattern.search(_INNER.sub(_hide_quoted, word.active))
            if match and not (under_c10d and "rank" in word.raw.lower()):
                message = f"${match[1]} expands here, on the first node, where it is 0"
                fix = "" if launched else "set it inside what srun starts: srun bash -c 'NAME=$...'"
                yield Fault(word.line, word.column, message, fix=fix)


_INNER = re.compile(r"\$\([^()]*(\([^()]*\)[^()]*)*\)|`[^`]*`")


def _hide_quoted(inner: re.Match[str]) -> str:
    """A command in a word, without what is in single quotes there."""
    return re.sub(r"'[^']*'", "", inner[0])


@rule("tee-status", "An exit code lost in a pipe", BASH)
def _find_tee(script: Script) -> Iterator[Fault]:
    """The exit code of a pipe is that of its last command, and tee's is 0.

    Fix: write set -o pipefail before it
    """
    if re.search(r"^[^#\n]*(\bset\s.*\bpipefail\b|\bPIPESTATUS\b)", script.text, re.MULTILINE):
        return
    commands = script.commands
    agents = {
        launch.command.line
        for launch in script.launches
        if launch.torchrun or launch.started.launchers or launch.started.name in _MATTER
    }
    for command, following in pairwise(commands):
        matters = command.name in _MATTER or command.name.startswith("python")
        matters = matters or command.line in agents
        if matters and command.end in ("|", "|&") and following.name == "tee":
            message = f"the exit code of {command.name} is lost: tee's counts"
            yield Fault(command.place.line, command.place.column, message)
