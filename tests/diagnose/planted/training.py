"""Training in small, with a fault of choice on ranks of choice: see `plant_faults.py`."""

import argparse
import ctypes
import os
import signal
import socket
import sys
import time
import urllib.request
from datetime import timedelta
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
parser.add_argument("--ranks", type=lambda text: [int(rank) for rank in text.split(",")])
parser.add_argument("--folder", type=Path, default=Path())
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--timeout", type=int, default=120, help="of collective operations, seconds")
parser.add_argument("--rank-from", default="RANK", help="a program of Slurm takes SLURM_PROCID")
args = parser.parse_args()
rank = int(os.environ[args.rank_from])
here = args.ranks is not None and int(os.environ["RANK"]) in args.ranks


def early() -> None:
    """Fail before torch is there."""
    if args.fault == "package":
        import a_package_that_nobody_has  # type: ignore  # noqa: F401
    elif args.fault == "module-of-one-node":
        sys.path.append(str(args.folder))
        import planted_module  # type: ignore  # noqa: F401
    elif args.fault == "file":
        Path("/data/imagenet/train.bin").read_bytes()
    elif args.fault == "file-of-one-node":
        (args.folder / "tokens.bin").read_bytes()
    elif args.fault == "lookup":
        socket.create_connection(("data.example.invalid", 443))
    elif args.fault == "internet":
        urllib.request.urlopen("https://192.0.2.1/model.safetensors", timeout=2)
    elif args.fault == "files":
        kept = [open(__file__) for _ in range(100_000)]  # noqa: SIM115
        print(len(kept))
    elif args.fault == "message":
        sys.exit("the config has no learning rate")
    elif args.fault == "read-only":
        Path("/sys/kernel/planted").write_text("x")
    elif args.fault == "port-of-its-own":
        server = socket.create_server(("0.0.0.0", 28765))
        time.sleep(3)
        print(server)


if here:
    early()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402


def late() -> None:
    """Fail in the middle of training."""
    if args.fault == "raise":
        raise RuntimeError(f"planted on rank {rank}")
    if args.fault == "nested":
        try:
            print({}["lr"])
        except KeyError as error:
            raise ValueError("no learning rate for this step") from error
    if args.fault == "shape":
        print(torch.ones(3, 4) @ torch.ones(5, 2))
    if args.fault == "raise-and-stay":
        raise RuntimeError(f"planted on rank {rank}")
    if args.fault == "assert":
        assert rank < 0, "the batch is empty"
    if args.fault == "segv":
        ctypes.string_at(0)
    if args.fault == "abort":
        os.abort()
    if args.fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if args.fault == "exit-7":
        os._exit(7)
    if args.fault == "sys-exit-3":
        sys.exit(3)
    if args.fault == "leave":
        sys.exit(0)
    if args.fault == "leave-at-once":
        os._exit(0)
    if args.fault == "save":
        torch.save({"weights": torch.ones(1 << 20)}, args.folder / "full" / "model.pt")
    if args.fault == "write":
        (args.folder / "full" / "tokens.bin").write_bytes(bytes(4 << 20))
    if args.fault == "cuda-device":
        torch.cuda.set_device(0)
    if args.fault == "cuda-tensor":
        print(torch.ones(1).to("cuda"))
    if args.fault == "accelerator":
        print(torch.accelerator.current_device_index())
    if args.fault == "damaged":
        (args.folder / "model.pt").write_bytes(b"PK\3\4 cut short")
        torch.load(args.folder / "model.pt")
    if args.fault == "state-dict":
        torch.nn.Linear(2, 2).load_state_dict(torch.nn.Linear(4, 4).state_dict())
    if args.fault == "worker":
        list(torch.utils.data.DataLoader([1, 2], num_workers=1, collate_fn=refuse))
    if args.fault == "nan":
        raise FloatingPointError("Loss is nan at step 2")
    if args.fault == "memory":
        import resource

        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 28), -1))
        torch.ones(1 << 30)
    if args.fault in ("hang", "hang-and-time-out"):
        time.sleep(3600)
    if args.fault == "skip":
        dist.barrier()
        time.sleep(3600)
    if args.fault == "sure-of-itself":
        print("WARNING: Connection refused by tracker:5000, retrying")
        print("WARNING: CUDA out of memory in the probe, batch size halved", file=sys.stderr)
        print("No space left on device: cache is off", file=sys.stderr)
        raise TypeError("planted after three harmless warnings")
    if args.fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


def refuse(batch: object) -> None:
    """Fail in a worker of the data loader."""
    raise KeyError("no image in this batch")


def main() -> None:
    """Reduce over all ranks, step by step."""
    dist.init_process_group(
        "gloo",
        rank=rank,
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=args.timeout),
    )
    if args.fault == "raise-and-stay" and not here:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for step in range(args.steps):
        begin = time.monotonic()
        if args.fault == "slow":
            time.sleep(1.5 if here else 0.25)
            print(f"step {step}: forward took {(time.monotonic() - begin) * 1000:.1f} ms")
        if step == 2 and here:
            late()
        total = torch.tensor([rank + 1.0])
        try:
            dist.all_reduce(total)
        except RuntimeError as error:
            if args.fault == "nested" and not here:
                raise ValueError(f"training failed at step {step}") from error
            raise
        print(f"step {step}: {total.item()}", flush=True)
        time.sleep(0.3)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
