"""The line of a script that starts its program, as `run` and `launch`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jobgen.batchscript.bash import Word
from jobgen.batchscript.convert.straight import NotStraightError, Statement, refuse
from jobgen.batchscript.convert.values import Reader, get_text
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.expand import expand_command, list_names
from jobgen.batchscript.launchers import Agent, Launcher, list_inner, unwrap
from jobgen.batchscript.purposes import FORMS, WHY
from jobgen.batchscript.reach import count_reach
from jobgen.batchscript.reader import Request, Script
from jobgen.spec.launchers import find_launcher, name_kind, read_names

# What jobgen's own agents say, and how their output is named, of which jobgen has logs.
_TORCHRUN, _TORCHRUN_LOGS = read_names("torchrun_own"), read_names("torchrun_logs")


def read_shape(script: Script, draft: Draft, line: int) -> Request:
    """Return what the job has; raise NotStraightError where only the scheduler knows it."""
    request = script.request
    nodes, tasks = draft.values.get("resources.nodes", 1), request.tasks
    open_ = not request.alike or (script.value("--nodes") and not request.sure)
    refuse(line, WHY.SHAPE, open_, script.count("--ntasks") % nodes)
    if not script.can.chunks and not request.sure:
        refuse(line, WHY.SPREADS, nodes != 1)
        tasks = 0 if tasks > 1 else 1  # which srun would start, wherever they are
    gpus = draft.values.get("resources.gpus_per_node", 0)
    return request._replace(nodes=nodes, tasks=tasks, gpus=gpus)


class LaunchLine:
    """One launch line: how its program starts, in the job around it; `read` finds that."""

    moved = False  # whether the script has left the folder of submission
    bare = False  # whether it has set up no environment, whose python3 would be its python
    logged = False  # whether the output goes elsewhere
    steps = False  # whether jobgen's step takes the place of srun's, which has GPUs
    mode = ""  # torchrun, direct, plain, or once, on the first of all nodes
    shares = ""  # what gives the cores to its processes, which have one thread from torchrun

    def __init__(self, script: Script, launch: Statement, reader: Reader, shape: Request) -> None:
        self.script, self.statement, self.reader, self.shape = script, launch, reader, shape
        self.command = expand_command(launch.first, reader.variables)
        if idle := FORMS["idle-wrapper"].match(" ".join(self.command.texts)):
            self.command = self.command._replace(words=self.command.words[idle[0].count(" ") :])
        self.started = unwrap(self.command.words)
        self.torchrun = self.started.torchrun
        self.tasks = shape.tasks  # of each node
        self.dropped: list[str] = []  # options of the launcher
        self.values: dict[str, Any] = {}  # of `run` and `launch`

    def read(self, way: str) -> None:
        """Find what the line starts; raise NotStraightError where that is not sure."""
        self._check_words()
        names = [launcher.name for launcher in self.started.launchers]
        steps = names == ["srun"] or (self.torchrun and names)
        self.steps = [names, way, self.shape.gpus > 0] == [["srun"], "jobgen", True]
        self._refuse(WHY.LAUNCH, len(names) > 1)
        if way == "once" or (names and not (steps or self.is_alone)):
            self._launch_once()
            return
        if steps:
            self._read_step(self.started.launchers[0])
        else:
            reason = WHY.BASH if self.started.name[:1] == "$" else WHY.FIRST_NODE
            self._refuse(reason, self.shape.nodes > 1)
            self.tasks = 1
        self._drop_output()
        if self.torchrun:
            try:  # jobgen's agents in the place of the line's
                self._launch_agents(self.torchrun)
                return
            except NotStraightError:
                if not self.is_alone:
                    raise
        self._launch_program()

    @property
    def is_alone(self) -> bool:
        """Whether one process starts, on one node."""
        return self.shape.nodes == 1 and self.tasks == 1

    def _refuse(self, reason: str, *holds: object) -> None:
        refuse(self.statement.line, reason, *holds)

    def _check_words(self) -> None:
        program = self.started.program
        self._refuse("it reads the lines below", *(one.heredocs for one in self.statement.commands))
        self._refuse(WHY.LAUNCH, not program, *(one.end == "&" for one in self.statement.commands))
        self._refuse(WHY.LINES, list_inner(self.started, self.command))
        bare = self.torchrun and not self.torchrun.program
        lacks = bare or re.fullmatch(r"python[\d.]*|-[^=]*", program[-1].text)
        self._refuse(WHY.OF_ARGUMENTS, lacks and re.search(r"\$\{?[@*]", self.statement.text))

    def _count(self, text: str) -> int:
        """Return the number that the value of an option is; 1 for an option without one."""
        value = (self.reader.variables.tell(text) or "") if text else "1"
        number = re.fullmatch(r"[1-9]\d{0,5}", value, re.ASCII)
        self._refuse(f"the script does not say which number {text} is", not number)
        return int(value)

    def _read_step(self, step: Launcher) -> None:
        counts = " ".join(step.row.get(kind, "") for kind in ("tasks", "each", "nodes")).split()
        for option, value in step.options:
            long = self.script.can.short_options.get(option[1:], option)
            if option not in counts:
                idle = FORMS["idle-step"].fullmatch(f"{step.name} {option} {value}")
                left = not idle and self.script.value(long) != value
                self._refuse(f"import does not take over {step.name}'s {option}", left)
                self.dropped.append(option)
        self._refuse(WHY.SPREADS, not self.shape.tasks)
        starts = count_reach(self.script, step)
        self.tasks, count = starts.each, starts.each * starts.nodes
        free = self.tasks > 1 and "none" in str(step.value("--cpu-bind", "--cpu_bind"))
        differs = starts.nodes != self.shape.nodes or step.read_count("tasks", count) != count
        self._refuse(WHY.LAUNCH, not count, differs, free)
        self._check_bound()

    def _check_bound(self) -> None:
        bound = self.script.value("--gpus-per-task", "--ntasks-per-gpu", "--gpu-bind")
        shared = self.shape.gpus > 1 and self.script.value("--ntasks-per-gpu")
        apart = bound and (self.tasks > 1 or shared) and self.script.value("--gpu-bind") != "none"
        self._refuse("Slurm gives each task its own GPUs", apart)

    def _launch_agents(self, torchrun: Agent) -> None:
        self._check_agents(torchrun)
        count = torchrun.tell("processes")
        processes = (count in ("gpu", "auto") and self.shape.gpus) or self._count(count)
        self.shares = "torchrun" if processes > 1 else ""
        agent = self.started.program[0]  # whose folder has an environment
        python = Word(re.sub(r"torchrun(?=\W*$)", "python3", agent.raw), agent.line, agent.column)
        module = [Word("-m", agent.line, agent.column)] if "-m" in torchrun.options else []
        self.bare = False
        values = self._name_program([python, *module, *torchrun.program])
        values["environment.uv"] = bool(self.started.runner)
        self.dropped += [name for name in torchrun.options if FORMS["rendezvous"].match(name)]
        if (restarts := torchrun.tell("--max-restarts")) not in ("", "0"):
            values["launch.max_restarts"] = self._count(restarts)
        self._finish("torchrun", values, processes)

    def _check_agents(self, torchrun: Agent) -> None:
        runner, started = " ".join(x.text for x in self.started.runner), self.started
        around = [*started.wrapper, *started.assignments, *started.wrappers]
        unknown = sorted(torchrun.options.keys() - _TORCHRUN - _TORCHRUN_LOGS - {"--use-env"})
        by_launch = torchrun.called == "torch.distributed.launch"
        gives_rank = by_launch and "--use-env" not in torchrun.options
        self._refuse(f"{self.tasks} torchrun agents start on each node", self.tasks != 1)
        self._refuse(f"import does not take over torchrun's {' '.join(unknown)}", unknown)
        self.logged |= not _TORCHRUN_LOGS.isdisjoint(torchrun.options)
        # Of the environments that a runner brings, a key names that of uv alone, in this folder.
        foreign = runner and (runner != "uv run" or self.moved or "UV_" in self.script.text)
        self._refuse("import does not take over what starts torchrun", around, foreign)
        other = self._count(torchrun.tell("nodes")) != self.shape.nodes
        self._refuse(WHY.LAUNCH, other, gives_rank)

    def _launch_program(self) -> None:
        words, name, agent = self._list_own_words(), self.started.name, self.started.agent
        self._refuse(WHY.LAUNCH, agent and self.tasks != 1)
        by_itself = agent or name in read_names("shells")
        mode = "plain" if self.is_alone or (by_itself and self.tasks == 1) else "direct"
        # A script may call torchrun; where jobgen knows of GPUs, it leaves their threads to it.
        shell = re.search(r"(^|\.)(ba)?sh plain 0$", f"{name} {mode} {self.shape.gpus}")
        # What PBS tells it, an agent hands on.
        self.shares = name if (agent if self.script.can.chunks else shell) else ""
        self.bare = self.bare and self.is_alone
        values = {**self._name_program(words), "launch.mode": mode}
        self._finish(mode, values, self.tasks if mode == "direct" else 0)

    def _list_own_words(self) -> Sequence[Word]:
        started = self.started
        if not started.launchers or started.launchers[0].name != "srun":
            return self.command.words
        words = [*started.wrapper, *started.runner, *started.program]
        # srun finds a script in its own folder too, exec on PATH alone.
        in_folder = re.fullmatch(r"[\w.-]+\.(sh|py)", words[0].text)
        self._refuse(WHY.LAUNCH, in_folder, started.assignments, started.wrappers)
        return words

    def _launch_once(self) -> None:
        """The script's own launcher, once, on the first node, with all of its words."""
        words = self.command.words
        step = name_kind(find_launcher([word.text for word in words])) == "step"
        # pbsdsh hides how its tasks end, as lint says beside a body.
        bare = not self.started.launchers  # behind what import does not take off
        self._refuse(WHY.LAUNCH, not step, bare, words[0].text == "pbsdsh", self.started.agent)
        self._refuse(WHY.SPREADS, not self.tasks)
        self._check_bound()
        self._drop_output()
        values: dict[str, Any] = {"run.command": self._read_words(words), "launch.mode": "plain"}
        # mpirun starts as many as there are slots: without tasks, one for each CPU of a whole node.
        asked = self.script.value("--ntasks-per-node", "--ntasks")
        starts = count_reach(self.script, self.started.launchers[0])
        if (self.script.can.chunks, starts.nodes > 0, starts.each) == (True, True, 1):
            self.tasks = 1  # whatever room there is for others
        if self.tasks != 1 or asked:
            values["launch.processes_per_node"] = self.tasks
        self._finish("once", values)

    def _drop_output(self) -> None:
        """Leave the program's output to jobgen's logs; refuse where it is read by anything."""
        *before, _ = self.statement.commands
        others, redirects = self.statement.commands[1:], self.command.redirects
        joined = any(item.end not in ("|", "|&") for item in before)
        read = any("<" in item.operator for item in redirects)
        self._refuse(WHY.LAUNCH, joined, read, any(item.name != "tee" for item in others))
        to_file = {item.target.text for item in redirects} - {"1", "2", "&1", "&2"}
        self.logged |= bool(to_file or others)
        self.dropped += re.findall(r"^\s*time\b", self.statement.text)

    def _name_program(self, program: Sequence[Word]) -> dict[str, Any]:
        read = self._read_words(program)
        first, *rest = read
        if rest[:1] == ["-u"]:
            del rest[0]
        old = FORMS["old"].match(f"{first}\n{self.script.text}")
        python = first in ("python", "python3") and not any((self.bare, old))
        named = self._name_python(rest) if python else {}
        if isinstance(first, dict):
            self._refuse(WHY.BASH, not re.match(r"\$\{?[A-Z_]+\}?/", first["value"]))
        return named or {"run.command": read}

    def _name_python(self, words: list[Any]) -> dict[str, Any]:
        """Return the keys of `run` for what Python runs; none where only a command says it."""
        program, *arguments = words or [""]
        if program == "-m" and arguments:
            return {"run.module": arguments[0], "run.args": arguments[1:]}
        script = get_text(program)
        # A variable that the setup exports is set after jobgen has looked for the file.
        own = list_names(script) & self.reader.variables.assigned
        here = not self.moved or script[:1] == "/"
        sure = script.endswith(".py") and here and not own
        return {"run.script": script, "run.args": arguments} if sure else {}

    def _read_words(self, words: Sequence[Word]) -> list[Any]:
        pairs = zip(words, (None, *words), strict=False)
        return [self.reader.read_word(word, after) for word, after in pairs]

    def _finish(self, mode: str, values: dict[str, Any], processes: int = 0) -> None:
        if processes not in (0, self.shape.gpus or 1):
            values["launch.processes_per_node"] = processes
        self.mode, self.values = mode, values
        program = [values.get("run.script"), values.get("run.module"), *self.started.texts[:2]]
        program += values.get("run.command", [])[:2]
        self._refuse(WHY.OF_CONDA, values.get("run.command", [""])[0] in ("conda", "mamba"))
        self._refuse(WHY.OF_ARGUMENTS, re.search(r"<\d+>", str(program)))
