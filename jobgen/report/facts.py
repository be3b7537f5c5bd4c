"""The facts in a report, as values for the page, the terminal and JSON.

Durations are in seconds, times in seconds since 1970, memory in bytes. None means not known:
a report shows that and does not guess.
"""

from __future__ import annotations

from jobgen.diagnose import Diagnosis
from jobgen.output import format_names
from jobgen.plan.cost import Cost
from jobgen.records import NamedTuple


class Curve(NamedTuple):
    """Values by step, thinned to the lowest and the highest of each range of steps."""

    x: tuple[float, ...]
    y: tuple[float, ...]


NamedCurve = tuple[str, Curve]


class Spread(NamedTuple):
    """The distribution of `of` values: percentiles 5, 50 and 95, and extremes."""

    of: int
    least: float
    p5: float
    median: float
    p95: float
    most: float


class Attempt(NamedTuple):
    """One start of the script."""

    number: int  # from 0, as its folder below attempts/
    nodes: tuple[str, ...]
    began: float | None
    ended: float | None  # None while it runs; its last sign of life where it left no word
    outcome: str | None
    exit_code: int | None


class Ledger(NamedTuple):
    """Seconds by kind, and the productive share of the time since the first start or overall."""

    seconds: dict[str, float]
    wall: float
    ettr: float | None  # None where no training tells
    ettr_queued: float | None  # of all time, in the queue too
    node_hours: float
    kwh: float | None
    kwh_by: str  # whose it is, and by whose word; empty if it is not known


class Place(NamedTuple):
    """One node with its ranks in the last attempt: global ones, or a `role`'s own."""

    node: str
    ranks: tuple[int, ...]
    gpus: int | None
    cpus: int | None
    role: str = ""

    @property
    def name(self) -> str:
        """The node, and the role if there are several."""
        return f"{self.role} {self.node}" if self.role else self.node


class Slow(NamedTuple):
    """A rank that the trainer called slow: how often, and its last message about it."""

    rank: int
    node: str
    times: int
    words: str


class Ranks(NamedTuple):
    """How many ranks there were, and the slow ones."""

    size: int
    slow: tuple[Slow, ...]


class Training(NamedTuple):
    """How training went, by the metrics of the trainer or of the file `source`.

    `speed` is in `unit` a second, over all ranks.
    """

    source: str
    unit: str
    first_step: int
    last_step: int
    done_steps: int  # by the program's own count, also of one that counts from 0
    all_steps: int | None  # that were wanted
    device: str | None
    arithmetic: str | None  # the type, and whether compiled
    parameters: int | None
    ranks: int | None
    loss: float | None  # the last; None where it is not a number
    diverged: int | None  # the step from which on the loss, or that of validation, is no number
    least_loss: tuple[float, int] | None  # and its step
    validation: float | None  # the last, as of training
    speed: float | None  # the median
    mfu: float | None  # the median; a share
    waiting: float | None  # share of a step in which rank 0 waited for data
    memory: float | None  # most that rank 0 has held, bytes
    consumed: float | None  # units
    losses: Curve
    validations: Curve
    rates: Curve
    gradients: Curve  # their norm
    speeds: Curve
    step_times: Spread | None  # of the means that the lines give
    extremes: tuple[float, float] | None  # of single steps
    starts: tuple[int, ...]  # steps after which a further attempt began


class Usage(NamedTuple):
    """What the job's nodes noted of their GPUs, over all starts.

    `seconds` are covered by samples on every node. The curve is the mean use of all GPUs in
    percent, over minutes.
    """

    nodes: int = 0
    seconds: float = 0.0
    gpu_use: float | None = None  # percent
    gpu_memory: float | None = None  # of one GPU, at most
    gpu_total: float | None = None
    gpu_power: float | None = None  # watts of one GPU, on average
    gpu_uses: Curve = Curve((), ())


class Use(NamedTuple):
    """What was requested and used, in words; `share` is the part that was used.

    `counted` is the scheduler's number if `used` is another.
    """

    what: str
    asked: str | None
    used: str | None
    share: float | None
    source: str
    advice: str = ""
    counted: str = ""


class Checked(NamedTuple):
    """What a group of equal nodes reported before the program started; see `preflight/*.json`."""

    nodes: tuple[str, ...]
    python: str | None
    torch: str | None
    cuda: str | None
    driver: str | None
    devices: str
    clock: float | None  # the largest difference from the first node's, seconds


class AllReduce(NamedTuple):
    """The network between the nodes, measured by preflight's all-reduce."""

    speed: float | None = None  # GB/s
    network: str | None = None  # NCCL's choice, such as IB, AWS Libfabric or Socket
    warning: str | None = None  # if the site has a faster one


class Charged(NamedTuple):
    """The cost for the time that the run took, and for the whole walltime."""

    used: Cost
    most: Cost


class RunFacts(NamedTuple):
    """Everything that is known about one run."""

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
    ledger: Ledger | None
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
    origins: tuple[str, ...]  # which code it ran, and which jobs it reruns
    tracked: tuple[str, ...]  # addresses of its W&B or MLflow runs
    spec: str | None
    script: str | None
    diff: str | None  # of the code to git's commit
    notes: tuple[str, ...]  # what is not known, damaged or missing, and why

    @property
    def title(self) -> str:
        """The run's name and id."""
        return f"{self.name} {self.id}"

    @property
    def diverged(self) -> int | None:
        """As its training says."""
        return self.training.diverged if self.training else None

    def read(self, name: str) -> float | None:
        """Return a number from its training by field name; None if it has not trained."""
        return getattr(self.training, name) if self.training else None


class Row(NamedTuple):
    """A run among others; `differs` has its values for the settings that differ."""

    title: str
    id: str
    state: str
    loss: float | None
    diverged: int | None
    validation: float | None
    speed: float | None
    step: float | None  # the median, seconds
    ran: float | None
    differs: tuple[str | None, ...]


class SeedGroup(NamedTuple):
    """Runs that differ only in their seed, with the spread of the measure."""

    label: str  # the values that they share
    runs: int  # that count
    mean: float
    deviation: float | None  # of the sample; None for one run
    least: float
    most: float


class Parameter(NamedTuple):
    """The measure against one value of a sweep: a curve per choice of the others."""

    name: str
    logarithmic: bool
    curves: tuple[NamedCurve, ...]


class Comparison(NamedTuple):
    """Runs side by side, the best first by `measure`; the charts draw only some of many runs."""

    settings: tuple[str, ...]  # that differ
    measure: str  # validation loss, or loss
    rows: tuple[Row, ...]
    curves: tuple[NamedCurve, ...]
    validations: tuple[NamedCurve, ...]
    speeds: tuple[NamedCurve, ...]
    left_out: int  # runs that are not drawn
    groups: tuple[SeedGroup, ...]
    parameters: tuple[Parameter, ...]

    @property
    def order(self) -> str:
        """How the runs are ordered; by their IDs if none has a loss."""
        known = any(row.loss is not None or row.validation is not None for row in self.rows)
        order = f"the best first, by {self.measure}" if known else "in the order of their IDs"
        last = {
            "that are not done": {row.state == "done" for row in self.rows},
            "whose loss is not a number": {row.diverged is None for row in self.rows},
        }
        mixed = [words for words, of in last.items() if len(of) > 1]
        return f"{order}; runs {' or '.join(mixed)} come last" if mixed else order


class Report(NamedTuple):
    """One run, or several and how they compare."""

    title: str
    summary: str
    version: str  # jobgen's
    runs: tuple[RunFacts, ...]
    comparison: Comparison | None
    ledger: Ledger | None = None  # of all runs

    @property
    def notes(self) -> list[str]:
        """What is not known, damaged or missing, and of which runs if not of all."""
        titles: dict[str, list[str]] = {}
        for run in self.runs:
            for note in dict.fromkeys(run.notes):
                titles.setdefault(note, []).append(run.title)
        return [
            note if len(of) == len(self.runs) else f"{format_names(of)}: {note}"
            for note, of in titles.items()
        ]
