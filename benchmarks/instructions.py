"""How many instructions a Python program takes, which is the same on every try.

The time of a short command varies by half on a busy machine, or on a virtual one whose host is slow
to hand out memory; its instructions do not. valgrind counts them, those of the kernel and of other
programs apart: `apt-get install valgrind`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile

LIBRARIES = "import click, yaml, jinja2"  # what every command of jobgen needs


def count_instructions(argv: list[str]) -> int:
    """Return the instructions of a Python program that succeeds, without those of its children."""
    if shutil.which("valgrind") is None:
        sys.exit("valgrind counts the instructions, and is not installed")
    with tempfile.NamedTemporaryFile("r") as log:
        counting = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        valgrind = ["valgrind", *counting, f"--log-file={log.name}", sys.executable, *argv]
        subprocess.run(valgrind, check=True, stdout=subprocess.DEVNULL, env=make_environment())
        found = re.search(r"I +refs: +([\d,]+)", log.read())
    assert found, "valgrind counted nothing"
    return int(found[1].replace(",", ""))


def make_environment() -> dict[str, str]:
    """Return variables with which a program takes the same steps on every run.

    Compiled modules and templates are kept, as in an installation; the first run makes them.
    """
    own = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return own | {"PYTHONHASHSEED": "0"}


def count_libraries() -> int:
    """Return the instructions of importing what every command needs, the unit of the others."""
    return count_instructions(["-c", LIBRARIES])


def make_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory, where that can be: the disk is not what is measured."""
    memory = "/dev/shm"
    return tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)
