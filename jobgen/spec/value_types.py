"""The kinds of value that specs and site profiles are made of, each with what it accepts."""

import re
from typing import TYPE_CHECKING, Annotated, Literal

from jobgen.schedulers.registry import PACKAGES
from jobgen.spec.fields import FreeText, Parsed, Pattern, Range
from jobgen.spec.units import DURATION, MEMORY, parse_duration, parse_memory

Count = Annotated[int, Range(1, 100_000)]
CountOrNone = Annotated[int, Range(0, 100_000)]
Duration = Annotated[int, Parsed(parse_duration, ("04:00:00", "4h", "90m", "1-12:00:00"), DURATION)]
Memory = Annotated[int, Parsed(parse_memory, ("180GB", "512MB"), MEMORY)]
Word = Annotated[str, FreeText()]
ExpandableWord = Annotated[str, FreeText(expandable=True)]
# The characters that sbatch, qsub and a file name all take as they are; qsub(1B) allows 230.
NAME = Pattern(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}",
    "a job name; use up to 100 letters, digits, '.', '_' and '-', a letter or digit first",
    ("gpt-web",),
)
Name = Annotated[str, NAME]
# What accounts, queues and partitions are called; nothing that a directive would take apart.
Label = Annotated[
    str,
    Pattern(
        r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*",
        "a name that a directive can carry; use letters, digits and any of _ . @ : + / -",
    ),
]
Variable = Annotated[str, Pattern(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")]
Option = Annotated[str, Pattern(r"(?!_$)[^\s=\x00-\x1f\x7f-\x9f]+", "the name of an option")]
Directive = Annotated[
    str,
    Pattern(
        r"#(PBS|SBATCH) +[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?",
        "a directive; begin it with '#PBS ' or '#SBATCH ' and use plain ASCII",
        ("#PBS -m e", "#SBATCH --constraint=a100"),
    ),
]
# What `module load` takes; one with a blank in it is two, or the command itself.
ModuleName = Annotated[
    str, Pattern(r"[^\s,;-][^\s,;]*", "the name of one environment module", ("cuda/12.3",))
]
# What a command is given that would take a leading dash for an option.
NoOption = Annotated[str, Pattern(r"[^-].*", "a name; it begins with '-'")]
Interface = Annotated[
    str, Pattern(r"[A-Za-z0-9_.:@-]{1,15}", "the name of a network interface", ("hsn0", "ib0"))
]
# Letters beyond ASCII are not told from other signs; Python will. Said by what they are not, as a
# class of so many characters takes ten milliseconds to compile.
_WORD = r"[^\x00-\x40\x5b-\x5e\x60\x7b-\xa0][^\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\xa0]*"
Module = Annotated[str, Pattern(rf"{_WORD}(\.{_WORD})*", "a Python module", ("jobgen.trainer",))]
# Features of nodes and what joins them (sbatch(1), --constraint), or resources of a PBS chunk.
Constraint = Annotated[
    str,
    Pattern(
        r"[A-Za-z0-9_(\[][A-Za-z0-9_.:&|*,=()\[\]-]*",
        "a constraint; write the names of node features, joined by & or |",
        ("a100", "a100&nvlink", "gpu_model=a100"),
    ),
]
# A resource of a PBS chunk and its value; its name may have hyphens (PBS Administrator's Guide).
OF_CHUNK = r"[A-Za-z_][\w-]*=[\w.-]+"
Email = Annotated[
    str,
    Pattern(
        r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*)?",
        "an e-mail address",
        ("me@example.org",),
    ),
]
# It becomes part of the names of functions and, in capitals, of variables.
RoleName = Annotated[
    str,
    Pattern(
        r"[a-z][a-z0-9_]{0,29}",
        "the name of a role; use lower-case letters, digits and '_', a letter first",
        ("server", "train"),
    ),
]
UrlPath = Annotated[
    str, Pattern(r"/[!-~]*", "the path of a URL; begin it with /", ("/health", "/v1/models"))
]
# As sbatch, qsub or jobgen prints it; of a task of an array 12_3, or 12[3] as PBS writes it.
JobId = Annotated[
    str,
    Pattern(
        r"[0-9]+(_[0-9]+|\[[0-9]*\])?(\.[A-Za-z0-9.-]+)?|[0-9]{8}-[0-9]{6}-[0-9]+(_[0-9]+)?",
        "a job's id as sbatch, qsub or jobgen prints it",
        ("12345", "12345_7", "12345[7].server"),
    ),
]
JobIds = Annotated[tuple[Annotated[int, Range(0)] | JobId, ...], Range(1)]


def make_option(key: str) -> str:
    """A key of `run.args` as the option that the program gets."""
    if key.startswith("-"):
        return key
    return f"-{key}" if len(key) == 1 else f"--{key}"


def name_option(option: str) -> str:
    """Return the name by which a program has what an option gives, as argparse makes it."""
    return option.lstrip("-").replace("-", "_")


def make_words(key: str, value: bool | str | tuple[str, ...]) -> list[str]:
    """Return the words that the program gets for a key of `run.args` and its value."""
    option = make_option(key)
    if isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, tuple):
        return [option, *value]
    # argparse and its like take a separate word with a leading dash for an option.
    return [type(value)(f"{option}={value}")] if value.startswith("-") else [option, value]


if TYPE_CHECKING:
    SchedulerName = str
else:
    SchedulerName = Literal[tuple(PACKAGES)]

# Names of variables that would not arrive: bash or torchrun sets them. Names in lower case are the
# script's, except those of proxies.
TAKEN = (
    "(?!.*_proxy$)[a-z0-9_]+|BASH.*|JOBGEN_.*|TORCHELASTIC_.*|COMP_WORDBREAKS|DIRSTACK"
    "|EPOCH(SECONDS|REALTIME)"
    "|E?UID|PPID|FUNCNAME|GROUPS|HISTCMD|IFS|LINENO|(OLD)?PWD|OPT(ARG|ERR|IND)|PIPESTATUS"
    "|POSIXLY_CORRECT|PS[124]|S?RANDOM|SECONDS|SHELLOPTS|SHLVL|MASTER_(ADDR|PORT)|ROLE_NAME"
    "|((LOCAL|GROUP|ROLE)_)?(RANK|WORLD_SIZE)"
)
# How these names begin: others need no expression, which takes half a millisecond to compile.
_TAKEN_STARTS = (
    "BAS JOB TOR COM DIR EPO EUI UID PPI FUN GRO HIS IFS LIN OLD PWD OPT PIP POS PS1 PS2 PS4 RAN"
    " SRA SEC SHE SHL MAS ROL LOC WOR"
)


def is_taken(name: str) -> bool:
    """Return whether a variable of this name would not reach the program."""
    likely = name[:3] in _TAKEN_STARTS or name == name.lower()
    return likely and re.fullmatch(TAKEN, name) is not None
