"""From what a script does before its program to the environment of a spec."""

from __future__ import annotations

import re

from jobgen.batchscript.bash import Command
from jobgen.batchscript.convert.draft import Draft
from jobgen.batchscript.convert.program import REPEATABLE, spell
from jobgen.batchscript.convert.statements import (
    Statement,
    classify_command,
    ends_environment,
    exports_all,
    find_folder,
    find_strict_line,
    is_submit_folder,
    join_dependent,
    reads_array,
    waits,
    writes_document,
)
from jobgen.batchscript.expand import list_names, write_field
from jobgen.batchscript.reader import Script

# What every process gets from jobgen, whatever the script sets them to.
GIVEN = re.compile(
    r"MASTER_(ADDR|PORT)|((LOCAL|GROUP|ROLE|NODE)_)?(RANK|WORLD_SIZE)|TORCHELASTIC_\w+"
    r"|SRUN_CPUS_PER_TASK|SLURM_CPU_BIND\w*"
)
# What is in the environment already, so that an assignment counts without export.
_PRESENT = re.compile(
    r"PATH|(LD_)?LIBRARY_PATH|PYTHONPATH|CUDA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|HOME|TMPDIR"
    r"|CPATH|LD_PRELOAD|MODULEPATH|SLURM_\w+|PBS_\w+|LANG|LC_ALL|USER"
)
# Names of this form are the rendered script's: to be kept, they are local to the setup.
_LOWER = re.compile(r"(?!\w*_proxy$)[a-z_][a-z0-9_]*")
_BATCH_ONLY = re.compile(r"\b(srun|mpirun|mpiexec|sbatch|qsub|pbsdsh|scancel)\b")
_OF_SCHEDULER = re.compile(r"(\$\(|`)[^`]*\b(scontrol|squeue|sacct|qstat|module)\b")
_PATH = re.compile(r"(?:[^$`\"'\\*?\[{\s]|\$\w+|\$\{\w+\})+")
# What modules and conda look at or set themselves, so that the order counts.
_ORDERED = re.compile(
    r"(?!(HF|TORCH|TRANSFORMERS|XDG|WANDB|TRITON|NLTK)_)"
    r"(\w*(PATH|_ROOT|_HOME|_PREFIX)|(CONDA|MAMBA|MODULE|LMOD|SPACK|EASYBUILD|PYTHON(HOME|USER))\w*"
    r"|CC|CXX|FC|VIRTUAL_ENV)"
)
# What has another value, or another effect, at another place of the script.
_PLACED = re.compile(r"\$\((?!\()|`|\bPWD\b|\$RANDOM|[*?]")
# Words are split at blanks whatever the script says: nothing to keep, nearly always.
_BLANK_ONLY = re.compile(r"IFS=\$?['\"]?( |\\[nt])*['\"]?\s*(#.*)?$")
# What the runtime of a container reads.
_OF_CONTAINER = re.compile(r"(SINGULARITY|APPTAINER)(ENV)?_\w+")
# What a process alone has, and no setup of a node.
_OF_PROCESS = re.compile(r"((LOCAL|GROUP|ROLE|NODE)_)?(RANK|WORLD_SIZE)|TORCHELASTIC_\w+")
_CHANGING = re.compile(
    r"\b(date|mktemp|uuidgen|shuf|openssl rand|hostname)\b|\$RANDOM|\$\$|\$\{?HOSTNAME\b"
    r"|\$\{?SLURM(D_NODENAME|_(PROCID|NODEID|LOCALID)\b)"
)


# What changes nothing outside, but variables.
_WITHOUT_EFFECT = frozenset(
    [
        "exit",
        "return",
        "local",
        "trap",
        "read",
        "mapfile",
        "readarray",
        "let",
        "shift",
        "getopts",
        "break",
        "continue",
    ]
)


class Setup:
    """The lines before the program, of which those are kept that something needs."""

    def __init__(
        self,
        script: Script,
        draft: Draft,
        *,
        times: int,
        inside: bool,
        processes: int | None = None,
        consumed: frozenset[str] = frozenset(),
    ) -> None:
        self.consumed = consumed  # variables whose words the launch is made of
        self.script = script
        self.draft = draft
        self.times = times  # how often jobgen runs the setup: once a node, or once a process
        self.inside = inside  # a container
        self.processes = processes or times  # how often it runs the lines right before the program
        self.defined: set[str] = set()
        self.late: list[str] = []  # lines for the shell of the program itself
        self.moved = False
        self._late_names: set[str] = set()
        self._strict_from = find_strict_line(script)
        self._functions = [item for item in script.commands if item.function and item.words]
        self.kept: list[Statement] = []
        self._kept: list[str] = []
        self._locals: set[str] = set()
        self._shadowed: set[str] = set()  # those of jobgen's own that the lines set for themselves
        self._exporting = False  # by `set -a`
        self._ordered = False  # a line is kept that those after it may depend on
        self._entered = False  # what comes after this in PATH and its like comes after it there
        self._all_late = False  # as is all that follows a line of that shell that has a place

    def settle(self, statements: list[Statement], needed: set[str]) -> None:
        """Put what is needed of `statements` into the draft, in order."""
        program_names = set(needed)
        statements = join_dependent(statements)
        kept: list[Statement] = []
        for statement in reversed(statements):
            kind = self._classify(statement, needed)
            if kind == "keep":
                kept.append(statement)
                self._kept.append(self._text(statement))
                needed |= list_names(self._text(statement))
            elif kind == "lost":
                self._lose(statement)
            else:
                text = self._text(statement)
                self.draft.keep(statement.first, text, "of no use: nothing in the spec needs it")
        kept.reverse()
        self.kept = kept
        for statement in kept:
            self._put(statement, needed)
        if self._exporting:
            self.draft.setup(["set +a"])
        self._hand_over(program_names | list_names("\n".join(self.late)))

    def _text(self, statement: Statement) -> str:
        lines = self.script.lines[statement.first - 1 : statement.last]
        return statement.part or "\n".join(lines)

    def _classify(self, statement: Statement, needed: set[str]) -> str:
        """`keep` what the job needs, `drop` what it does not, `lost` what no setup can do."""
        text = self._text(statement)
        names = statement.names
        given = bool(names) and all(GIVEN.fullmatch(name) for name in names)
        commands = [item for item in statement.commands if item.words]
        assigning = all(
            item.name in ("export", "declare", "readonly", "local", "typeset") for item in commands
        )
        if any(item.function for item in statement.commands):
            called = {item.function for item in statement.commands if item.function}
            uses = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, called))})(?![\w-])")
            return "keep" if any(uses.search(line) for line in self._kept) else "drop"
        if given and assigning:
            return "drop"
        if assigning:
            exported = any(item.name == "export" for item in commands) or any(
                self._is_exported(name) for name in names
            )
            if not names and exported:  # export NAME, of what is exported anyway
                bare = {word.text for item in commands for word in item.words[1:]}
                known = any(word[:1] == "-" for word in bare)
                known = known or self.script.variables.values.keys() >= bare
                return "drop" if known else "keep"  # such as export $(...)
            if _BATCH_ONLY.search(text) and not names & needed:
                if exported:
                    self.draft.check(statement.first, text, "not kept: it would start a job step")
                return "drop"
            if names & needed or (names == {"IFS"} and not _BLANK_ONLY.search(text)):
                return "keep"
            return "keep" if exported and not names <= self.consumed else "drop"
        kinds = {self._classify_call(item) for item in commands}
        if "once" in kinds:
            beside = any(item.end == "&" for item in statement.commands)
            if beside or _BATCH_ONLY.search(text):
                return "lost"
            if writes_document(statement) and self.times > 1:
                self.draft.check(statement.first, text, "every node writes this file")
                return "keep"
            return "keep" if self.times == 1 else "lost"
        if (
            "call" in kinds
            or names & needed
            or waits(statement)
            or any(map(self._is_exported, names - self.consumed))
        ):
            return "keep"
        if "repeat" not in kinds:
            return "drop"
        return self._classify_repeatable(statement, names, text)

    def _classify_repeatable(self, statement: Statement, names: set[str], text: str) -> str:
        """`drop` what has no effect on the program."""
        if any(exports_all(item) is not None for item in statement.commands):
            return "keep"
        effects = [item for item in statement.commands if item.name in REPEATABLE - _WITHOUT_EFFECT]
        if any(item.name == "trap" for item in statement.commands):
            return "lost"
        if any(item.name in ("exit", "return") for item in statement.commands) and not names:
            return "keep" if len(statement.commands) > 1 else "drop"
        if effects and all(
            item.name == "export"
            and any(item.variables())
            and all(GIVEN.fullmatch(name) for name, _, _ in item.variables())
            for item in effects
        ):
            return "drop"
        moves = effects and all(item.name in ("cd", "pushd") for item in effects)
        if moves and all(is_submit_folder(self.script, item.texts[1:]) for item in effects):
            return "drop" if find_folder(self.script, statement.first) is None else "keep"
        if any(ends_environment(item) for item in statement.commands):
            return "drop"
        return "keep" if effects else "drop"

    def _classify_call(self, command: Command) -> str:
        """What a command does; `call` where it is a function of the script that may be repeated."""
        body = {classify_command(item) for item in self._functions if item.function == command.name}
        if not body or "once" in body:
            return classify_command(command)
        return "call" if "repeat" in body else "show"

    def _is_exported(self, name: str) -> bool:
        variable = self.script.variables.get(name)
        return bool(variable and variable.exported)

    def _lose(self, statement: Statement) -> None:
        text = self._text(statement)
        if any(item.name == "trap" for item in statement.commands):
            self.draft.lose(
                statement.first, text, "jobgen's own handling of signals is in its place"
            )
        elif any(item.end == "&" for item in statement.commands):
            self.draft.lose(statement.first, text, "not run: it runs beside the program")
        else:
            self.draft.lose(statement.first, text, "not run: run it once, before you submit")

    def _put(self, statement: Statement, needed: set[str]) -> None:
        text = self._text(statement)
        commands = statement.commands
        fragile = statement.first < self._strict_from
        if self.inside and any(map(_OF_CONTAINER.fullmatch, statement.names)):
            self.draft.lose(statement.first, text, "for the container's start, and not inside it")
            return
        alone = len(commands) == 1 and not commands[0].inside
        if alone and self._map(commands[0], self._list_later(statement)):
            return
        for item in commands:
            self.moved = self.moved or item.name in ("cd", "pushd")
            exporting = exports_all(item)
            self._exporting = self._exporting if exporting is None else exporting
        names = {name for name in statement.names if not GIVEN.fullmatch(name) or name in needed}
        plain = alone and not commands[0].heredocs and not commands[0].keywords
        plain = plain and commands[0].end in ("\n", ";")
        source = spell(commands[0]) if plain else text
        known = names | self._list_later(statement)
        lines = [self._put_in_known(line, known) for line in source.split("\n")]
        whole = "\n".join(lines)
        if self.times > 1 and _CHANGING.search(text):
            self.draft.check(statement.first, text, "every node or process gets a value of its own")
        if re.search(r"\bBASH_SOURCE\b|\$\{?0\b", text):
            self.draft.check(statement.first, text, "jobgen's script lies in another folder")
        array = any(raw.startswith("(") for item in commands for _, _, raw in item.variables())
        array = array or "IFS" in names or any(map(reads_array, commands))
        used = list_names(whole)
        loading = any(item.name in ("source", ".", "module", "ml", "conda") for item in commands)
        functions = any(item.function for item in commands)
        late = self._all_late or array or bool(used & self._late_names)
        late = late or any(map(_OF_PROCESS.fullmatch, used))
        given = set(filter(GIVEN.fullmatch, statement.names))
        if given and late:
            self.draft.lose(statement.first, text, f"jobgen sets {', '.join(sorted(given))} itself")
            return
        if late and not functions:
            self._put_late(statement, lines, names)
            if loading:
                self.draft.check(statement.first, text, "it runs in each process, right before it")
            return
        self.defined |= names
        local = any(item.name in ("declare", "typeset") for item in commands)  # in a function
        own = {name for name in names if local or _LOWER.fullmatch(name)}
        if own - self._locals:
            self.draft.setup([f"local {' '.join(sorted(own - self._locals))}"])
            self._locals |= own
        self.draft.setup(f"local {name}=${{{name}-}}" for name in sorted(given - self._shadowed))
        self._shadowed |= given
        names -= own | given
        simple = all(not item.words for item in commands) and alone
        if simple and names:
            lines[0] = f"export {lines[0].lstrip()}"
        elif simple:
            lines[-1] += " || true" if fragile and re.search(r"\$\(|`", whole) else ""
        elif alone and fragile and not self._is_export(commands[0]):
            steady = commands[0].name in ("cd", "pushd", "module", "ml", "ulimit", "set")
            steady = steady or commands[0].texts[:2] == ["conda", "activate"]
            steady = steady or commands[0].end == "&&"
            made = commands[0].name == "mkdir" and "-p" in commands[0].texts
            if not (steady or made or commands[0].redirects or commands[0].heredocs):
                lines[-1] += " || true"
        elif (
            fragile
            and not (alone or functions)
            and not all(self._is_export(item) for item in commands if item.words)
        ):
            lines = ["set +e", *lines, "set -e"]
        exported = simple or functions or {item.name for item in commands} == {"export"}
        if names and not exported:
            lines.append(f"export {' '.join(sorted(names))}")
        self.draft.setup(lines)
        steady_names = {"export", "cd", "mkdir", "ulimit", "unset", "declare", "umask", ""}
        if not {item.name for item in commands} <= steady_names:
            self._ordered = True
        self._entered = self._entered or any(map(_ORDERED.fullmatch, names))
        calm = {item.name for item in commands} <= steady_names - {"mkdir"}
        if self.inside and not (calm and not _OF_SCHEDULER.search(text)):
            self.draft.check(statement.first, text, "it runs in the container")
        self.draft.keep(statement.first, text, "kept as it is in environment.setup")

    def _hand_over(self, wanted: set[str]) -> None:
        """Give the program what is local to the setup."""
        lines = []
        for name in sorted(self._locals):
            exported = self._is_exported(name)
            if name in wanted or exported:
                self.draft.setup([f'export IMPORTED_{name}="${name}"'])
                lines.append(f"{'export ' if exported else ''}{name}=$IMPORTED_{name}")
        self.late[:0] = lines

    def _put_late(self, statement: Statement, lines: list[str], names: set[str]) -> None:
        """Keep a statement for the shell of each process, which runs after all of the setup."""
        text, commands = self._text(statement), statement.commands
        plain = all(self._is_export(item) for item in commands if item.words)
        values = re.sub(r"\$\(\(.*?\)\)|'[^']*'", "", "\n".join(lines))
        later = (self._list_later(statement) - names) & list_names("\n".join(lines))
        if not plain or _PLACED.search(values) or later or "IFS" in names:
            self._all_late = self._ordered = True
        runs = [classify_command(item) for item in commands if item.words]
        if self.processes > 1 and "once" in runs:
            self.draft.lose(statement.first, text, "every process runs it, and not the job once")
        self._late_names |= names
        self.defined |= names
        self.late += lines
        self.draft.keep(statement.first, text, "kept as it is, before the program")

    @staticmethod
    def _is_export(command: Command) -> bool:
        return command.name in ("export", "declare", "readonly")

    def _list_later(self, statement: Statement) -> set[str]:
        """The variables that the script sets after a statement, and whose values differ there."""
        return {
            name
            for step in self.script.steps
            if step.source.line > statement.last
            for name, _, _ in step.source.variables()
        }

    def _put_in_known(self, line: str, own: set[str]) -> str:
        """A line with the values of variables that text tells, where they are plain words."""
        line = self._replace_given(line)
        for name in list_names(line) - own:
            variable = self.script.variables.get(name)
            if not variable or variable.array or not variable.fields or name in self.script.given:
                continue
            field = variable.fields[0]
            value = "".join(item.text for item in field)
            if not any(item.live for item in field) and re.fullmatch(r"[\w./:@%+,=-]+", value):
                line = re.sub(rf"\$\{{{name}\}}|\${name}\b", value, line)
                if _OF_PROCESS.fullmatch(name):
                    line = re.sub(rf"(?<=\(\()(.*)\b{name}\b(.*\)\))", rf"\g<1>{value}\g<2>", line)
        return line

    def _replace_given(self, line: str) -> str:
        """Numbers for Slurm's variables of tasks, which are others under jobgen."""
        for name, value in self.script.given.items():
            if name not in ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_GPUS_ON_NODE"):
                line = re.sub(rf"\$\{{{name}\}}|\${name}\b", value, line)
        return line

    def _map(self, command: Command, later: set[str]) -> bool:
        """Put one command into a key of its own; False where it is none that a spec can say."""
        variables = self.script.variables
        texts = [variables.tell(word.raw) for word in command.words]
        if command.end not in ("\n", ";") or command.keywords or command.redirects:
            return False
        values = self.draft.values
        plain = [text for text in texts if text is not None]
        early = not self._ordered and not self._entered
        if command.name in ("module", "ml") and early and len(plain) == len(texts):
            return self._map_module(plain)
        if command.name in ("source", ".", "conda") and len(texts) in (2, 3):
            return self._map_python(command)
        if command.name == "export" and command.words[1:] and not self._ordered:
            pairs = dict[str, str]()
            for word in command.words[1:]:
                name, equals, raw = word.raw.partition("=")
                value = variables.tell(raw) if equals and not name.endswith("+") else None
                moving = list_names(raw) & {name, *later}  # those have another value at the end
                if value is None or moving or re.search(r"^~|:~", raw):
                    return False
                pairs[name] = value
            pairs = {name: value for name, value in pairs.items() if not GIVEN.fullmatch(name)}
            if any("\n" in value or not value.isprintable() for value in pairs.values()):
                return False
            before = self.defined - values.get("environment.variables", {}).keys()
            before |= list_names(values.get("environment.setup", ""))
            if any(map(_LOWER.fullmatch, pairs)) or before & pairs.keys():
                return False
            values.setdefault("environment.variables", {}).update(pairs)
            self.defined |= set(pairs)
            self._entered = self._entered or any(map(_ORDERED.fullmatch, pairs))
            if not values["environment.variables"]:
                del values["environment.variables"]
            return True
        return False

    def _map_module(self, texts: list[str]) -> bool:
        values = self.draft.values
        modules = values.get("environment.modules", [])
        verb, names = (texts[1:2] or [""])[0], texts[2:]
        if texts[0] == "ml" and verb not in ("purge", "reset", "use", "load", "unload", "swap"):
            verb, names = "load", texts[1:]
        if not isinstance(modules, dict):
            modules = {"load": modules} if modules else {}
        started = modules.get("load") or modules.get("use")
        if verb in ("purge", "reset") and not names and not started:
            modules["first"] = verb
        elif verb == "use" and names and not modules.get("load"):
            if any(name.startswith("-") for name in names):
                return False
            modules["use"] = [*modules.get("use", []), *names]
        elif verb in ("load", "add") and names:
            if not all(re.fullmatch(r"[\w./+:@=][\w./+:@=-]*", name) for name in names):
                self._ordered = True
                return False
            modules["load"] = [*modules.get("load", []), *names]
        else:
            self._ordered = True
            return False
        values["environment.modules"] = modules["load"] if modules.keys() == {"load"} else modules
        if not values["environment.modules"]:
            del values["environment.modules"]
        return True

    def _map_python(self, command: Command) -> bool:
        variables = self.script.variables
        if self._ordered or self._entered:
            return False
        words = [write_field(variables.join(word.raw)) for word in command.words]
        words = [word.replace('"', "").replace("'", "") for word in words]
        if command.name == "conda" or words[1] == "activate":
            if len(words) != 3 or words[1] != "activate" or not _PATH.fullmatch(words[2]):
                return False
            key, value = "environment.conda", words[2]
        else:
            value = words[1].removesuffix("/bin/activate")
            if len(words) != 2 or value == words[1] or not _PATH.fullmatch(value):
                return False
            if re.search(r"conda|mamba|miniforge", value):
                return False  # conda's own activate, of its base
            if self.moved and not re.match(r"[/$~]", value):
                return False
            key = "environment.venv"
        if not list_names(value) <= _ALWAYS:
            return False
        self.draft.put(key, value)
        self._entered = True
        return True


_ALWAYS = {"HOME", "USER", "SCRATCH", "WORK", "PROJECT"}
