"""Entry of every PBS command: pbs_command.py RUN COMMAND ARGUMENT..."""

import importlib
import os
import sys

from link import VERSION, RefusedError

#: where a command is, if not in `commands`: it imports nothing else, as tests start thousands
PLACES = {"qsub": ("qsub", "main"), "pbsdsh": ("tm", "pbsdsh"), "pbs_tmrsh": ("tm", "tmrsh")}

if __name__ == "__main__":
    run, command, *arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"pbs_version = {VERSION}")
        sys.exit(0)
    try:
        module, function = PLACES.get(command, ("commands", command))
        status = getattr(importlib.import_module(module), function)(run, arguments)
    except RefusedError as refused:
        print(refused.text.rstrip("\n"), file=sys.stderr)
        status = refused.code & 255
    except KeyboardInterrupt:
        status = 130
    try:
        sys.stdout.flush()
    finally:
        os._exit(status)  # Python's own end takes a tenth of the time
