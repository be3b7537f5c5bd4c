"""What starts what on a command line: srun, pbsdsh, mpiexec, containers, torchrun, Python."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import WORDS, Command, ShellBlock, Word, parse
from jobgen.batchscript.expand import PlainVariables, expand_command, follow
from jobgen.records import NamedTuple
from jobgen.spec.launchers import load_launchers, read_names

_TABLE = load_launchers()
_MPI_VALUES = re.compile(_TABLE["mpi_values"])
_SINGULARITY_VALUES = re.compile(_TABLE["container_values"])
_CONTAINER_VALUES = re.compile(f"{_TABLE['container_values']}|{_TABLE['other_container_values']}")
_OPTIONS: dict[str, dict[str, str]] = {
    name: row for names, row in _TABLE["launcher_options"].items() for name in names.split()
}
_AGENTS = [(words, words.split()) for words in _TABLE["agent_options"]]
_RUNS = re.compile(
    rf"run (({_TABLE['runner_values']}) [^ -]\S* |-(?!m |-module |s |-script )\S* )*(?=[^ -])"
)
# What a Python module is, as a command.
_MODULES = {**_TABLE["agent_modules"], **dict.fromkeys(read_names("torchrun_modules"), "torchrun")}


def read_number(text: str | None) -> int:
    """Return the whole number that a text is; 0 where it is none."""
    return int(text) if text and re.fullmatch(r"\d{1,6}", text, re.ASCII) else 0


class Launcher(NamedTuple):
    """One launcher, with its own options as `--option value` pairs; flags have an empty value."""

    name: str
    options: tuple[tuple[str, str], ...]
    word: Word

    def value(self, *names: str) -> str | None:
        """What one of these options says; None where none is given."""
        return next((value for option, value in self.options if option in names), None)

    @property
    def row(self) -> dict[str, str]:
        """Its row of `launcher_options` in the table, empty where it has none."""
        return _OPTIONS.get(self.name, {})

    def read(self, kind: str) -> str | None:
        """What its options say of `tasks`, those of `each` node, `nodes` or `places`."""
        return self.value(*self.row.get(kind, "").split())

    def read_count(self, kind: str, unsaid: int) -> int:
        """Return the number that its options give; 0 where only the job knows it."""
        text = self.read(kind)
        return unsaid if text is None else read_number(text)

    @property
    def is_open(self) -> bool:
        """Whether a variable may hold more of its options."""
        return any(option[0] == "$" for option, _ in self.options)


class Agent(NamedTuple):
    """A program that starts the processes of its node, and what it runs."""

    name: str
    words: str  # its key in the table
    called: str  # its name here
    options: dict[str, Word | None]  # by name, with `-` for `_`
    program: tuple[Word, ...]

    @property
    def is_open(self) -> bool:
        """Whether a variable may hold more of its options, or its program."""
        held = any(option[0] == "$" for option in self.options)
        return held or not self.program or WORDS["is-open"].match(self.program[0].text) is not None

    def find(self, *names: str) -> Word | None:
        """The value of the first of these options, or kinds of them in the table, that has one."""
        row = _TABLE["agent_options"][self.words]
        options = " ".join(row.get(name, name) for name in names).split()
        return next(filter(None, map(self.options.get, options)), None)

    def tell(self, *names: str) -> str:
        """What these options say, quotes undone; empty where none is given."""
        word = self.find(*names)
        return word.text if word else ""

    @property
    def nodes(self) -> str:
        """How many nodes it waits for: 1 where it is alone, empty where no option says it."""
        unsaid = "" if self.is_open or self.is_set_elsewhere else "1"
        return self.tell("nodes") or unsaid

    @property
    def is_set_elsewhere(self) -> bool:
        """Whether it may learn of other nodes by a file or in another way than by their number."""
        return self.name in ("accelerate", "composer")

    @property
    def is_first(self) -> bool:
        """Whether it takes itself for the first, as nothing tells its number."""
        met = self.name not in ("torchrun", "accelerate") or "--rdzv-backend" in self.options
        return not met and not self.is_open and self.tell("rank") in ("", "0")

    @property
    def waits(self) -> bool:
        """Whether it waits for those of other nodes."""
        return "$" in self.nodes or read_number(self.nodes.partition(":")[0]) > 1

    @property
    def is_alone(self) -> bool:
        """Whether it is for one node, as nothing tells it of others."""
        return self.nodes == "1" and not self.find("nodes")

    @property
    def starts_others(self) -> bool:
        """Whether it may start those of the other nodes, or be started by another program."""
        hosts = self.tell("--hostfile", "-H")
        configured = self.options.keys() & {"--config-file", "--use-deepspeed"}  # may be for pdsh
        by_config = configured and "--machine-rank" not in self.options
        return bool(by_config) or hosts not in ("", "/dev/null")

    def count_processes(self) -> int:
        """How many processes it starts on a node; 0 where only the job knows."""
        count = read_number(self.tell("processes") or ("1" if self.name == "torchrun" else ""))
        count = count or len(WORDS["included"].findall(self.tell("--include")))
        total = "total" in _TABLE["agent_options"][self.words]
        return count // (read_number(self.nodes) or 1) if total else count


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
        """The program's name, without its folder, as that of a command."""
        return WORDS["folder"].sub("", self.program[0].text) if self.program else ""

    @property
    def texts(self) -> list[str]:
        """The words of the program, with their quotes undone."""
        return [word.text for word in self.program]

    @property
    def is_launched(self) -> bool:
        """Whether a launcher starts it, or it starts the processes of its node."""
        return bool(self.launchers or self.agent)

    @property
    def agent(self) -> Agent | None:
        """What it is, if it starts the processes of its node, as torchrun does."""
        return _find_agent(self.program)

    @property
    def torchrun(self) -> Agent | None:
        """The torchrun agent that it is, if it is one."""
        agent = self.agent
        return agent if agent and agent.name == "torchrun" else None


def unwrap(words: tuple[Word, ...]) -> Started:
    """Take the launchers off a command, outermost first, down to the program."""
    started, inner = None, Started((), (), words)
    while inner.program and started != inner:
        started, inner = inner, _take_off(inner)
    return inner


def _take_off(started: Started) -> Started:
    words, name = started.program, started.name
    if name in _TABLE["launcher_flags"]:
        return _take_launcher(started)
    if len(words) == 1:
        return started
    if name in _TABLE["wrapper_words"]:
        return _take_wrapper(started)
    if name in read_names("profilers"):  # of a launcher, whatever options they have
        names = [WORDS["folder"].sub("", text) for text in started.texts]
        if start := next((n for n, x in enumerate(names) if x in _TABLE["launcher_flags"]), 0):
            return started._replace(program=words[start:], wrappers=(*started.wrappers, name))
    runners = {name, f"{name}-{words[1].text}"} & read_names("project_runners")
    if runners and not started.runner:
        return _take_runner(started)
    if started.wrapper:
        return started
    text = " ".join(started.texts)
    if started.launchers and WORDS["runs-python"].match(text):
        return started._replace(wrapper=words[:1], program=words[1:])
    runs = name in read_names("containers") and not WORDS["of-images"].match(text)
    return _take_container(started) if runs else started


def _skip_options(words: tuple[Word, ...], index: int, values: re.Pattern[str]) -> int:
    """Return the index behind the options from `index` on; those that match have a value."""
    while index < len(words) and words[index].text.startswith("-"):
        index += 2 if values.fullmatch(words[index].text) else 1
    return index


def _take_wrapper(started: Started) -> Started:
    words, name = started.program, started.name
    start = _skip_options(words, 1, re.compile(_TABLE["wrapper_values"].get(name, "(?!)")))
    end = start
    while name == "env" and end < len(words) and re.match(r"\w+=", words[end].text):
        end += 1
    return started._replace(
        program=words[end + int(_TABLE["wrapper_words"][name]) :],
        assignments=(*started.assignments, *words[start:end]),
        wrappers=(*started.wrappers, name),
    )


def _take_runner(started: Started) -> Started:
    words = [text.replace(" ", "_") for text in started.texts]  # a blank stands between words
    match = _RUNS.match(" ".join([*words[1:], ""]))
    count = 1 + match[0].count(" ") if match else 0
    return started._replace(runner=started.program[:count], program=started.program[count:])


def _take_container(started: Started) -> Started:
    name = started.name
    values = _SINGULARITY_VALUES if name in ("singularity", "apptainer") else _CONTAINER_VALUES
    index = _skip_options(started.program, 1, values)
    if name != "shifter":  # exec, run or start comes first, and the image last
        index = _skip_options(started.program, index + 1, values) + 1
    return started._replace(wrapper=started.program[:index], program=started.program[index:])


def _take_launcher(started: Started) -> Started:
    name, words = started.name, started.program
    flags, options, index = _TABLE["launcher_flags"][name].split(), list[tuple[str, str]](), 1
    while index < len(words) and _is_option(words, index):
        if WORDS["at-host"].match(" ".join([name, *started.texts[index:]])):
            break
        index += 1
        if words[index - 1].text == "--":
            break
        option, value, count = _read_option(words[index - 1 :], flags)
        options.append((option, value))
        index += count
    launcher = Launcher(name, tuple(options), words[0])
    index += name in ("ssh", "pbs_tmrsh")
    return started._replace(launchers=(*started.launchers, launcher), program=words[index:])


def _read_option(words: tuple[Word, ...], flags: list[str]) -> tuple[str, str, int]:
    """Return a launcher's option that comes first, its value, and how many words that takes."""
    text = words[0].text
    option, equals, value = text.partition("=")
    glued = re.fullmatch(r"(-[^-])([^=]+)", text)  # as -n4
    if glued and flags and text not in flags:
        return glued[1], glued[2], 0
    if equals or text[0] == "$":
        return option, value, 0
    count = _count_values(text, flags)
    return option, " ".join(word.text for word in words[1 : 1 + count]), count


def _count_values(option: str, flags: list[str]) -> int:
    """How many words after an option are its value; those of MPI have no known `flags`."""
    own = (option.lstrip("-") in read_names("mpi_two_values"), _MPI_VALUES.fullmatch(option))
    return option not in flags if flags else 2 if own[0] else own[1] is not None


def _is_option(words: tuple[Word, ...], index: int) -> bool:
    text = words[index].text
    if WORDS["variable"].fullmatch(text):
        return index + 1 < len(words)
    return len(text) > 1 and text[0] == "-"


def _find_agent(program: tuple[Word, ...]) -> Agent | None:
    if not program:
        return None
    # Python may run the file of one; elsewhere than on the PATH it has packages of its own.
    program = program[bool(WORDS["runs-file"].match(" ".join(word.text for word in program))) :]
    texts = [word.text.replace(" ", "_") for word in program]  # a blank stands between words
    texts[0] = texts[0].rpartition("/")[2]
    python = WORDS["of-module"].match(" ".join(texts))
    module = python[0].count(" ") if python else 0
    names = _MODULES.get(texts[module], "").split() if module else texts
    for words, own in _AGENTS:
        if own == names[: len(own)]:
            start = module + 1 if module else len(own)
            return Agent(own[0], words, texts[module], *read_options(program[start:]))
    return None


def read_options(words: tuple[Word, ...]) -> tuple[dict[str, Word | None], tuple[Word, ...]]:
    """Return an agent's options, with `-` for `_`, and the words of its program after them."""
    options: dict[str, Word | None] = {}
    index = 0
    while index < len(words) and _is_option(words, index):
        word = words[index]
        whole = word.text if WORDS["variable"].fullmatch(word.text) else word.raw
        option, equals, raw = whole.partition("=")
        index += 1
        option = option.replace("_", "-") if option.startswith("--") else option
        option = "-m" if option == "--module" else option
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
    def place(self) -> Word:
        """Where to point."""
        return (*self.started.program, self.command.place)[0]

    @property
    def agent(self) -> Agent | None:
        """The agent that it is; None where it is none, or may start the others itself."""
        agent = self.started.agent
        return None if agent is None or agent.starts_others else agent


def unwrap_nested(command: Command, variables: PlainVariables) -> Iterator[LaunchCommand]:
    """A command taken apart, then those inside its `bash -c '...'` or here-document."""
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


def list_inner(started: Started, command: Command) -> list[Command]:
    """The commands inside a `bash -c '...'`, or in a document that a shell gets."""
    inner = list[Command]()
    shell = started.name in ("bash", "sh")
    # Behind its options, a -c is its script's own.
    start = _skip_options(started.program, 1, WORDS["of-shell"])
    if shell and any(map(re.compile(r"-[a-z]*c").fullmatch, started.texts[1:start])):
        for word in started.program[start : start + 1]:
            inner += parse(word.text, word.line, word.column + 1, command.blocks)
    for word in command.words[1:2] if command.name == "eval" else ():
        column = word.column + (word.raw[0] in "'\"")
        inner += parse(" ".join(command.texts[1:]), word.line, column, command.blocks)
    own = shell or started.name in ("cat", "tee", "")  # the shell of another node, or a container
    for doc in command.heredocs if own else ():
        if "#SBATCH" not in doc.body:  # another job's
            block = ShellBlock("<<", doc.line, command.function)
            inner += parse(doc.body, doc.line, 1, (*command.blocks, block))
    return inner
