"""A program with the job that starts it: what the rules of a look need to know of both."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from itertools import chain

from jobgen.programs.arguments import read_arguments
from jobgen.programs.kinds import classify
from jobgen.programs.project import list_plain
from jobgen.programs.remark import JobSize, read_rules
from jobgen.programs.source import Source
from jobgen.programs.text import Call, read_form, spell_form
from jobgen.review.settings import list_settings

PYTHON = "Python {}.{}".format(*sys.version_info)
# Variables that every process has.
_TOLD = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_OF_NODES = {"sys.platform": "linux", "os.name": "posix", "platform.system()": "Linux"}
_OF_MPI = {"horovod", "mpi4py"}
# Libraries that make the group in an object that settings may name.
_CONFIGURED = {"lightning", "pytorch_lightning", "composer"}
_STARTS = "spawns launches rays"  # the kinds of calls that start processes


class Case:
    """A program, and the job that starts it.

    `off` is a test that is known to keep it from a process group: where not all of its options are
    seen, those that are have their values for this test alone.
    """

    def __init__(self, source: Source, size: JobSize) -> None:
        self.source, self.size = source, size
        self.words = [*(size.arguments or ()), *size.swept[0]]
        self.given = [*(size.arguments or ()), *chain(*size.swept)]
        self.told = f"{source.project.code}\n{size.setup}"
        self.passed, self.swept = _list_options(self.words), _list_options(size.swept[0])
        self.settings = [*list_settings(["", *self.words])]  # the program itself comes before them
        known = _tell(size)
        source.tell(known, {})
        tasks = [(*(size.arguments or ()), *one) for one in size.swept]
        self.read = read_arguments(source, tasks, given=size.arguments is not None)
        source.tell(known, self.read.options)
        self.off = "" if self._find_groups() else source.find_denied("makes")
        if not self.read.sure:
            source.tell(known, {})
        self.values = size._asdict() | {
            "few": size.processes - 2,
            "all_gpus": size.nodes * size.gpus,
            "count": len(self.words),
            "numbers": "|".join(map(str, range(len(self.words) + 1))),  # of sys.argv
            "parts": "|".join(self.swept).replace("-", "_") or "(?!)",
            "off": "|".join(one.lstrip("-").replace("-", "_") for one in size.off),
            "reader": PYTHON,
        }
        # By the words of `needs`, and the names of rules, whether they hold.
        self.answers = dict.fromkeys(read_rules(), False) | _answer(size)
        self.answers |= self._describe()

    def _describe(self) -> dict[str, bool]:
        """Answer what the rules need of the program."""
        source = self.source
        placed, strange = self._is_placed(), self._list_strange()
        mpi = _OF_MPI & {full.partition(".")[0] for full in source.named}
        made, trains = placed or bool(source.find("makes")), bool(source.find("trains"))
        self.values |= {"test": self.off, "option": self._name_switch()}
        self.values |= {"library": min(mpi, default=""), "libraries": ", ".join(strange[:3])}
        meets = source.find("grouped collects")
        return {
            "script": source.project.is_script,
            "partial": source.project.partial,
            "one": not source.find(_STARTS),
            "made": made,
            "placed": placed,
            "own": made and not placed and not self.off,
            "joined": bool(source.find("joins")),
            # What stops where there is no group, and trains nothing alone.
            "joining": not (made or all(all(source.list_ways(one.place)) for one in meets)),
            "mpi": bool(mpi),
            "strange": bool(strange),
            "trains": trains,
            "denied": bool(self.off) and not placed,
            "read": self.read.sure,
            "alone": not (made or mpi or self._may_make()) and (trains or not self._may_divide()),
            "installed": any(map(os.path.isfile, ("pyproject.toml", "setup.py", "setup.cfg"))),
        }

    def _may_make(self) -> bool:
        """Whether a function that makes a group may be called by a name that is not in the text."""
        code = self.source.project.code
        return self.source.has("makes") and bool(read_form("calls-by-name").search(code))

    def _may_divide(self) -> bool:
        """Whether each process may do its own part, or a library may see to it."""
        divides = read_form("own-part").search(self.source.project.code)
        return bool(divides or self.source.find("instantiates") or self._list_strange())

    def _name_switch(self) -> str:
        """Return the option that keeps the program from a process group; "" if none does."""
        words = re.findall(r"\w+", self.off)
        return next((word for word in reversed(words) if word in self.read.options), "")

    def _find_groups(self) -> list[Call]:
        """Return what makes the group, or starts processes; functions do so by others in them."""
        own = {scope.name for module in self.source.project.modules for scope in module.scopes}
        calls = self.source.find(f"makes {_STARTS}")
        return [one for one in calls if one.short not in own]

    def _is_placed(self) -> bool:
        """Whether a library makes the group, and gives each process its GPU."""
        source = self.source
        # With a loop of its own, it takes only classes of these.
        if source.project.libraries & _CONFIGURED and not source.find("loops"):
            return True
        return any(classify(one) >= {"makes", "places"} for one in source.named)

    def _list_strange(self) -> list[str]:
        """Return the libraries that may make the group, and modules that are not there.

        A program with a training loop of its own has it made by a function for that.
        """
        source = self.source
        form = spell_form("sets-up") if source.find("loops") else ""
        unknown = {one.name.strip(".").partition(".")[0] for one in source.project.missing}
        unknown |= source.project.libraries - list_plain()
        named = (full for full in source.named | unknown if re.search(form, full))
        return sorted({head for full in named if (head := full.partition(".")[0]) in unknown})


def _list_options(words: Iterable[str]) -> list[str]:
    """Return the options among words, without their dashes."""
    return re.findall(r"(?<!\S)--?([A-Za-z][\w-]*)", " ".join(words))


def _answer(size: JobSize) -> dict[str, bool]:
    return {key: bool(value) for key, value in size._asdict().items()} | {
        "given": size.arguments is not None,
        "arguments": bool(size.arguments or size.swept[0]),
        "several": size.world_size > 1,
        "shared": size.processes > 1,
        "nodes": size.nodes > 1,
        "idle": size.processes == 1 < size.gpus,
        "array": size.tasks > 1,
    }


def _tell(size: JobSize) -> dict[str, object]:
    """Return what the job decides of what a program asks for, by its words."""
    known: dict[str, object] = {**_OF_NODES, "torch.cuda.device_count()": size.gpus}
    known["torch.cuda.is_available()"] = size.gpus > 0
    known |= dict.fromkeys(("TYPE_CHECKING", "typing.TYPE_CHECKING"), False)
    if size.lone or size.ray or size.plain:
        return known
    for name in _TOLD:
        known |= {f"'{name}' in os.environ": True, f"'{name}' not in os.environ": False}
    known["os.WORLD_SIZE"] = str(size.world_size)
    known["os.LOCAL_WORLD_SIZE"] = str(size.processes)
    asked = ("dist.get_world_size()", "torch.distributed.get_world_size()", "get_world_size()")
    return known | dict.fromkeys(asked, size.world_size)
