"""The same model as Hugging Face's GPT-2: names, layout and config.json."""

from collections.abc import Mapping

from torch import Tensor

from .transformer import Shape

_PARTS = {
    "norm_attention": "ln_1",
    "attention.inward": "attn.c_attn",
    "attention.outward": "attn.c_proj",
    "norm_network": "ln_2",
    "inward": "mlp.c_fc",
    "outward": "mlp.c_proj",
}


def is_gpt2(shape: Shape) -> bool:
    """Return whether the architecture is GPT-2's."""
    return (shape.norm, shape.positions, shape.tie) == ("layer", "learned", True)


def weights_as_gpt2(shape: Shape, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights under the names, and laid out as, GPT2LMHeadModel has them.

    Its matrices are (inputs, outputs), and the vocabulary has no rows beyond its size.
    """
    named = {
        "transformer.wte.weight": weights["tokens.weight"][: shape.vocabulary],
        "transformer.wpe.weight": weights["positions.weight"],
        "transformer.ln_f.weight": weights["norm.weight"],
        "transformer.ln_f.bias": weights["norm.bias"],
    }
    for layer in range(shape.layers):
        for own, theirs in _PARTS.items():
            matrix = weights[f"blocks.{layer}.{own}.weight"]
            name = f"transformer.h.{layer}.{theirs}"
            named[f"{name}.weight"] = matrix.t() if matrix.dim() == 2 else matrix
            named[f"{name}.bias"] = weights[f"blocks.{layer}.{own}.bias"]
    return {name: tensor.contiguous() for name, tensor in named.items()}


def config_as_gpt2(shape: Shape, *, end: int | None) -> dict[str, object]:
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
