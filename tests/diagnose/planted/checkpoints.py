"""What is saved cannot be, or cannot be loaded again."""

from __future__ import annotations

import argparse
import errno
import os
import threading
from pathlib import Path

from program import RANK, main, planted, read_table

read_table(__file__)


@planted("save-thread", "no-space", "0", "No space left", mode="pbs-direct")
def save_in_a_thread() -> None:
    failed: list[OSError] = []

    def write() -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device", "ckpt/step-2.pt")
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    raise RuntimeError("the checkpoint's writer has died") from failed[0]


@planted("save-nowhere", "file-missing", "0", "step-2.pt")
def save_into_a_lost_folder() -> None:
    Path("checkpoints-gone/step-2.pt").write_bytes(b"x")


@planted("weights-only", "exception", "all", "[Ww]eights.only", torch=True, early=True)
def load_weights_only() -> None:
    import torch

    path = f"weights-{RANK}.pt"
    torch.save({"args": argparse.Namespace(lr=0.1)}, path)
    torch.load(path)


@planted("cut-checkpoint", "damaged-file", "0", "PytorchStreamReader|zip", torch=True, mode="pbs")
def load_cut() -> None:
    import torch

    path = Path("model-cut.pt")
    torch.save({"weight": torch.ones(1000)}, path)
    os.truncate(path, 2000)
    torch.load(path)


if __name__ == "__main__":
    main()
