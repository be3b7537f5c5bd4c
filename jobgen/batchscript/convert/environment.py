"""What a script does before its program starts, as `environment`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from jobgen.batchscript.bash import Word
from jobgen.batchscript.convert.launch import LaunchedProgram
from jobgen.batchscript.convert.straight import (
    EXPORTED,
    NotStraightError,
    Statement,
    goes_back,
    write_arguments,
)
from jobgen.batchscript.convert.values import Reader, make_value
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.expand import (
    PlainVariables,
    expand_command,
    follow,
    list_names,
)
from jobgen.batchscript.purposes import FAMILIAR, is_pure, list_substituted
from jobgen.batchscript.reader import Request
from jobgen.spec.value_types import TAKEN

# Their order beside modules and the like matters.
_PATHS = re.compile(r".*PATH|CUDA_HOME|TMPDIR|HOME|CC|CXX|LD_PRELOAD")
# What jobgen tells each process by itself.
_TOLD = re.compile(r"MASTER_(ADDR|PORT)|WORLD_SIZE")
_RANKS = re.compile(r"((LOCAL|GROUP|ROLE)_)?RANK|LOCAL_WORLD_SIZE")
_OF_SRUN = re.compile(r"SRUN_\w+|SLURM_(CPU_BIND|MPI_TYPE|KILL_BAD_EXIT|EXPORT_ENV|EXACT)")
# What a job has from its beginning to its end.
_OF_JOB = re.compile(r"(SLURM|PBS)_\w+|(HOME|USER|SCRATCH|WORK|PROJECT)$")
# The same on every node of a job.
_STEADY = re.compile(
    r"(pwd|whoami|id -un|dirname .*|basename .*|realpath .*|readlink -f .*|which \S+|cat [^|]*"
    r"|scontrol show hostnames?( \"?\$\w+\"?)?( *\| *(head -n? ?1|wc -l))?)"
)
_ASSIGNS = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_ML_COMMANDS = re.compile("-|(un)?load|swap|purge|use|reset|rm")
# Change no variable of the environment; and those that are to work.
_NEUTRAL = re.compile(r"((mkdir -p|cd) |ulimit |umask )[^;&|]*")


def _name(word: Word) -> str:
    """The variable that `NAME=...`, `NAME+=...` or `NAME[0]=...` sets."""
    return re.split(r"\+?=|\[", word.raw, maxsplit=1)[0]


# What stands first in the setup of a script that PBS starts elsewhere than jobgen does.
AT_HOME = "cd    # PBS starts a script in the home folder"


class Prelude:
    """What stands before the launch, read in order."""

    def __init__(
        self,
        draft: Draft,
        *,
        launch: LaunchedProgram,
        shape: Request,
        needed: set[str],
        at_home: bool,
    ) -> None:
        self.draft, self.launch, self.shape, self.needed = draft, launch, shape, needed
        self.modules: dict[str, Any] = {}
        self.keys: dict[str, str] = {}  # venv or conda
        self.variables: dict[str, Any] = {}
        self.setup: list[str] = [AT_HOME] if at_home else []
        self.phase = 0  # of jobgen's own order: modules, venv or conda, variables, the setup
        # Whether the setup leaves the folder, may fail, or sets what only bash knows.
        self.moved, self.fails, self.touched = at_home, False, False
        self.careful = False  # whether the script ends at its first failure
        self.hooked: list[str] = []
        self.asked: list[str] = []  # texts of the setup, which may ask for arguments
        self.exported: set[str] = set()
        self.reader = Reader(PlainVariables(), sourced=False)

    @property
    def alone(self) -> bool:
        """Whether jobgen starts one process."""
        plain = self.launch.mode == "plain" and self.shape.nodes == 1
        return plain or self.launch.mode == "once"

    @property
    def once(self) -> bool:
        """Whether the setup runs once: for one process, or for the agent of one node."""
        return self.alone or (self.launch.mode == "torchrun" and self.shape.nodes == 1)

    def take(self, statement: Statement, reader: Reader) -> None:
        """Take over one statement; `reader` has the variables as they are there."""
        self.reader = reader
        take = getattr(self, f"_take_{statement.kind}", None)
        if take:
            take(statement)
        elif statement.kind == "ends":
            raise NotStraightError(statement.line, f"'{statement.text}' stands before the program")
        elif statement.kind == "repeats" or self.once:
            self._keep(statement)
        else:
            raise NotStraightError(statement.line, "a command would run on every node")

    def _keep(self, statement: Statement, text: str = "", *, phase: int = 3) -> None:
        """Keep lines as they are, in the setup."""
        self._check_steady(statement)
        if statement.first.name in ("conda", "mamba", "micromamba"):
            self.setup += self.hooked
            self.hooked = []
        self.setup.append(text or statement.text)
        neutral = _NEUTRAL.fullmatch(statement.text)
        phase = 0 if neutral else phase
        works = (neutral and neutral[2]) or statement.kind in ("assigns", "export")
        self.fails = self.fails or not works
        self.touched = self.touched or not (works or neutral)
        self.phase = max(self.phase, phase)

    def _take_prints(self, statement: Statement) -> None:
        self.draft.keep(statement.line, statement.text, "it only prints")

    def _take_sets(self, statement: Statement) -> None:
        options = " ".join(word.text for word in statement.first.words[1:])
        odd = r"(^|\s)(--|-a|-o allexport|-f|-o noglob|-B)|nullglob|extglob|globstar"
        if re.search(odd, options):
            raise NotStraightError(statement.line, f"'{statement.text}' is left to bash")
        ends_job = bool(re.search(r"(^|\s)-\w*e|errexit", options))
        if ends_job and self.fails and not self.careful:  # only from here on
            self.setup.append("set -e")
            return
        self.careful = self.careful or ends_job
        self.draft.keep(statement.line, statement.text, "jobgen's script sets its own mode")

    def _take_hook(self, statement: Statement) -> None:
        self.hooked.append(statement.text)

    def _take_folder(self, statement: Statement) -> None:
        if goes_back(statement) and not self.moved:
            self.draft.keep(statement.line, statement.text, "jobgen's job starts there")
            return
        self._keep(statement)
        self.moved = True

    def _take_module(self, statement: Statement) -> None:
        expanded = expand_command(statement.first, self.reader.variables)
        words = [self.reader.read_word(word) for word in expanded.words[1:]]
        texts = [text for text, _ in words]
        plain = not statement.first.redirects and not any(expands for _, expands in words)
        if self.phase > 0 or not plain or not self._load(expanded.name, texts):
            self._keep(statement)

    def _load(self, name: str, words: list[str]) -> bool:
        """Take over `module load` and the like; False where keys cannot say it."""
        loaded = self.modules.setdefault("load", [])
        force = "--force" in words
        words = [word for word in words if word not in ("--force", "-q", "-s")]
        first, *rest = words or [""]
        begins = not loaded and not self.modules.get("use")
        if begins and words in (["purge"], ["reset"]):
            self.modules["first"] = "force-purge" if force and first == "purge" else first
        elif first == "use" and rest and not loaded and rest[0][:1] != "-":
            self.modules.setdefault("use", []).extend(rest)
        elif any(word.startswith("-") for word in words):
            return False
        elif first in ("load", "add") and rest:
            loaded.extend(rest)
        elif name == "ml" and first and not _ML_COMMANDS.match(first):
            loaded.extend(words)
        else:
            return False
        return True

    def _take_venv(self, statement: Statement) -> None:
        key = statement.kind
        expanded = expand_command(statement.first, self.reader.variables)
        value = self.reader.read_word(expanded.words[-1])[0].removesuffix("/bin/activate")
        sure = value and not statement.first.redirects
        sure = sure and not (self.moved and key == "venv" and value[:1] not in ("/", "$"))
        if self.phase <= 1 and not self.keys and sure:
            self.keys[key] = value
            self.phase = 1
            return
        self._keep(statement)

    _take_conda = _take_venv

    def _take_assigns(self, statement: Statement) -> None:
        words = statement.first.assignments
        names = set(map(_name, words))
        if names & self.exported:
            raise NotStraightError(statement.line, "an exported variable is assigned again")
        if not any(map(EXPORTED.fullmatch, names)) and not names & self.needed:
            if not all(is_pure(word.raw) for word in words):
                self._keep(statement)
            return
        seen = names & self.launch.names - self.reader.variables.loose
        if seen and len(words) > 1:
            raise NotStraightError(statement.line, "several values are set in one line")
        others = set().union(*(list_names(word.raw) for word in words))
        others = {name for name in others if not _OF_JOB.match(name)}
        phase = 3 if others - self.reader.variables.assigned else 0
        self._keep(statement, f"export {statement.text}" if seen else "", phase=phase)

    def _take_export(self, statement: Statement) -> None:
        words = [
            word if "=" in word.raw else Word(f'{word.raw}="${word.raw}"', word.line, word.column)
            for word in statement.first.words[1:]
            if word.text[:1] != "-"
            and ("=" in word.raw or word.raw in self.reader.variables.assigned)
        ]
        if statement.first.redirects or not all(_ASSIGNS.match(word.raw) for word in words):
            raise NotStraightError(statement.line, f"'{statement.text}' is left to bash")
        # A name alone is exported too, though it may get its value only later.
        self.exported |= {_name(word) for word in statement.first.words[1:]}
        own = [word for word in words if not self._is_told(word, statement)]
        values = {_name(word): self._hoist(word, statement) for word in own}
        if None not in values.values():
            for name, value in values.items():
                self.variables.pop(name, None)
                self.variables[name] = value
                self.phase = max(self.phase, 2 if _PATHS.fullmatch(name) else 0)
            return
        if len(own) < len(words):
            raise NotStraightError(statement.line, "several values are set in one line")
        for name in {_name(word) for word in own if _name(word) not in list_names(word.raw)}:
            self.variables.pop(name, None)
        self._keep(statement)

    def _hoist(self, word: Word, statement: Statement) -> Any:
        """Return what a key of the spec says for a variable; None where only bash can set it."""
        name, _, raw = word.raw.partition("=")
        loose = name.endswith("+") or name in self.reader.variables.loose
        late = self.phase > 2 and (self.touched or _PATHS.fullmatch(name))
        if loose or late or re.fullmatch(TAKEN, name):
            return None
        known = {*self.variables, "PATH", "LD_LIBRARY_PATH", "PYTHONPATH"}
        field = self.reader.variables.join(raw)
        try:
            text, expands = self.reader.read_field(field, statement.line, assigned=True, free=known)
        except NotStraightError:
            return None
        names = list_names(text) if expands else set()
        lost = self.moved and "PWD" in names
        again = name in names and name in self.variables  # it adds to its own value
        return None if lost or again else make_value(text, expands)

    def _is_told(self, word: Word, statement: Statement) -> bool:
        """Whether jobgen, or nothing at all, says this variable."""
        name, _, raw = word.raw.partition("=")
        if _RANKS.fullmatch(name) and not self.alone:
            raise NotStraightError(statement.line, f"{name} is set before its processes start")
        if _OF_SRUN.fullmatch(name):
            self.draft.keep(statement.line, statement.text, "jobgen's own srun asks for its share")
            return True
        if self.alone or not _TOLD.fullmatch(name):
            return False
        value = self.reader.variables.tell(raw)
        each = self.launch.values.get("launch.processes_per_node", self.shape.gpus or 1)
        each = 1 if self.launch.mode == "plain" else each
        local = value in ("localhost", "127.0.0.1") and self.shape.nodes == 1
        fixed = name == "WORLD_SIZE" and self.launch.mode != "torchrun"
        if fixed and value != str(self.shape.nodes * each):
            raise NotStraightError(statement.line, "only bash knows what WORLD_SIZE comes to")
        if name == "MASTER_ADDR" and value is not None and not local:
            message = "MASTER_ADDR is an address that the script chooses"
            raise NotStraightError(statement.line, message)
        self.draft.keep(statement.line, statement.text, "jobgen tells each process by itself")
        return True

    def _check_steady(self, statement: Statement) -> None:
        """Raise where a value is another on every node, and more than one process sees it."""
        words = [word for item in statement.commands for word in item.all_words]
        own = [item for item in statement.commands if not item.function]
        texts = [word.active for item in own for word in item.all_words]
        self.asked += texts + [doc.body for item in own for doc in item.heredocs]
        unset = {word.text for item in own if item.name == "unset" for word in item.words}
        if unset & (self.launch.names | self.needed):
            raise NotStraightError(statement.line, "'unset' of a variable is left to bash")
        for word in words if not self.once else ():
            inner = list_substituted(word.raw)
            changes = re.search(r"\$\{?(RANDOM|SECONDS|BASHPID)|\$\$", word.active)
            if changes or not all(_STEADY.fullmatch(text.strip()) for text in inner):
                raise NotStraightError(statement.line, "a value may differ between nodes")
        if match := re.search(r"\$\{?(SLURM_(PROCID|LOCALID|NODEID))\b", statement.text):
            raise NotStraightError(statement.line, f"${match[1]} is another in every task")

    def write(self, line: int, loose: frozenset[str]) -> None:
        """Put what was read into the draft; `loose` are variables that only the setup exports.

        `line` is that of the launch.
        """
        draft, modules = self.draft, {key: value for key, value in self.modules.items() if value}
        if modules:
            simple = modules.keys() == {"load"}
            ordered = {key: modules[key] for key in ("first", "use", "load") if key in modules}
            draft.put("environment.modules", modules["load"] if simple else ordered)
        for key, value in self.keys.items():
            draft.put(f"environment.{key}", value)
        for name, text, expands in self.launch.variables:
            if self.setup and name in self.reader.variables.assigned:
                raise NotStraightError(line, f"{name} of the launch line has another value before")
            if self.setup and re.fullmatch(r".*PATH|LD_PRELOAD|HOME|[a-z_\d]+", name):
                raise NotStraightError(line, f"{name} of the launch line is left to bash")
            self.variables[name] = make_value(text, expands)
        variables = draft.values.get("environment.variables", {}) | self.variables
        draft.put("environment.variables", variables or None)
        lines = [line for text in self.setup for line in text.splitlines()]
        if self.fails and not self.careful:
            lines.insert(0, "set +e    # as in the script, a line that fails does not end the job")
        if arguments := write_arguments(self.asked):
            lines.insert(0, f"{arguments}    # the script's arguments")
        if seen := sorted(self.launch.names & loose):
            lines.append(f"export {' '.join(seen)}")
        if lines:
            draft.setup(lines)


def follow_statement(statement: Statement, reader: Reader) -> None:
    """Take over what a statement does to the variables."""
    variables = reader.variables
    for command in statement.commands:
        if statement.kind in ("assigns", "export"):
            follow(command, variables)
        elif command.name in ("source", ".", "eval") and not FAMILIAR.search(
            " ".join(command.texts[1:2])
        ):
            variables.forget(variables.assigned)
            reader.sourced = True
    if statement.kind in ("module", "venv", "conda", "hook", "repeats", "once", "launch"):
        held = {name for name, fields in variables.values.items() for part in _list_live(fields)}
        variables.forget(held & variables.assigned)


def _list_live(fields: tuple[Any, ...] | None) -> list[str]:
    """The variables in a value that modules and the like may set."""
    texts = [part.text for field in fields or () for part in field if part.live]
    return [text for text in texts if not _OF_JOB.match(text.strip("${}"))]


def list_needed(texts: Iterable[str], statements: list[Statement]) -> set[str]:
    """Return the names of plain variables that texts of bash need, and what those need in turn."""
    needed: set[str] = set()
    for text in texts:
        needed |= list_names(text)
    for statement in reversed(statements):
        for command in statement.commands if statement.kind == "assigns" else ():
            for word in command.assignments:
                if _name(word) in needed:
                    for inner in (word.raw, *(item.text for item in word.segments)):
                        needed |= list_names(inner)
    return needed
