"""One reader of batch scripts as people have them: what the scheduler reads, and what bash runs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path

from jobgen.batchscript.bash import Command, Word, parse
from jobgen.batchscript.expand import PlainVariables, expand_command, find_set, follow
from jobgen.batchscript.launchers import LaunchCommand, read_number, unwrap_nested
from jobgen.batchscript.purposes import FORMS, WHY
from jobgen.capabilities import Capabilities, get_capabilities, list_capabilities
from jobgen.errors import UsageError
from jobgen.records import NamedTuple
from jobgen.spec.spelling import find_near_file

# A job script is short; what is longer than any is not worth the time that it takes to read.
MAX_BYTES = 64 << 10
INSIDE = 10**6  # times the line of a command, for those of a file that it runs
_PREFIX = {
    # Both take what follows without a blank as well: #PBS-q gpu.
    can.name: re.compile(("[ \t]*" if can.indented else "") + rf"{can.sign}(?=[\s-]|$)")
    for can in list_capabilities()
    if can.sign
}


def _complete(option: str, known: Collection[str]) -> str:
    """The option that sbatch takes this one for: the only one that begins so."""
    longer = [name for name in known if name.startswith(option[2:])]
    option = f"--{longer[0]}" if len(longer) == 1 else option
    return "--ntasks-per-node" if option == "--tasks-per-node" else option


def read_count(option: str, value: str) -> int:
    """Return the number of an option's value, after the kind of a GPU; 0 where it is none."""
    match = FORMS.get(f"count {option}", FORMS["count"]).fullmatch(value)
    return int(match[2] or 1) if match else 0


class DirectiveOption(NamedTuple):
    """One option of a directive line. `read` is false where the scheduler never sees the line."""

    line: int
    column: int
    option: str  # as `--nodes` for Slurm, also where it was written -N; as `-l` for PBS
    value: str
    text: str  # the whole line
    read: bool

    @property
    def is_stray(self) -> bool:
        """Whether it is not an option, so that sbatch refuses the script."""
        return not FORMS["of-directive"].match(self.option)


class Request(NamedTuple):
    """How much the directives ask for; tasks, GPUs and CPUs are those of each node."""

    nodes: int = 1
    sure: bool = False  # whether the scheduler gives so many nodes and no more
    tasks: int = 1
    gpus: int = 0
    cpus: int = 0
    alike: bool = True


class Script:
    """A batch script. `scheduler` is slurm, pbs, or None where nothing tells."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        self.site: str | None = None  # whose limits lint holds it to
        self.lines = re.split(r"\r?\n", text)
        if len(text) > MAX_BYTES:
            raise UsageError(f"{path}: is larger than {MAX_BYTES >> 10} KiB; a job script is short")
        self.scheduler = self._scheduler()
        # Of the first command, which ends the directives (sbatch(1), qsub(1B)).
        numbers = (n for n, line in enumerate(self.lines, 1) if re.match(r"\s*[^\s#]", line))
        self.body_line = next(numbers, len(self.lines) + 1)
        try:
            self.commands = parse(text.replace("\r\n", "\n"))
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None

    def _scheduler(self) -> str | None:
        counts = {name: len([*filter(sign.match, self.lines)]) for name, sign in _PREFIX.items()}
        best = max(counts, key=lambda name: counts[name])
        if counts[best]:
            return best
        variables = "|".join(map(str.upper, _PREFIX))
        match = re.search(rf"(?m)(?:\$\{{?|^#\s+)({variables})(?:_|\s+-)", self.text)
        return match[1].lower() if match else None

    @cached_property
    def beside(self) -> dict[str, str]:
        """The texts of programs beside the script, or in this folder, by the names it gives."""
        folders = Path(self.path).parent, Path()
        names = FORMS["program-file"].findall(self.text)
        files = [(x, folder / x) for folder in folders for x in names if os.path.isfile(folder / x)]
        return {x: y.read_text("utf-8", "replace") for x, y in files if os.access(y, os.R_OK)}

    @property
    def target(self) -> str:
        """Its scheduler, or the first of all if it does not say for which it is."""
        return self.scheduler or next(iter(_PREFIX))

    @property
    def can(self) -> Capabilities:
        """What its scheduler can do."""
        return get_capabilities(self.target)

    @cached_property
    def starts_at_home(self) -> bool:
        """Whether the scheduler starts it in the home folder, whatever the folder of submission."""
        asked = {(item.option, item.value) for item in self.read_directives}
        stays = any(x == "-d" or value == "wd" or "sandbox" in value for x, value in asked)
        return self.can.starts_at_home and not stays

    @cached_property
    def directives(self) -> list[DirectiveOption]:
        """Every directive of its own scheduler in order, one for each option or resource of PBS."""
        directives = []
        for number, line in enumerate(self.lines, 1):
            match = self.scheduler and _PREFIX[self.scheduler].match(line)
            if match and number not in self.documents:
                read, text = number < self.body_line, line.strip()
                for column, option, value in self._options(line, match.end()):
                    own = f"{self.can.sign} -l {value}" if option == "-l" else text
                    directives.append(DirectiveOption(number, column, option, value, own, read))
        return directives

    @property
    def dead_directives(self) -> dict[int, str]:
        """Lines that were to be directives; of a script without any, one alone is a remark."""
        form = FORMS["misspelt" if self.directives else "behind-blank"]
        dead = {n: match[0] for n, line in enumerate(self.lines, 1) if (match := form.match(line))}
        return dead if len(dead) > (not self.directives) else {}

    @cached_property
    def read_directives(self) -> list[DirectiveOption]:
        """The directives that the scheduler takes, which stand before the first command."""
        return [item for item in self.directives if item.read and not item.is_stray]

    def _options(self, line: str, start: int) -> Iterator[tuple[int, str, str]]:
        text = line[start:]
        column = len(line) - len(text.lstrip()) + 1
        words, option = self._split_words(text), ""
        while words:
            word = words.pop(0)
            if not word.startswith("-") or self.find_torn(word):
                if word and FORMS["has-strays"].match(f"{self.target} {option}{text}"):
                    yield column, word, ""
                continue
            option, value = self._split_option(word)
            if value is None and words and not FORMS["no-value"].match(f"{option}\n{words[0]}"):
                value = words.pop(0)
            parts = FORMS["next-resource"].split(value or "") if option == "-l" else [value or ""]
            yield from ((column, option, part) for part in parts)

    def find_torn(self, word: str) -> str:
        """Return the long option that a word with one dash is to be; empty where it is none."""
        bare = re.sub(r"(?<=..)[-_]|=.*", "", word)  # as -ntaskspernode
        return next((x for x in self.can.long_options if bare == f"-{x.replace('-', '')}"), "")

    def _split_words(self, text: str) -> list[str]:
        text = text if self.can.comments else re.sub(r"(?<=-l)\s+(?=-)", "", text)
        if self.can.comments:  # as sbatch, to which a backslash counts within quotes, too
            text = FORMS["quoted"].sub(lambda x: re.sub(r"(\\.)", rf"{x[1]}\1{x[1]}", x[0]), text)
        try:
            return shlex.split(text, comments=self.can.comments)  # a # may end a word, as in sbatch
        except ValueError:  # a quote is open; the scheduler will complain
            return text.split()

    def _split_option(self, word: str) -> tuple[str, str | None]:
        short = self.can.short_options
        option, equals, value = word.partition("=")
        if not word.startswith("--"):
            return short.get(word[1:2], word[:2]), word[2:] or None
        option = _complete(option, self.can.long_options) if short else option
        return option, value if equals else None

    def make_variables(self, more: Mapping[str, str] | None = None) -> PlainVariables:
        """The variables as they are where the script begins, with its counts, and `more`."""
        nodes = str(self.request.nodes) if self.chunks else self.given.get("SLURM_NNODES", "")
        counts = {"nodes:": nodes} if nodes else {}
        if nodes and self.request.alike:
            counts["lines:"] = str(self.request.nodes * self.request.tasks)
        loose, several = find_set(self.commands)
        several |= {x for x, _, raw in self.variables() if not FORMS["one-word"].fullmatch(raw)}
        return PlainVariables({**self.given, **counts, **(more or {})}, loose, several)

    @cached_property
    def _followed(self) -> list[tuple[Command, list[LaunchCommand]]]:
        """Each command, with the variables put in that plain assignments set, and its launches."""
        variables = self.make_variables()
        followed = []
        for command in self.commands:
            expanded = expand_command(command, variables)
            followed.append((expanded, list(unwrap_nested(self.open(expanded), variables))))
            follow(command, variables)
        return followed

    def open(self, command: Command) -> Command:
        """A command, with what a shell script beside this one says in the place of its name."""
        for index, word in enumerate(command.words[:9]):
            text = self.beside.get(word.text, "")
            if FORMS["opened"].match(f"{word.text}\n{text}"):
                named = {"bash", "sh"}.intersection(word.text for word in command.words[:index])
                shell = (*([] if named else ["bash"]), "-c", shlex.quote(text))
                inner = (Word(raw, word.line * INSIDE, word.column) for raw in shell)
                sourced = command.name in ("source", ".")
                return command._replace(words=(*command.words[: index * (not sourced)], *inner))
        return command

    @property
    def expanded(self) -> list[Command]:
        """The commands, with the variables put in that plain assignments set."""
        return [command for command, _ in self._followed]

    @cached_property
    def documents(self) -> frozenset[int]:
        """The lines of here-documents and quoted texts, which are not the script's own."""
        docs = [doc for command in self.commands for doc in command.heredocs]
        spans = [range(doc.line, doc.line + doc.body.count("\n")) for doc in docs]
        for command in self.commands:
            spans += [range(x.line + 1, x.line + 1 + x.raw.count("\n")) for x in command.parts]
        return frozenset(chain(*spans))

    @cached_property
    def given(self) -> dict[str, str]:
        """The variables of the scheduler that follow from the directives."""
        of_slurm = self.scheduler and not self.can.chunks
        numbers = self._list_tasks() if of_slurm else self._list_torque()
        values = [item.value for item in self.read_directives if item.option in ("-v", "--export")]
        passed = FORMS["passed"].findall(" ".join(values))
        return dict(passed) | {name: str(number) for name, number in numbers.items() if number}

    def tell(self, option: str, name: str) -> str | None:
        """The value of the variable that the scheduler sets for an option."""
        return self.given.get(name) or self.value(option)

    def _list_torque(self) -> dict[str, int]:
        asked = self.resource("nodes") != ""
        nodes, each = asked * self.request.nodes, asked * self.request.cpus
        return {"PBS_NUM_NODES": nodes, "PBS_NUM_PPN": each, "PBS_NP": each * nodes}

    def _list_tasks(self) -> dict[str, int]:
        request = self.request
        asked = self.value("--nodes", "--ntasks")  # or else sbatch's own -N may say it
        nodes = request.nodes if request.sure and asked else 0
        tasks = self.count("--ntasks") or nodes * request.tasks
        numbers = dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes)
        numbers |= dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), tasks)
        numbers["SLURM_GPUS_ON_NODE"] = request.gpus
        for option in WHY.counted.split():
            numbers[f"SLURM_{option.replace('-', '_').upper()}"] = self.count(f"--{option}")
        return numbers

    def count(self, option: str) -> int:
        """The number that an option gives, after the kind of a GPU; 0 where it is none."""
        return read_count(option, self.value(option) or "")

    @cached_property
    def request(self) -> Request:
        """How much the directives ask for."""
        return self._read_chunks() if self.can.chunks else self._read_tasks()

    def _read_tasks(self) -> Request:
        tasks, each = self.count("--ntasks"), self.count("--ntasks-per-node")
        gpus = self.count("--gres") or self.count("--gpus-per-node")  # as sbatch joins them
        nodes, sure = self._count_nodes(gpus)
        each = -(-tasks // nodes) or each or self._count_bound(gpus, nodes) or 1
        gpus = gpus or self._count_gpus(each, nodes)
        cpus = (self.count("--cpus-per-task") or int(each > 1)) * each
        return Request(nodes, sure, each, gpus, self.count("--cpus-per-gpu") * gpus or cpus)

    def _count_bound(self, gpus: int, nodes: int) -> int:
        """How many tasks of a node follow from its GPUs, or from those of the job."""
        share, total = self.count("--gpus-per-task"), self.count("--gpus") // nodes
        return total // share if share else (gpus or total) * self.count("--ntasks-per-gpu")

    def _count_gpus(self, tasks: int, nodes: int) -> int:
        share = self.count("--ntasks-per-gpu")
        gpus = self.count("--gpus-per-task") * tasks or self.count("--gpus") // nodes
        return gpus or (tasks // share if share else 0)

    def _count_nodes(self, gpus: int) -> tuple[int, bool]:
        """How many nodes Slurm gives, which have so many GPUs, and whether that is sure."""
        nodes, tasks, each = map(self.count, ("--nodes", "--ntasks", "--ntasks-per-node"))
        if nodes:  # no more than there are tasks
            return min(nodes, tasks) if tasks and not each else nodes, True
        names = FORMS["listed-host"].findall(self.value("--nodelist") or "")  # all of which it gets
        spans = re.findall(r"(\d+)-?(\d*)", ",".join(numbers or "1" for numbers in names))
        hosts = sum(1 + int(last or first) - int(first) for first, last in spans)
        shares = [(tasks, each), (self.count("--gpus"), gpus), (hosts, 1)]
        nodes = max([1, *(-(-total // share) for total, share in shares if share)])
        return nodes, self.value("--nodes") is None and (tasks < 2 or each > 0)

    def _read_chunks(self) -> Request:
        """The numbers of PBS: of nodes, or without a select, of the job."""
        select = self.chunks
        of_torque = self.resource("gpus") if re.match(r"1\b", select) else ""
        all_gpus = read_number(self.resource("ngpus") or of_torque)
        if not select:
            cpus = read_number(self.resource("ncpus"))
            return Request(1, cpus < 2, 1, all_gpus, cpus)
        select = re.sub(r"(^|\+)\s*(?=[A-Za-z_][\w-]*=)", r"\g<1>1:", select)  # one, if not said
        select = re.sub(r"\bppn=(\w+)", r"ncpus=\1:mpiprocs=\1", select)  # in words of Torque
        select = re.sub(r"\bgpus=", "ngpus=", select)
        chunks = [chunk.strip().partition(":") for chunk in select.split("+")]
        numbers = [read_number(count) for count, _, _ in chunks]
        nodes = sum(number or 1 for number in numbers)
        pairs = dict(pair.partition("=")[::2] for pair in chunks[0][2].split(":"))
        tasks, cpus, gpus = (read_number(pairs.get(key)) for key in ("mpiprocs", "ncpus", "ngpus"))
        gpus, alike = max(gpus, all_gpus // nodes), len(chunks) == 1 and all(numbers)
        return Request(nodes, True, max(tasks, 1), gpus, cpus, alike)

    @cached_property
    def launches(self) -> list[LaunchCommand]:
        """Every command of the body and, after each, those inside its quotes and documents."""
        return [item for _, items in self._followed for item in items]

    def value(self, *options: str) -> str | None:
        """The value that one of these options gives to the scheduler; the last one counts."""
        return next((x.value for x in self.read_directives[::-1] if x.option in options), None)

    def resource(self, name: str) -> str:
        """The value that `-l NAME=...` gives to PBS, empty without one; the first one counts."""
        pairs = [x.value.partition("=") for x in self.read_directives if x.option == "-l"]
        return next((value for key, sign, value in pairs if sign and key.strip() == name), "")

    @property
    def chunks(self) -> str:
        """The nodes of PBS, of which each has its own resources; empty without any."""
        return self.resource("select") or self.resource("nodes")

    @property
    def nodes(self) -> int:
        """How many nodes the job has; 0 where the script does not say it plainly."""
        return self.request.nodes if self.directives and self.request.sure else 0

    @property
    def slots(self) -> int:
        """How many tasks the job has room for on each node; 0 where the script does not say it."""
        return self.request.tasks if self.nodes or self.count("--ntasks-per-node") else 0

    @cached_property
    def own_names(self) -> set[str]:
        """The names of the variables that its commands set."""
        return set[str]().union(*map(Command.list_set, self.commands))

    def variables(self) -> Iterator[tuple[str, Word, str]]:
        """Name, word and raw value of each variable that its commands set."""
        return chain.from_iterable(map(Command.variables, self.commands))


def read(path: str) -> Script:
    """The script in a file; bytes that are no UTF-8 are kept. Raises UsageError if unreadable."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        near = "" if os.path.lexists(path) else find_near_file(path)
        raise UsageError(f"{path}: {error.strerror}{near and f'; did you mean {near}?'}") from None
    if b"\0" in data:
        raise UsageError(f"{path}: not a text file")
    return Script(path, data.decode("utf-8-sig", "surrogateescape"))
