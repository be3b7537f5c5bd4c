"""What a script does before its program starts, as `environment`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from jobgen.batchscript.bash import Command, Word
from jobgen.batchscript.convert.launch import JobShape, LaunchedProgram
from jobgen.batchscript.convert.straight import (
    NotStraightError,
    Statement,
    is_pure,
    list_substituted,
)
from jobgen.batchscript.convert.values import Reader, make_value
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.expand import ShellVariables, list_names, split_segments
from jobgen.batchscript.walk import expand_command
from jobgen.spec.value_types import TAKEN

# Files that make an environment, and touch no variable of the script.
_FAMILIAR = re.compile(
    r"activate|conda|mamba|profile|rc$|module|lmod|setvars|spack|^/(etc|opt|usr)/"
)
# What a job or its modules export already: a plain assignment changes what programs see.
_EXPORTED = re.compile(
    r"(LD_|LD_LIBRARY_|LIBRARY_|C_INCLUDE_|CPLUS_INCLUDE_|PYTHON|MODULE|CUDA_|MAN|PKG_CONFIG_|NLS)?PATH"
    r"|CPATH|(CUDA|ROCM|CONDA|JAVA|MPI|HF|TORCH|XDG_CACHE)_HOME|TMPDIR|HOME|LANG|LC_.*|OMP_.*"
    r"|(CUDA|ROCR|HIP)_.*|NCCL_.*|SLURM_.*|PBS_.*|PYTHON.*|CC|CXX|USER|SHELL|TERM|SCRATCH|WORK|PROJECT"
)
# Their order beside modules and the like matters.
_PATHS = re.compile(r".*PATH|CUDA_HOME|TMPDIR|HOME|CC|CXX|LD_PRELOAD")
# What jobgen tells each process by itself.
_TOLD = re.compile(r"MASTER_(ADDR|PORT)|WORLD_SIZE")
_RANKS = re.compile(r"((LOCAL|GROUP|ROLE)_)?RANK|LOCAL_WORLD_SIZE")
_OF_SRUN = re.compile(r"SRUN_\w+|SLURM_(CPU_BIND|MPI_TYPE|KILL_BAD_EXIT|EXPORT_ENV|EXACT)")
# The same on every node of a job.
_STEADY = re.compile(
    r"(pwd|whoami|id -un|dirname .*|basename .*|realpath .*|readlink -f .*|which \S+|cat [^|]*)"
)
_ML_COMMANDS = re.compile("-|(un)?load|swap|purge|use|reset|rm")


class Prelude:
    """What stands before the launch, read in order."""

    def __init__(
        self, draft: Draft, *, launch: LaunchedProgram, shape: JobShape, reader: Reader
    ) -> None:
        self.draft, self.launch, self.shape, self.reader = draft, launch, shape, reader
        self.modules: dict[str, Any] = {}
        self.keys: dict[str, str] = {}  # venv or conda
        self.variables: dict[str, Any] = {}
        self.setup: list[tuple[str, str]] = []  # kind and text
        self.phase = 0  # of jobgen's order: modules, venv or conda, variables, setup
        self.needed: set[str] = set()
        self.careful = False  # whether the script ends at its first failure
        self.hooked: list[str] = []

    @property
    def alone(self) -> bool:
        """Whether one process runs, so that all before it runs once."""
        return self.launch.mode == "plain"

    def take(self, statement: Statement, variables: ShellVariables) -> None:
        """Take over one statement; `variables` are as they are there."""
        self.reader.variables = variables
        getattr(self, f"_take_{statement.kind}")(statement)

    def _note(self, statement: Statement, reason: str) -> None:
        self.draft.keep(statement.line, statement.text, reason)

    def _take_prints(self, statement: Statement) -> None:
        self._note(statement, "it only prints")

    def _take_sets(self, statement: Statement) -> None:
        options = " ".join(
            word.text for command in statement.commands for word in command.words[1:]
        )
        if re.search(
            r"(^|\s)(--|-a|-o allexport|-f|-o noglob|-B)|nullglob|extglob|globstar", options
        ):
            raise NotStraightError(statement.line, f"'{statement.text}' is left to bash")
        self.careful = self.careful or bool(re.search(r"-\w*e|errexit", options))
        self._note(statement, "jobgen's script sets its own mode")

    def _take_ends(self, statement: Statement) -> None:
        raise NotStraightError(statement.line, f"'{statement.text}' stands before the program")

    def _take_leaves(self, statement: Statement) -> None:
        self._keep("prepares", statement)

    def _take_hook(self, statement: Statement) -> None:
        self.hooked.append(statement.text)

    def _take_module(self, statement: Statement) -> None:
        for command in statement.commands:
            expanded = expand_command(command, self.reader.variables)
            words = [self.reader.read_word(word) for word in expanded.words[1:]]
            texts = [text for text, _ in words]
            simple = self.phase == 0 and not any(expands for _, expands in words)
            if not (simple and not command.redirects and self._load(command.name, texts)):
                self._keep("module", statement)
                return

    def _load(self, name: str, words: list[str]) -> bool:
        """Take over `module load` and the like; False where keys cannot say it."""
        loaded = self.modules.setdefault("load", [])
        force = "--force" in words
        words = [word for word in words if word not in ("--force", "-q", "-s")]
        if words == ["purge"] and not loaded and not self.modules.get("use"):
            self.modules["first"] = "force-purge" if force else "purge"
        elif words == ["reset"] and not loaded:
            self.modules["first"] = "reset"
        elif words[:1] == ["use"] and len(words) > 1 and not loaded and words[1][:1] != "-":
            self.modules.setdefault("use", []).extend(words[1:])
        elif words[:1] in (["load"], ["add"]) and len(words) > 1:
            loaded.extend(words[1:])
        elif name == "ml" and words and not _ML_COMMANDS.match(words[0]):
            loaded.extend(words)
        else:
            return False
        return not any(word.startswith("-") for word in words)

    def _take_venv(self, statement: Statement) -> None:
        expanded = expand_command(statement.first, self.reader.variables)
        text, _ = self.reader.read_word(expanded.words[1])
        self._activate("venv", text.removesuffix("/bin/activate"), statement)

    def _take_conda(self, statement: Statement) -> None:
        expanded = expand_command(statement.first, self.reader.variables)
        text, _ = self.reader.read_word(expanded.words[-1])
        self._activate("conda", text, statement)

    def _activate(self, key: str, value: str, statement: Statement) -> None:
        moved = any(kind == "folder" for kind, _ in self.setup)
        relative = key == "venv" and value[:1] not in ("/", "$")
        sure = value and not statement.first.redirects and not (moved and relative)
        if self.phase <= 1 and not self.keys and sure:
            self.keys[key] = value
            self.phase = 1
            return
        if self.hooked and key == "conda":
            self.setup += [("source", text) for text in self.hooked]
            self.hooked = []
        self._keep("source", statement)

    def _take_source(self, statement: Statement) -> None:
        self._keep("source", statement)

    def _take_folder(self, statement: Statement) -> None:
        texts = [word.text for word in statement.first.words]
        start = re.fullmatch(r"\$\{?(SLURM_SUBMIT_DIR|PBS_O_WORKDIR)\}?", texts[-1])
        if start and not any(kind == "folder" for kind, _ in self.setup):
            self._note(statement, "jobgen's job starts there")
            return
        self._keep("folder", statement)

    def _take_limit(self, statement: Statement) -> None:
        self._keep("limit", statement)

    def _take_prepares(self, statement: Statement) -> None:
        made = re.fullmatch(r"(\[+ ! -[de] [^\];&|]* \]+ *&& *)?mkdir -p [^;&|<>]*", statement.text)
        if not self.alone and not made:
            raise NotStraightError(statement.line, "a command would run on every node")
        self._keep("made" if made else "prepares", statement)

    def _take_launch(self, statement: Statement) -> None:
        if not self.alone or statement.first.end == "&":
            raise NotStraightError(statement.line, "several programs run one after the other")
        self._keep("prepares", statement)

    def _take_block(self, statement: Statement) -> None:
        if not self.alone:
            raise NotStraightError(statement.line, "loops and conditions are left to bash")
        self._keep("prepares", statement)

    def _take_assigns(self, statement: Statement) -> None:
        for command in statement.commands:
            for word in command.assignments:
                name = re.split(r"\+?=|\[", word.raw, maxsplit=1)[0]
                if _EXPORTED.fullmatch(name):
                    self._check_steady(statement)
                    self._keep("export", statement)
                    return
                elif name in self.needed:
                    self._keep_assigned(statement, name)
                    return
                elif not is_pure(word.raw):
                    self._check_steady(statement)
                    self._keep("prepares", statement)
                    return

    def _keep_assigned(self, statement: Statement, name: str) -> None:
        """Keep an assignment that a line of the setup, or the program, needs."""
        self._check_steady(statement)
        in_program = name in self.launch.names
        if in_program and (len(statement.commands) > 1 or len(statement.first.assignments) > 1):
            raise NotStraightError(statement.line, "several values are set in one line")
        text = f"export {statement.text}" if in_program else statement.text
        self._keep("export" if text != statement.text else "assigned", statement, text)

    def _take_export(self, statement: Statement) -> None:
        words = [word for command in statement.commands for word in command.words[1:]]
        words = [word for word in words if not word.text.startswith("-")]
        if any(item.redirects for item in statement.commands):
            raise NotStraightError(statement.line, "export is redirected")
        own_launch = [word for word in words if self._is_told(word, statement)]
        own = [word for word in words if word not in own_launch]
        if all(self._hoists(word, statement) for word in own):
            for word in own:
                self._export(word, statement)
            return
        if own_launch:
            raise NotStraightError(statement.line, "several values are set in one line")
        for word in own:
            self.variables.pop(re.split(r"\+?=", word.raw, maxsplit=1)[0], None)
        self._check_steady(statement)
        self._keep("export", statement)

    def _hoists(self, word: Word, statement: Statement) -> bool:
        """Whether a variable can be said by a key of the spec."""
        name, equals, raw = word.raw.partition("=")
        if name.endswith("+") or re.fullmatch(TAKEN, name):
            return False
        if not equals:
            if name not in self.reader.variables.assigned:
                return True
            raw = f'"${name}"'
        if any(kind in ("source", "module") for kind, _ in self.setup):
            return False
        if any(kind == "export" for kind, _ in self.setup) and _PATHS.fullmatch(name):
            return False
        try:
            text, expands = self._read_value(raw, statement.line)
        except NotStraightError:
            return False
        moved = any(kind == "folder" for kind, _ in self.setup)
        return not (expands and moved and "PWD" in list_names(text))

    def _read_value(self, raw: str, line: int) -> tuple[str, bool]:
        field = self.reader.variables.join(raw)
        known = set(self.variables) | {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH"}
        before, self.reader.free = self.reader.free, known
        try:
            return self.reader.read_field(field, line, assigned=True)
        finally:
            self.reader.free = before

    def _is_told(self, word: Word, statement: Statement) -> bool:
        """Whether jobgen, or nothing at all, says this variable."""
        name, equals, raw = word.raw.partition("=")
        if _RANKS.fullmatch(name) and not self.alone:
            raise NotStraightError(statement.line, f"{name} is set before its processes start")
        if _OF_SRUN.fullmatch(name):
            return True
        if self.alone or not _TOLD.fullmatch(name):
            return False
        value = self.reader.variables.tell(raw) if equals else None
        world = self.shape.nodes * self.launch.values.get(
            "launch.processes_per_node", self.shape.gpus or 1
        )
        if name == "WORLD_SIZE" and self.launch.mode == "direct" and value != str(world):
            raise NotStraightError(statement.line, "only bash knows what WORLD_SIZE comes to")
        local = value in ("localhost", "127.0.0.1")
        if name == "MASTER_ADDR" and value is not None and not (local and self.shape.nodes == 1):
            raise NotStraightError(
                statement.line, "MASTER_ADDR is an address that the script chooses"
            )
        self.draft.keep(statement.line, statement.text, "jobgen tells each process by itself")
        return True

    def _export(self, word: Word, statement: Statement) -> None:
        name, equals, raw = word.raw.partition("=")
        if not equals and name not in self.reader.variables.assigned:
            return
        value = make_value(*self._read_value(raw if equals else f'"${name}"', statement.line))
        self.variables.pop(name, None)
        self.variables[name] = value
        self.phase = max(self.phase, 2 if _PATHS.fullmatch(name) else 0)

    def _check_steady(self, statement: Statement) -> None:
        """Raise where a value is another on every node, and more than one process sees it."""
        for command in statement.commands:
            for word in (*command.assignments, *command.words):
                for inner in list_substituted(word.raw):
                    if not self.alone and not _STEADY.fullmatch(inner.strip()):
                        raise NotStraightError(statement.line, "a value may differ between nodes")
                if re.search(r"\$\{?(RANDOM|SECONDS|BASHPID)|\$\$", word.active) and not self.alone:
                    raise NotStraightError(statement.line, "a value differs between nodes")
                _refuse_task_names(word, statement)

    def _keep(self, kind: str, statement: Statement, text: str = "") -> None:
        """Keep lines as they are, in the setup."""
        if self.launch.container:
            raise NotStraightError(statement.line, "a command stands before the container")
        self.setup.append((kind, text or statement.text))
        if kind not in ("made", "limit", "folder", "assigned"):
            self.phase = 3

    def write(self) -> None:
        """Put what was read into the draft."""
        draft, modules = self.draft, {key: value for key, value in self.modules.items() if value}
        paths = any(_PATHS.fullmatch(name) for name in self.variables)
        if self.launch.container and (self.keys or paths):
            raise NotStraightError(1, "the environment is set up outside the container")
        if modules:
            simple = modules.keys() == {"load"}
            ordered = {key: modules[key] for key in ("first", "use", "load") if key in modules}
            draft.put("environment.modules", modules["load"] if simple else ordered)
        draft.put("environment.container", self.launch.container)
        for key, value in self.keys.items():
            draft.put(f"environment.{key}", value)
        for name, text, expands in self.launch.variables:
            self.variables[name] = make_value(text, expands)
        draft.put("environment.variables", self.variables or None)
        lines = [line for _, text in self.setup for line in text.splitlines()]
        fails = any(kind in ("prepares", "limit", "source") for kind, _ in self.setup)
        if fails and not self.careful:
            lines.insert(0, "set +e    # as in the script, a line that fails does not end the job")
        if lines:
            draft.setup(lines)


def _refuse_task_names(word: Word, statement: Statement) -> None:
    if match := re.search(r"\$\{?(SLURM_(PROCID|LOCALID|NODEID))\b", word.active):
        raise NotStraightError(statement.line, f"${match[1]} is another in every task")


def follow(statement: Statement, variables: ShellVariables, *, sourced: bool) -> bool:
    """Take over what a statement does to the variables; whether it reads an unfamiliar file."""
    for command in statement.commands:
        if statement.kind == "block":
            names = {name for name, _, _ in command.variables()} | command.list_changed()
            variables.assigned |= names
            variables.forget(names)
        elif statement.kind in ("assigns", "export"):
            _assign(command, variables)
        elif statement.kind == "limit" and command.name == "unset":
            variables.forget(word.text for word in command.words[1:])
        elif command.name in ("source", ".") and not _FAMILIAR.search(" ".join(command.texts[1:2])):
            variables.forget(list(variables.assigned))
            return True
    return sourced


def _assign(command: Command, variables: ShellVariables) -> None:
    exports = bool(command.words)
    for word in (*command.assignments, *command.words[1:]):
        if "=" in word.raw:
            variables.assign(word, export=exports)


def list_needed(texts: Iterable[str], statements: list[Statement]) -> set[str]:
    """Return the names of plain variables that texts of bash need, and what those need in turn."""
    needed: set[str] = set()
    for text in texts:
        needed |= list_names(text)
    for statement in reversed(statements):
        for command in statement.commands if statement.kind == "assigns" else ():
            for word in command.assignments:
                name = re.split(r"\+?=|\[", word.raw, maxsplit=1)[0]
                if name in needed:
                    needed |= list_names(word.raw)
                    for inner in split_segments(word.raw):
                        needed |= list_names(inner.text)
    return needed
