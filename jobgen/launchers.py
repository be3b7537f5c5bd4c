"""What starts what on a command line: srun, pbsdsh, mpiexec, containers, torchrun, Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.shell import Command, Word, parse

# Those that start a program once for each task or node, and their options that take no value.
_FLAGS = {
    "srun": "--exclusive --label --unbuffered --overlap --kill-on-bad-exit --exact --verbose"
    " --quiet --pty --no-kill --overcommit --immediate --contiguous --disable-status --preserve-env"
    " --spread-job --multi-prog --propagate --use-min-nodes --slurmd-debug --no-allocate"
    " -l -u -v -q -K -k -E -O -s -X -Q -Z -lu -ul",
    "pbsdsh": "-v -s -o",
    "mpiexec": "",
    "ssh": "-n -f -t -T -x -X -q -A -4 -6",
    "pdsh": "-S",
    "clush": "-S -b -L",
    "pbs_tmrsh": "",
    "aprun": "-q",
}
_FLAGS |= dict.fromkeys(("mpirun", "mpiexec.hydra", "orterun", "prun"), "") | {"ibrun": ""}
_MPI_VALUES = re.compile(
    "--?(np?|ppn|N|npernode|hostfile|machinefile|f|hosts?|H|map-by|bind-to|rank-by|cpu-bind|depth|d"
    "|env|x|wdir|rmk|launcher|bootstrap|mca|genv|gmca|pernode|perhost)"
)
_TWO_VALUES = {"mca", "genv", "gmca"}
CONTAINERS = {"singularity", "apptainer", "shifter", "podman-hpc", "enroot"}
_WRAPPERS = {"env", "exec", "nohup", "time", "stdbuf", "numactl", "timeout", "nice"}
_TORCH_MODULES = {"torch.distributed.run", "torch.distributed.launch", "torchrun_jsc"}
_TORCH_FLAGS = {"--standalone", "--no-python", "--run-path", "-m", "--module"}


class Launcher(NamedTuple):
    """One launcher, with its own options as `--option value` pairs; flags have an empty value."""

    name: str
    options: tuple[tuple[str, str], ...]
    word: Word

    def value(self, *names: str) -> str | None:
        """What one of these options says; None where none is given."""
        return next((value for option, value in self.options if option in names), None)


class Started(NamedTuple):
    """A command taken apart: who starts it where, in which container, and what it is."""

    launchers: tuple[Launcher, ...]
    wrapper: tuple[Word, ...]  # a container's own words, before the program
    program: tuple[Word, ...]

    @property
    def name(self) -> str:
        """The program's name, without its folder."""
        return self.program[0].text.rpartition("/")[2] if self.program else ""


class Torchrun(NamedTuple):
    """A torchrun agent: its options by name, with `-` for `_`, and what it runs."""

    options: dict[str, Word | None]
    module: bool
    plain: bool  # --no-python
    program: tuple[Word, ...]

    def value(self, *names: str) -> str | None:
        """What one of these options says, quotes undone; None where none is given."""
        for name in names:
            word = self.options.get(name)
            if word is not None:
                return word.text
        return None


def unwrap(words: tuple[Word, ...]) -> Started:
    """Take the launchers off a command, outermost first, down to the program."""
    launchers: list[Launcher] = []
    wrapper: tuple[Word, ...] = ()
    while words:
        name = words[0].text.rpartition("/")[2]
        if name in _FLAGS:
            launcher, words = _launcher(name, words)
            launchers.append(launcher)
            if name in ("ssh", "pbs_tmrsh"):
                words = words[1:]
        elif name in _WRAPPERS:
            count = 1
            while count < len(words) and (
                words[count].text.startswith("-") or "=" in words[count].text
            ):
                count += 1
            words = words[count + (name == "timeout") :]
        elif name in CONTAINERS and not wrapper:
            inner = next((i for i, word in enumerate(words) if _is_program(word) and i), 0)
            if not inner:
                return Started(tuple(launchers), (), words)
            wrapper, words = words[:inner], words[inner:]
        else:
            break
    return Started(tuple(launchers), wrapper, words)


def _is_program(word: Word) -> bool:
    name = word.text.rpartition("/")[2]
    return name in ("bash", "sh", "torchrun", "accelerate") or name.startswith("python")


def _launcher(name: str, words: tuple[Word, ...]) -> tuple[Launcher, tuple[Word, ...]]:
    flags, options, index = set(_FLAGS[name].split()), [], 1
    mpi = _FLAGS[name] == "" and name != "pbs_tmrsh"
    while index < len(words) and _is_option(words, index):
        text = words[index].text
        index += 1
        if text[0] == "$":
            continue
        if text == "--":
            break
        option, equals, value = text.partition("=")
        if not equals and not mpi and text[1] != "-" and len(text) > 2 and text not in flags:
            option, value = text[:2], text[2:]
        elif not equals and (_MPI_VALUES.fullmatch(text) if mpi else text not in flags):
            two = mpi and text.lstrip("-") in _TWO_VALUES
            value = " ".join(word.text for word in words[index : index + 1 + two])
            index += 1 + two
        options.append((option, value))
    return Launcher(name, tuple(options), words[0]), words[index:]


def _is_option(words: tuple[Word, ...], index: int) -> bool:
    """Whether a word is an option, or a variable that stands where options do."""
    if re.fullmatch(r"\$\w+|\$\{\w+(\[@\])?\}", words[index].text):
        return index + 1 < len(words)
    return len(words[index].text) > 1 and words[index].text[0] == "-"


def torchrun(program: tuple[Word, ...]) -> Torchrun | None:
    """What a torchrun command says; None where the program is another."""
    texts = [word.text for word in program]
    start = 0
    if texts and texts[0].rpartition("/")[2] == "torchrun":
        start = 1
    elif texts and texts[0].rpartition("/")[2].startswith(("python", "$")):
        for index, text in enumerate(texts[:-1]):
            if text == "-m" and texts[index + 1] in _TORCH_MODULES:
                start = index + 2
            if start or not (text.startswith("-") or not index):
                break
    if not start:
        return None
    options: dict[str, Word | None] = {}
    index = start
    while index < len(program) and _is_option(program, index):
        word = program[index]
        option, equals, _ = word.text.partition("=")
        index += 1
        if option.startswith("--"):
            option = option.replace("_", "-")
        if equals:
            raw = word.raw.partition("=")[2]
            options[option] = Word(raw, word.line, word.column + len(word.raw) - len(raw))
        elif option in _TORCH_FLAGS or option[0] == "$":
            options[option] = None
        else:
            options[option] = program[index] if index < len(program) else None
            index += 1
    module = bool({"-m", "--module"} & options.keys())
    return Torchrun(options, module, "--no-python" in options, program[index:])


def nested(command: Command) -> Iterator[tuple[Started, Command]]:
    """A command taken apart, then those inside its `bash -c '...'` or here-document.

    Each comes with the command that its words are of; launchers around it are among its own.
    """
    started = unwrap(command.words)
    yield started, command
    texts = [word.text for word in started.program]
    inner: list[Command] = []
    if started.name in ("bash", "sh") and len(texts) > 2:
        flags = [i for i, text in enumerate(texts[:-1]) if text[:1] == "-" and text[-1:] == "c"]
        if flags:
            word = started.program[flags[0] + 1]
            inside = (*command.inside, "string")
            inner += parse(word.text, line=word.line, column=word.column + 1, inside=inside)
    if started.name in ("bash", "sh", "cat", "tee"):
        for doc in command.heredocs:
            inner += parse(doc.body, line=doc.line, inside=(*command.inside, "heredoc"))
    for child in inner:
        within = unwrap(child.words)
        yield within._replace(launchers=started.launchers + within.launchers), child
