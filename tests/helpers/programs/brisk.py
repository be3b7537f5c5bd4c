"""The command jobgen, whose jobs miss a node after 20 s and not after minutes."""

from functools import partial

from jobgen.__main__ import run
from jobgen.plan import launch
from jobgen.plan.plan import Heartbeat

launch.Heartbeat = partial(Heartbeat, beat=2, silent=10, missing=30)  # type: ignore[misc, assignment]
run()
