"""`python -m jobgen.trainer [train|prepare|sample|export]`: read the flags, do it.

An error file is left when training fails. Exit status: 0 completed or stopped on request, 1
failed, 2 wrong flags. torchrun turns all of them into 0 or 1: read `status.json` instead.
"""

import faulthandler
import os
import sys
import traceback
from contextlib import suppress

from .config import TrainerError, UsageError
from .flags import parse_flags

COMMANDS = ("train", "prepare", "sample", "export")
_END_WITHIN = 60  # seconds; ending the process group can hang where a peer has died


def main() -> int:
    """Run the trainer with the process's arguments; returns the exit status."""
    command, arguments = "train", sys.argv[1:]
    if arguments and not arguments[0].startswith("-"):
        command, *arguments = arguments
    try:
        if command not in COMMANDS:
            raise UsageError(f"no command {command!r}; there are {', '.join(COMMANDS)}")
        config = parse_flags(arguments, recorded=command in ("sample", "export"))
    except UsageError as error:
        _record(error)
        print(f"jobgen.trainer: error: {error}", file=sys.stderr)
        return 2

    # Only now, so that --help and a wrong flag do not wait for torch.
    try:
        from . import commands
        from .parallel import leave
    except ModuleNotFoundError as error:
        print(f"jobgen.trainer: error: {error}, for {sys.executable}", file=sys.stderr)
        return 1

    faulthandler.enable()
    try:
        getattr(commands, command)(config)
    except BaseException as error:
        _record(error)
        if isinstance(error, TrainerError):
            print(f"jobgen.trainer: error: {error}", file=sys.stderr)
        else:
            traceback.print_exc()
        return 1
    finally:
        # After the error file: once this rank's connections close, its peers fail too, and
        # torchrun blames whoever wrote an error file first.
        faulthandler.dump_traceback_later(_END_WITHIN, exit=True)
        leave()
        faulthandler.cancel_dump_traceback_later()
    return 0


def _record(error: BaseException) -> None:
    """Write torchelastic's error file, as its `@record` does, but for SystemExit too.

    With `@record` alone a rank that calls `sys.exit(3)` leaves no trace, and an innocent peer is
    reported as the cause.
    """
    if "TORCHELASTIC_ERROR_FILE" in os.environ:
        from torch.distributed.elastic.multiprocessing.errors import get_error_handler

        get_error_handler().record_exception(error)


if __name__ == "__main__":
    status = main()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    # Without Python's own end: DDP keeps gloo's threads alive beyond destroy_process_group, and
    # one that still lets go of a tensor while the interpreter ends aborts the process
    # ("terminate called without an active exception") after a perfect run.
    os._exit(status)
