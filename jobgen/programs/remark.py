"""A remark on a program, in the words of `remarks.txt`, and the job that it is about."""

from __future__ import annotations

from functools import cache
from string import Template

from jobgen.records import NamedTuple
from jobgen.spec import tables


class JobSize(NamedTuple):
    """How the job starts the program."""

    nodes: int
    processes: int  # on the node that has most
    world_size: int
    agents: bool = True  # whether torchrun's start the processes
    gpus: int = 8  # on the node that has most
    arguments: tuple[str, ...] | None = None  # what the program is given; None if unknown
    swept: tuple[tuple[str, ...], ...] = ((),)  # what some tasks of an array are given beside it
    off: tuple[str, ...] = ()  # options that the spec leaves out by false
    varied: tuple[str, ...] = ()  # variables by which the tasks of an array differ
    tasks: int = 1  # of an array, which may write to the same place
    alike: bool = False  # whether they differ by JOBGEN_TASK alone
    batch: bool = False  # whether it leaves its nodes to other jobs
    scheduler: str = ""  # what the variables that it sets begin with
    chained: str = ""  # the keys by which it may start again, to go on where it ended
    goes_on: bool = False  # whether a start that saves nothing new in checkpoints/ is the last
    resubmits: bool = False  # whether each of its starts is another job
    copied: tuple[str, ...] | None = None  # files and folders, where it runs from a snapshot
    setup: str = ""  # its command, setup and variables
    ray: bool = False  # whether it starts once, in a Ray of all nodes
    itself: bool = False  # whether its first line is to name what reads it
    plain: bool = False  # whether it starts once on each node, and may start others
    lone: bool = False  # whether it is the job's one process, and gets no rank variables
    offline: bool = False  # whether the nodes have no internet
    fewest: int = 0  # nodes, where the scheduler may give fewer than `nodes`
    packages: frozenset[str] | None = None  # that its venv has, if it surely sees no others
    venv: str = ""
    stepped: str = ""  # the launcher of its own that starts it
    cpus: int = 0  # of a node, if the job says how many
    roles: str = ""  # the names of others, on other nodes, as in their variables
    ports: str = ""  # at which these listen
    asked: str = ""  # its launcher, what it asks the scheduler for, and its environment, in words

    def __str__(self) -> str:
        return f"a job with {self.nodes} nodes of {self.processes} processes"


# What a program is held to if no spec says how it starts.
SEVERAL = JobSize(nodes=2, processes=4, world_size=8, gpus=4)


class Remark(NamedTuple):
    """One thing that the program does and the job does not mean."""

    path: str
    line: int
    rule: str
    message: str
    hint: str
    certain: bool
    option: str = ""  # the option or variable that it is about

    def as_dict(self) -> dict[str, str | int]:
        """The keys that a finding in a job script has too, for JSON."""
        level = "fault" if self.certain else "note"
        rest = {"level": level, "rule": self.rule, "message": self.message, "fix": self.hint}
        return {"file": self.path, "line": self.line, "column": 1, **rest}

    @property
    def level(self) -> str:
        """How sure it is."""
        return "warning" if self.certain else "note"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.level}: {self.message}; {self.hint} [{self.rule}]"


@cache
def read_rules() -> dict[str, dict[str, str]]:
    """Return the records of `remarks.txt` by their names; a.b has what it lacks from a."""
    rules: dict[str, dict[str, str]] = {}
    name = ""
    for line in tables.read_lines("remarks.txt", room="programs"):
        key, _, value = line.strip().partition(" ")
        if line[0] == " ":
            rules[name][key] = value
        else:
            name, base = key, rules.get(key.partition(".")[0], {})
            rules[name] = {word: base[word] for word in ("says", "write") if word in base}
            rules[name]["level"] = value
    return rules


def make_remark(
    name: str, path: str, line: int = 1, /, *, certain: bool = True, **values: object
) -> Remark:
    """Return a remark, with the words that `remarks.txt` has for it and these values in them.

    `certain` tells whether one that is `likely` is a warning.
    """
    rule = read_rules()[name]
    message, hint = (Template(rule[key]).substitute(values, path=path) for key in ("says", "write"))
    warns = rule["level"] == "warning" or (rule["level"] == "likely" and certain)
    about = str(values.get("option", ""))
    return Remark(path, line, name.partition(".")[0], message, hint, warns, about)


_MOST_PLACES = 4  # that a message names beside the first


def join_remarks(first: Remark, *others: Remark) -> Remark:
    """Return the first of remarks with one message, which names the lines of the others."""
    same = {f"{one.path}:{one.line}": one for one in sorted(others) if one[:2] != first[:2]}
    places, more = [*same][:_MOST_PLACES], len(same) - _MOST_PLACES
    if more > 0:
        places.append(f"{more} more")
    also = f" (so in {', '.join(places)})" if places else ""
    return first._replace(message=first.message + also)
