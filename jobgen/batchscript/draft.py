"""A spec in the making, and its YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partialmethod
from typing import Any

from jobgen.batchscript.purposes import WHY
from jobgen.records import NamedTuple
from jobgen.spec import yaml_nodes
from jobgen.spec.bind import bind
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec
from jobgen.spec.yaml_text import write_data

# What is listed, and under which words; what is `kept` is listed only for who asks.
HEADINGS = {kind: vars(WHY)[kind] for kind in ("lost", "check")}


class Left(NamedTuple):
    """Something of the script that the spec does not say as it was."""

    kind: str  # `lost` where the job will differ, `check` where it may, `kept` where it does not
    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {make_printable(shorten(self.text))}  ({self.reason})"


class Draft:
    """Values by their path in the spec, such as `resources.nodes`, and what found no place."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.left: list[Left] = []

    def put(self, path: str, value: Any) -> bool:
        """Set a value, and return whether there is one: nothing, zero and empty ones set none."""
        if value:
            self.values[path] = value
        return bool(value)

    def leave(self, kind: str, line: int, text: str, reason: str) -> None:
        """Note what of the script the spec does not say as it was."""
        left = Left(kind, line, text.strip(), reason)
        if left not in self.left:
            self.left.append(left)

    lose = partialmethod(leave, "lost")  # the job will differ
    check = partialmethod(leave, "check")  # it may differ, and its user should look
    keep = partialmethod(leave, "kept", reason="jobgen does it, or the job does without it")

    def setup(self, lines: Iterable[str]) -> None:
        """Keep lines of bash as they are."""
        old = self.values.get("environment.setup", "")
        self.put("environment.setup", old + "".join(f"{line}\n" for line in lines))

    def load(self) -> LoadedSpec:
        """The spec as jobgen reads it; raises SpecError for what no spec can say."""
        spec, positions = bind(yaml_nodes.parse(self.yaml(""), file="job.yaml"), JobSpec)
        return LoadedSpec(spec, "job.yaml", "", positions)

    def tree(self) -> dict[str, Any]:
        """The values as keys in keys, in the order of the manual."""
        tree: dict[str, Any] = {"resources": {}}
        place = {key: index for index, key in enumerate(WHY.order.split())}
        for path in sorted(self.values, key=lambda path: place.get(path.partition(".")[2], 99)):
            outer, _, inner = path.partition(".")
            (tree.setdefault(outer, {}) if inner else tree)[inner or outer] = self.values[path]
        return dict(sorted(tree.items(), key=lambda item: place.get(item[0], 99)))

    def yaml(self, source: str, *, comments: Iterable[str] = ()) -> str:
        """The spec as YAML, with what was left out as comments at its end."""
        lines = [f"# imported by jobgen from {make_printable(source)}"]
        lines += write_data(self.tree(), block=("directives",)).splitlines()
        for kind, heading in HEADINGS.items():
            if entries := [f"#   {left}" for left in self.left if left.kind == kind]:
                lines += ["", f"# {heading}", *entries]
        lines += [f"# {make_printable(line)}".rstrip() for line in comments]
        return "\n".join(lines) + "\n"


def shorten(text: str) -> str:
    """Return the first words of a text of the script, by which it is found again."""
    words = " ".join(text.replace("\\\n", " ").split())
    return re.sub(r"(?<=^.{96}).{5,}", " ...", words)


def make_printable(text: str) -> str:
    """`text` on one line of a YAML comment."""
    return "".join(x if x.isprintable() else "?" for x in re.sub(r"\s", " ", text))
