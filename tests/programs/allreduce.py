"""A program that knows nothing of jobgen: one all-reduce, and on demand the faults of real ones."""

import argparse
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


def leave(code: int) -> NoReturn:
    """Exit without Python's end, in which gloo's threads may abort the process: with code 134."""
    sys.stdout.flush()
    os._exit(code)


@record
def main() -> None:
    """Sum rank + 1 over all ranks, print what came out, and do as told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--raise-on", type=int, help="a rank that raises an exception")
    parser.add_argument("--exit-on", type=int, help="a rank that leaves with code 3, unrecorded")
    parser.add_argument("--sleep-until", type=Path, help="wait until this file is there")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    total = torch.tensor([float(rank + 1)])
    dist.all_reduce(total)
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "JOBGEN_NODE", "JOBGEN_JOB_ID")
    words = {name: os.environ[name] for name in names}
    words["JOBGEN_TASK"] = os.environ.get("JOBGEN_TASK", "")
    print({"host": socket.gethostname(), "sum": total.item(), "pid": os.getpid(), **words})
    if rank == args.raise_on:
        raise RuntimeError(f"planted on rank {rank}")
    if rank == args.exit_on:
        leave(3)
    while args.sleep_until and not args.sleep_until.exists():
        time.sleep(0.1)
    # Ranks that wait for one that is gone hang here, as in training.
    dist.barrier()
    dist.destroy_process_group()


try:
    main()
except RuntimeError:
    traceback.print_exc()
    leave(1)
