"""Every setting of a run: one dataclass, from which flags and the keys of a file are generated.

Imports no torch: `--help` and a wrong flag answer at once.
"""

from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class TrainerError(Exception):
    """Something the user can put right; its message says how, and no traceback is shown."""


class FlagError(TrainerError):
    """A setting is unknown, misspelt or out of range."""


class BusyError(TrainerError):
    """Another run uses the run folder."""


def read_numbers(text: str) -> tuple[int, ...]:
    """Read positive whole numbers with colons between them."""
    if not all(part.isdecimal() and int(part) for part in text.split(":")):
        raise ArgumentTypeError(f"{text!r} is not positive whole numbers with colons, such as 2:4")
    return tuple(map(int, text.split(":")))


def read_span(text: str) -> tuple[int, int]:
    """Read FIRST:LAST, two steps counted from 1, or one step."""
    pair = read_numbers(text)
    if len(pair) > 2 or pair[0] > pair[-1]:
        raise ArgumentTypeError(f"{text!r} is not FIRST:LAST, two steps counted from 1")
    return pair[0], pair[-1]


def read_betas(text: str) -> tuple[float, float]:
    """Read two shares below 1 with a colon between them."""
    try:
        first, second = (float(part) for part in text.split(":"))
    except ValueError:
        first = second = -1.0
    if not (0 <= first < 1 and 0 <= second < 1):
        raise ArgumentTypeError(f"{text!r} is not two numbers below 1, such as 0.9:0.95")
    return first, second


def read_mixture(text: str) -> tuple[str, ...]:
    """Read FOLDER=WEIGHT with commas between them; weights are positive whole numbers."""
    parts = tuple(text.split(","))
    for part in parts:
        folder, _, weight = part.rpartition("=")
        if not folder or not weight.isdecimal() or not int(weight):
            raise ArgumentTypeError(
                f"{part!r} is not FOLDER=WEIGHT with a positive whole number, such as web=7,code=3"
            )
    return parts


def setting(
    default: Any,
    text: str,
    *,
    zero: bool = False,
    read: Callable[[str], object] | None = None,
    words: Sequence[str] = (),
) -> Any:
    """Declare a setting. The default `...` is the task's or the model's; without these, None.

    Its value is read by its type, or by the function `read`, or is one of `words`; numbers are
    positive, or 0 with `zero`.
    """
    about = {"help": text, "zero": zero, "read": read, "words": words}
    if default is ...:
        default, about["help"] = None, f"{text} (default: the task's)"
    return field(default=default, metadata=about)


def choice(words: str, text: str) -> Any:
    """Declare a setting that takes one of these words; the first is the default."""
    return setting(words.split()[0], text, words=words.split())


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
    epochs: float | None = setting(None, "passes over the data, instead of --steps")
    seed: int = setting(0, "of weights and order of samples", zero=True)
    dry_run: bool = setting(False, "print sizes and memory, train nothing")

    task: str = setting("gpt", "what to train: a task's name, or a file or module with one")
    model: str | None = setting(..., "which model: gpt-tiny, gpt-small, ... or a folder")
    norm: str = choice("layer rms", "of gpt")
    positions: str = choice("learned rotary", "of gpt's tokens")
    tie: bool = setting(True, "gpt: one matrix for tokens in and out")
    weights: str = choice("pretrained random", "hf-causal-lm: what it starts from")
    init_from: Path | None = setting(
        None, "weights to start from: a run folder, or a folder with model.safetensors"
    )

    data: str | None = setting(
        None,
        "a text, a folder of texts (.txt, .jsonl) or of tokens (.bin), a data set on disk, or "
        "hf:NAME of one (default: what --tokens holds, else the manual inside Python, 0.5 MB)",
    )
    tokens: Path | None = setting(None, "folder for the text made tokens (default: OUT/tokens)")
    mix: tuple[str, ...] | None = setting(
        None, "prepared folders instead of --tokens: FOLDER=WEIGHT,...", read=read_mixture
    )
    tokenizer: str | None = setting(
        None, "char, byte, tiktoken:NAME, hf:NAME (default: as prepared, else char or the model's)"
    )
    context: int | None = setting(..., "length of a sequence")
    mask_documents: bool = setting(False, "tokens attend to their own document only")

    batch_tokens: int | None = setting(..., "tokens in a step, over all ranks together")
    batch_samples: int | None = setting(..., "the same, for a task that counts samples")
    micro_batch: int = setting(32, "most items a rank runs at once; more are accumulated")
    optimizer: str = choice("adamw muon", "muon: for the matrices inside the layers")
    lr: float = setting(..., "highest learning rate")
    schedule: str = choice("cosine linear wsd constant", "of the learning rate, after the warmup")
    warmup_steps: int | None = setting(
        None, "steps to rise to --lr (default: the task's, a tenth of --steps at most)", zero=True
    )
    decay_steps: int | None = setting(
        None, "wsd: steps down to --min-lr at the end (default: a fifth of --steps)"
    )
    min_lr: float | None = setting(
        None, "learning rate at the end (default: a tenth of --lr)", zero=True
    )
    betas: tuple[float, float] = setting((0.9, 0.95), "of AdamW", read=read_betas)
    weight_decay: float = setting(0.1, "of the matrices", zero=True)
    clip: float = setting(1.0, "largest norm of the gradient")

    device: str = choice("auto cuda xpu cpu", "auto takes a GPU for each process where there are")
    backend: str = choice("auto nccl gloo mpi xccl", "of torch.distributed")
    strategy: str = choice("ddp fsdp hybrid", "each holds the whole model, a shard, or its node's")
    shares: tuple[int, ...] | None = setting(
        None, "items of each rank, in proportion: 2:4:6", read=read_numbers
    )
    reduce: str = choice("fast exact", "exact: the same weights on any number of processes")

    dtype: str = choice("auto fp32 bf16", "auto: bf16 where the device has it; weights are fp32")
    compile: bool | None = setting(None, "torch.compile the model (default: on a GPU)")
    recompute: str = choice(
        "none selective all", "in backward: nothing, all but products of matrices, or whole layers"
    )
    deterministic: bool = setting(False, "the same bits again on a GPU too, slower")

    on_nan: str = choice("stop skip", "when loss or gradient is not a number, or leaps")
    spike: float = setting(0.0, "a loss so many times the usual is a leap; 0: none is", zero=True)
    hang_after: float = setting(600.0, "seconds without progress after which the run ends")

    save_every: int = setting(100, "steps between checkpoints")
    keep: int = setting(3, "checkpoints to keep")
    keep_every: int = setting(0, "keep those of every so many steps for ever", zero=True)
    async_save: bool = setting(True, "write them while training goes on")

    log_every: int = setting(10, "steps from line to line")
    val_every: int = setting(
        50, "steps between validations; 0: none, and no item is kept for them", zero=True
    )
    val_items: int = setting(192, "length of a validation")
    prompt: str | None = setting(None, "what a sample of text begins with")
    sample_tokens: int = setting(200, "length of the text written at the end", zero=True)
    tensorboard: bool = setting(False, "metrics for TensorBoard too, in the run folder")
    wandb: str | None = setting(None, "metrics for this project of Weights & Biases too")
    profile: tuple[int, int] | None = setting(
        None, "FIRST:LAST step of a trace for Chrome", read=read_span
    )

    @property
    def batch_units(self) -> int:
        """Units in one step, over all ranks together."""
        units = self.batch_tokens or self.batch_samples
        assert units is not None, "parse_flags() sets one of them"
        return units

    def line_due(self, step: int) -> bool:
        """Return whether a line tells of this step."""
        return step % self.log_every == 0 or step == self.steps

    @property
    def tokens_folder(self) -> Path:
        """Where the text lies as tokens."""
        return self.tokens or self.out / "tokens"

    def as_json(self) -> dict[str, object]:
        """Return the settings as values that JSON can hold and that a file of settings takes."""
        written = {name: value for name, value in vars(self).items() if value is not None}
        del written["dry_run"]
        if self.epochs is not None:
            del written["steps"]  # they follow from the epochs
        for name, value in written.items():
            if isinstance(value, tuple):
                written[name] = ("," if name == "mix" else ":").join(map(str, value))
            elif isinstance(value, Path):
                written[name] = str(value)
        return written
