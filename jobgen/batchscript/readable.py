"""What is not a job at all: templates, scripts of other schedulers, what bash cannot read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen import process
from jobgen.batchscript.purposes import FORMS, WHY, list_substituted
from jobgen.batchscript.reader import DirectiveOption, Script
from jobgen.capabilities import get_capabilities
from jobgen.errors import Position, Problem, SpecError

SHELLS = ("bash", "sh", "dash")  # whose scripts bash runs as they do
# Options that take a value, but for switches.
_LONG = "|".join(get_capabilities("slurm").long_options)
_VALUED = re.compile(rf"(?!{FORMS['no-value'].pattern})(-[AJMNPSejklmopqrt]|--({_LONG}))\n")


class ImportRefusedError(SpecError):
    """A text that is not a job that jobgen could run."""

    def __init__(self, script: Script, line: int, message: str, hint: str = "") -> None:
        super().__init__([Problem(Position(script.path, line, 1), "", message, hint)])


def find_shell(script: Script) -> str:
    """Return the name of the shell or program that runs a script."""
    match = FORMS["shell"].match(script.lines[0] if script.lines else "")
    asked = script.value(script.can.shell_option) if script.can.shell_option else None
    return re.sub(".*/(?=.)", "", asked or (match[1] if match else "bash"))


def find_shell_flags(script: Script) -> str:
    """Return the options that line 1 gives to bash, where the scheduler runs the script by it."""
    match = re.match(r"#!\s*(?:\S*/env\s+(?:-S\s+)?)?\S*sh\s+-+(\w+)\s*$", script.lines[0])
    return (match[1] if match and script.can.needs_shebang else "").replace("login", "l")


def find_syntax_fault(script: Script) -> tuple[int, str] | None:
    """Return where bash cannot read a script, and what it says."""
    text = script.text.replace("\r\n", "\n").encode("utf-8", "surrogateescape")
    try:
        process.check_syntax(text.decode("utf-8", "replace"), Position(script.path))
    except SpecError as error:
        match = re.search(r"line (\d+): (.*?)(; bash: |$)", error.problems[0].message)
        line = min(int(match[1]), len(script.lines)) if match else 1
        reason = match[2] if match else "it is not bash"
        return max(line, 1), f"bash cannot read the script: {reason}"
    return None


def find_template(script: Script) -> int | None:
    """Return the first line by which a text is seen to be a generator's template."""
    lines = enumerate(script.lines, 1)
    return next((number for number, line in lines if FORMS["template"].search(line)), None)


def find_place(script: Script, item: DirectiveOption) -> str | None:
    """Return the place to fill in that a directive holds, also where it has blanks in it."""
    unsaid = re.search(r"\$\{?[A-Za-z_]\w*\}?|\b[A-Z]+_[A-Z_]+\b|\S*(?<!software)[:=]$", item.value)
    if unsaid and FORMS["numbers"].fullmatch(item.option):  # which a variable is not
        return unsaid[0]
    bare = not item.value and _VALUED.match(f"{item.option}\n{item.text}")
    return _find_named_place(script, item) or (item.option if bare else None)


def _find_named_place(script: Script, item: DirectiveOption) -> str | None:
    own = f"{item.option} {item.value}"
    more = re.sub(r"\s#.*", "", item.text.partition(item.value or item.option)[2])
    idle = FORMS["no-mail"].fullmatch(f"{item.option} {script.value('--mail-type', '-m')}")
    match = None if idle else FORMS["place"].search(own + more)
    return None if match is None or (item.value and match.start() > len(own)) else match[0]


def list_strays(script: Script) -> dict[int, DirectiveOption]:
    """Return the first word that is not an option, by lines; not those of a place with blanks."""
    strays = {item.line: item for item in reversed(script.directives) if item.read & item.is_stray}
    places = {item.line for item in script.read_directives if find_place(script, item)}
    return {line: item for line, item in strays.items() if line not in places}


def list_refusals(script: Script) -> Iterator[tuple[int, str, str]]:
    """Yield why a text is not a job: lines, messages and hints."""
    for line, text in enumerate(script.lines, 1):
        other = vars(WHY).get(f"of {text.partition(' -')[0].rstrip()}")
        if other and not script.read_directives:
            yield line, f"this is a script for {other}", "jobgen reads #SBATCH and #PBS"
    if place := find_template(script):
        yield place, "this is a template, not a script", "import what it renders"
    yield from _list_refused(script)
    shell = find_shell(script)
    if shell not in SHELLS:
        message = f"{shell} runs this script, and jobgen writes for bash"
        yield 1, message, "submit it as it is, or write it for bash"
    if fault := find_syntax_fault(script):
        yield *fault, ""


def _list_refused(script: Script) -> Iterator[tuple[int, str, str]]:
    """Yield the directives that no job of jobgen's can have, and what submits other jobs."""
    walltime = script.resource("walltime")
    for item in script.read_directives:
        if script.can.chunks and FORMS["nqsv"].match(f"{item.option} {item.value} {walltime}"):
            yield item.line, f"{item.text} belongs to NQSV, not to PBS", ""
        if FORMS["between-jobs"].fullmatch(item.option):
            message = "this is a heterogeneous job, whose parts have their own directives"
            yield item.line, message, "roles of a spec can say it"
    kind = "SUBMITS_ITSELF" if FORMS["submits-itself"].search(script.text) else "SUBMITS"
    for line, _ in [] if script.read_directives else list_submissions(script):
        yield line, *vars(WHY)[kind].split("; ")


def list_submissions(script: Script) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each command that submits a job, also within a word."""
    for command in script.commands:
        texts = [" ".join(word.raw for word in command.words)]
        texts += [text for word in command.all_words for text in list_substituted(word.raw)]
        yield from ((command.line, text) for text in texts if FORMS["submits"].match(text))
