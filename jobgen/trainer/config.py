"""Every setting of a run: one dataclass, from which flags and the keys of a file are generated.

Imports no torch: `--help` and a wrong flag answer at once.
"""

from argparse import ArgumentTypeError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class TrainerError(Exception):
    """Something the user can put right; its message says how, and no traceback is shown."""


class UsageError(TrainerError):
    """A setting is unknown, misspelt or out of range."""


class BusyError(TrainerError):
    """Another run has the run folder."""


def numbers(text: str) -> tuple[int, ...]:
    """Read positive whole numbers with colons between them."""
    if not all(part.isdecimal() and int(part) for part in text.split(":")):
        raise ArgumentTypeError(f"{text!r} is not positive whole numbers with colons, such as 2:4")
    return tuple(map(int, text.split(":")))


def span(text: str) -> tuple[int, int]:
    """Read FIRST:LAST, two steps counted from 1, or one step."""
    pair = numbers(text)
    if len(pair) > 2 or pair[0] > pair[-1]:
        raise ArgumentTypeError(f"{text!r} is not FIRST:LAST, two steps counted from 1")
    return pair[0], pair[-1]


def setting(default: Any, text: str, *, zero: bool = False, read: Any = None) -> Any:
    """Return a field. The default `...` is the task's or the model's; without these, None.

    Its value is read by its type, or by the function `read`; numbers are positive, or 0 with
    `zero`.
    """
    about = {"help": text, "zero": zero, "read": read, "words": ()}
    if default is ...:
        default, about["help"] = None, f"{text} (default: the task's)"
    return field(default=default, metadata=about)


def choice(words: str, text: str) -> Any:
    """Return a field that takes one of these words; the first is the default."""
    about = {"help": text, "read": None, "words": words.split()}
    return field(default=words.split()[0], metadata=about)


# The topics of the help, by the first setting of each.
TOPICS = {
    "out": "run",
    "task": "task",
    "data": "data",
    "batch_tokens": "optimization",
    "device": "processes",
    "dtype": "arithmetic",
    "on_nan": "trouble",
    "save_every": "checkpoints",
    "log_every": "to look at",
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of one run. A unit is a token or a sample, as the task counts."""

    out: Path = setting(None, "run folder (default: $JOBGEN_RUN_DIR, else runs/trainer)")
    steps: int = setting(200, "optimizer steps in the run")
    seed: int = setting(0, "of weights and order of samples", zero=True)
    dry_run: bool = setting(False, "print sizes and times, train nothing")

    task: str = setting("gpt", "what to train: a task's name, or a file or module with one")
    model: str | None = setting(..., "which model: gpt-tiny, gpt-small, ... or a folder")
    norm: str = choice("layer rms", "of gpt")
    positions: str = choice("learned rotary", "of gpt's tokens")
    tie: bool = setting(True, "gpt: one matrix for tokens in and out")
    weights: str = choice("pretrained random", "hf-causal-lm: what it starts from")

    data: str | None = setting(
        None,
        "a text, a folder of texts (.txt, .jsonl), or hf:NAME of a data set "
        "(default: what --tokens holds, else the manual inside Python, 0.5 MB)",
    )
    tokens: Path | None = setting(None, "folder for the text made tokens (default: OUT/tokens)")
    tokenizer: str | None = setting(
        None, "char, byte, tiktoken:NAME, hf:NAME (default: as prepared, else char or the model's)"
    )
    context: int | None = setting(..., "length of a sequence")

    batch_tokens: int | None = setting(..., "tokens in a step, over all ranks together")
    batch_samples: int | None = setting(..., "the same, for a task that counts samples")
    micro_batch: int = setting(32, "most items a rank runs at once; more are accumulated")
    lr: float = setting(..., "highest learning rate")
    warmup_steps: int = setting(20, "steps to rise to it, before half a cosine down", zero=True)
    weight_decay: float = setting(0.1, "of the matrices (AdamW)", zero=True)
    clip: float = setting(1.0, "largest norm of the gradient")

    device: str = choice("auto cuda xpu cpu", "auto takes a GPU for each process where there are")
    backend: str = choice("auto nccl gloo mpi xccl", "of torch.distributed")
    strategy: str = choice("ddp fsdp hybrid", "each holds the whole model, a shard, or its node's")
    shares: tuple[int, ...] | None = setting(None, "micro-batches of each: 2:4:6", read=numbers)
    reduce: str = choice("fast exact", "exact: the same weights on any number of processes")

    dtype: str = choice("fp32 bf16 fp16", "its type; weights are fp32")
    compile: bool = setting(False, "torch.compile the model")
    recompute: bool = setting(False, "layers in backward instead of keeping activations")

    on_nan: str = choice("stop skip rollback", "when loss or gradient is no number, or leaps")
    spike: float = setting(0.0, "a loss so many times the usual is a leap; 0: none is", zero=True)
    hang_after: float = setting(600.0, "seconds without progress after which the run ends")

    save_every: int = setting(100, "steps between checkpoints")
    keep: int = setting(3, "checkpoints to keep")
    keep_every: int = setting(0, "keep those of every so many steps for ever", zero=True)
    async_save: bool = setting(True, "write them while training goes on")

    log_every: int = setting(10, "steps from line to line")
    val_every: int = setting(50, "steps between validations")
    val_items: int = setting(192, "length of a validation")
    prompt: str | None = setting(None, "what a sample of text begins with")
    sample_tokens: int = setting(200, "length of the text written at the end", zero=True)
    tensorboard: bool = setting(False, "metrics for TensorBoard too, in the run folder")
    wandb: str | None = setting(None, "metrics for this project of Weights & Biases too")
    profile: tuple[int, int] | None = setting(None, "FIRST:LAST, steps to trace", read=span)

    @property
    def batch_units(self) -> int:
        """Units in one step, over all ranks together."""
        return self.batch_tokens or self.batch_samples or 0

    def line_due(self, step: int) -> bool:
        """Whether a line tells of this step."""
        return step % self.log_every == 0 or step == self.steps

    @property
    def tokens_folder(self) -> Path:
        """Where the text lies as tokens."""
        return self.tokens or self.out / "tokens"

    def as_json(self) -> dict[str, object]:
        """Return the settings as values that JSON can hold and that a file of settings takes."""
        found = {k: v for k, v in vars(self).items() if k != "dry_run" and v is not None}
        texts = {k: ":".join(map(str, v)) for k, v in found.items() if isinstance(v, tuple)}
        return found | texts | {k: str(v) for k, v in found.items() if isinstance(v, Path)}
