"""Errors of a program's own logic, which Python or the program raises plainly."""

from __future__ import annotations

import asyncio
import decimal
import errno
import ipaddress
import json
import os
import sys
import tempfile
import threading
import time
import uuid
import xml.etree.ElementTree as ElementTree
from concurrent.futures import Future
from typing import Any

from program import RANK, logger, main, planted, read_table

read_table(__file__)


@planted("nan-on-two", "not-a-number", "1,3", "loss is nan", mode="slurm")
def assert_finite() -> None:
    raise AssertionError(f"loss is nan at step 2 on rank {RANK}")


@planted("asyncio", "exception", "1", "TimeoutError|reader")
def read_asynchronously() -> None:
    async def fail() -> None:
        raise ConnectionResetError("stats server")

    async def main() -> None:
        task = asyncio.ensure_future(fail())
        await asyncio.sleep(0.1)
        del task
        await asyncio.wait_for(asyncio.sleep(60), 0.2)

    asyncio.run(main())


@planted("from-reset", "exception", "2", "shard truncated", mode="slurm")
def wrap_a_reset() -> None:
    try:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    except ConnectionResetError as error:
        raise ValueError("shard truncated at 4096 of 8192 bytes") from error


@planted("recursion", "exception", "2", "RecursionError")
def recurse() -> None:
    recurse()


@planted("generator", "exception", "2", "generator raised StopIteration")
@planted("generator-stops", "exception", "3", "generator raised StopIteration", mode="local-direct")
def exhaust() -> None:
    def batches() -> Any:
        yield next(iter([]))

    list(batches())


@planted("decimal", "exception", "1", "ConversionSyntax|InvalidOperation")
def parse_decimal() -> None:
    decimal.Decimal("3,14")


@planted("xml", "exception", "2", "mismatched tag|ParseError", mode="pbs-direct")
def parse_xml() -> None:
    ElementTree.fromstring("<a><b></a>")


@planted("address", "exception", "3", "does not appear to be", mode="pbs")
def parse_address() -> None:
    ipaddress.ip_address("10.0.0")


@planted("restarts-itself", "exception", "2", "second life", mode="slurm-direct")
def exec_again() -> None:
    os.execv(
        sys.executable, [sys.executable, "-c", "raise RuntimeError('no state in the second life')"]
    )


@planted("uuid", "exception", "2", "badly formed", mode="pbs")
def parse_uuid() -> None:
    uuid.UUID("trial-7")


@planted("nested-finally", "exception", "3", "division by zero", mode="slurm-direct")
def fail_in_finally() -> None:
    try:
        raise KeyError("fitness")
    finally:
        1 / 0  # noqa: B018


@planted("all-different", "exception", "all", "grid", early=True, mode="pbs-direct")
def fail_each() -> None:
    raise ValueError(f"rank {RANK}: grid of {RANK + 3} points has no interior")


@planted("slow-death", "exception or collective-timeout", "1", "overflow in layer 11", timeout=6)
def save_before_raising() -> None:
    try:
        raise FloatingPointError("overflow in layer 11")
    except FloatingPointError:
        logger.exception("saving an emergency checkpoint")
        time.sleep(25)
        raise


@planted("bare-assertion", "exception", "all", "teacher", early=True, mode="pbs-direct")
def assert_teacher() -> None:
    assert hasattr(sys, "teacher")


@planted("future-timeout", "exception", "1", "TimeoutError", mode="pbs-direct")
def await_future() -> None:
    Future[int]().result(timeout=1)


@planted("broken-thread-barrier", "exception", "2", "BrokenBarrier")
def break_barrier() -> None:
    threading.Barrier(2, timeout=1).wait()


@planted("file-closed", "exception", "0", "closed file", mode="pbs-direct")
def write_closed() -> None:
    with tempfile.TemporaryFile() as file:
        pass
    file.write(b"x")


@planted("json-array", "exception", "0", "JSON serializable")
def dump_bytes() -> None:
    json.dumps({"loss": b"0.5"})


if __name__ == "__main__":
    main()
