"""One step, in this process: what it computes, and what it costs the device and the host."""

import copy
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from jobgen.trainer import tasks  # noqa: E402
from jobgen.trainer.distributed.device import choose_arithmetic  # noqa: E402
from jobgen.trainer.distributed.world import World  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402
from jobgen.trainer.optimizer import LossScale, compute_learning_rate  # noqa: E402
from jobgen.trainer.step import Stepper  # noqa: E402

pytestmark = pytest.mark.torch

TINY = ("--device", "cpu", "--context", "16", "--batch-tokens", "128", "--micro-batch", "4")


@pytest.fixture(scope="module")
def make(world: World, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Stepper]:
    """Make a model and all that trains it, with such flags."""
    folder = tmp_path_factory.mktemp("step")
    (folder / "text").write_text("".join(f"line {number} of a text\n" for number in range(500)))
    chats = [{"prompt": f"{n} and one", "completion": f"is {n + 1}"} for n in range(500)]
    (folder / "chats.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats))

    data = ("--out", str(folder), "--data", str(folder / "text"), "--tokenizer", "byte")

    def make(*flags: str, chats: bool = False) -> Stepper:
        other = ["--data", str(folder / "chats.jsonl"), "--tokens", str(folder / "chats")]
        config = parse_flags([*TINY, *data, *(other if chats else ()), *flags])
        tasks.prepare_data(config, fetch=False)
        task = tasks.load_task(config)
        return Stepper(task, config, world, choose_arithmetic(config, world.device))

    return make


def take_steps(stepper: Stepper, count: int) -> list[float]:
    """Return the losses."""
    shown = [stepper.step() for _ in range(count)] + [stepper.read_numbers()]
    return [numbers.loss for numbers in shown if numbers is not None]


def weights(stepper: Stepper) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in stepper.model.state_dict().items()}


def test_numbers_come_a_step_late_and_each_once(make: Callable[..., Stepper]) -> None:
    stepper = make()
    assert stepper.step() is None
    first, second = stepper.step(), stepper.read_numbers()
    assert first is not None
    assert second is not None
    assert (first.step, second.step) == (1, 2)
    assert second.loss != first.loss
    assert stepper.read_numbers() is None
    assert (stepper.done, stepper.position) == (2, 16)


class _Waits(TorchDispatchMode):
    """Counts what makes the host wait for a device: reading a number."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("flags", [(), ("--dtype", "fp16")], ids=str)
def test_the_host_does_not_wait_for_the_device_within_a_step(
    flags: tuple[str, ...], make: Callable[..., Stepper], monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = make(*flags)
    take_steps(stepper, 2)
    with _Waits() as waits:
        bool(torch.ones(()))
    assert waits.count == 1, "the hook sees it"
    monkeypatch.setattr(
        stepper, "read_numbers", lambda: None
    )  # reads what the step before has shown
    with _Waits() as waits:
        stepper.step()
    assert waits.count == 0


def test_a_bad_step_changes_nothing_and_the_next_goes_on(
    make: Callable[..., Stepper], monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = make()
    take_steps(stepper, 2)
    before, state = weights(stepper), copy.deepcopy(stepper.optimizer.adamw.state_dict())
    usual = stepper.task.loss
    # The loss is infinite, its gradient finite: even so it is bad.
    with monkeypatch.context() as patch:
        patch.setattr(stepper.task, "loss", lambda model, batch: usual(model, batch) + math.inf)
        stepper.step()
    bad = stepper.read_numbers()
    assert bad is not None
    assert "the loss is inf" in str(bad.problem)
    assert all(torch.equal(before[name], tensor) for name, tensor in weights(stepper).items())
    for number, own in stepper.optimizer.adamw.state_dict()["state"].items():
        assert all(torch.equal(own[name], state["state"][number][name]) for name in own)
    (loss,) = take_steps(stepper, 1)
    assert math.isfinite(loss)
    assert any(not torch.equal(before[name], tensor) for name, tensor in weights(stepper).items())


@contextmanager
def count_kept_bytes() -> Iterator[list[int]]:
    """Add up what forward keeps for backward."""
    kept: dict[int, torch.Tensor] = {}
    total: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield total
    total.append(sum(tensor.untyped_storage().nbytes() for tensor in kept.values()))


def run_forward(stepper: Stepper) -> tuple[torch.Tensor, int]:
    """Return the loss of some items, and the bytes that its forward has kept."""
    batch = stepper.load_batch(range(4), training=True)
    with count_kept_bytes() as total:
        loss = stepper.compute_loss(stepper.model, batch)
    return loss, total[0]


def test_the_residual_stream_has_the_short_type(
    make: Callable[..., Stepper], monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = make("--dtype", "bf16")
    types: list[Any] = []
    for block in stepper.model.h:
        block.register_forward_hook(lambda block, given, out: types.append(out.dtype))
    short, kept = run_forward(stepper)
    assert types == [torch.bfloat16] * 4
    # As it would be without: every sum along the stream in 32 bits.
    monkeypatch.setattr("jobgen.trainer.text.transformer.cast_to_autocast", lambda x: x)
    wide, more = run_forward(stepper)
    assert types[4:] == [torch.float32] * 4
    # Each of nine norms keeps its input, 4 items of 16 tokens 128 wide, in half the bytes.
    assert more - kept == 9 * (4 * 16 * 128) * 2
    assert short.item() == pytest.approx(wide.item(), rel=2e-3)


def list_rates(*flags: str) -> list[float]:
    config = parse_flags(["--steps", "100", "--warmup-steps", "10", "--lr", "1", *flags])
    return [compute_learning_rate(step, config) for step in range(100)]


def test_the_learning_rate_follows_its_schedule() -> None:
    """Against the formulas written out."""
    up = [(step + 1) / 10 for step in range(10)]
    ways = [step / 90 for step in range(90)]
    cosine = [0.1 + 0.9 * (1 + math.cos(math.pi * way)) / 2 for way in ways]
    assert list_rates() == pytest.approx(up + cosine)
    assert list_rates("--schedule", "linear", "--min-lr", "0") == pytest.approx(
        up + [1 - way for way in ways]
    )
    assert list_rates("--schedule", "constant") == pytest.approx(up + [1.0] * 90)


def test_fp16_learns_as_fp32_does_and_takes_overflows_in_its_stride(
    make: Callable[..., Stepper],
) -> None:
    expected = take_steps(make("--steps", "40"), 40)
    stepper = make("--steps", "40", "--dtype", "fp16")
    assert stepper.loss_scale is not None
    losses = take_steps(stepper, 40)
    assert losses[:10] == pytest.approx(expected[:10], rel=5e-3)
    assert losses[-1] == pytest.approx(expected[-1], rel=0.15)
    before = weights(stepper)
    stepper.loss_scale.scale.fill_(2.0**40)
    stepper.step()
    numbers = stepper.read_numbers()
    assert numbers is not None
    assert (numbers.problem, math.isfinite(numbers.loss)) == (None, True)
    assert not math.isfinite(numbers.grad_norm)
    assert float(stepper.loss_scale.scale) == 2.0**39
    assert all(torch.equal(before[name], tensor) for name, tensor in weights(stepper).items())


def test_the_scale_of_the_loss_doubles_after_many_good_steps_and_is_kept(
    make: Callable[..., Stepper],
) -> None:
    scale = LossScale(torch.device("cpu"))
    good, bad = torch.tensor(False), torch.tensor(True)
    for _ in range(2000):
        scale.update(good)
    assert scale.as_json() == [2.0**13, 0.0]
    scale.update(good)
    scale.update(bad)
    assert scale.as_json() == [2.0**12, 0.0]
    stepper, again = make("--dtype", "fp16"), make("--dtype", "fp16")
    take_steps(stepper, 3)
    again.restore(json.loads(json.dumps(stepper.collect_state())))
    assert again.loss_scale is not None
    assert stepper.loss_scale is not None
    assert again.loss_scale.as_json() == stepper.loss_scale.as_json()


def test_of_chats_only_answers_are_targets_and_a_rank_counts_its_own_items(
    make: Callable[..., Stepper], monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = make(chats=True)
    tokens = stepper.task.tokens
    read, usual = [], tokens.read_item

    def note(item: int, *, training: bool) -> Any:
        read.append(item)
        return usual(item, training=training)

    stepper.feed._thread.submit(int).result()  # what it has made ahead so far is done
    monkeypatch.setattr(tokens, "read_item", note)
    stepper.feed.seek(0)
    assert all(math.isfinite(loss) for loss in take_steps(stepper, 2))
    assert len(read) == len(set(read)), "an item is read once, not again to be counted"
    batch = stepper.task.batch([0, 1, 2], training=True)
    _, targets = stepper.task.split_windows(batch)
    assert 0 < stepper.task.count_units(batch) == int((targets >= 0).sum()) < targets.numel()
