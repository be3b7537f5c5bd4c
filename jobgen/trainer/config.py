"""Every setting of a run: one dataclass, from which flags and the keys of a file are generated.

Imports no torch: `--help` and a wrong flag answer at once.
"""

import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any


class TrainerError(Exception):
    """Something the user can put right; its message says how, and no traceback is shown."""


class UsageError(TrainerError):
    """A setting is unknown, misspelt or out of range."""


def integer(minimum: int) -> Callable[[str], int]:
    """Return what reads a whole number; ValueError when it is none, or less than the minimum."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if value < minimum:
            raise ValueError(f"{value} is less than {minimum}")
        return value

    convert.__name__ = "integer"  # the help shows it
    return convert


def number(*, zero: bool = False) -> Callable[[str], float]:
    """Return what reads a positive number; ValueError when it is none."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf or (value == 0 and not zero):
            raise ValueError(f"{text} is not a positive number")
        return value

    convert.__name__ = "number"
    return convert


def numbers(text: str) -> tuple[int, ...]:
    """Read positive whole numbers with colons between them."""
    try:
        found = tuple(int(part) for part in text.split(":"))
    except ValueError:
        found = (0,)
    if min(found) < 1:
        raise ValueError(f"{text!r} is not positive whole numbers with colons, such as 2:4")
    return found


def span(text: str) -> tuple[int, int]:
    """Read FIRST:LAST, two steps counted from 1, or one step."""
    pair = numbers(text)
    if len(pair) > 2 or pair[0] > pair[-1]:
        raise ValueError(f"{text!r} is not FIRST:LAST, two steps counted from 1")
    return pair[0], pair[-1]


def setting(
    topic: str,
    explanation: str,
    read: Callable[[str], object],
    *,
    default: object = MISSING,
    choices: Sequence[str] | None = None,
    factory: Any = MISSING,
) -> Any:
    """Return a field: its topic in the help, what it is, how its text is read.

    Without a default it is the task's or the model's; when they have none either, it is None.
    """
    what = {"topic": topic, "help": explanation, "read": read, "choices": choices}
    what["tasks"] = default is MISSING and factory is MISSING
    if what["tasks"]:
        default = None
    return dataclasses.field(default=default, default_factory=factory, metadata=what)


def choice(topic: str, explanation: str, choices: str) -> Any:
    """Return a field that takes one of these words; the first is the default."""
    words = choices.split()
    return setting(topic, explanation, str, default=words[0], choices=words)


def _folder() -> Path:
    return Path(os.environ.get("JOBGEN_RUN_DIR") or "runs/trainer")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of one run. A unit is a token or a sample, as the task counts."""

    out: Path = setting(
        "run",
        "run folder; a run found there is continued (default: $JOBGEN_RUN_DIR, else runs/trainer)",
        Path,
        factory=_folder,
    )
    steps: int = setting("run", "optimizer steps in the run", integer(1), default=200)
    seed: int = setting("run", "of weights and order of samples", integer(0), default=0)
    dry_run: bool = setting("run", "print sizes and times, train nothing", bool, default=False)

    task: str = setting(
        "task", "what to train: a task's name, or a file or module with one", str, default="gpt"
    )
    model: str | None = setting("task", "which model: gpt-tiny, gpt-small, ... or a folder", str)
    norm: str = choice("task", "of gpt", "layer rms")
    positions: str = choice("task", "of gpt's tokens", "learned rotary")
    tie: bool = setting("task", "gpt: one matrix for tokens in and out", bool, default=True)
    weights: str = choice("task", "hf-causal-lm: what it starts from", "pretrained random")

    data: str | None = setting(
        "data",
        "a text, a folder of texts (.txt, .jsonl), or hf:NAME of a data set "
        "(default: what --tokens holds, else the manual inside Python, 0.5 MB)",
        str,
        default=None,
    )
    tokens: Path | None = setting(
        "data",
        "folder for the text made tokens (default: tokens in the run folder)",
        Path,
        default=None,
    )
    tokenizer: str | None = setting(
        "data",
        "char, byte, tiktoken:NAME or hf:NAME (default: as prepared, else char; the model's own "
        "for hf-causal-lm)",
        str,
        default=None,
    )
    context: int | None = setting("data", "length of a sequence", integer(1))

    batch_tokens: int | None = setting(
        "optimization", "tokens in a step, over all ranks together", integer(1)
    )
    batch_samples: int | None = setting(
        "optimization", "the same, for a task that counts samples", integer(1)
    )
    micro_batch: int = setting(
        "optimization",
        "most items a rank runs at once; more are accumulated",
        integer(1),
        default=32,
    )
    lr: float = setting("optimization", "highest learning rate", number())
    warmup_steps: int = setting(
        "optimization",
        "steps to rise to it, before a cosine down to a tenth",
        integer(0),
        default=20,
    )
    weight_decay: float = setting(
        "optimization", "of the matrices (AdamW)", number(zero=True), default=0.1
    )
    clip: float = setting("optimization", "largest norm of the gradient", number(), default=1.0)

    device: str = choice(
        "processes", "auto takes a GPU for each process where there are GPUs", "auto cuda xpu cpu"
    )
    backend: str = choice("processes", "of torch.distributed", "auto nccl gloo mpi xccl")
    strategy: str = choice(
        "processes",
        "each holds the whole model, a shard, or a shard of its node's",
        "ddp fsdp hybrid",
    )
    shares: tuple[int, ...] | None = setting(
        "processes", "micro-batches of each, as 2:4:6 (default: equal)", numbers, default=None
    )
    reduce: str = choice(
        "processes",
        "exact: weights do not depend on the number of processes, to the last bit",
        "fast exact",
    )

    dtype: str = choice("arithmetic", "its type; weights are fp32", "fp32 bf16 fp16")
    compile: bool = setting("arithmetic", "torch.compile the model", bool, default=False)
    recompute: bool = setting(
        "arithmetic", "layers in backward instead of keeping activations", bool, default=False
    )

    on_nan: str = choice(
        "trouble",
        "what to do when loss or gradient is no number, or the loss leaps",
        "stop skip rollback",
    )
    spike: float = setting(
        "trouble",
        "a loss so many times the usual is a leap; 0: none is",
        number(zero=True),
        default=0.0,
    )
    hang_after: float = setting(
        "trouble", "seconds without progress after which the run ends", number(), default=600.0
    )

    save_every: int = setting("checkpoints", "steps between checkpoints", integer(1), default=100)
    keep: int = setting("checkpoints", "checkpoints to keep", integer(1), default=3)

    keep_every: int = setting(
        "checkpoints", "keep those of every so many steps for ever", integer(0), default=0
    )
    async_save: bool = setting(
        "checkpoints", "write them while training goes on", bool, default=True
    )

    log_every: int = setting("to look at", "steps from line to line", integer(1), default=10)
    val_every: int = setting("to look at", "steps between validations", integer(1), default=50)
    val_items: int = setting("to look at", "length of a validation", integer(1), default=192)
    prompt: str | None = setting(
        "to look at", "what a sample of text begins with", str, default=None
    )
    sample_tokens: int = setting(
        "to look at", "length of the text written at the end", integer(0), default=200
    )
    tensorboard: bool = setting(
        "to look at", "metrics for TensorBoard too, in the run folder", bool, default=False
    )
    wandb: str | None = setting(
        "to look at", "metrics for this project of Weights & Biases too", str, default=None
    )
    profile: tuple[int, int] | None = setting(
        "to look at", "FIRST:LAST, steps of rank 0 to trace for Chrome", span, default=None
    )

    @property
    def batch_units(self) -> int:
        """Units in one step, over all ranks together."""
        units = self.batch_tokens or self.batch_samples
        assert units is not None, "settle() sets one of them"
        return units

    @property
    def tokens_folder(self) -> Path:
        """Where the text lies as tokens."""
        return self.tokens or self.out / "tokens"

    def as_json(self) -> dict[str, object]:
        """Return the settings as values that JSON can hold and that a file of settings takes."""
        held: dict[str, object] = {}
        for name, value in dataclasses.asdict(self).items():
            if name != "dry_run" and value is not None:
                pair = isinstance(value, tuple)
                held[name] = ":".join(map(str, value)) if pair else value
                if isinstance(value, Path):
                    held[name] = str(value)
        return held
