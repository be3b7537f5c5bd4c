"""What to do about a loss that is no number, or leaps, and about numbers too small for fp16."""

import math
import statistics
from collections import deque

_SEEN = 50  # losses that make up what is usual
_IN_A_ROW = 10


class LossWatch:
    """Judges each step before it changes the weights. Ranks agree, as they see the same numbers."""

    def __init__(self, spike: float) -> None:
        self._spike = spike
        self._bad = 0
        self.usual: deque[float] = deque(maxlen=_SEEN)  # a checkpoint holds them

    def judge(self, loss: float, norm: float) -> str | None:
        """Return what is wrong with the step's loss and gradient, None if nothing."""
        usual = statistics.median(self.usual) if len(self.usual) >= 10 else math.inf
        self._bad += 1
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return f"the loss is {loss} and the gradient's norm {norm}"
        if self._spike and loss > self._spike * usual:
            return f"the loss is {loss:.4g}, more than {self._spike:g} times the usual {usual:.4g}"
        self.usual.append(loss)
        self._bad = 0
        return None

    @property
    def hopeless(self) -> bool:
        """Whether so many steps in a row were bad that going on is of no use."""
        return self._bad >= _IN_A_ROW


class LossScale:
    """A power of two that lifts gradients into fp16's range; 1 for other types.

    Halved when a gradient overflows, doubled after so many steps without (Micikevicius et al.,
    Mixed Precision Training, ICLR 2018). It follows from numbers that all ranks share, so that
    they agree without asking, under every strategy.
    """

    _PATIENCE = 1000

    def __init__(self, dtype: str) -> None:
        self.fixed = dtype != "fp16"
        # A checkpoint holds them.
        self.factor = 1.0 if self.fixed else 65536.0
        self.good = 0

    def update(self, *, overflowed: bool) -> bool:
        """Take note of a step; returns whether an overflow was due to the scale."""
        if self.fixed:
            return False
        self.good = 0 if overflowed else self.good + 1
        if overflowed:
            self.factor /= 2
        elif self.good % self._PATIENCE == 0:
            self.factor *= 2
        return overflowed and self.factor >= 1
