"""Entry of every PBS command: pbs_command.py RUN COMMAND ARGUMENT..."""

import sys
from collections.abc import Callable
from pathlib import Path

import commands
import qsub
import tm
from link import RefusedError

COMMANDS: dict[str, Callable[[Path, list[str]], int]] = {
    "qsub": qsub.main,
    "qstat": commands.qstat,
    "qselect": commands.qselect,
    "qdel": commands.qdel,
    "qsig": commands.qsig,
    "qrerun": commands.qrerun,
    "qalter": commands.qalter,
    "qhold": commands.qhold,
    "qrls": commands.qrls,
    "pbsnodes": commands.pbsnodes,
    "pbsdsh": tm.pbsdsh,
    "pbs_tmrsh": tm.tmrsh,
}

if __name__ == "__main__":
    run, command, *arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"pbs_version = {commands.VERSION}")
        sys.exit(0)
    try:
        status = COMMANDS[command](Path(run), arguments)
    except RefusedError as refused:
        print(refused.text.rstrip("\n"), file=sys.stderr)
        status = refused.code & 255
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
