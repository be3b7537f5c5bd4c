"""From flags, and a file of settings, to a Config. Flags win over the file; it, over defaults."""

import argparse
import dataclasses
import difflib
import math
import os
from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, get_args

from . import tasks
from .config import TOPICS, Config, FlagError

_FIELDS = {item.name: item for item in dataclasses.fields(Config)}
_WARMUP_STEPS = 20  # of a task that does not say
_COMMANDS = """
commands, before the flags; the same settings serve all of them:
  train     (or nothing) train, or continue the run in --out
  prepare   make the task's data ready, on a node that may use the network
  eval      measure the validation loss of the newest checkpoint of the run in --out
  sample    write text with that checkpoint
  export    write its weights as one safetensors file, and as Hugging Face's libraries read
            them, into the folder `export` of --out
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise FlagError(f"{message} (--help lists the flags)")


def parse_flags(arguments: Sequence[str], *, recorded: bool = False) -> Config:
    """Return the settings that the flags, and a file they name, ask for.

    With `recorded`, they start from those that the run in --out was started with. Raises
    FlagError for one that is unknown or wrong, and SystemExit after printing the help.
    """
    parser = _make_parser()
    known, unknown = parser.parse_known_args(arguments)
    if unknown:
        flags = [f"--{name.replace('_', '-')}" for name in _FIELDS]
        hint = next(filter(None, (_suggest(word.split("=")[0], flags) for word in unknown)), "")
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    given = vars(known)
    file = given.pop("config", None)
    settings: dict[str, Any] = {"out": Path(os.environ.get("JOBGEN_RUN_DIR") or "runs/trainer")}
    settings |= (read_file(file) if file else {}) | given
    if recorded:
        record = settings["out"] / "config.json"
        if not record.exists():
            raise FlagError(f"--out {settings['out']}: no run was started there")
        settings = read_file(record) | settings
    return _settle(settings)


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings in a YAML or JSON file, each read as the flag of its name is.

    Raises FlagError, with line and column, for an unknown setting or a wrong value.
    """
    import yaml

    def refuse(mark: Any, problem: object) -> NoReturn:
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise FlagError(f"{path}{at}: {problem}")

    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise FlagError(f"--config {path}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        mark, problem = (getattr(error, name, None) for name in ("problem_mark", "problem"))
        refuse(mark, f"not YAML: {problem or error}")
    if root is not None and not isinstance(root, yaml.MappingNode):
        refuse(root.start_mark, "write settings as `name: value`, one a line")
    settings: dict[str, Any] = {}
    for key, value in root.value if root else ():
        name = str(key.value).replace("-", "_")
        if name not in _FIELDS:
            refuse(key.start_mark, f"no setting {key.value!r}" + _suggest(name, _FIELDS))
        if name in settings:
            refuse(key.start_mark, f"{key.value} is here twice")
        if not isinstance(value, yaml.ScalarNode):
            refuse(value.start_mark, f"{key.value} takes one value")
        try:
            settings[name] = _read_value(name, value.value)
        except ArgumentTypeError as error:
            refuse(value.start_mark, f"{key.value}: {error}")
    return settings


def _get_type(name: str) -> type:
    """Return the type of a setting's value, when it has one."""
    kind: type = (get_args(_FIELDS[name].type) or (_FIELDS[name].type,))[0]
    return kind


def _read_value(name: str, text: str) -> object:
    """Return the setting's value; ArgumentTypeError when the text does not say one."""
    kind, about = _get_type(name), _FIELDS[name].metadata
    if about["read"]:
        return about["read"](text)
    words = ("true", "false") if kind is bool else about["words"]
    if words and text not in words:
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(words)}")
    if kind not in (int, float):
        return text == "true" if kind is bool else kind(text)
    try:
        number: float = kind(text)
    except ValueError:
        number = math.nan
    if not (0 < number < math.inf or (number == 0 and about["zero"])):
        what = ("" if about["zero"] else "positive ") + ("whole " if kind is int else "")
        raise ArgumentTypeError(f"{text} is not a {what}number")
    return number


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m jobgen.trainer",
        usage="%(prog)s [train|prepare|eval|sample|export] [FLAG ...]",
        description=f"Train a model, on one process or many. Tasks: "
        f"{', '.join(tasks.list_names())}.",
        epilog=_COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for name, item in _FIELDS.items():
        if name in TOPICS:
            group = parser.add_argument_group(TOPICS[name])
        text, words = item.metadata["help"], ",".join(item.metadata["words"])
        if item.default is not None:
            default = item.default
            if isinstance(default, tuple):
                default = ":".join(map(str, default))
            text += f" (default: {default!r})"
        how: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        if _get_type(name) is not bool:
            metavar = f"{{{words}}}" if words else None
            how = {"type": partial(_read_value, name), "metavar": metavar}
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, default=argparse.SUPPRESS, help=text, **how)
    text = "YAML file of these settings; flags win over it"
    parser.add_argument("--config", type=Path, metavar="FILE", help=text)
    return parser


def _settle(given: dict[str, Any]) -> Config:
    """Add what the task, or its model, has for settings that were not given, and compare them."""
    task = tasks.read_defaults(given.get("task", "gpt"))
    model: str = given.get("model") or next(iter(task.models), "")
    if task.models and model not in task.models:
        hint = _suggest(model, task.models) or f"; it has {', '.join(task.models)}"
        raise FlagError(f"--model: the task has no {model!r}{hint}")
    usual: dict[str, Any] = {"model": model or None, "lr": 1e-3}
    usual |= {**task.defaults, **task.models.get(model, {})}
    batches = {"batch_tokens", "batch_samples"}
    if not batches & (usual.keys() | given.keys()):
        usual["batch_samples"] = 64
    wrong = batches & given.keys() - usual.keys()
    if wrong and (right := batches & usual.keys()):
        own, wanted = (names.pop().replace("_", "-") for names in (wrong, right))
        raise FlagError(f"--{own}: this task wants --{wanted}")
    if "epochs" in given and "steps" in given:
        raise FlagError("--epochs and --steps say the same in two ways; give one of them")
    config = Config(**{name: usual[name] for name in usual.keys() & _FIELDS.keys()} | given)
    if "warmup_steps" not in given and config.epochs is None:
        most = usual.get("warmup_steps", _WARMUP_STEPS)
        config = dataclasses.replace(config, warmup_steps=min(most, config.steps // 10))
    if config.min_lr is not None and config.min_lr > config.lr:
        raise FlagError(f"--min-lr {config.min_lr} is above --lr {config.lr}")
    tokens, context = config.batch_tokens, config.context
    if tokens and context and tokens % context:
        raise FlagError(
            f"--batch-tokens {tokens} is not a whole number of sequences of {context}; "
            f"{max(1, round(tokens / context)) * context} would be"
        )
    return config


def _suggest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
