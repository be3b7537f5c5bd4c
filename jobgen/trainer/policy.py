"""What to do about a loss that is no number, or leaps, and about numbers too small for fp16."""

import math
import statistics
from collections import deque
from typing import Any

_SEEN = 50  # losses that make up what is usual
_IN_A_ROW = 10


class LossWatch:
    """Judges each step before it changes the weights. Ranks agree, as they see the same numbers."""

    def __init__(self, spike: float) -> None:
        self._spike = spike
        self._usual: deque[float] = deque(maxlen=_SEEN)
        self._bad = 0

    def judge(self, loss: float, norm: float) -> str | None:
        """Return what is wrong with the step's loss and gradient, None if nothing."""
        usual = statistics.median(self._usual) if len(self._usual) >= 10 else math.inf
        problem = None
        if not (math.isfinite(loss) and math.isfinite(norm)):
            problem = f"the loss is {loss} and the gradient's norm {norm}"
        elif self._spike and loss > self._spike * usual:
            problem = (
                f"the loss is {loss:.4g}, more than {self._spike:g} times the usual {usual:.4g}"
            )
        if problem is None:
            self._usual.append(loss)
            self._bad = 0
        else:
            self._bad += 1
        return problem

    @property
    def hopeless(self) -> bool:
        """Whether so many steps in a row were bad that going on is of no use."""
        return self._bad >= _IN_A_ROW

    def state(self) -> list[float]:
        """Return what a checkpoint must hold."""
        return list(self._usual)

    def restore(self, state: list[float]) -> None:
        """Continue from there."""
        self._usual = deque(state, maxlen=_SEEN)


class LossScale:
    """A power of two that lifts gradients into fp16's range; 1 for other types.

    Halved when a gradient overflows, doubled after so many steps without (Micikevicius et al.,
    Mixed Precision Training, ICLR 2018). It follows from numbers that all ranks share, so that
    they agree without asking, under every strategy.
    """

    _PATIENCE = 1000

    def __init__(self, dtype: str) -> None:
        self.factor = 65536.0 if dtype == "fp16" else 1.0
        self._fixed = dtype != "fp16"
        self._good = 0

    def update(self, *, overflowed: bool) -> bool:
        """Take note of a step; returns whether an overflow was due to the scale."""
        if self._fixed:
            return False
        if overflowed:
            self._good = 0
            self.factor /= 2
            return self.factor >= 1
        self._good += 1
        if self._good == self._PATIENCE:
            self._good = 0
            self.factor *= 2
        return False

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        return {"factor": self.factor, "good": self._good}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there, if the type is still fp16."""
        if not self._fixed:
            self.factor, self._good = state["factor"], state["good"]
