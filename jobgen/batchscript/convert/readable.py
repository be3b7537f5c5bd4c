"""What is no script that bash would run as a job: other shells, templates, faults of syntax."""

from __future__ import annotations

import re
from itertools import pairwise

from jobgen import process
from jobgen.batchscript.convert.launch import ImportRefusedError
from jobgen.batchscript.reader import Script
from jobgen.errors import Position, SpecError

_SHELL = re.compile(r"#!\s*(?:/usr/bin/env\s+(?:-S\s+)?)?(\S+)")
_BASH = {"bash", "sh", "dash", "ksh", "zsh"}
# Places that a generator or a reader of the manual is to fill in.
PLACEHOLDER = re.compile(
    r"\{\{.*?\}\}|\{%.*?%\}|(?<!\$)\{ *[A-Za-z_][\w .]*\}|<[A-Za-z][^<>=;|&]*>"
    r"|@[A-Z_]+@|\[[A-Z][A-Z_ ]+\]"
    r"|\b(?:your|my)[-_](?:account|project|partition|email|queue|allocation|name)\w*\b",
    re.IGNORECASE,
)


_NQSV = re.compile(r"-[bT] |--(group|venode|custom)\b|-l (elapstim|cpunum|gpunum|memsz)_")
# A generator's own lines: no reader of the manual fills those in.
_TEMPLATE = re.compile(r"\{%.*?%\}|^#(SBATCH|PBS)\b.*\{\{.*?\}\}|^\{\w+\}$")


# Directives of schedulers that jobgen does not know.
_OTHERS = {"#BSUB": "LSF", "#COBALT": "Cobalt", "#PJM": "Fujitsu's scheduler", "#OAR": "OAR"}
_OTHERS |= {"#MSUB": "Moab", "#$": "Grid Engine", "#FLUX:": "Flux"}


def find_template(script: Script) -> int | None:
    """The first line by which a text is seen to be a generator's template, and no script."""
    return next((i for i, line in enumerate(script.lines, 1) if _TEMPLATE.search(line)), None)


def find_placeholder(script: Script) -> tuple[int, str] | None:
    """The first directive with a place to fill in, and that place."""
    for item in script.directives:
        match = PLACEHOLDER.search(re.sub(r"\s#.*", "", item.text[1:]))
        if item.read and match and item.option not in ("--constraint", "-C"):
            return item.line, match[0]
    return None


def _holds_blanks(script: Script) -> bool:
    """Whether a variable is of several words, or an array."""
    return any(
        raw.startswith("(") or re.search(r"\s", raw)
        for step in script.steps
        for _, _, raw in step.source.variables()
    )


def refuse_unreadable(script: Script) -> None:
    """Raise a ImportRefusedError for a text that is not a script of bash, or not a whole one."""
    if re.match(r"!\s*/\S+", script.lines[0]):
        message = "line 1 is no #! line, and sbatch refuses the script"
        raise ImportRefusedError(script, 1, message, f"write #{script.lines[0]}")
    match = _SHELL.match(script.lines[0] if script.lines else "")
    shell = match[1].rpartition("/")[2] if match else "bash"
    asked = script.value("-S") if script.scheduler == "pbs" else None
    shell = asked.rpartition("/")[2] if asked else shell
    if shell not in _BASH and shell != "env":
        raise ImportRefusedError(script, 1, f"a script for {shell}", "jobgen reads those for bash")
    if shell == "zsh" and _holds_blanks(script):
        message = "a script for zsh, which does not split values at their blanks"
        raise ImportRefusedError(script, 1, message, "jobgen reads those for bash")
    if not any(item.read for item in script.directives):
        for line, text in enumerate(script.lines, 1):
            word, _, rest = text.partition(" ")
            if word in _OTHERS and rest.lstrip().startswith("-"):
                message = f"a script for {_OTHERS[word]}"
                raise ImportRefusedError(script, line, message, "jobgen reads #SBATCH and #PBS")
    for item in script.directives if script.scheduler == "pbs" else ():
        if _NQSV.match(f"{item.option} {item.value}"):
            message = f"{item.text}: of NQSV, another scheduler than PBS"
            raise ImportRefusedError(script, item.line, message)
    if re.search(r"\{\{.*?\}\}|\{%.*?%\}", script.text):
        line = next(i for i, text in enumerate(script.lines, 1) if re.search(r"\{\{|\{%", text))
        raise ImportRefusedError(
            script, line, "a template of Jinja, not a script", "import what it renders"
        )
    if place := find_placeholder(script):
        message = f"a place to fill in: {place[1]!r}"
        raise ImportRefusedError(
            script, place[0], message, "write its value, or import what fills it in"
        )
    for command in script.commands:
        for source, target in pairwise(command.redirects):
            name = f"<{source.target.raw}>"
            if (source.operator, target.operator) == ("<", ">") and name in script.text:
                message = f"a place to fill in: {name!r}"
                raise ImportRefusedError(script, command.line, message, "write its value")
    try:
        process.check_syntax(script.text.replace("\r\n", "\n"), Position(script.path))
    except SpecError as error:
        message = f"bash cannot read the script: {error.problems[0].message}"
        raise ImportRefusedError(script, error.problems[0].where.line or 1, message) from None
