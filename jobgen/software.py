"""The software of a job, as specs and site profiles say it: modules, Python, variables."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from jobgen.bind import Pattern
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


# What runs containers: edf is the Container Engine of CSCS, named for its environment files.
Runtime = Literal["apptainer", "singularity", "podman-hpc", "pyxis", "edf"]
Bind = Annotated[
    str,
    Pattern(
        r"[^-:,\s][^:,]*(:[^:,]+){0,2}",
        "a folder or file to show inside; write SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro",
        ("/data", "$SCRATCH/data:/data:ro"),
    ),
]
Binds = Annotated[
    tuple[Bind, ...],
    "What else is seen inside, as SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro; $NAME and a leading ~"
    " expand. The folder you submit from, /tmp and TMPDIR always are.",
]


class Container(NamedTuple):
    """The container that the processes of every node run in."""

    image: Annotated[
        NoOption,
        "An image file or folder, or a name such as docker://...; for edf the environment file."
        " $NAME and a leading ~ expand.",
    ]
    runtime: Annotated[Runtime | None, "What runs it; the site's, where its profile has one."] = (
        None
    )
    binds: Binds = ()
    options: Annotated[
        tuple[Word, ...], "More options for the runtime; for pyxis and edf, of srun."
    ] = ()

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """An environment file has its own mounts."""
        if self.runtime == "edf" and self.binds:
            yield "binds", "are of no use to edf", "write them as mounts in the environment file"


class Environment(NamedTuple):
    """What is set up on every node before the program starts, in this order."""

    modules: Annotated[
        tuple[NoOption, ...] | Modules | None,
        "Environment modules to load, in order; or keys and values.",
    ] = None
    container: Annotated[
        Container | None, "A container for what follows, and for the program itself."
    ] = None
    stage: Annotated[
        NoOption | None,
        "An archive of an environment, by conda-pack or venv-pack, to unpack on each node's own"
        " disk; $NAME and a leading ~ expand.",
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
        pythons = [key for key in ("venv", "conda", "stage") if getattr(self, key) is not None]
        for key in pythons[1:]:
            yield key, f"stands beside {pythons[0]}", "give one of the two"
        for name in self.variables or ():
            if re.fullmatch(TAKEN, name):
                message = "would not arrive: the script, bash or torchrun sets it"
                yield f"variables.{name}", message, "choose another name"
