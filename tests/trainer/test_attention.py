"""Documents that do not attend to each other."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.distributed.device import observe_attention  # noqa: E402
from jobgen.trainer.text.attention import (  # noqa: E402
    allow_own_document,
    attend,
    make_block_mask,
    number_documents,
)
from jobgen.trainer.text.transformer import GPT, Shape  # noqa: E402

END = 9


def make_gpt() -> Any:
    torch.manual_seed(0)
    shape = Shape(
        layers=2,
        heads=2,
        width=32,
        context=16,
        vocabulary=10,
        norm="rms",
        positions="rotary",
        tie=True,
    )
    return GPT(shape).double()


def test_an_end_is_the_last_token_of_its_document() -> None:
    tokens = torch.tensor([[1, END, 2, 3, END, END, 4], [END, 1, 1, 1, 1, 1, END]])
    expected = [[0, 0, 1, 1, 1, 2, 3], [0, 1, 1, 1, 1, 1, 1]]
    assert number_documents(tokens, END).tolist() == expected


def test_documents_in_one_window_are_as_if_each_were_alone() -> None:
    """With rotary positions, which are relative, where a document stands makes no difference."""
    model, documents = make_gpt(), [[1, 2, 3, END], [4, 5, END], [6, 7, 8, 1, 2, 3, END]]
    packed = torch.tensor([[token for document in documents for token in document]])
    logits = model(packed, documents=number_documents(packed, END))[0]
    alone = torch.cat([model(torch.tensor([document]))[0] for document in documents])
    assert torch.allclose(logits, alone, atol=1e-6)
    assert not torch.allclose(model(packed)[0], alone, atol=1e-2), "or the test would show nothing"


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_masks_as_the_tensor_does() -> None:
    """What a GPU runs, uncompiled on the CPU, where it has no backward."""
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    torch.manual_seed(0)
    tokens = torch.randint(0, 10, (2, 128))
    documents = number_documents(tokens, END)
    parts = [torch.randn(2, 2, 128, 16) for _ in range(3)]
    block_mask = make_block_mask(documents)
    assert isinstance(block_mask, flex.BlockMask)
    outputs = []
    with torch.no_grad():
        for mask, name in ((block_mask, "flex"), (allow_own_document(documents), "flash")):
            kernel = observe_attention(lambda mask=mask: outputs.append(attend(*parts, mask)))
            assert kernel == name
        output, expected = outputs
    assert torch.allclose(output, expected, atol=1e-5)
    assert not torch.allclose(attend(*parts, None), expected, atol=1e-2)
