"""The processes of a run and their devices: what few builds of torch have, and few runs ask for."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer import commands  # noqa: E402
from jobgen.trainer.config import TrainerError  # noqa: E402
from jobgen.trainer.distributed.device import choose_arithmetic, set_arithmetic  # noqa: E402
from jobgen.trainer.distributed.world import join, leave  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402

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
