"""Every setting of a run: one dataclass, from which the flags are generated.

Imports no torch: `--help` and a wrong flag answer at once.
"""

import argparse
import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from . import tasks


class TrainerError(Exception):
    """Something the user can put right; its message says how, and no traceback is shown."""


class UsageError(TrainerError):
    """A flag is unknown, misspelt or out of range."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A model's shape and the batch and learning rate that go with it."""

    layers: int
    heads: int
    width: int
    context: int
    batch_tokens: int
    lr: float


# gpt2-124m has GPT-2's shape; its name counts GPT-2's 50,257 tokens. With the hundred or so
# characters of a text it has about 86 million parameters.
PRESETS = {
    "gpt-tiny": Preset(layers=4, heads=4, width=128, context=64, batch_tokens=1536, lr=3e-3),
    "gpt-small": Preset(layers=6, heads=6, width=384, context=256, batch_tokens=16384, lr=1e-3),
    "gpt2-124m": Preset(layers=12, heads=12, width=768, context=1024, batch_tokens=524288, lr=6e-4),
}


def _integer(minimum: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        value = int(text)
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{value} is less than {minimum}")
        return value

    convert.__name__ = "integer"  # argparse names the type in its messages by this
    return convert


def _number(*, zero: bool = False) -> Callable[[str], float]:
    def convert(text: str) -> float:
        value = float(text)
        if not 0 <= value < math.inf or (value == 0 and not zero):
            raise argparse.ArgumentTypeError(f"{text} is not a positive number")
        return value

    convert.__name__ = "number"
    return convert


def _shares(text: str) -> list[int]:
    shares = [int(part) for part in text.split(":")]
    if min(shares) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive numbers with colons")
    return shares


_shares.__name__ = "shares"


def _flag(
    explanation: str, read: Callable[[str], object], choices: Sequence[str] | None = None
) -> dict[str, Any]:
    return {"help": explanation, "read": read, "choices": choices}


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of one run. Lengths are in tokens, which here are characters."""

    out: Path = field(
        default_factory=lambda: Path(os.environ.get("JOBGEN_RUN_DIR") or "runs/trainer"),
        metadata=_flag(
            "run folder; a run found there is continued "
            "(default: $JOBGEN_RUN_DIR, else runs/trainer)",
            Path,
        ),
    )
    task: str = field(default="gpt", metadata=_flag("what to train", str, tasks.names()))
    data: Path | None = field(
        default=None,
        metadata=_flag("UTF-8 text (default: the manual inside Python, 0.5 MB)", Path),
    )
    model: str = field(default="gpt-tiny", metadata=_flag("size of the model", str, tuple(PRESETS)))
    context: int = field(metadata=_flag("length of a sequence", _integer(1)))
    batch_tokens: int = field(
        metadata=_flag("tokens in a step, over all ranks together", _integer(1))
    )
    micro_batch: int = field(
        default=32,
        metadata=_flag("most sequences a rank runs at once; more are accumulated", _integer(1)),
    )
    steps: int = field(default=200, metadata=_flag("optimizer steps in the run", _integer(1)))
    lr: float = field(metadata=_flag("highest learning rate", _number()))
    warmup_steps: int = field(
        default=20,
        metadata=_flag("steps to rise to it, before a cosine down to a tenth", _integer(0)),
    )
    weight_decay: float = field(
        default=0.1, metadata=_flag("of the matrices (AdamW)", _number(zero=True))
    )
    clip: float = field(default=1.0, metadata=_flag("largest norm of the gradient", _number()))
    seed: int = field(default=0, metadata=_flag("of weights and order of samples", _integer(0)))
    shares: list[int] | None = field(
        default=None,
        metadata=_flag("micro-batches of each rank, as 2:4:6 (default: equal)", _shares),
    )
    reduce: str = field(
        default="fast",
        metadata=_flag(
            "exact: weights do not depend on the number of processes, to the last bit",
            str,
            ("fast", "exact"),
        ),
    )
    strategy: str = field(
        default="ddp",
        metadata=_flag(
            "each process holds the whole model, a shard, or a shard of its node's",
            str,
            ("ddp", "fsdp", "hybrid"),
        ),
    )
    dtype: str = field(
        default="fp32",
        metadata=_flag("type of the arithmetic; weights are fp32", str, ("fp32", "bf16", "fp16")),
    )
    compile: bool = field(default=False, metadata=_flag("torch.compile the model", bool))
    recompute: bool = field(
        default=False, metadata=_flag("layers in backward instead of keeping activations", bool)
    )
    backend: str = field(
        default="auto",
        metadata=_flag("of torch.distributed", str, ("auto", "nccl", "gloo", "mpi", "xccl")),
    )
    on_nan: str = field(
        default="stop",
        metadata=_flag(
            "what to do when loss or gradient is no number, or the loss leaps",
            str,
            ("stop", "skip", "rollback"),
        ),
    )
    spike: float = field(
        default=0.0,
        metadata=_flag("a loss so many times the usual is a leap; 0: none is", _number(zero=True)),
    )
    hang_after: float = field(
        default=600.0,
        metadata=_flag("seconds without progress after which the run ends", _number()),
    )
    device: str = field(
        default="auto",
        metadata=_flag(
            "auto takes a GPU for each process where there are GPUs",
            str,
            ("auto", "cuda", "xpu", "cpu"),
        ),
    )
    log_every: int = field(default=10, metadata=_flag("steps from line to line", _integer(1)))
    val_every: int = field(default=50, metadata=_flag("steps between validations", _integer(1)))
    val_sequences: int = field(default=192, metadata=_flag("length of a validation", _integer(1)))
    save_every: int = field(default=100, metadata=_flag("steps between checkpoints", _integer(1)))
    keep: int = field(default=3, metadata=_flag("checkpoints to keep", _integer(1)))
    keep_every: int = field(
        default=0, metadata=_flag("keep those of every so many steps for ever", _integer(0))
    )
    async_save: bool = field(
        default=True, metadata=_flag("write checkpoints while training goes on", bool)
    )
    sample_chars: int = field(
        default=200, metadata=_flag("length of the text written at the end", _integer(0))
    )

    @property
    def preset(self) -> Preset:
        """The shape that belongs to the model's name."""
        return PRESETS[self.model]

    def as_json(self) -> dict[str, object]:
        """Return the settings as values that JSON can hold."""
        pairs = dataclasses.asdict(self).items()
        return {name: str(value) if isinstance(value, Path) else value for name, value in pairs}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (--help lists the flags)")


def parse_flags(arguments: Sequence[str]) -> Config:
    """Return the settings that the flags ask for.

    Raises UsageError for a flag that is unknown or has a wrong value, and SystemExit after
    printing the help.
    """
    parser = _Parser(
        prog="python -m jobgen.trainer",
        description="Train a character-level GPT on a text, on one process or many.",
        allow_abbrev=False,
    )
    for item in dataclasses.fields(Config):
        explanation = item.metadata["help"]
        if item.default is MISSING and item.default_factory is MISSING:
            explanation += " (default: as the model)"
        elif item.default is not MISSING and item.default is not None:
            explanation += f" (default: {item.default})"
        if item.metadata["read"] is bool:
            parser.add_argument(
                "--" + item.name.replace("_", "-"),
                action=argparse.BooleanOptionalAction,
                default=argparse.SUPPRESS,
                help=explanation,
            )
            continue
        parser.add_argument(
            "--" + item.name.replace("_", "-"),
            type=item.metadata["read"],
            choices=item.metadata["choices"],
            metavar=None if item.metadata["choices"] else item.metadata["read"].__name__.upper(),
            default=argparse.SUPPRESS,
            help=explanation,
        )
    given = vars(parser.parse_args(arguments))
    preset = PRESETS[given.get("model", "gpt-tiny")]
    for name in ("context", "batch_tokens", "lr"):
        given.setdefault(name, getattr(preset, name))
    config = Config(**given)
    if config.batch_tokens % config.context:
        nearest = max(1, round(config.batch_tokens / config.context)) * config.context
        raise UsageError(
            f"--batch-tokens {config.batch_tokens} is not a whole number of sequences of "
            f"{config.context}; {nearest} would be"
        )
    return config
