"""All that is known here of Hugging Face's libraries: models, tokenizers, data sets.

Nothing is fetched while training: compute nodes often have no way out, and there a look-up hangs
until it times out. `prepare`, on a login node, is what fetches; unless HF_HUB_OFFLINE says 1.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...config import TrainerError


def let_fetch(allowed: bool) -> None:
    """Let the libraries use the network or not; what the environment already says stays.

    Takes effect only before they are imported first.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "0" if allowed else "1")


def tokenizer_of(place: str) -> Any:
    """Return the fast tokenizer of a model's folder or name."""
    return _load("AutoTokenizer", place)


def model_of(place: str, *, weights: bool, dropout: bool = False) -> Any:
    """Return a causal language model, with the weights it comes with or with random ones.

    They are in 32 bits, whatever the file's type. Without `dropout` there is none: what is dropped
    depends on how many items are run at once, and so on the number of ranks.
    """
    form = _load("AutoConfig", place)
    for part in (form, form.get_text_config()):
        for name, value in part.to_dict().items():
            if not dropout and "drop" in name and isinstance(value, float):
                setattr(part, name, 0.0)
    if weights:
        return _load("AutoModelForCausalLM", place, config=form, dtype=torch.float32)
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(form, dtype=torch.float32)


def fetch_model(place: str) -> None:
    """Bring the files of a model into Hugging Face's cache, unless it is a folder."""
    if Path(place).is_dir():
        return
    _load("AutoConfig", place)  # says first, and clearly, what is not there
    from huggingface_hub import snapshot_download

    # The same weights again, in the forms of other programs.
    others = ["*.h5", "*.msgpack", "*.onnx", "*.ot", "*.gguf", "original/*"]
    snapshot_download(place, ignore_patterns=others)


def _load(kind: str, place: str, **options: Any) -> Any:
    try:
        import transformers
    except ImportError as error:
        raise TrainerError(f"{place}: pip install 'jobgen[hf]' ({error})") from error
    transformers.utils.logging.disable_progress_bar()
    try:
        return getattr(transformers, kind).from_pretrained(place, **options)
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise TrainerError(
            f"{place}: {first} (a folder works anywhere; a name, once `prepare` has fetched it "
            f"where there is a network)"
        ) from error


def documents(name: str) -> Iterator[str]:
    """Yield the texts of a data set: NAME or NAME:CONFIGURATION on the hub, its column `text`."""
    try:
        import datasets
    except ImportError as error:
        raise TrainerError(f"--data hf:{name}: pip install 'jobgen[hf]' ({error})") from error
    place, _, configuration = name.partition(":")
    try:
        rows = datasets.load_dataset(place, configuration or None, split="train")
    except (OSError, ValueError) as error:
        raise TrainerError(f"--data hf:{name}: {error}") from error
    if "text" not in rows.column_names:
        raise TrainerError(
            f"--data hf:{name}: no column `text`, but {', '.join(rows.column_names)}"
        )
    for row in rows:
        yield row["text"]


def save_form(folder: Path, form: Mapping[str, object], weights: dict[str, Tensor]) -> None:
    """Write a model as `from_pretrained` reads it: config.json and model.safetensors."""
    write_safetensors(folder / "model.safetensors", weights)
    (folder / "config.json").write_text(json.dumps(form, indent=1) + "\n", encoding="utf-8")


def write_safetensors(path: Path, weights: dict[str, Tensor]) -> None:
    """Write the weights as one file."""
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise TrainerError(f"export: pip install 'jobgen[hf]' ({error})") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(weights, path, metadata={"format": "pt"})
