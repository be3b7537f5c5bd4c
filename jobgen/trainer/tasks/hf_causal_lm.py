"""Any causal language model of Hugging Face's transformers, trained further or from scratch.

`--model` is a model's folder, or its name on the hub; `--data` a text, a folder of texts, or
`hf:NAME` of a data set. Training never uses the network: `python -m jobgen.trainer prepare`, with
the same flags on a node that has one, fetches the model into Hugging Face's cache and makes the
tokens. Needs the extra `hf`.
"""

import zlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..config import Config, TrainerError
from ..data.order import mix
from ..text.attention import allow_own_document
from ..text.hub import build_hub_model, draw_weight, fetch_model, open_weights, read_form
from ..text.preparation import prepare_text
from ..text.task import TextTask
from . import Task

DEFAULTS = {"context": 512, "batch_tokens": 65536, "lr": 5e-5}


class CausalLM(TextTask):
    """Windows of a text for a model of transformers."""

    def __init__(self, config: Config) -> None:
        """Open the tokens; raises TrainerError when they are damaged or too few."""
        super().__init__(config)
        self.place = _get_place(config)
        self.pretrained = config.weights == "pretrained"
        form = read_form(self.place).get_text_config()
        # A model with one matrix for tokens in and out is built whole: its parts share memory.
        self.in_pieces = not getattr(form, "tie_word_embeddings", True) and (
            not self.pretrained or self.files is not None
        )
        longest = getattr(form, "max_position_embeddings", None) or self.units_per_item
        if self.units_per_item > longest:
            raise TrainerError(
                f"--context {self.units_per_item}: {self.place} takes at most {longest} tokens"
            )
        if self.tokens.vocabulary > form.vocab_size:
            raise TrainerError(
                f"{self.config.tokens_folder} has a vocabulary of {self.tokens.vocabulary} tokens, "
                f"{self.place} one of {form.vocab_size}; prepare them with the model's own"
            )

    @cached_property
    def files(self) -> Mapping[str, Tensor] | None:
        """The weights that the model comes with, each read when it is asked for."""
        return open_weights(self.place)

    @cached_property
    def template(self) -> Any:
        """The model without memory for its weights."""
        return build_hub_model(self.place, pretrained=False, empty=True)

    def build(self) -> nn.Module:
        """Return the model, with the weights it comes with unless --weights random."""
        pretrained = self.pretrained and not self.in_pieces
        self.model = build_hub_model(self.place, pretrained=pretrained, empty=self.in_pieces)
        return add_loss(self.model)

    def initial_weight(self, name: str, shape: torch.Size) -> Tensor:
        """Return a weight of the file that the model comes with, or one drawn as models begin."""
        if self.files is not None and self.pretrained:
            return self.files[name].float()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(mix(self.config.seed, zlib.crc32(name.encode())))
            return draw_weight(self.template, name)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Return the cross-entropy, in nats."""
        return cast(Tensor, model(*self.split_windows(batch)))

    def logits(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """Return the model's logits of what follows each token."""
        return cast(Tensor, model(tokens))

    def blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        """Return the layers: the longest list of modules of one class."""
        lists = [part for part in model.modules() if isinstance(part, nn.ModuleList)]
        alike = (part for part in lists if len({type(layer) for layer in part}) == 1)
        return max(alike, key=len, default=())

    def compiled_parts(self, model: nn.Module) -> Iterable[tuple[Any, str]]:
        """Return the head together with the loss."""
        return [(model, "sum_loss")]

    def flops_per_unit(self, model: nn.Module) -> float | None:
        """Return 6 N + 12 L C T (PaLM, appendix B), N without the input embedding where untied.

        Not known for a mixture of experts, of which a token uses a part.
        """
        form = cast(Any, model).config.get_text_config()
        layers, width = (getattr(form, name, None) for name in ("num_hidden_layers", "hidden_size"))
        if not (layers and width) or any("expert" in name for name in form.to_dict()):
            return None
        used = sum(parameter.numel() for parameter in model.parameters())
        if not form.tie_word_embeddings:
            used -= cast(Any, model).get_input_embeddings().weight.numel()
        return float(6 * used + 12 * layers * width * self.units_per_item)

    def adopt(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the weights of the model, or of the one without a head, under its names."""
        prefix = f"{self.model.base_model_prefix}."
        if any(name.startswith(prefix) for name in weights):
            return weights
        return {prefix + name: weights[name] for name in weights}

    def export(self, weights: Mapping[str, Tensor], folder: Path) -> str:
        """Write what `from_pretrained` loads: the model, and the tokenizer of its tokens."""
        model = build_hub_model(self.place, pretrained=False, dropout=True)
        model.load_state_dict(weights)
        model.save_pretrained(folder)
        self.tokens.tokenizer.save(folder)
        return f"{folder}: for transformers' {type(model).__name__}"


def prepare(config: Config, *, fetch: bool) -> str | None:
    """Turn the text into tokens, unless that is done; with `fetch`, get the model too."""
    news = prepare_text(config, tokenizer=f"hf:{_get_place(config)}", fetch=fetch)
    if fetch:
        fetch_model(_get_place(config))
    return news


def load(config: Config) -> Task:
    """Return the task, the tokens open."""
    return CausalLM(config)


def add_loss(model: Any) -> nn.Module:
    """Let the model return its loss when it is called with targets.

    So that compiling has head and loss in one piece, and never writes 32-bit logits.
    """
    forward = model.forward
    head = model.get_output_embeddings()
    base: Any = getattr(model, model.base_model_prefix, None)
    # Some models scale or cap their logits after the head: these compute them by themselves.
    plain = base is not None and not any("logit" in name for name in model.config.to_dict())

    def compute(
        tokens: Tensor, targets: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        given: dict[str, Any] = {"input_ids": tokens, "use_cache": False}
        if documents is not None:
            given["attention_mask"] = allow_own_document(documents)
        if targets is None:
            return cast(Tensor, forward(**given).logits)
        if plain:
            return cast(Tensor, model.sum_loss(base(**given).last_hidden_state, targets))
        return sum_cross_entropy(forward(**given).logits, targets)

    def sum_loss(hidden: Tensor, targets: Tensor) -> Tensor:
        return sum_cross_entropy(head(hidden), targets)

    model.forward, model.sum_loss = compute, sum_loss
    return cast(nn.Module, model)


def sum_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy summed over the targets, in nats; those below 0 do not count."""
    logits = logits.float().flatten(0, 1)
    return functional.cross_entropy(logits, targets.flatten(), reduction="sum")


def _get_place(config: Config) -> str:
    if not config.model:
        raise TrainerError("--task hf-causal-lm needs --model, a folder or a name on the hub")
    return config.model
