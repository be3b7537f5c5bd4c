"""The same model as Hugging Face's GPT-2: layout and config.json; the names are the same."""

from collections.abc import Mapping

import torch
from torch import Tensor

from .transformer import Shape

_PREFIX = "transformer."
# Matrices that are (inputs, outputs) there, and (outputs, inputs) here.
_TURNED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def is_gpt2(shape: Shape) -> bool:
    """Return whether the architecture is GPT-2's."""
    return (shape.norm, shape.positions, shape.tie) == ("layer", "learned", True)


def convert_to_gpt2(shape: Shape, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights under the names, and laid out as, GPT2LMHeadModel has them."""
    converted = {}
    for name, tensor in weights.items():
        if name == "wte.weight":
            tensor = tensor[: shape.vocabulary]
        turned = tensor.t() if name.endswith(_TURNED) else tensor
        converted[_PREFIX + name] = turned.contiguous()
    return converted


def convert_from_gpt2(shape: Shape, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a GPT2LMHeadModel, or of its inner model, as they are here."""
    converted = {}
    for name in weights:
        own = name.removeprefix(_PREFIX)
        if own == "lm_head.weight" or own.endswith((".attn.bias", ".attn.masked_bias")):
            continue  # the embedding again, and masks that old files hold
        tensor = weights[name]
        if own == "wte.weight" and len(tensor) == shape.vocabulary:
            tensor = torch.cat([tensor, tensor.new_zeros(shape.rows - len(tensor), shape.width)])
        converted[own] = tensor.t().contiguous() if own.endswith(_TURNED) else tensor
    return converted


def describe_as_gpt2(shape: Shape, *, end: int | None) -> dict[str, object]:
    """Return the config.json that goes with them; `end` is the token after a document."""
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_layer": shape.layers,
        "n_head": shape.heads,
        "n_embd": shape.width,
        "n_positions": shape.context,
        "vocab_size": shape.vocabulary,
        "bos_token_id": end,
        "eos_token_id": end,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": True,
    }
