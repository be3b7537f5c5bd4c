"""A straight script as a spec that a person would have written."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Sequence
from itertools import pairwise

from jobgen.batchscript import purposes
from jobgen.batchscript.bash import Command
from jobgen.batchscript.convert import straight
from jobgen.batchscript.convert.environment import Prelude, follow_statement, list_needed
from jobgen.batchscript.convert.launch import LaunchLine, read_shape
from jobgen.batchscript.convert.straight import NotStraightError, Statement, goes_back, refuse
from jobgen.batchscript.convert.values import Reader
from jobgen.batchscript.directives import ARRAYS, join_select, list_refused, render_directives
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.purposes import ENVIRONMENTS, FORMS, READIES, WHY
from jobgen.batchscript.readable import find_shell_flags
from jobgen.batchscript.reader import Script
from jobgen.errors import SpecError


def write_clean(script: Script, draft: Draft) -> Draft:
    """Return a draft that says all of a script; raise NotStraightError where only bash can."""
    reasons = []
    for way in ("jobgen", "once"):  # as jobgen's programs start, or by its own launcher
        try:
            return _CleanSpec(script, copy.deepcopy(draft), way).write()
        except NotStraightError as reason:
            reasons.append(reason)
    first, second = reasons  # an option of srun keeps a body from jobgen's launch alone
    raise second if "over srun's -" in first.reason and second.reason != WHY.LAUNCH else first


class _CleanSpec:
    """One script, and the draft that is to say all of it."""

    def __init__(self, script: Script, draft: Draft, way: str) -> None:
        self.script, self.draft, self.once = script, draft, way == "once"
        self._check_directives()
        if not (script.resource("select") or {"resources.nodes", "site"} & draft.values.keys()):
            join_select(draft)
        self._split(straight.read_statements(script))
        self._check_after()
        shape = read_shape(script, draft, self.launch.line)
        self.reader = self._make_reader()
        for statement in self.before:
            follow_statement(statement, self.reader)
        self.start = straight.find_start(script)
        self.read = LaunchLine(script, self.launch, self.reader, shape)
        names = {command.name for item in self.before for command in item.commands}
        self.read.bare = names.isdisjoint(ENVIRONMENTS)
        goes = [x for x in self.before if {y.name for y in x.commands} & {"cd", "pushd"}]
        stays = [goes_back(script, statement, self.reader.variables) for statement in goes]
        self.read.moved = bool(self.start) or not all(stays)
        self.read.read(way)

    def write(self) -> Draft:
        """Return the draft; raise NotStraightError where its job would not be the script's."""
        prelude = self._read_prelude(self._read_prelude().list_doubles())
        for path, value in self.read.values.items():
            self.draft.put(path, value)
        fewer = self.read.tasks != self.script.request.tasks  # each of which would bring its CPUs
        if not self.script.can.chunks and (fewer or self.script.value("--cpus-per-gpu")):
            self.draft.put("resources.cpus_per_node", self.script.request.cpus)
        keys = str([self.read.values, prelude.keys, prelude.variables, prelude.modules])
        asked = self.reader.asked | prelude.reader.asked
        self._note_losses(asked.intersection(re.findall(r"\$\{?(\w+)", keys)))
        prelude.write()
        self._refuse_loss()
        return self.draft

    def _check_directives(self) -> None:
        for item in reversed(self.script.read_directives):  # the last of an option counts
            asked = f"{item.option} {item.value}"
            unsaid = item.option in ARRAYS and "array.tasks" not in self.draft.values
            acted = FORMS["acted-on"].match(f"{asked}\n{self.script.text}")
            refuse(item.line, WHY.KEY, unsaid, acted)
            if FORMS["whole-node"].match(f"{asked}\n{self.script.text}"):
                self.draft.check(item.line, item.text, WHY.ALL_CPUS)
            refuse(item.line, WHY.SIGNAL, FORMS["signals"].match(f"{asked} {self.once}"))

    def _split(self, statements: list[Statement]) -> None:
        launches = [item for item in statements if item.kind == "launch"]
        if not launches:
            last = statements[-1].line if statements else self.script.body_line
            raise NotStraightError(last, "no line starts a program that jobgen knows")
        nodes = 1 if self.once else self.draft.values.get("resources.nodes", 1)
        for early, later in pairwise(launches):
            programs = [x for x in early.commands if straight.classify(x) == "launch"]
            refuse(later.line, WHY.SEVERAL, nodes > 1, not all(map(_prepares, programs)))
        at = statements.index(launches[-1])
        before = [x._replace(kind="once") if x in launches else x for x in statements[:at]]
        own, self.launch = straight.split_assignments(launches[-1])
        self.before, self.after = before + own, statements[at + 1 :]

    def _check_after(self) -> None:
        kept = FORMS["keeps-code"].findall("\n".join(item.text for item in self.after))
        codes = "|".join([FORMS["code"].pattern, *(rf"\b{name}\b" for name in kept)])
        for item in self.after:
            pure = all(map(purposes.list_pure, item.commands))
            idle = bool(FORMS["idle-kind"].fullmatch(item.kind)) and pure
            idle |= all(map(purposes.only_looks, item.commands))
            ends = "exit" in [command.name for command in item.commands][1:]
            lasts = FORMS["lasts"].search(item.text)
            refuse(item.line, WHY.AFTER, ends and not re.search(codes, item.text), lasts, not idle)
            self.draft.keep(item.line, item.text)

    def _make_reader(self) -> Reader:
        defaults = {name: own for _, name, own in straight.list_submitted(self.script) if own}
        places = {str(number): f"<{number}>" for number in range(1, 100)}  # of arguments
        reader = Reader(self.script.make_variables(defaults | places), sourced=False)
        reader.variables.values |= {"@": (), "*": ()}
        reader.variables.assigned |= defaults.keys()  # which a file may set
        return reader

    def _read_prelude(self, doubles: Sequence[Statement] = ()) -> Prelude:
        before = [statement for statement in self.before if statement not in doubles]
        needed = list_needed([f"${{{name}}}" for name in self.reader.named], before)
        while True:
            prelude = Prelude(self.draft, self.read, needed, self.start)
            prelude.careful = "e" in find_shell_flags(self.script)
            prelude.several = sum(item.kind in ("venv", "conda") for item in self.before) > 1
            reader = self._make_reader()
            for statement in self.before:
                if statement in before:
                    prelude.take(statement, reader)
                follow_statement(statement, reader)
            late = (f"${name}" for name in prelude.late)
            more = list_needed([*prelude.setup, *late], before)
            if more <= needed:
                return prelude
            needed |= more

    def _note_losses(self, outside: set[str]) -> None:
        draft, script, line = self.draft, self.script, self.launch.line
        if self.read.logged:
            draft.check(line, self.launch.text, "its output goes to jobgen's logs instead")
        own = self.read.started
        words = " ".join([self.read.mode, *(x.name for x in own.launchers), *own.texts])
        if FORMS["lacks-step"].match("\n".join([words, *os.listdir(), *script.beside.values()])):
            draft.check(line, self.launch.text, WHY.NO_STEP)
        if self.read.dropped:
            draft.keep(line, " ".join(self.read.dropped))
        self._note_tasks()
        self._note_threads()
        for name in sorted(outside):
            use = straight.find_use(script, name, *self.launch.commands) or (line, f"${name}")
            draft.check(*use, WHY.FROM_OUTSIDE)

    def _note_threads(self) -> None:
        script = self.script
        known = FORMS["threads"].search(f"{script.target} {script.request.cpus}\n{script.text}")
        if self.read.shares and not known:
            reason = WHY.ONE_THREAD if self.read.torchrun else WHY.ITS_THREADS
            reason = WHY.CPU_THREADS if script.can.chunks else reason
            self.draft.check(self.launch.line, self.read.shares, reason)

    def _note_tasks(self) -> None:
        if self.read.mode == "plain" and self.script.request.tasks > 1:
            asks, items = FORMS["tasks"].match, self.script.read_directives
            asked = [(one.line, one.text) for one in items if asks(f"{one.option} {one.value}")]
            for at in filter(None, [*asked[-1:], straight.find_use(self.script, "PBS_NODEFILE")]):
                self.draft.check(*at, WHY.ONE_TASK)
            program = f"{' '.join(self.read.started.texts)}\n{self.script.text}"
            for item in items:
                if FORMS["slots"].match(f"{item.option} {item.value}\n{program}"):
                    self.draft.check(item.line, item.text, WHY.ONE_SLOT)

    def _refuse_unset(self, written: Script) -> None:
        """Raise where the spec reads a variable of Slurm's that its own directives do not set."""
        text = str(self.draft.tree())
        for item in self.script.read_directives:
            name = f"SLURM_{item.option[2:].replace('-', '_').upper()}"
            same = self.script.tell(item.option, name) == written.tell(item.option, name)
            read = re.search(rf"\b{name}\b", text)
            refuse(item.line, f"${name} comes from {item.option}", read and not same)

    def _refuse_loss(self) -> None:
        try:
            written = render_directives(self.draft)
        except SpecError as error:
            first = error.problems[0]
            why = f"jobgen refuses the spec: {first.path} {first.message}"
            asks, items = first.message.partition(" asks ")[0], self.script.read_directives
            lines = [x.line for x in items if f"{x.option} {x.value}".startswith(asks)]
            raise NotStraightError([*lines, self.launch.line][0], why) from None
        self._refuse_unset(written)
        mixed = WHY.MIXED in dict(list_refused(written)).values()
        refuse(self.launch.line, WHY.MIXED, mixed and not self.script.resource("select"))
        asked, gets = self.script.request, written.request
        counts = [(asked.nodes, gets.nodes), (asked.gpus, gets.gpus), (asked.cpus, gets.cpus)]
        if self.draft.load().spec.launches_itself:
            counts.append((self.read.tasks, gets.tasks))
        refuse(self.launch.line, WHY.SHAPE, *(want and want != given for want, given in counts))


def _prepares(first: Command) -> bool:
    """Whether a program is known to get things ready, and no more."""
    launched = first.end == "&" or unwrap(first.words).is_launched
    return not launched and READIES.match(" ".join(first.texts)) is not None
