"""Every setting of a run: one dataclass, from which the flags are generated.

Imports no torch: `--help` and a wrong flag answer at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class TrainerError(Exception):
    """A problem that the user can fix; its message says how, without a traceback."""


class FlagError(TrainerError):
    """A setting is unknown, misspelt or out of range."""


class BusyError(TrainerError):
    """Another run is using the run folder."""


def setting(default: Any, text: str, *, zero: bool = False, words: Sequence[str] = ()) -> Any:
    """Declare a setting. The default `...` is the task's or the model's; without these, None.

    Its value is read by its type, or is one of `words`; numbers are positive, or 0 with `zero`.
    """
    about = {"help": text, "zero": zero, "words": words}
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
    "save_every": "checkpoints",
    "log_every": "metrics",
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of one run. A unit is a token or a sample, depending on the task."""

    out: Path = setting(None, "run folder (default: $JOBGEN_RUN_DIR, or else runs/trainer)")
    steps: int = setting(200, "number of optimizer steps")
    seed: int = setting(0, "seed of the parameters and of the order of samples", zero=True)
    dry_run: bool = setting(False, "print sizes and memory without training")

    task: str = setting("gpt", "task to train: gpt, or a Python file that defines one")
    model: str | None = setting(..., "model to train: gpt-tiny, gpt-small, gpt2-124m, ...")

    data: str | None = setting(
        None,
        "text file, or folder of texts (.txt, .jsonl) "
        "(default: the contents of --tokens, or else Python's own manual, 0.5 MB)",
    )
    tokens: Path | None = setting(None, "folder of prepared tokens (default: OUT/tokens)")
    tokenizer: str | None = setting(
        None, "char, byte or tiktoken:NAME (default: that of the prepared tokens, or else char)"
    )
    context: int | None = setting(..., "sequence length")

    batch_tokens: int | None = setting(..., "tokens per step, over all ranks")
    batch_samples: int | None = setting(..., "samples per step, for a task that counts samples")
    micro_batch: int = setting(
        32, "maximum items that a rank processes at once; larger shares are accumulated"
    )
    lr: float = setting(..., "peak learning rate")
    schedule: str = choice("cosine linear constant", "learning rate schedule after the warmup")
    warmup_steps: int | None = setting(
        None, "steps of linear warmup (default: the task's, at most a tenth of --steps)", zero=True
    )
    min_lr: float | None = setting(
        None, "final learning rate (default: a tenth of --lr)", zero=True
    )
    weight_decay: float = setting(0.1, "weight decay of the matrices", zero=True)
    clip: float = setting(1.0, "maximum gradient norm")

    device: str = choice("auto cuda cpu", "auto uses one GPU per process if there are any")
    strategy: str = choice("ddp fsdp", "ddp keeps the whole model on each rank, fsdp a shard of it")
    hang_after: float = setting(600.0, "seconds without progress after which the run ends")

    dtype: str = choice(
        "auto fp32 bf16 fp16",
        "auto is bf16 on recent GPUs, fp16 on older ones, fp32 on CPUs; parameters are fp32",
    )
    compile: bool | None = setting(None, "compile the model with torch.compile (default: on a GPU)")
    deterministic: bool = setting(False, "reproduce every bit on a GPU, too; slower")

    save_every: int = setting(100, "steps between checkpoints")
    keep: int = setting(3, "number of checkpoints to keep")
    async_save: bool = setting(True, "write checkpoints while training continues")

    log_every: int = setting(10, "steps between lines of metrics")
    val_every: int = setting(
        50, "steps between validations; 0 turns validation off and holds back no items", zero=True
    )
    val_items: int = setting(192, "items in a validation")
    prompt: str | None = setting(None, "sample: text to continue")
    sample_tokens: int = setting(200, "sample: number of tokens to write")

    @property
    def batch_units(self) -> int:
        """Units in one step, over all ranks together."""
        units = self.batch_tokens or self.batch_samples
        assert units is not None, "parse_flags() sets one of them"
        return units

    def is_logged(self, step: int) -> bool:
        """Return whether this step gets a line of metrics."""
        return step % self.log_every == 0 or step == self.steps

    @property
    def tokens_folder(self) -> Path:
        """The folder of the prepared tokens."""
        return self.tokens or self.out / "tokens"

    def as_json(self) -> dict[str, object]:
        """Return the settings that were given, or are usual, as values that JSON can hold."""
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in vars(self).items()
            if value is not None and name != "dry_run"
        }
