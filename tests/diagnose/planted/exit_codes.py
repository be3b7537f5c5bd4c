"""A process leaves by itself with a code, or with 0 before the others have ended."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import sys
import threading
import time
import traceback
import types

from program import logger, main, planted, read_table

read_table(__file__)


@planted("uneven-epochs", "left-early", "3", "epoch")
def finish_the_epoch() -> None:
    print("epoch 0 is done; saved nothing, as rank 0 does", flush=True)
    sys.exit(0)


@planted("uneven-torch", "left-early", "1", "", torch=True, mode="pbs")
def finish_early() -> None:
    os._exit(0)


@planted("message", "exit 1", "all", "no tokens in data/", early=True, mode="pbs")
def leave_with_a_message() -> None:
    sys.exit("no tokens in data/; run prepare.py first")


@planted("stderr-closed", "exit 3", "1", "exit code 3")
def close_errors() -> None:
    os.close(2)
    os._exit(3)


@planted("exit-by-string-object", "exit 1 or exception", "0", "bad seed")
def leave_by_object() -> None:
    sys.exit(types.SimpleNamespace(reason="bad seed"))  # type: ignore[arg-type]


@planted("suppressed-then-leaves", "left-early", "2", "", mode="pbs-direct")
def suppress_and_leave() -> None:
    with contextlib.suppress(Exception):
        raise ValueError("the front is empty")
    os._exit(0)


@planted("thread-ends-all", "exit 42", "0", "exit code 42", mode="pbs-direct")
def end_from_thread() -> None:
    def watch() -> None:
        faulthandler.dump_traceback()
        os._exit(42)

    threading.Thread(target=watch).start()
    time.sleep(30)


@planted("left-after-traceback", "left-early", "1", "shard-00017", mode="slurm")
def leave_after_traceback() -> None:
    try:
        raise OSError("cannot identify image file 'shard-00017/3.jpg'")
    except OSError:
        traceback.print_exc()
        sys.exit(0)


@planted("empty-shard", "left-early", "3", "no samples", mode="pbs-direct")
def leave_without_samples() -> None:
    logger.warning("rank 3 has no samples; nothing to do")
    sys.exit(0)


@planted("exit-256", "left-early", "2", "", mode="pbs-direct")
def leave_with_256() -> None:
    sys.exit(256)


@planted("exit-minus-1", "exit 255", "1", "255")
def leave_with_minus_1() -> None:
    sys.exit(-1)


@planted("bad-atexit", "healthy", "-", "", everywhere=True)
def fail_at_exit() -> None:
    atexit.register(lambda: 1 / 0)


if __name__ == "__main__":
    main()
