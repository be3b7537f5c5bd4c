"""A program that knows nothing of jobgen: one all-reduce, and on demand the faults of real ones.

The ranks speak over plain sockets, as importing torch takes a process two seconds, and the tests
start hundreds. With `--backend gloo` it is torch that they speak through.
"""

import argparse
import json
import os
import signal
import socket
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

# As gloo says it.
LOST = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1"


class Sockets:
    """A process group of plain sockets: rank 0 listens at the master's port, all others call."""

    def __init__(self) -> None:
        self.rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        # Under torchrun its own store may have MASTER_PORT.
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) % 10000 + 10000
        if self.rank == 0:
            with socket.create_server(("", address[1]), backlog=size) as server:
                self.peers: list[socket.socket] = []
                while len(self.peers) < size - 1:
                    peer = server.accept()[0]
                    if peer.recv(1):  # a node that only looks whether it gets here says nothing
                        self.peers.append(peer)
        else:
            self.peers = [_call(address)]

    def sum(self, value: float) -> float:
        """The sum of what all ranks give."""
        if self.rank:
            _send(self.peers[0], value)
            return _receive(self.peers[0])
        total = value + sum(map(_receive, self.peers))
        for peer in self.peers:
            _send(peer, total)
        return total

    def leave(self) -> None:
        """Wait for the others, and part."""
        self.sum(0)


class Gloo:
    """The same through torch."""

    def __init__(self) -> None:
        import torch.distributed as dist

        dist.init_process_group("gloo")
        self.rank = dist.get_rank()

    def sum(self, value: float) -> float:
        import torch

        total = torch.tensor([value])
        torch.distributed.all_reduce(total)
        return float(total.item())

    def leave(self) -> None:
        import torch.distributed as dist

        dist.barrier()
        dist.destroy_process_group()


def _call(address: tuple[str, int]) -> socket.socket:
    while True:
        try:
            peer = socket.create_connection(address)
            peer.sendall(b"!")
            return peer
        except OSError:
            time.sleep(0.1)


def _send(peer: socket.socket, value: float) -> None:
    try:
        peer.sendall(struct.pack("d", value))
    except OSError as error:
        raise RuntimeError(LOST) from error


def _receive(peer: socket.socket) -> float:
    data = b""
    while len(data) < 8:
        try:
            piece = peer.recv(8 - len(data))
        except OSError:
            piece = b""
        if not piece:
            raise RuntimeError(LOST)
        data += piece
    return float(struct.unpack("d", data)[0])


def leave(code: int) -> NoReturn:
    """Exit without Python's end, in which gloo's threads may abort the process: with code 134."""
    sys.stdout.flush()
    os._exit(code)


def record(error: RuntimeError) -> None:
    """Leave an error file, as torch's @record does."""
    now = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
    message = {"message": f"RuntimeError: {error}", "extraInfo": now}
    Path(os.environ["TORCHELASTIC_ERROR_FILE"]).write_text(json.dumps({"message": message}))


def main() -> None:
    """Do the work; with torch, as programs with its decorator do."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["sockets", "gloo"], default="sockets")
    parser.add_argument("--raise-on", type=int, help="a rank that raises an exception")
    parser.add_argument("--exit-on", type=int, help="a rank that leaves with code 3, unrecorded")
    parser.add_argument("--die-once-on", type=int, help="a rank that is killed, the first time")
    parser.add_argument("--sleep-until", type=Path, help="wait until this file is there")
    args = parser.parse_args()
    if args.backend == "gloo":
        from torch.distributed.elastic.multiprocessing.errors import record as torch_record

        torch_record(work)(args)
        return
    try:
        work(args)
    except RuntimeError as error:
        record(error)
        raise


def work(args: argparse.Namespace) -> None:
    """Sum rank + 1 over all ranks, print what came out, and do as told."""
    group = Gloo() if args.backend == "gloo" else Sockets()
    rank = group.rank
    # Agents count their own restarts, which differ within one round.
    died = Path(os.environ["JOBGEN_RUN_DIR"], "died")
    if rank == args.die_once_on and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    total = group.sum(rank + 1)
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "JOBGEN_NODE", "JOBGEN_JOB_ID")
    words = {name: os.environ[name] for name in names}
    words["JOBGEN_TASK"] = os.environ.get("JOBGEN_TASK", "")
    own = "SLURM_ARRAY_TASK_ID" if "SLURM_JOB_ID" in os.environ else "PBS_ARRAY_INDEX"
    words["index"] = os.environ.get(own, "")
    print({"host": socket.gethostname(), "sum": total, "pid": os.getpid(), **words}, flush=True)
    if {args.raise_on, args.exit_on} != {None}:
        group.sum(0)  # all have printed by now: who fails ends those that wait
    if rank == args.raise_on:
        raise RuntimeError(f"planted on rank {rank}")
    if rank == args.exit_on:
        leave(3)
    while args.sleep_until and not args.sleep_until.exists():
        time.sleep(0.1)
    # Ranks that wait for one that is gone hang here, as in training.
    group.leave()


try:
    main()
except RuntimeError:
    traceback.print_exc()
    leave(1)
