"""The arithmetic of a batch of the bundled trainer, from what the spec says to it.

The trainer's defaults are its own: what the spec does not say is not guessed here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jobgen.plan.plan import Plan

TRAINER = "jobgen.trainer"
_FLAGS = {"tokens": "--batch-tokens", "context": "--context", "micro_batch": "--micro-batch"}


class Batch(NamedTuple):
    """One step of the optimizer; None where it follows from a default of the trainer.

    A sequence is `context` tokens long. Each rank has `rank_sequences` of them, [fewest, most], and
    runs at most `micro_batch` at once, `accumulations` times a step.
    """

    ranks: int
    tokens: int | None
    context: int | None
    micro_batch: int | None
    sequences: int | None
    rank_sequences: tuple[int, int] | None
    accumulations: int | None
    defaults: tuple[str, ...]  # flags that the spec leaves to the trainer

    def as_text(self) -> list[str]:
        """In sentences."""
        lines = []
        if self.tokens is not None:
            each = self.tokens / self.ranks
            about = f"{each:,.0f}" if each.is_integer() else f"about {each:,.0f}"
            of_each = "" if self.ranks == 1 else f", {about} for each of {self.ranks} ranks"
            lines.append(f"{self.tokens:,} tokens a step{of_each}")
        if self.sequences is not None and self.rank_sequences is not None:
            least, most = self.rank_sequences
            share = str(most) if least == most else f"{least} or {most}"
            lines.append(f"{self.sequences} sequences of {self.context} tokens: {share} a rank")
            if not least:
                lines.append("there are ranks without a sequence: use fewer, or a larger batch")
        elif self.tokens is not None and self.context is not None:
            lines.append(f"that is no whole number of sequences of {self.context}: it is refused")
        if self.accumulations is not None:
            times = "once" if self.accumulations == 1 else f"{self.accumulations} times"
            lines.append(f"at most {self.micro_batch} at once: gradients are gathered {times}")
        if self.defaults:
            lines.append(f"the trainer's default: {', '.join(self.defaults)}")
        return lines


def describe_batch(plan: Plan) -> Batch | None:
    """The batch of `plan`; None where it does not run the bundled trainer on text."""
    words = plan.program.command
    module = words[words.index("-m") + 1 :] if "-m" in words else ()
    if module[:1] != (TRAINER,) or _read_flag(module, "--task") not in (None, "gpt"):
        return None
    numbers = {key: _parse_number(_read_flag(module, flag)) for key, flag in _FLAGS.items()}
    tokens, context, micro_batch = (numbers[key] for key in _FLAGS)
    ranks = plan.nodes.world_size
    sequences = share = accumulations = None
    if tokens is not None and context is not None and tokens % context == 0:
        sequences = tokens // context
        share = (sequences // ranks, -(-sequences // ranks))
        if micro_batch is not None:
            accumulations = -(-share[1] // micro_batch)
    defaults = tuple(flag for flag in _FLAGS.values() if _read_flag(module, flag) is None)
    return Batch(
        ranks, tokens, context, micro_batch, sequences, share, accumulations, defaults=defaults
    )


def _read_flag(words: tuple[str, ...], flag: str) -> str | None:
    """The value of a flag; the last one counts."""
    value = None
    for index, word in enumerate(words):
        if word == flag:
            value = words[index + 1] if index + 1 < len(words) else ""
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value


def _parse_number(text: str | None) -> int | None:
    plain = text is not None and re.fullmatch(r"[0-9]{1,15}", text)
    return int(text or "") or None if plain else None
