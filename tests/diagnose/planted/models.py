"""Shapes, dtypes, devices and graphs of tensors that do not go together."""

from __future__ import annotations

from program import complain, main, planted, read_table

read_table(__file__)


@planted(
    "tokenizer-parallel", "exception", "all", "vocab|index 50257", early=True, mode="pbs-direct"
)
def vocabulary_too_small() -> None:
    complain(
        "huggingface/tokenizers: The current process just got forked, after parallelism has already"
        " been used. Disabling parallelism to avoid deadlocks...\nTo disable this warning, you can "
        "either:\n\t- Avoid using `tokenizers` before the fork if possible"
    )
    raise IndexError("index 50257 is out of bounds for dimension 0 with size 50257")


@planted("batch-shape", "exception", "2", "shapes cannot be multiplied", torch=True)
def multiply() -> None:
    import torch

    torch.nn.Linear(8, 4)(torch.ones(3, 7))


@planted("ddp-unused", "exception", "all", "finished reduction", torch=True, mode="pbs")
def leave_parameters() -> None:
    raise RuntimeError(
        "Expected to have finished reduction in the prior iteration before starting a new one. This"
        " error indicates that your module has parameters that were not used in producing loss."
    )


@planted(
    "ddp-other-model",
    "exception or collective-mismatch",
    "2",
    "same model across all ranks",
    torch=True,
)
def wrap_another_model() -> None:
    raise RuntimeError(
        "DDP expects same model across all ranks, but Rank 2 has 6 params, while rank 0 has "
        "inconsistent 4 params."
    )


@planted("compile-fullgraph", "exception", "all", "Unsupported|graph", torch=True, early=True)
def compile_whole() -> None:
    import torch

    def step(x: torch.Tensor) -> torch.Tensor:
        print("a break")
        return x + 1

    torch.compile(step, fullgraph=True, backend="eager")(torch.ones(4))


@planted("backward-twice", "exception", "3", "second time", torch=True, mode="pbs-direct")
def go_back_twice() -> None:
    import torch

    total = (torch.ones(3, requires_grad=True) ** 2).sum()
    total.backward()
    total.backward()


if __name__ == "__main__":
    main()
