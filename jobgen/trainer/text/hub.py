"""All that is known here of Hugging Face's libraries: models, tokenizers, data sets.

Nothing is fetched while training: compute nodes often have no way out, and there a look-up hangs
until it times out. `prepare`, on a login node, is what fetches; unless HF_HUB_OFFLINE says 1.
"""

import copy
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..config import TrainerError


def let_fetch(allowed: bool) -> None:
    """Let the libraries use the network or not; what the environment already says stays.

    Takes effect only before they are imported first.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "0" if allowed else "1")


def load_tokenizer(place: str) -> Any:
    """Return the fast tokenizer of a model's folder or name."""
    return _load("AutoTokenizer", place)


def read_form(place: str, *, dropout: bool = False) -> Any:
    """Return a model's configuration.

    Without `dropout` there is none: what is dropped depends on how many items are run at once, and
    so on the number of ranks.
    """
    form = _load("AutoConfig", place)
    for part in (form, form.get_text_config()):
        for name, value in part.to_dict().items():
            if not dropout and "drop" in name and isinstance(value, float):
                setattr(part, name, 0.0)
    return form


def build_hub_model(
    place: str, *, pretrained: bool, dropout: bool = False, empty: bool = False
) -> Any:
    """Return a causal language model, with the weights it comes with or with random ones.

    They are in 32 bits, whatever the file's type. An `empty` one has its weights on the meta
    device, but its tables of constants in memory.
    """
    form = read_form(place, dropout=dropout)
    if pretrained:
        return _load("AutoModelForCausalLM", place, config=form, dtype=torch.float32)
    from transformers import AutoModelForCausalLM

    with torch.device("cpu"), _parameters_on_meta() if empty else nullcontext():
        return AutoModelForCausalLM.from_config(form, dtype=torch.float32)


@contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Let every parameter that a module registers take no memory."""
    usual = nn.Module.register_parameter

    def register(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None:
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        usual(module, name, parameter)

    nn.Module.register_parameter = register  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = usual  # type: ignore[method-assign]


def draw_weight(model: Any, name: str) -> Tensor:
    """Return one weight as the model draws it at random, given a model whose own take no memory."""
    place, _, attribute = name.rpartition(".")
    owner = copy.deepcopy(model.get_submodule(place)).to_empty(device="cpu")
    model._init_weights(owner)
    weight: Tensor = getattr(owner, attribute).detach()
    return weight


class WeightFiles(Mapping[str, Tensor]):
    """The weights in a folder's safetensors files, each read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        """Look into the files; TrainerError when their library is not there."""
        try:
            from safetensors import safe_open
        except ImportError as error:
            raise TrainerError(
                f"{folder}: pip install transformers datasets safetensors ({error})"
            ) from error
        open_file: Any = safe_open
        self._files: dict[str, Any] = {
            name: file
            for path in sorted(folder.glob("*.safetensors"))
            for file in [open_file(path, "pt")]
            for name in file.keys()  # noqa: SIM118
        }

    def __getitem__(self, name: str) -> Tensor:
        """Return a weight."""
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._files)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._files)


def open_weights(place: str) -> WeightFiles | None:
    """Return the weights of a model's folder or name; None where they are not in safetensors."""
    folder = Path(place)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(place, local_files_only=True))
    files = WeightFiles(folder)
    return files if len(files) else None


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
        raise TrainerError(
            f"{place}: pip install transformers datasets safetensors ({error})"
        ) from error
    transformers.utils.logging.disable_progress_bar()
    try:
        return getattr(transformers, kind).from_pretrained(place, **options)
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise TrainerError(
            f"{place}: {first} (a folder works anywhere; a name, once `prepare` has fetched it "
            f"where there is a network)"
        ) from error


def read_rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set: NAME or NAME:CONFIGURATION on the hub."""
    place, _, configuration = name.partition(":")
    datasets = _import_datasets(f"hf:{name}")
    try:
        yield from datasets.load_dataset(place, configuration or None, split="train")
    except (OSError, ValueError) as error:
        raise TrainerError(f"--data hf:{name}: {error}") from error


def read_rows_on_disk(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set that `save_to_disk` has written; of several splits, `train`."""
    datasets = _import_datasets(str(folder))
    try:
        rows = datasets.load_from_disk(str(folder))
        yield from rows["train"] if isinstance(rows, dict) else rows
    except (OSError, ValueError, KeyError) as error:
        raise TrainerError(f"--data {folder}: {error}") from error


def _import_datasets(data: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise TrainerError(
            f"--data {data}: pip install transformers datasets safetensors ({error})"
        ) from error
    return datasets


def save_model(folder: Path, form: Mapping[str, object], weights: dict[str, Tensor]) -> None:
    """Write a model as `from_pretrained` reads it: config.json and model.safetensors."""
    write_safetensors(folder / "model.safetensors", weights)
    (folder / "config.json").write_text(json.dumps(form, indent=1) + "\n", encoding="utf-8")


def write_safetensors(path: Path, weights: dict[str, Tensor]) -> None:
    """Write the weights as one file."""
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise TrainerError(
            f"export: pip install transformers datasets safetensors ({error})"
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(weights, path, metadata={"format": "pt"})
