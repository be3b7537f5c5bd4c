"""Attention by torch's fused kernels, over a whole window or within each of its documents."""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Any) -> Tensor:
    """Return causal attention over (batch, heads, time, size).

    `mask` is None, or what `forbid_other_documents` returns.
    """
    if mask is None:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    if isinstance(mask, Tensor):
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    output: Tensor = load_flex_attention()(query, key, value, block_mask=mask)
    return output


def number_documents(tokens: Tensor, end: int) -> Tensor:
    """Return for each token (batch, time) the number of its document within its window.

    The token `end` is the last of its document.
    """
    ends = tokens == end
    return ends.cumsum(1) - ends.long()


def forbid_other_documents(documents: Tensor) -> Any:
    """Return a mask that lets tokens see those before them in their own document.

    On a GPU it is flex attention's, which leaves whole blocks out; elsewhere a tensor.
    """
    return make_block_mask(documents) if documents.is_cuda else allow_own_document(documents)


def allow_own_document(documents: Tensor) -> Tensor:
    """Return that mask as a tensor, (batch, 1, time, time), true where a token may look."""
    time = documents.shape[1]
    causal = torch.ones(time, time, dtype=torch.bool, device=documents.device).tril()
    return (documents[:, None, :, None] == documents[:, None, None, :]) & causal


def make_block_mask(documents: Tensor) -> Any:
    """Return flex attention's mask for causal attention within documents."""
    from torch.nn.attention.flex_attention import create_block_mask

    def allows(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (documents[batch, query] == documents[batch, key])

    rows, time = documents.shape
    return create_block_mask(allows, rows, None, time, time, device=str(documents.device))


@cache
def load_flex_attention() -> Any:
    """Return flex attention; compiled, as it is slow otherwise, where it runs on a GPU."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention) if torch.cuda.is_available() else flex_attention
