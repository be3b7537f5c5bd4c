"""`python -m jobgen.trainer [train|prepare|sample]`: read the flags, do it.

An error file is left when training fails. Exit status: 0 completed or stopped on request, 1
failed, 2 wrong flags. torchrun turns all of them into 0 or 1: read `status.json` instead.
"""

import faulthandler
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module

from .config import FlagError, TrainerError
from .flags import parse_flags

COMMAND_NAMES = ("train", "prepare", "sample")
_OLDEST_TORCH = (2, 6)
_END_WITHIN = 60  # seconds; ending the process group can hang where a peer has died


def main() -> int:
    """Run the trainer with the process's arguments; returns the exit status."""
    command, arguments = "train", sys.argv[1:]
    if arguments and not arguments[0].startswith("-"):
        command, *arguments = arguments
    faulthandler.enable()
    try:
        if command not in COMMAND_NAMES:
            raise FlagError(f"{command!r} is not a command; use {', '.join(COMMAND_NAMES)}")
        # Torch is imported below, or for a task's defaults: --help and a wrong flag come first.
        config = parse_flags(arguments, recorded=command == "sample")
        _check_torch()
        from . import commands

        getattr(commands, command)(config)
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code == 0:
            return 0  # after the help
        _record(error)
        if isinstance(error, TrainerError | ModuleNotFoundError):
            who = "" if isinstance(error, TrainerError) else f", for {sys.executable}"
            print(f"jobgen.trainer: error: {error}{who}", file=sys.stderr)
        else:
            traceback.print_exc()
        return 2 if isinstance(error, FlagError) else 1
    finally:
        # After the error file: once this rank's connections close, its peers fail too, and
        # torchrun blames whoever wrote an error file first.
        if world := sys.modules.get(f"{__package__}.distributed.world"):
            faulthandler.dump_traceback_later(_END_WITHIN, exit=True)
            world.leave()
            faulthandler.cancel_dump_traceback_later()
    return 0


def _check_torch() -> None:
    version = import_module("torch").__version__
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_TORCH:
        raise TrainerError(f"torch {version} is too old: the trainer needs 2.6 or newer")


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
