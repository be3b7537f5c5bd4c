"""A program with a fault of choice on a rank of choice; the others wait for it, as in training."""

import argparse
import os
import resource
import sys
import traceback
from datetime import timedelta
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--fault", choices=["memory", "module", "disk", "port"])
parser.add_argument("--rank", type=int, help="of those that not all have")
parser.add_argument("--folder", type=Path, help="with a module, and room for a file")
args = parser.parse_args()
here = int(os.environ["RANK"]) == args.rank

if args.fault == "module":
    sys.path.append(str(args.folder))
    import only_on_some_nodes  # noqa: F401

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402


def main() -> None:
    """Meet the others, and fail."""
    if args.fault == "port" and here:
        address = f"tcp://{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}"
        rank, size = args.rank, int(os.environ["WORLD_SIZE"])
        soon = timedelta(seconds=4)
        dist.init_process_group("gloo", address, rank=rank, world_size=size, timeout=soon)
    dist.init_process_group("gloo")
    if args.fault == "memory" and here:
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 28), -1))
        torch.ones(1 << 30)
    if args.fault == "disk":
        (args.folder / f"{args.rank}.bin").write_bytes(bytes(1 << 20))
    dist.barrier()


try:
    main()
except Exception:
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)  # in Python's end gloo's threads may abort the process
