"""The software of a job, as specs and site profiles say it: modules, Python, variables."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from jobgen.fields import TAKEN, NoOption, Variable, Word

# One key each, alike in specs and in site profiles.
First = Annotated[
    Literal["purge", "force-purge", "reset"] | None,
    "What comes first: purge unloads all modules but sticky ones, force-purge those too, reset"
    " brings back what the system loads by itself.",
]
Use = Annotated[tuple[NoOption, ...], "Folders for `module use`; $NAME and a leading ~ expand."]
Load = Annotated[tuple[NoOption, ...], "Modules to load, in order."]


class Modules(NamedTuple):
    """Environment modules, by Lmod or Environment Modules: what comes first, folders, names."""

    first: First = None
    use: Use = ()
    load: Load = ()


class Environment(NamedTuple):
    """What is set up on every node before the program starts, in this order."""

    modules: Annotated[
        tuple[NoOption, ...] | Modules | None,
        "Environment modules to load, in order; or keys and values.",
    ] = None
    venv: Annotated[
        str | None, "A Python virtual environment; $NAME and a leading ~ expand in the job."
    ] = None
    conda: Annotated[
        NoOption | None, "A conda environment, by name or path; $NAME and a leading ~ expand."
    ] = None
    variables: Annotated[
        dict[Variable, Word] | None, "Environment variables; the values are taken as they are."
    ] = None
    setup: Annotated[Word | None, "Lines of bash of your own, run on every node, verbatim."] = None

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """There is one Python, and the variables arrive."""
        if self.venv is not None and self.conda is not None:
            yield "conda", "stands beside venv", "give one of the two"
        for name in self.variables or ():
            if re.fullmatch(TAKEN, name):
                message = "would not arrive: the script, bash or torchrun sets it"
                yield f"variables.{name}", message, "choose another name"
