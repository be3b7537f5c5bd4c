"""Settings of a cluster: pbs_set.py RUN [--nodes LIST] [KEY=JSON...] [-- SHARED...]"""

import json
import sys
from pathlib import Path
from typing import Any

from link import change


def main(run: Path, arguments: list[str]) -> None:
    changes: dict[str, Any] = {}
    if "--" in arguments:
        at = arguments.index("--")
        changes["shared"] = arguments[at + 1 :]
        arguments = arguments[:at]
    if arguments[:1] == ["--nodes"]:
        (run / "settings.json").write_text("{}")
        sizes = [size.split(":") for size in arguments[1].split(",")]
        changes["nodes"] = {
            # Memory in kB: 4 GB for a CPU.
            f"n{number}": {"ncpus": int(cpus), "ngpus": int(gpus), "mem": int(cpus) * 2**22}
            for number, (cpus, gpus) in enumerate(sizes, start=1)
        }
        arguments = arguments[2:]
    for argument in arguments:
        key, _, value = argument.partition("=")
        try:
            changes[key] = json.loads(value)
        except ValueError:
            raise KeyError(f"{argument!r} is not KEY=JSON; see link.py for the settings") from None
    change(run, changes)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2:])
    except KeyError as error:
        sys.exit(f"pbs-set: {error.args[0]}")
