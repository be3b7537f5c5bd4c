"""Losses that are not a number, or leap."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_USUAL = 50  # losses that make up what is usual
_ENOUGH = 10  # of them, to know
_IN_A_ROW = 10


class SpikeWatch:
    """Judges a step's loss on the device, before the step changes the weights.

    So the host does not wait; and ranks agree, as all judge the same sum.
    """

    def __init__(self, times: float, device: torch.device) -> None:
        self._times = times
        self.usual = torch.full((_USUAL,), torch.nan, dtype=torch.float64, device=device)

    def judge(self, loss: Tensor) -> Tensor:
        """Return whether the loss is a leap; else it counts towards what is usual."""
        enough = (~self.usual.isnan()).sum() >= _ENOUGH
        leaps = ~loss.isfinite() | (enough & (loss > self._times * self.usual.nanmedian()))
        self.usual = torch.where(leaps, self.usual, torch.cat([self.usual[1:], loss[None]]))
        return leaps

    def as_json(self) -> list[float]:
        """Return the usual losses."""
        return [loss for loss in self.usual.tolist() if not math.isnan(loss)]

    def restore(self, losses: Sequence[float]) -> None:
        """Go on with the usual losses of a checkpoint."""
        self.usual.fill_(torch.nan)
        if losses:
            self.usual[-len(losses) :] = torch.tensor(losses, dtype=torch.float64)


class BadSteps:
    """Counts steps in a row that changed nothing, as their loss or gradient was bad."""

    def __init__(self) -> None:
        self._count = 0

    def explain(self, *, bad: bool, loss: float, norm: float) -> str | None:
        """Return what is wrong with a step; None for a good one."""
        self._count = self._count + 1 if bad else 0
        if not bad:
            return None
        if math.isfinite(loss) and math.isfinite(norm):
            return f"the loss leaps to {loss:.4g}"
        return f"the loss is {loss} and the gradient's norm {norm}"

    @property
    def hopeless(self) -> bool:
        """Whether so many steps in a row were bad that going on is of no use."""
        return self._count >= _IN_A_ROW
