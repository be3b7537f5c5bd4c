"""The line of a script that starts its program, as `run` and `launch`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jobgen.batchscript.bash import Word
from jobgen.batchscript.convert.straight import (
    NoLauncherError,
    NotStraightError,
    Statement,
    takes_arguments,
)
from jobgen.batchscript.convert.values import Reader, make_value
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.expand import expand_command, list_names
from jobgen.batchscript.launchers import (
    Agent,
    Launcher,
    unwrap,
)
from jobgen.batchscript.reader import Request, Script
from jobgen.records import NamedTuple
from jobgen.spec.launchers import (
    find_launcher,
    load_launchers,
    name_kind,
    read_names,
)
from jobgen.spec.value_types import TAKEN

# What is surely a program, wherever it stands.
_FILE = re.compile(r".*[/$]|python|.*\.(py|sh)$")
_STARTERS = {"ssh", *load_launchers()["agent_commands"]} | read_names(
    "prefixes", "runners", "profilers", "containers", "mpi", "steps", "agents", "shells"
)
# Options that say what jobgen's own launch says, or what makes no difference to a program.
_SRUN_FLAGS = re.compile(
    r"-u|--unbuffered|-l|--label|-K|--kill-on-bad-exit|-v|--verbose|-Q|--quiet|-W|--wait|-J"
    r"|--job-name|--overlap|--exclusive|-ul|-lu|--comment"
)
_SRUN_OTHERS = [
    ("--export", "ALL"),
    ("--mpi", "none"),
    ("--mem", "0"),
    ("--input", "none"),
    ("--accel-bind", "gn"),
]
_SRUN_OTHERS += [(name, how) for name in ("--cpu-bind", "--cpu_bind") for how in ("v", "verbose")]
_SRUN_NUMBERS = {
    "--ntasks": "tasks",
    "--nodes": "nodes",
    "--ntasks-per-node": "each",
    "--cpus-per-task": "cpus",
    "--gpus": "gpus",
    "--gpus-per-node": "gpus_of_node",
    "--gres": "gpus_of_node",
}
_TORCHRUN = {
    *("--nnodes", "--nproc-per-node", "--node-rank", "--rdzv-id", "--rdzv-backend"),
    *("--rdzv-endpoint", "--master-addr", "--master-port", "--standalone", "--max-restarts"),
    *("-m", "--module"),
}


class LaunchedProgram(NamedTuple):
    """How the program of a script starts: the values of `run` and `launch`, and what goes along.

    `mode` is torchrun, direct, plain, or once, on the first of all nodes. `variables` are those of
    its own line.
    """

    mode: str
    values: dict[str, Any]
    variables: tuple[tuple[str, str, bool], ...]
    names: frozenset[str]  # variables that the line expands in the job
    logged: bool = False  # whether the script sends its output elsewhere than jobgen's logs
    dropped: tuple[str, ...] = ()  # options of its launcher that jobgen's own has no use for


def read_shape(script: Script, draft: Draft) -> Request:
    """Return what the job has; raise NotStraightError where only the scheduler knows it."""
    request = script.request
    nodes, tasks = draft.values.get("resources.nodes", 1), request.tasks
    if not request.alike or (script.value("--nodes") and not request.sure):
        raise NotStraightError(1, "its nodes are named or not alike, or their number is open")
    if script.scheduler and not script.can.chunks and not request.sure:
        if nodes != 1:
            raise NotStraightError(1, "without --nodes, Slurm may spread its tasks")
        tasks = 0 if tasks > 1 else 1  # which srun would start, wherever they are
    gpus = draft.values.get("resources.gpus_per_node", 0)
    return request._replace(nodes=nodes, tasks=tasks, gpus=gpus)


def read_launch(
    script: Script,
    statement: Statement,
    reader: Reader,
    shape: Request,
    *,
    moved: bool,
    bare: bool,
    once: bool,
) -> LaunchedProgram:
    """Return what a launch line starts; raise NotStraightError where that is not sure.

    `moved` says that the script has left the folder of submission, `bare` that it has set up no
    environment, whose python3 would be its python, `once` that its own launcher is to start it.
    """
    if any(item.end == "&" or item.heredocs for item in statement.commands):
        raise NotStraightError(statement.line, "it runs in the background, or reads a text")
    line = _Line(script, statement, reader, shape)
    line.moved, line.bare = moved, bare
    started, several = line.started, shape.nodes > 1
    launchers = [launcher.name for launcher in started.launchers]
    name = launchers[0] if launchers else started.name
    if not started.program or [word.text for word in started.program] in (["python"], ["python3"]):
        options = [option for launcher in started.launchers for option, _ in launcher.options]
        unknown = [option for option in options if option[0] == "$"]
        reason = f"only bash knows whether {unknown[0]} is a program" if unknown else ""
        raise line.refuse(reason or "no program was found")
    torchrun = started.torchrun
    alone = re.match("-[^=]*$", started.program[-1].text) or (torchrun and not torchrun.program)
    if takes_arguments(statement.text) and alone:
        raise line.refuse("the script takes arguments")
    if once or (launchers and name != "srun" and (several or shape.tasks != 1)):
        return line.launch_once()
    if len(launchers) > 1:
        raise line.refuse("a launcher starts another")
    if name == "srun":
        line.read_srun(started.launchers[0])
    elif several:
        if torchrun or name.startswith("python"):
            raise line.refuse("it starts on the first of several nodes alone")
        raise line.refuse(f"'{name}' on several nodes is left to bash")
    else:
        line.tasks = 1
    if torchrun:
        try:
            return line.launch_agents(torchrun)
        except NotStraightError:
            if several or line.tasks != 1:
                raise
    return line.launch_program()


class _Line:
    """One launch line, and what the job around it has."""

    moved = bare = logged = False
    dropped: tuple[str, ...] = ()

    def __init__(
        self, script: Script, statement: Statement, reader: Reader, shape: Request
    ) -> None:
        self.script, self.statement, self.reader, self.shape = script, statement, reader, shape
        self.command = expand_command(statement.first, reader.variables)
        self.started = unwrap(self.command.words)
        self.tasks = shape.tasks  # of each node

    def refuse(self, reason: str) -> NotStraightError:
        return NotStraightError(self.statement.line, reason)

    def count(self, text: str) -> int:
        value = self.reader.variables.tell(text)
        if value is None or not re.fullmatch(r"[1-9]\d{0,5}", value, re.ASCII):
            raise self.refuse(f"only bash knows what {text} comes to")
        return int(value)

    def read_srun(self, srun: Launcher) -> None:
        """Take over the options of srun."""
        numbers: dict[str, int] = {}
        short = self.script.can.short_options
        for option, value in srun.options:
            long = short.get(option[1:], option)
            if long in _SRUN_NUMBERS:
                number = re.sub(r"^gpu(:[A-Za-z]\w*)?:", "", value)
                numbers[_SRUN_NUMBERS[long]] = self.count(number)
            elif long in ("--output", "--error"):
                self.logged = True
            elif (
                not _SRUN_FLAGS.fullmatch(option)
                and (option, value) not in _SRUN_OTHERS
                and self.script.value(long) != value
                and not (option == "--jobid" and re.fullmatch(r"\$\{?SLURM_JOB_?ID\}?", value))
            ):
                known = option[0] == "-"
                open_ = f"only bash knows whether {option} is an option of srun"
                raise self.refuse(f"srun's {option} is left to bash" if known else open_)
            else:
                self.dropped += (option,)
        self._check_numbers(numbers)

    def _check_numbers(self, numbers: dict[str, int]) -> None:
        """Hold the numbers of srun to those of the job."""
        shape = self.shape
        if not shape.tasks:
            raise self.refuse("without --nodes, Slurm may spread its tasks")
        nodes = numbers.pop("nodes", shape.nodes)
        each = numbers.pop("each", 0)
        tasks = numbers.pop("tasks", (each or shape.tasks) * nodes)
        self.tasks = tasks // nodes
        if nodes != shape.nodes or not self.tasks or tasks % nodes or each not in (0, self.tasks):
            raise self.refuse("srun starts on a part of the job's nodes")
        cpus = int(self.script.count("--cpus-per-task") or 1)
        own = {"gpus_of_node": shape.gpus, "gpus": shape.gpus * nodes, "cpus": cpus}
        if any(own[name] != number for name, number in numbers.items()):
            raise self.refuse("srun's GPUs or CPUs are not those of the job")
        self._check_bound()

    def _check_bound(self) -> None:
        bound = self.script.value("--gpus-per-task", "--ntasks-per-gpu", "--gpu-bind")
        if bound and self.tasks > 1 and self.script.value("--gpu-bind") != "none":
            raise self.refuse("Slurm gives each task its own GPUs")

    def launch_agents(self, torchrun: Agent) -> LaunchedProgram:
        """One torchrun on each node."""
        self._drop_output()
        if self.tasks != 1:
            raise self.refuse(f"{self.tasks} torchrun agents start on each node")
        if self.started.wrapper or self.started.assignments or self._has_wrappers():
            raise self.refuse("torchrun is started by another command")
        unknown = sorted(torchrun.options.keys() - _TORCHRUN)
        if unknown or torchrun.passes_rank or not torchrun.program:
            raise self.refuse(f"torchrun's {unknown[0] if unknown else 'use'} is left to bash")
        nnodes = torchrun.options.get("--nnodes")
        if (self.count(nnodes.raw) if nnodes else 1) != self.shape.nodes:
            raise self.refuse("torchrun's --nnodes is not the number of the job's nodes")
        processes = self._count_processes(torchrun.options.get("--nproc-per-node"))
        values: dict[str, Any] = {}
        if processes != (self.shape.gpus or 1):
            values["launch.processes_per_node"] = processes
        restarts = torchrun.options.get("--max-restarts")
        if restarts and self.reader.variables.tell(restarts.raw) != "0":
            values["launch.max_restarts"] = self.count(restarts.raw)
        first, *rest = torchrun.program
        text, expands = self.reader.read_word(first)
        if expands and torchrun.module:
            raise self.refuse("only bash knows which module it is")
        agent = self.started.program[0]  # whose folder, as a runner, has an environment
        python = Word(re.sub(r"torchrun(?=\W*$)", "python3", agent.raw), agent.line, agent.column)
        starts = self._read_words([*self.started.runner, python])
        other = starts not in (["python3"], ["python"])
        if other or (not torchrun.module and (self.moved or self._names_own(text))):
            starts += ["-m"] if torchrun.module else []
            values["run.command"] = [*starts, make_value(text, expands), *self._read_words(rest)]
        else:
            values["run.module" if torchrun.module else "run.script"] = text
            values |= self._make_arguments(rest)
        return self._finish("torchrun", values)

    def _has_wrappers(self) -> bool:
        return bool(set(self.started.wrappers) - {"exec", "nohup", "time"})

    def _names_own(self, text: str) -> bool:
        """Whether a text holds a variable that the setup exports, after jobgen has looked."""
        return bool(list_names(text) & self.reader.variables.assigned)

    def _count_processes(self, word: Word | None) -> int:
        if word is None:
            return 1
        if word.text in ("gpu", "auto"):
            if not self.shape.gpus:
                raise self.refuse("the script does not say how many GPUs a node has")
            return self.shape.gpus
        return self.count(word.raw)

    def launch_program(self) -> LaunchedProgram:
        """Processes that srun starts, each told its rank; or one process on one node."""
        self._drop_output()
        started, words, mode = self.started, self._strip_prefixes(), "direct"
        first, alone = words[0].text, self.shape.nodes == 1 and self.tasks == 1
        agent = started.agent
        if started.launchers and started.launchers[0].name == "srun":
            words = (*started.wrapper, *started.runner, *started.program)
            if re.fullmatch(r"[\w.-]+\.(sh|py)", words[0].text):
                # srun finds it in its folder too, exec on PATH alone.
                words = (Word(f"./{words[0].raw}", words[0].line, words[0].column), *words[1:])
            if started.assignments or self._has_wrappers():
                raise self.refuse("srun starts another command")
        elif self.reader.sourced and not _FILE.match(first) and first not in _STARTERS:
            raise self.refuse(f"'{first}' may be a function of a file that the script sources")
        if agent and self.tasks != 1:
            raise self.refuse(f"'{started.name}' starts its own processes")
        if alone or (self.tasks == 1 and (started.name in read_names("shells") or agent)):
            mode = "plain"
        self.bare = self.bare and alone
        values = {**self._name_program(words), "launch.mode": mode}
        if self.tasks != (self.shape.gpus or 1) and mode == "direct":
            values["launch.processes_per_node"] = self.tasks
        return self._finish(mode, values)

    def launch_once(self) -> LaunchedProgram:
        """The script's own launcher, once, on the first node, with all of its words."""
        words = self._strip_prefixes()
        step = name_kind(find_launcher([word.text for word in words])) == "step"
        if not step or self.started.is_agent:
            reason = f"'{self.started.name}' on several nodes is left to bash"
            raise NoLauncherError(self.statement.line, reason)
        if not self.tasks:
            raise self.refuse("without --nodes, Slurm may spread its tasks")
        self._check_bound()
        self._drop_output()
        values: dict[str, Any] = {"run.command": self._read_words(words), "launch.mode": "plain"}
        if self.tasks != 1:
            values["launch.processes_per_node"] = self.tasks
        return self._finish("once", values)

    def _strip_prefixes(self) -> tuple[Word, ...]:
        """Return the words of the line without those that only run it as it is."""
        words = self.command.words
        while words and words[0].text in ("exec", "nohup", "time"):
            words = words[1:]
        return words

    def _drop_output(self) -> None:
        """Leave the program's output to jobgen's logs; refuse where it is read by anything."""
        *piped, last = self.statement.commands
        if any(item.end not in ("|", "|&") for item in piped):
            raise self.refuse("it stands in one line with other commands")
        reads = [item for item in self.command.redirects if "<" in item.operator]
        others = [*piped[1:], last] if piped else []
        if reads or any(item.name != "tee" for item in others):
            raise self.refuse("its input or output is that of another command")
        quiet = all(item.target.text in ("1", "2", "&1", "&2") for item in self.command.redirects)
        self.logged = self.logged or bool(others) or not quiet

    def _name_program(self, program: tuple[Word, ...]) -> dict[str, Any]:
        """Return the keys of `run` for the words of a program."""
        words = [word for index, word in enumerate(program) if index != 1 or word.text != "-u"]
        python = words[0].text in ("python", "python3") and not self.bare and len(words) > 1
        if python and len(words) > 2 and words[1].text == "-m":
            text, expands = self.reader.read_word(words[2])
            if not expands and re.fullmatch(r"[A-Za-z_][\w.]*", text, re.ASCII):
                return {"run.module": text, **self._make_arguments(words[3:])}
        if python and not self.moved and words[1].text.endswith(".py"):
            text, _ = self.reader.read_word(words[1])
            if not self._names_own(text):
                return {"run.script": text, **self._make_arguments(words[2:])}
        read = self._read_words(program)
        if isinstance(read[0], dict) and not re.match(r"\$\{?(HOME|[A-Z]+)\}?/", read[0]["value"]):
            raise self.refuse("only bash knows which program it is")
        return {"run.command": read}

    def _make_arguments(self, words: list[Word]) -> dict[str, Any]:
        read = self._read_words(words)
        return {"run.args": read} if read else {}

    def _read_words(self, words: Sequence[Word]) -> list[Any]:
        pairs = zip(words, (None, *words), strict=False)
        return [make_value(*self.reader.read_word(word, after)) for word, after in pairs]

    def _finish(self, mode: str, values: dict[str, Any]) -> LaunchedProgram:
        named = [
            values.get("run.script"),
            values.get("run.module"),
            values.get("run.command", [])[:2],
            [word.text for word in self.started.program[:2]],
        ]
        if re.search("<[1-9]>", str(named)):
            raise self.refuse("the script takes arguments")
        variables = []
        for word in (*self.command.assignments, *self.started.assignments):
            name, _, raw = word.raw.partition("=")
            if mode in ("plain", "once") and word in self.started.assignments:
                continue  # `env NAME=value` stays in the command
            field = self.reader.variables.join(raw)
            text, expands = self.reader.read_field(field, self.statement.line, assigned=True)
            if not name.isidentifier() or re.fullmatch(TAKEN, name):
                raise self.refuse(f"{name} of the launch line is left to bash")
            variables.append((name, text, expands))
        flat = list(values.values()) + [
            x for one in values.values() if type(one) is list for x in one
        ]
        texts = [x["value"].replace("'", "") for x in flat if isinstance(x, dict)]
        names = frozenset(name for text in texts for name in list_names(text))
        return LaunchedProgram(mode, values, tuple(variables), names, self.logged, self.dropped)
