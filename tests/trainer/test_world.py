"""The processes of a run and their devices: what few builds of torch have, and few runs ask for."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer import commands  # noqa: E402
from jobgen.trainer.config import TrainerError  # noqa: E402
from jobgen.trainer.distributed.device import choose_arithmetic, set_arithmetic  # noqa: E402
from jobgen.trainer.distributed.world import join, leave  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402

from .conftest import ROOT  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("backend", "device"), [("mpi", "cpu"), ("xccl", "xpu")])
def test_a_backend_trains_where_torch_has_it_and_is_refused_elsewhere(
    backend: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    flags = ["--task", "toy", "--steps", "3", "--out", str(tmp_path), "--backend", backend]
    if not torch.distributed.is_backend_available(backend):
        with pytest.raises(TrainerError, match=f"--backend {backend}: this build of torch does"):
            join(parse_flags([*flags, "--device", "cpu"]))
        return
    if device == "xpu" and not torch.xpu.is_available():
        pytest.skip("no XPU is visible")
    try:
        commands.train(parse_flags([*flags, "--device", device]))
    finally:
        leave()
    assert (tmp_path / "DONE").exists()


def test_an_xpu_that_is_not_there_is_said_to_be_missing() -> None:
    if torch.xpu.is_available():
        pytest.skip("there is one")
    with pytest.raises(TrainerError, match="--device xpu: no GPU is visible on"):
        join(parse_flags(["--device", "xpu"]))


@pytest.mark.parametrize("flag", ["--deterministic", "--reduce=exact", "--reduce=fast"])
def test_the_same_bits_are_had_for_the_asking(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    config, cpu = parse_flags([flag]), torch.device("cpu")
    try:
        set_arithmetic(config, cpu)
        wanted = flag != "--reduce=fast"
        assert torch.are_deterministic_algorithms_enabled() == wanted
        assert ("deterministic" in choose_arithmetic(config, cpu).reasons) == wanted
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)


# One of eight ranks whose peers are not there: what is sent goes nowhere.
ONE_OF_EIGHT = r"""
import re, sys
from pathlib import Path
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from jobgen.trainer import tasks
from jobgen.trainer.data.deal import deal_items
from jobgen.trainer.distributed.device import choose_arithmetic
from jobgen.trainer.distributed.strategy import build_model
from jobgen.trainer.distributed.world import World
from jobgen.trainer.flags import parse_flags

def peak():
    return int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1000

def build(out, model):
    given = ["--model", model, "--device", "cpu", "--strategy", "fsdp", "--no-tie"]
    config = parse_flags([*given, "--out", out, "--batch-tokens", "8192"])
    tasks.prepare_data(config, fetch=False)
    task, deal = tasks.load_task(config), deal_items(config, 8, 8)
    device = torch.device("cpu")
    world = World(0, 0, 8, 8, device, "fake", dist.group.WORLD)
    return build_model(task, config, world, arithmetic=choose_arithmetic(config, device), deal=deal)

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
build(sys.argv[1], "gpt-tiny")  # libraries take memory once
before = peak()
shards = build(sys.argv[1], "gpt2-124m")
whole = sum(weight.numel() for weight in shards.module.parameters()) * 4e-6
print(whole, peak() - before)
"""


def test_a_rank_that_holds_a_shard_never_holds_the_model(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", ONE_OF_EIGHT, str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    whole, held = map(float, done.stdout.split()[-2:])
    assert whole > 340, "MB"
    assert held < whole / 4, "its eighth, and one weight after another"
