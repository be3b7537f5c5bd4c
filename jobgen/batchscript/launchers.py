"""What starts what on a command line: srun, pbsdsh, mpiexec, containers, torchrun, Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jobgen.batchscript.bash import Command, Word, parse
from jobgen.batchscript.expand import PlainVariables, expand_command, follow
from jobgen.records import NamedTuple
from jobgen.spec.launchers import load_launchers, read_names

_TABLE = load_launchers()
_WRAPPER_VALUES = {name: re.compile(form) for name, form in _TABLE["wrapper_values"].items()}
_MPI_VALUES = re.compile(_TABLE["mpi_values"])
_SINGULARITY_VALUES = re.compile(_TABLE["container_values"])
_CONTAINER_VALUES = re.compile(f"{_TABLE['container_values']}|{_TABLE['other_container_values']}")


class LauncherOptions(NamedTuple):
    """A row of `launcher_options` in the table."""

    tasks: tuple[str, ...]
    each: tuple[str, ...]
    nodes: tuple[str, ...]
    places: tuple[str, ...]
    fills: bool
    one: bool


class OtherAgent(NamedTuple):
    """A row of `agent_options` in the table, and the words that call the agent."""

    words: tuple[str, ...]
    nodes: tuple[str, ...]
    processes: tuple[str, ...]
    rank: tuple[str, ...]
    address: tuple[str, ...]
    port: tuple[str, ...]
    total: bool


def _split(row: dict[str, str], fields: tuple[str, ...]) -> Iterator[Any]:
    return (tuple(row.get(key, "").split()) for key in fields)


LAUNCHER_OPTIONS = {
    name: LauncherOptions._make(
        (*_split(row, ("tasks", "each", "nodes", "places")), "spreads" not in row, "one" in row)
    )
    for names, row in _TABLE["launcher_options"].items()
    for name in names.split()
}
TORCHRUN_AGENT, *OTHER_AGENTS = (
    OtherAgent._make((tuple(words.split()), *_split(row, OtherAgent._fields[1:6]), "total" in row))
    for words, row in _TABLE["agent_options"].items()
)


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
    assignments: tuple[Word, ...] = ()  # what env adds to the environment
    wrappers: tuple[str, ...] = ()  # other commands that run it, such as numactl
    runner: tuple[Word, ...] = ()  # `uv run` and its like, with their options

    @property
    def name(self) -> str:
        """The program's name, without its folder."""
        return self.program[0].text.rpartition("/")[2] if self.program else ""

    @property
    def is_agent(self) -> bool:
        """Whether it starts the processes of its node, as torchrun does."""
        return bool(read_torchrun(self.program) or find_agent(self.program))


class Torchrun(NamedTuple):
    """A torchrun agent: its options by name, with `-` for `_`, and what it runs."""

    options: dict[str, Word | None]
    module: bool
    program: tuple[Word, ...]
    passes_rank: bool = False  # as --local-rank, which torch.distributed.launch does

    def value(self, name: str) -> str | None:
        """What an option says, quotes undone; None where it is not given."""
        word = self.options.get(name)
        return word.text if word else None


# A prefix of a program that is nothing unless somebody sets it.
_OPTIONAL = re.compile(r"\$\{\w+:?-\}", re.ASCII)


def unwrap(words: tuple[Word, ...]) -> Started:
    """Take the launchers off a command, outermost first, down to the program."""
    launchers: list[Launcher] = []
    wrapper: tuple[Word, ...] = ()
    assignments: list[Word] = []
    wrappers: list[str] = []
    runner: tuple[Word, ...] = ()
    while words:
        name = words[0].text.rpartition("/")[2]
        if name in _TABLE["launcher_flags"]:
            launcher, words = _take_launcher(name, words)
            launchers.append(launcher)
            if name in ("ssh", "pbs_tmrsh"):
                words = words[1:]
        elif name in _TABLE["wrapper_words"] and len(words) > 1:
            count, values = 1, _WRAPPER_VALUES.get(name)
            while count < len(words) and (
                words[count].text.startswith("-")
                or (name == "env" and re.match(r"\w+=", words[count].text))
            ):
                if "=" in words[count].text and words[count].text[0] != "-":
                    assignments.append(words[count])
                count += 2 if values and values.fullmatch(words[count].text) else 1
            wrappers.append(name)
            words = words[count + int(_TABLE["wrapper_words"][name]) :]
        elif _OPTIONAL.fullmatch(words[0].raw) and len(words) > 1:
            wrappers.append(words[0].raw)
            words = words[1:]
        elif not runner and (count := _count_runner(words)):
            runner, words = words[:count], words[count:]
            if words and words[0].text == "--":
                words = words[1:]
            if words and (words[0].text == "-m" or words[0].text.endswith(".py")):
                words = (Word("python3", words[0].line, words[0].column), *words)
        elif _runs_agent(words):
            folder = words[0].text.rpartition("/")[0]
            agent = words[1]
            if folder and "/" not in agent.text:
                agent = Word(f"{folder}/{agent.raw}", agent.line, agent.column)
            words = (agent, *words[2:])
        elif name in read_names("containers") and not wrapper:
            inner = _skip_container(name, words)
            wrapper, words = words[:inner], words[inner:]
        else:
            break
    return Started(tuple(launchers), wrapper, words, tuple(assignments), tuple(wrappers), runner)


def _count_runner(words: tuple[Word, ...]) -> int:
    """How many words are those of `uv run` or its like; 0 where options stand among them."""
    texts = [word.text for word in words[:3]]
    runs = texts[0].rpartition("/")[2] in read_names("project_runners") and texts[1:2] == ["run"]
    plain = texts[2:] and (texts[2][:1] != "-" or texts[2] in ("--", "-m"))
    return 2 if runs and plain else 0


def _runs_agent(words: tuple[Word, ...]) -> bool:
    """Whether it is Python with the file of an agent, as `python $(which torchrun)`."""
    names = [word.text.rpartition("/")[2] for word in words[:2]]
    agents = ("torchrun", "accelerate", "deepspeed", "composer")
    return len(words) > 2 and names[0].startswith("python") and names[1] in agents


def _skip_container(name: str, words: tuple[Word, ...]) -> int:
    """How many words are the container's: its command, options and image."""
    index, values = 1, _CONTAINER_VALUES
    values = _SINGULARITY_VALUES if name in ("singularity", "apptainer") else values
    if name != "shifter":
        while index < len(words) and words[index].text.startswith("-"):
            index += 1
        index += index < len(words)  # exec, run, start
    while index < len(words) and words[index].text.startswith("-"):
        index += 2 if values.fullmatch(words[index].text) else 1
    return min(len(words), index + (name != "shifter"))


def _take_launcher(name: str, words: tuple[Word, ...]) -> tuple[Launcher, tuple[Word, ...]]:
    flags, options, index = _TABLE["launcher_flags"][name].split(), [], 1
    mpi = not flags and name != "pbs_tmrsh"
    while index < len(words) and _is_option(words, index):
        text = words[index].text
        index += 1
        if text[0] == "$":
            options.append((text, ""))
            continue
        if text == "--":
            break
        option, equals, value = text.partition("=")
        if not equals and not mpi and text[1] != "-" and len(text) > 2 and text not in flags:
            option, value = text[:2], text[2:]
        elif not equals and (_MPI_VALUES.fullmatch(text) if mpi else text not in flags):
            two = mpi and text.lstrip("-") in read_names("mpi_two_values")
            if text == "-env" and index < len(words):  # Hydra's, with or without `=`
                two = "=" not in words[index].text
            value = " ".join(word.text for word in words[index : index + 1 + two])
            index += 1 + two
        options.append((option, value))
    return Launcher(name, tuple(options), words[0]), words[index:]


_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(\[@\])?\}|\$[@*]", re.ASCII)


def _is_option(words: tuple[Word, ...], index: int) -> bool:
    """Whether a word is an option, or a variable whose name says that it holds some."""
    text = words[index].text
    if _VARIABLE.fullmatch(text):
        return index + 1 < len(words)
    return len(text) > 1 and text[0] == "-"


def find_agent(program: tuple[Word, ...]) -> tuple[OtherAgent, int] | None:
    """The agent that a command is, and how many of its words are its name."""
    texts = [word.text for word in program]
    texts[:1] = [text.rpartition("/")[2] for text in texts[:1]]
    start = 0
    if texts and texts[0].startswith("python") and "-m" in texts[1:3]:
        start = texts.index("-m") + 1
        texts[: start + 1] = (
            _TABLE["agent_modules"].get("".join(texts[start : start + 1]), "").split()
        )
    for agent in OTHER_AGENTS:
        count = len(agent.words)
        if tuple(texts[:count]) == agent.words and len(texts) > (0 if start else count):
            return agent, start + 1 if start else count
    return None


def read_torchrun(program: tuple[Word, ...]) -> Torchrun | None:
    """What a torchrun command says; None where the program is another."""
    texts = [word.text for word in program]
    start = 0
    if texts and texts[0].rpartition("/")[2] == "torchrun":
        start = 1
    elif texts and texts[0].rpartition("/")[2].startswith(("python", "$")):
        for index, text in enumerate(texts[:-1]):
            if text == "-m" and texts[index + 1] in read_names("torchrun_modules"):
                start = index + 2
            value = index and texts[index - 1] in ("-W", "-X")
            if start or not (text.startswith("-") or not index or value):
                break
    if not start:
        return None
    options, rest = read_options(program[start:])
    module = bool({"-m", "--module"} & options.keys())
    passes = start > 1 and texts[start - 1] == "torch.distributed.launch"
    passes = passes and "--use-env" not in options
    return Torchrun(options, module, rest, passes)


def read_options(words: tuple[Word, ...]) -> tuple[dict[str, Word | None], tuple[Word, ...]]:
    """Return an agent's options, with `-` for `_`, and the words of its program after them."""
    options: dict[str, Word | None] = {}
    index = 0
    while index < len(words) and _is_option(words, index):
        word = words[index]
        whole = word.text if _VARIABLE.fullmatch(word.text) else word.raw
        option, equals, raw = whole.partition("=")
        index += 1
        option = option.replace("_", "-") if option.startswith("--") else option
        options[option] = None
        if equals:
            options[option] = Word(raw, word.line, word.column + len(word.raw) - len(raw))
        elif option not in read_names("agent_flags") and option[0] != "$" and index < len(words):
            options[option] = words[index]
            index += 1
    return options, words[index:]


class LaunchCommand(NamedTuple):
    """A command of the body, or one inside its quotes, with what starts it."""

    started: Started
    command: Command

    @property
    def torchrun(self) -> Torchrun | None:
        """The torchrun agent that it starts, if it does."""
        return read_torchrun(self.started.program)

    @property
    def place(self) -> Word:
        """Where to point."""
        program = self.started.program
        return program[0] if program else self.command.place


def unwrap_nested(command: Command, variables: PlainVariables) -> Iterator[LaunchCommand]:
    """A command taken apart, then those inside its `bash -c '...'` or here-document.

    Each comes with the command that its words are of; launchers around it are among its own.
    """
    started = unwrap(command.words)
    yield LaunchCommand(started, command)
    inherited = variables.copy()
    for child in list_inner(started, command):
        follow(child, inherited)
        child = expand_command(child, inherited)
        within = unwrap(child.words)
        inner = within._replace(
            launchers=started.launchers + within.launchers,
            wrapper=started.wrapper + within.wrapper,
            wrappers=started.wrappers + within.wrappers,
        )
        yield LaunchCommand(inner, child)


def read_string(word: Word) -> str:
    """The text of a word that a further shell reads.

    What the shell of the script expands is expanded by that one instead, also in single quotes.
    """
    parts, single = [], False
    for segment in word.segments:
        if segment.live and single:
            parts.append(f"'\"{segment.text}\"'")
            continue
        parts.append(segment.text)
        if not segment.live:
            plain = re.sub(r"\\.|\"[^\"]*\"", "", segment.text)
            single ^= plain.count("'") % 2 == 1
    return "".join(parts)


def list_inner(started: Started, command: Command) -> list[Command]:
    """The commands inside a `bash -c '...'`, or in a document that a shell gets."""
    program, inner, strings = started.program, list[Command](), list[Word]()
    shell = started.name in ("bash", "sh")
    if shell:
        flags = [i for i, word in enumerate(program[:-1]) if re.fullmatch(r"-[a-z]*c", word.text)]
        strings += [program[i + 1] for i in flags[:1]]
    for word in strings:
        inside, text = (*command.inside, "string"), read_string(word)
        inner += parse(text, line=word.line, column=word.column + 1, inside=inside)
    if command.name == "eval":
        text = " ".join(read_string(word) for word in command.words[1:])
        inner += parse(text, line=command.line, inside=command.inside)
    own = shell or started.name in ("cat", "tee")
    docs = [doc for doc in command.heredocs if own and "#SBATCH" not in doc.body]  # another job's
    for doc in docs:
        inner += parse(doc.body, line=doc.line, inside=(*command.inside, "heredoc"))
    return inner
