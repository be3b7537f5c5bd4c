"""What a script does before its program starts, as `environment`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from jobgen.batchscript.bash import Command, Word
from jobgen.batchscript.convert import straight
from jobgen.batchscript.convert.launch import LaunchLine
from jobgen.batchscript.convert.straight import NotStraightError, Statement, refuse
from jobgen.batchscript.convert.values import Reader, get_text
from jobgen.batchscript.directives import ARRAYS
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.expand import PlainVariables, expand_command, follow, list_names
from jobgen.batchscript.purposes import FORMS, WHY, is_pure, list_substituted, reads_settings
from jobgen.spec.value_types import TAKEN

# Variables that a spec may set; the others are jobgen's own.
_VARIABLE = re.compile(rf"(?!({TAKEN})$)[A-Za-z_]\w*", re.ASCII)


def _name(word: Word) -> str:
    return re.split(r"\+?=|\[", word.raw, maxsplit=1)[0]


class Prelude:
    """What stands before the launch, read in order."""

    several = False  # whether one environment is activated after another, which no key says

    def __init__(self, draft: Draft, launch: LaunchLine, needed: set[str], goes: list[str]) -> None:
        self.draft, self.launch, self.shape, self.needed = draft, launch, launch.shape, needed
        self.modules, self.variables = dict[str, Any](), dict[str, Any]()
        self.keys: dict[str, str] = {}  # venv or conda
        self.phase = 0  # of jobgen's own order: modules, venv or conda, variables, the setup
        # Whether the setup leaves the folder, may fail, or sets what only bash knows.
        self.moved, self.fails, self.touched = bool(goes), False, False
        self.folder = ""  # the one that it goes to
        # Whether the script ends at its first failure, and what a pipe begins with counts, too.
        self.careful = self.piped = False
        # Its lines, first the one that goes elsewhere and may fail, and those of a hook.
        self.setup, self.hooked = [*goes], list[str]()
        self.exported, self.late = set[str](), set[str]()  # those that the setup exports, too
        self.held = set[str]()  # those whose values others have taken over
        self.plain: list[tuple[Statement, str, Any]] = []  # what it only assigns, with the values
        self.reader = Reader(PlainVariables({}, {}), sourced=False)
        mode = launch.mode if self.shape.nodes == 1 or launch.mode == "once" else ""
        self.alone = mode in ("plain", "once")  # whether jobgen starts one process
        # Whether the setup runs once: for one process, or for the agent of one node.
        self.once = mode in ("plain", "once", "torchrun")

    def take(self, statement: Statement, reader: Reader) -> None:
        """Take over one statement; `reader` has the variables as they are there."""
        self.reader = reader
        back = straight.goes_back(self.launch.script, statement, reader.variables)
        stays = [back, self.moved] == [True, False]
        take = getattr(self, f"_take_{'prints' if stays else statement.kind}", None)
        if take:
            take(statement)
            return
        refuse(statement.line, WHY.BLOCK, statement.kind == "goes")  # elsewhere than to its folder
        refuse(statement.line, WHY.SETUP, statement.kind in ("ends", "fails"))
        refuse(statement.line, WHY.SETUP, statement.kind != "repeats" and not self.once)
        self._keep(statement)

    def _keep(self, statement: Statement, text: str = "", *, phase: int = 3) -> None:
        self._check_steady(statement)
        refuse(statement.line, WHY.KEY, re.search("[\ud800-\udfff]", statement.text))  # no UTF-8
        if FORMS["hooked"].fullmatch(statement.first.name):
            self.setup += self.hooked
            self.hooked = []
        self.setup.append((text or statement.text) + self._let_fail(statement))
        if both := FORMS["two-folders"].fullmatch("\n".join(self.setup[-2:])):
            self.setup[-2:] = ["cd {}/{}".format(*both.groups("~"))]  # one says the same
        self.moved |= any(x.name in ("cd", "pushd", "popd") for x in statement.commands)
        if FORMS["neutral"].fullmatch(statement.text):
            return
        if statement.kind not in ("assigns", "export"):
            self.touched |= not all(map(_is_inert, statement.commands))
        self.phase = max(self.phase, phase)

    def _let_fail(self, statement: Statement) -> str:
        """Return what lets a line fail as in the script, where no `set +e` has to."""
        if self.careful or FORMS["works"].fullmatch(f"{statement.kind} {statement.text}"):
            return ""
        self.fails |= not FORMS["plain-list"].fullmatch(statement.text)
        return " || true"

    def _take_prints(self, statement: Statement) -> None:
        self.draft.keep(statement.line, statement.text)

    def _take_sets(self, statement: Statement) -> None:
        self.careful |= bool(re.search(r" -\w*e|errexit", " ".join(statement.first.texts)))
        self.piped |= "pipefail" in statement.first.texts
        self._take_prints(statement)

    def _take_hook(self, statement: Statement) -> None:
        self.hooked.append(statement.text)
        self.phase = max(self.phase, not FORMS["found"].match(statement.text))  # by jobgen itself

    def _take_folder(self, statement: Statement) -> None:
        words = expand_command(statement.first, self.reader.variables).words
        refuse(statement.line, WHY.BASH, words[-1].text == "-")  # back to where it was before
        self.folder = "" if self.moved else os.path.join(get_text(self._read(words[-1])), "")
        self._keep(statement)

    def _read(self, word: Word) -> Any:
        """Return what a key says for a word; an empty text if only bash can say it."""
        try:
            return self.reader.read_word(word)
        except NotStraightError:
            return ""

    def _take_module(self, statement: Statement) -> None:
        expanded = expand_command(statement.first, self.reader.variables)
        words = [str(self._read(word)) for word in expanded.words[1:]]
        text = "\n".join([expanded.name, *words]).replace("--force\npurge", "force-purge")
        match = FORMS["modules"].fullmatch(f"{'load' in self.modules} {text}")
        beside = FORMS["beside"].fullmatch("\n".join([*self.keys, text]))
        if self.phase > bool(beside) or not match:
            self._keep(statement)
            return
        key = str(match.lastgroup)
        words = match[key].split("\n")
        self.modules[key] = words[0] if key == "first" else self.modules.get(key, []) + words

    def _take_venv(self, statement: Statement) -> None:
        expanded = expand_command(statement.first, self.reader.variables)
        value = get_text(self._read(expanded.words[-1]))
        if FORMS["place-in-words"].match(f"activate {value}"):
            self.draft.check(statement.line, statement.text, WHY.PLACE)
            return
        value = re.sub("^(?=[^/$]+/)", lambda _: self.folder, value)  # of the folder gone to
        left = self.moved and re.match("[^/$]+/", value)
        own = list_names(value) & self.reader.variables.assigned  # which only the setup sets
        late = [*filter(FORMS[f"before-{statement.kind}"].fullmatch, self.variables)]
        if left or own or self.several or late or self.phase > 2 or not value:
            self._keep(statement)
            return
        self.keys[f"environment.{statement.kind}"] = value.removesuffix("/bin/activate")
        self.phase = max(self.phase, 1)

    _take_conda = _take_venv

    def _take_assigns(self, statement: Statement) -> None:
        words = statement.first.assignments
        names = set(map(_name, words))
        exported = FORMS["exports-all"].match("\n".join(self.setup))
        refuse(statement.line, WHY.SETUP, exported, names & self.exported)
        if not any(map(FORMS["exported"].fullmatch, names)) and not names & self.needed:
            if not all(is_pure(word.raw) for word in words):
                self._keep(statement)
            return
        refuse(statement.line, WHY.SETUP, len(words) > 1)
        name, _, raw = words[0].raw.partition("=")
        self.plain.append((statement, name, self._read_value(name, raw, statement.line)))
        seen = names & self.launch.reader.named
        phase = self._find_phase(words)
        self._keep(statement, f"export {statement.text}" if seen else "", phase=phase)

    def list_doubles(self) -> list[Statement]:
        """Return the assignments of variables that have the same value from the beginning."""
        others = {name for _, name, value in self.plain if self.variables.get(name, self) != value}
        return [statement for statement, name, _ in self.plain if name not in others]

    def _find_phase(self, words: Iterable[Word]) -> int:
        """Return 0 where assignments that stay are the same before modules and behind them."""
        raws = " ".join(word.raw for word in words)
        others = list_names(raws) - self.reader.variables.assigned
        same = all(map(FORMS["of-job"].match, others)) and not FORMS["of-modules"].search(raws)
        return 3 if not same or any(map(FORMS["ordered"].fullmatch, map(_name, words))) else 0

    def _take_export(self, statement: Statement) -> None:
        words = self._list_exports(statement)
        # A name alone is exported too, though it may get its value only later.
        self.exported |= {_name(word) for word in statement.first.words[1:]}
        left = [word for word in words if not (self._is_told(word, statement) or self._hoist(word))]
        if left:
            own = " ".join(["export", *(word.raw for word in left)])
            text = statement.text if len(left) == len(words) else own
            self._keep(statement, text, phase=self._find_phase(left))

    def _list_exports(self, statement: Statement) -> list[Word]:
        """Return the assignments of an `export`; a name alone exports the value that it has."""
        words = []
        for word in statement.first.words[1:]:
            known = FORMS["assigns"].match(word.raw) or word.raw.isidentifier()
            refuse(statement.line, WHY.BASH, not known)
            if word.raw in self.reader.variables.assigned:
                words.append(Word(f'{word.raw}="${word.raw}"', word.line, word.column))
            elif FORMS["assigns"].match(word.raw):
                words.append(word)
        return words

    def _hoist(self, word: Word) -> bool:
        """Put a variable among those of the spec; False where only bash can set it."""
        name, _, raw = word.raw.partition("=")
        value = self._read_value(name, raw, word.line)
        if value is None:
            self.late.add(name)
            return False
        self.held |= list_names(get_text(value)) & self.variables.keys() - {name}
        self.variables.pop(name, None)  # what it names stands before it
        self.variables[name] = value
        self.phase = max(self.phase, 2 if FORMS["ordered"].fullmatch(name) else 0)
        return True

    def _read_value(self, name: str, raw: str, line: int) -> Any:
        if not self._is_early(name) or not _VARIABLE.fullmatch(name):
            return None
        known = {*self.variables, "PATH", "LD_LIBRARY_PATH", "PYTHONPATH"}
        field = self.reader.variables.join(raw)
        try:
            value = self.reader.read_field(field, line, assigned=True, free=known)
        except NotStraightError:
            return None
        # What it adds to, the folder that it leaves, and an index have another value by then.
        changed = self.late | {name} & self.variables.keys() | ({"PWD"} if self.moved else set())
        numbered = ARRAYS.values() if "array.numbers" in self.draft.values else ()
        first = re.findall(r"export (\w+)=", self.draft.values.get("environment.setup", ""))
        changed |= {*numbered, *first}
        text, before = get_text(value), self.variables.get(name)
        if type(before) is type(value) is dict:  # what it was goes in the place of its name
            value = {**value, "value": re.sub(rf"\${name}\b", lambda _: get_text(before), text)}
            text = re.sub(rf"\${name}\b", "", text)
        return None if list_names(text) & changed else value

    def _is_early(self, name: str) -> bool:
        """Whether a variable can be set before the setup, as those of a spec are."""
        setup, plain = "\n".join(self.setup), [own for _, own, _ in self.plain]
        named = re.search(rf"\b{name}\b", setup)
        late = self.phase > 2 and (self.touched or named or FORMS["ordered"].fullmatch(name))
        late = late or (name not in plain and re.search(rf"\$\{{?{name}\b", setup))  # as it was
        return not late and name not in self.reader.variables.loose | self.held

    def _is_told(self, word: Word, statement: Statement) -> bool:
        """Whether jobgen says a variable as the script does, or the launch line has its words."""
        name, _, raw = word.raw.partition("=")
        own = FORMS.get(f"of-{self.launch.mode}", FORMS["of-process"]).fullmatch(name)
        if self.launch.steps and FORMS["of-gpus"].fullmatch(name):
            self.draft.check(statement.line, statement.text, WHY.OF_SRUN)
            return True
        if not FORMS["of-jobgen" if self.alone else "told"].fullmatch(name):
            line = f"{word.raw}\0{self.launch.statement.text}\n{self.launch.script.text}"
            return FORMS["written-out"].match(line) is not None
        value = self.reader.variables.tell(raw) or ""
        addressed = name == "MASTER_ADDR" and value not in ("", "localhost", "127.0.0.1")
        world = str(self.shape.nodes * self.launch.tasks)
        # An agent says it to its own processes.
        other = name == "WORLD_SIZE" and value not in ("", world) and not self.launch.started.agent
        refuse(statement.line, WHY.SETUP, own, addressed, other)
        self._take_prints(statement)
        return True

    def _check_steady(self, statement: Statement) -> None:
        """Raise where a value is another on every node, and more than one process sees it."""
        words = [word for item in statement.commands for word in item.all_words]
        asked = straight.find_arguments(FORMS["no-argument"].sub("", statement.text))
        refuse(statement.line, WHY.OF_ARGUMENTS, asked)
        of_step = re.search(rf"\$\{{?({FORMS['of-step'].pattern})\b", statement.text)
        step = self.launch.mode != "once" and FORMS["step"].search(statement.text)
        differs = not self.once and not all(map(_is_steady, words))
        refuse(statement.line, WHY.SETUP, differs, step, of_step)

    def write(self) -> None:
        """Put what was read into the draft."""
        modules = {key: own for key in ("first", "use", "load") if (own := self.modules.get(key))}
        simple = modules.keys() == {"load"}
        self.draft.put("environment.modules", modules["load"] if simple else modules)
        self.draft.values |= self.keys
        variables = self.draft.values.get("environment.variables", {}) | self.variables
        self.draft.put("environment.variables", variables)
        if not (modules or self.keys):  # which do the same, for what the program calls
            self.setup += filter(FORMS["brings"].match, self.hooked)
        text = re.sub(r"(?m) \|\| true$" if self.fails else "$^", "", "\n".join(self.setup))
        self.draft.setup([*self._list_options(text), *text.splitlines()])

    def _list_options(self, text: str) -> list[str]:
        """Return the line that sets what the script's own shell has otherwise, if any does."""
        options = ["+e"] if self.fails > self.careful else []
        why = "a line that fails does not end the job" if options else "a pipe's last part counts"
        text = FORMS["sure-pipe"].sub("", "\n".join([*options, text]))
        if FORMS["pipes"].search(text) and not self.piped:
            options.append("+o pipefail")
        return [f"set {' '.join(options)}    # as in the script, {why}"] if options else []


def _is_inert(command: Command) -> bool:
    """Whether a command neither sets variables of the script nor reads those of programs."""
    text = " ".join(command.texts)
    return FORMS["inert"].fullmatch(text) is not None and not reads_settings(command)


def _is_steady(word: Word) -> bool:
    inner = (text.strip() for text in list_substituted(word.raw))
    return not FORMS["unsteady"].search(word.active) and all(map(FORMS["steady"].fullmatch, inner))


def follow_statement(statement: Statement, reader: Reader) -> None:
    """Take over what a statement does to the variables."""
    variables = reader.variables
    for command in statement.commands:
        if statement.kind in ("assigns", "export"):
            follow(command, variables)
        elif reads_settings(expand_command(command, variables)):
            variables.forget(variables.assigned)
            reader.sourced = True
    if statement.kind in ("module", "venv", "conda", "hook", "repeats", "once", "launch"):
        for name in variables.assigned & variables.values.keys():
            if not all(map(FORMS["of-job"].match, variables.held.get(name, ()))):
                variables.forget([name])


def list_needed(texts: Iterable[str], statements: list[Statement]) -> set[str]:
    """Return the names of plain variables that texts of bash need, and what those need in turn."""
    needed = set[str]().union(*map(list_names, texts))
    assigns = [item.first.assignments for item in statements if item.kind == "assigns"]
    for word in reversed([word for words in assigns for word in words]):
        if _name(word) in needed:
            needed |= list_names(word.active)
    return needed
