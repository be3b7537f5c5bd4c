"""What a report tells of runs: values alone, whoever prints them.

Seconds are seconds, moments are seconds since 1970, memory is in bytes. None is not known, and is
shown as that: nothing in a report is guessed.
"""

from __future__ import annotations

from typing import NamedTuple

from jobgen.diagnose import Diagnosis
from jobgen.plan.cost import Cost


class Curve(NamedTuple):
    """Values by step, thinned: what is lowest and highest in each stretch is there."""

    x: tuple[float, ...]
    y: tuple[float, ...]


class Spread(NamedTuple):
    """How `of` values lie: the 5th, 50th and 95th percentile and the ends."""

    of: int
    least: float
    p5: float
    median: float
    p95: float
    most: float
    edges: tuple[float, ...]  # of a histogram, one more than counts
    counts: tuple[int, ...]


class Attempt(NamedTuple):
    """One start of the script. `first_step` is when the trainer was ready."""

    number: int
    nodes: tuple[str, ...]
    began: float | None
    first_step: float | None
    ended: float | None  # None while it runs, or where it left no word
    outcome: str | None
    exit_code: int | None


class Place(NamedTuple):
    """One node with the global ranks that ran there in the last attempt."""

    node: str
    ranks: tuple[int, ...]
    gpus: int | None
    cpus: int | None


class Slow(NamedTuple):
    """A rank that the trainer has named a straggler, so many times, and its last words."""

    rank: int
    node: str
    times: int
    words: str


class Ranks(NamedTuple):
    """What each rank did, by rank; a list that is None was not written by the run.

    `speed` is tokens (or samples) each second, by the rank's share of the batch. `forward` and
    `waiting` are seconds a step: in the rank's own forward passes, and for data.
    """

    size: int
    speed: tuple[float, ...] | None
    forward: tuple[float, ...] | None
    waiting: tuple[float, ...] | None
    memory: tuple[float, ...] | None  # most that was held, in bytes
    gpu_use: tuple[float, ...] | None  # percent
    slow: tuple[Slow, ...]


class Training(NamedTuple):
    """What metrics tell: the trainer's, or those of the file `source`.

    `speed` is in `unit` a second, over all ranks.
    """

    source: str
    unit: str
    first_step: int
    last_step: int
    all_steps: int | None  # that were wanted
    device: str | None
    arithmetic: str | None  # the type, whether compiled, which kernel for attention
    parameters: int | None
    ranks: int | None
    loss: float | None  # the last
    least_loss: tuple[float, int] | None  # and its step
    validation: float | None  # the last
    speed: float | None  # the median
    mfu: float | None  # the median; a share
    waiting: float | None  # share of a step in which rank 0 waited for data
    checkpoints: float | None  # share of all time in which checkpoints held training up
    memory: float | None  # most that rank 0 has held, bytes
    consumed: float | None  # units
    losses: Curve
    validations: Curve
    rates: Curve
    gradients: Curve  # their norm
    speeds: Curve
    step_times: Spread | None  # of the means that the lines give
    extremes: tuple[float, float] | None  # of single steps
    starts: tuple[int, ...]  # steps after which an attempt has begun, but for the first


class Usage(NamedTuple):
    """What the job's nodes have noted of its processes, of all starts; memory is of one node.

    `seconds` are covered by samples on every node. The curves are over minutes: CPUs busy on all
    nodes, memory of the node that held most, and the mean use of all GPUs in percent.
    """

    nodes: int
    seconds: float
    cpu_seconds: float
    memory: float  # at most
    gpu_use: float | None  # percent
    gpu_memory: float | None  # of one GPU, at most
    gpu_total: float | None
    gpu_power: float | None  # watts of one GPU, on average
    busy: Curve
    held: Curve
    gpu_uses: Curve


class Use(NamedTuple):
    """What was asked for and what was used of it, in words; `share` is of what was asked.

    `counted` is what the scheduler counts, where that is not what `used` says.
    """

    what: str
    asked: str | None
    used: str | None
    share: float | None
    source: str
    advice: str = ""
    counted: str = ""


class Checked(NamedTuple):
    """What nodes, all alike, told before the program started; see `preflight/*.json`."""

    nodes: tuple[str, ...]
    python: str | None
    torch: str | None
    cuda: str | None
    driver: str | None
    devices: str
    clock: float | None  # the most that a clock was off the first node's, seconds
    problem: str = ""


class AllReduce(NamedTuple):
    """What preflight's sum over all nodes told of the network between them."""

    speed: float | None = None  # GB/s
    network: str | None = None  # what NCCL has chosen, such as IB, AWS Libfabric or Socket
    warning: str | None = None  # where the site has a faster one


class Charged(NamedTuple):
    """What the run cost by the time it ran, and the most that it could have cost."""

    used: Cost
    most: Cost


class RunFacts(NamedTuple):
    """All that is known of one run."""

    id: str
    name: str
    scheduler: str
    site: str | None
    folder: str
    state: str
    reason: str
    summary: str
    submitted: float | None
    waited: float | None  # in the queue, before the first start
    ran: float | None  # all starts together
    attempts: tuple[Attempt, ...]
    places: tuple[Place, ...]
    cause: Diagnosis | None
    training: Training | None
    ranks: Ranks | None
    usage: Usage | None
    uses: tuple[Use, ...]
    preflight: tuple[Checked, ...]
    allreduce: AllReduce
    charged: Charged | None
    settings: dict[str, str]  # what the program was given
    varied: dict[str, str]  # a task's own values
    origins: tuple[str, ...]  # which code it ran, and what it does again
    tracked: tuple[str, ...]  # addresses of its W&B or MLflow runs
    spec: str | None
    script: str | None
    diff: str | None  # of the code to git's commit
    notes: tuple[str, ...]  # what is not known, damaged or missing, and why

    @property
    def title(self) -> str:
        """The run in two words."""
        return f"{self.name} {self.id}"


class Row(NamedTuple):
    """A run among others; `differs` has its values of the settings that differ."""

    title: str
    id: str
    state: str
    loss: float | None
    validation: float | None
    speed: float | None
    step: float | None  # the median, seconds
    ran: float | None
    differs: tuple[str | None, ...]


class SeedGroup(NamedTuple):
    """Runs that differ in their seed alone, by what is measured of each."""

    label: str  # the values that they share
    runs: int
    mean: float
    deviation: float | None  # of the sample; of one run it is not known
    least: float
    most: float


class Parameter(NamedTuple):
    """What was measured against one value of a sweep, a curve for each choice of the others."""

    name: str
    logarithmic: bool
    curves: tuple[tuple[str, Curve], ...]


class Comparison(NamedTuple):
    """Runs side by side, the best first by `measure`; of many not all are drawn."""

    settings: tuple[str, ...]  # that differ
    measure: str  # validation loss, or loss
    rows: tuple[Row, ...]
    curves: tuple[tuple[str, Curve], ...]
    validations: tuple[tuple[str, Curve], ...]
    speeds: tuple[tuple[str, Curve], ...]
    left_out: int  # runs that are not drawn
    groups: tuple[SeedGroup, ...]
    parameters: tuple[Parameter, ...]


class Report(NamedTuple):
    """One run, or several and how they compare."""

    title: str
    summary: str
    version: str  # jobgen's
    runs: tuple[RunFacts, ...]
    comparison: Comparison | None
