"""Any causal language model of Hugging Face's transformers, trained further or from scratch.

`--model` is a model's folder, or its name on the hub; `--data` a text, a folder of texts, or
`hf:NAME` of a data set. Training never uses the network: `python -m jobgen.trainer prepare`, with
the same flags on a node that has one, fetches the model into Hugging Face's cache and makes the
tokens. Needs the extra `hf`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn
from torch.nn import functional

from ..config import Config, TrainerError
from . import Task
from .text.hub import fetch_model, model_of
from .text.task import TextTask, prepare_text

DEFAULTS = {"context": 512, "batch_tokens": 65536, "lr": 5e-5}


class CausalLM(TextTask):
    """Windows of a text for a model of transformers."""

    def __init__(self, config: Config) -> None:
        """Open the tokens; raises TrainerError when they are damaged or too few."""
        super().__init__(config)
        self.place = _place(config)

    def build(self) -> nn.Module:
        """Return the model, with the weights it comes with unless --weights random."""
        model = model_of(self.place, weights=self.config.weights == "pretrained")
        form = model.config.get_text_config()
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
        return cast(nn.Module, model)

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the cross-entropy, in nats."""
        inputs, targets = batch
        scores = self.scores(model, inputs).float()
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")

    def scores(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """Return the model's scores of what follows each token."""
        return cast(Tensor, model(input_ids=tokens, use_cache=False).logits)

    def blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        """Return the layers: the longest list of modules of one class."""
        lists = [part for part in model.modules() if isinstance(part, nn.ModuleList)]
        alike = (part for part in lists if len({type(layer) for layer in part}) == 1)
        return max(alike, key=len, default=())

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

    def export(self, weights: Mapping[str, Tensor], folder: Path) -> str:
        """Write what `from_pretrained` loads: the model, and the tokenizer of its tokens."""
        model = model_of(self.place, weights=False, dropout=True)
        model.load_state_dict(weights)
        model.save_pretrained(folder)
        self.tokens.tokenizer.save(folder)
        return f"{folder}: for transformers' {type(model).__name__}"


def prepare(config: Config, *, fetch: bool) -> str | None:
    """Turn the text into tokens, unless that is done; with `fetch`, get the model too."""
    news = prepare_text(config, tokenizer=f"hf:{_place(config)}", fetch=fetch)
    if fetch:
        fetch_model(_place(config))
    return news


def load(config: Config) -> Task:
    """Return the task, the tokens open."""
    return CausalLM(config)


def _place(config: Config) -> str:
    if not config.model:
        raise TrainerError("--task hf-causal-lm needs --model, a folder or a name on the hub")
    return config.model
