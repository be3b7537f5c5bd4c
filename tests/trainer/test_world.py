"""The processes of a run and their devices, with GPUs that only seem to be there."""

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.config import TrainerError  # noqa: E402
from jobgen.trainer.distributed.device import choose_arithmetic, set_arithmetic  # noqa: E402
from jobgen.trainer.distributed.world import join  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def as_gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, int]], torch.device]:
    """Have torch say that its GPU has this compute capability."""

    def answer(capability: tuple[int, int]) -> torch.device:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        monkeypatch.setattr("jobgen.trainer.distributed.device.has_triton", lambda: True)
        return torch.device("cuda")

    return answer


COMPILED, TF32 = "compiled (default on cuda)", "fp32 matrix products in TF32"


@pytest.mark.parametrize(
    ("capability", "reasons"),
    [
        ((6, 0), f"fp16 (default on cuda, sm60), {COMPILED}"),  # P100
        ((7, 0), f"fp16 (default on cuda, sm70), {COMPILED}"),  # V100
        ((7, 5), f"fp16 (default on cuda, sm75), {COMPILED}"),  # T4
        ((8, 0), f"bf16 (default on cuda, sm80), {COMPILED}, {TF32}"),  # A100
        ((9, 0), f"bf16 (default on cuda, sm90), {COMPILED}, {TF32}"),  # H100
    ],
)
def test_the_type_is_one_that_the_gpu_has(
    capability: tuple[int, int], reasons: str, as_gpu: Callable[[tuple[int, int]], torch.device]
) -> None:
    """Pascal, Volta and Turing have neither bf16 nor TF32."""
    assert choose_arithmetic(parse_flags([]), as_gpu(capability)).reasons == reasons


def test_tf32_is_used_only_where_it_exists(
    as_gpu: Callable[[tuple[int, int]], torch.device], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", chosen.append)
    for capability in ((7, 0), (8, 6)):
        set_arithmetic(parse_flags([]), as_gpu(capability))
    assert chosen == ["highest", "high"]


def test_the_default_on_a_cpu_is_fp32_and_a_gpu_that_is_missing_is_said() -> None:
    chosen = choose_arithmetic(parse_flags([]), torch.device("cpu"))
    assert chosen.reasons == "fp32 (default on cpu), not compiled (default on cpu)"
    if not torch.cuda.is_available():
        with pytest.raises(TrainerError, match="--device cuda: no GPU is visible on"):
            join(parse_flags(["--device", "cuda"]))


@pytest.mark.parametrize("wanted", [True, False])
def test_the_same_bits_are_had_for_the_asking(
    wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    config = parse_flags(["--deterministic" if wanted else "--no-deterministic"])
    try:
        set_arithmetic(config, torch.device("cpu"))
        assert torch.are_deterministic_algorithms_enabled() == wanted
        chosen = choose_arithmetic(config, torch.device("cpu"))
        assert ("deterministic" in chosen.reasons) == wanted
    finally:
        torch.use_deterministic_algorithms(False)
