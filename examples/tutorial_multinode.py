"""A toy regression on several nodes with PyTorch alone: train, save a snapshot, continue.

In the spirit of the PyTorch tutorial on multi-node training, and a starting point for a script of
your own. Start it with torchrun on every node, or by hand on one machine:

    torchrun --standalone --nproc-per-node 2 examples/tutorial_multinode.py --epochs 20

Started again with the same --snapshot it goes on where the last snapshot was taken.
"""

import argparse
import os
import socket
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FEATURES = 20


def toy_data(samples: int) -> TensorDataset:
    """Return the same noisy linear problem on every rank."""
    chance = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples, FEATURES, generator=chance)
    weights = torch.randn(FEATURES, 1, generator=chance)
    noise = 0.1 * torch.randn(samples, 1, generator=chance)
    return TensorDataset(inputs, inputs @ weights + noise)


class Trainer:
    """Trains a model under DDP and knows how to save and continue."""

    def __init__(self, args: argparse.Namespace, device: torch.device) -> None:
        self.snapshot: Path = args.snapshot
        self.save_every: int = args.save_every
        self.epochs: int = args.epochs
        self.device = device
        self.rank = dist.get_rank()
        self.next_epoch = 0

        data = toy_data(args.samples)
        # Gives each rank its own part; with unequal parts it repeats a few samples.
        self.sampler = DistributedSampler(data, seed=args.seed)
        self.loader = DataLoader(data, batch_size=args.batch_size, sampler=self.sampler)

        torch.manual_seed(args.seed)
        model = nn.Linear(FEATURES, 1).to(device)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
        if self.snapshot.exists():
            # Every rank reads it. None is writing: rank 0 does so only after an epoch that all
            # have taken part in.
            saved = torch.load(self.snapshot, map_location=device, weights_only=True)
            model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.next_epoch = saved["next_epoch"]
            if self.rank == 0:
                print(f"continuing with epoch {self.next_epoch} from {self.snapshot}", flush=True)
        self.model = DistributedDataParallel(
            model, device_ids=[device] if device.type == "cuda" else None
        )

    def train(self) -> None:
        """Run the epochs that are left."""
        for epoch in range(self.next_epoch, self.epochs):
            loss = self.run_epoch(epoch)
            if self.rank == 0:
                print(f"epoch {epoch} loss {loss:.6f}", flush=True)
                if (epoch + 1) % self.save_every == 0 or epoch + 1 == self.epochs:
                    self.save(next_epoch=epoch + 1)

    def run_epoch(self, epoch: int) -> float:
        """Return the mean loss over the samples of all ranks."""
        # Without this every epoch would have the order of the first.
        self.sampler.set_epoch(epoch)
        total = torch.zeros(2, device=self.device)
        for inputs, targets in self.loader:
            inputs, targets = inputs.to(self.device), targets.to(self.device)
            loss = functional.mse_loss(self.model(inputs), targets)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += torch.stack([loss.detach() * len(inputs), loss.new_tensor(len(inputs))])
        dist.all_reduce(total)
        return float(total[0] / total[1])

    def save(self, next_epoch: int) -> None:
        """Replace the snapshot in one move: a kill at any time leaves the old one or the new."""
        self.snapshot.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.snapshot.with_name(self.snapshot.name + ".tmp")
        with temporary.open("wb") as stream:
            torch.save(
                {
                    "model": self.model.module.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "next_epoch": next_epoch,
                },
                stream,
            )
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, self.snapshot)


def parse_args() -> argparse.Namespace:
    """Return the settings from the command line."""
    parser = argparse.ArgumentParser(description="A toy regression on several nodes.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--save-every", type=int, default=5, help="epochs between snapshots")
    parser.add_argument("--snapshot", type=Path, default=Path("snapshot.pt"))
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--batch-size", type=int, default=32, help="on each rank")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


@record
def run(args: argparse.Namespace) -> None:
    """Join the other processes and train; an error is left in torchrun's error file."""
    local_rank = int(os.environ["LOCAL_RANK"])
    # Enough GPUs for this node's processes: one each. Otherwise all of them use the CPU.
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    print(
        f"rank {dist.get_rank()} of {dist.get_world_size()} on {socket.gethostname()}, "
        f"local rank {local_rank}, pid {os.getpid()}, {device}",
        flush=True,
    )
    Trainer(args, device).train()


def main() -> None:
    """Run, and in any case end the process group."""
    try:
        run(parse_args())
    finally:
        # Not inside run: once this rank's connections close, the others fail as well, and their
        # error files must not be older than the one that tells the cause.
        if dist.is_initialized():
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # All is done and on disk. Python's usual end is left out: gloo's threads outlive DDP, and one
    # that drops a tensor while the interpreter closes aborts the process (seen in torch 2.13).
    os._exit(0)
