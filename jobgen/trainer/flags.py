"""From flags to a Config."""

import argparse
import dataclasses
import difflib
import json
import math
import os
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, get_args

from . import tasks
from .config import TOPICS, Config, FlagError

_FIELDS = {item.name: item for item in dataclasses.fields(Config)}
_WARMUP_STEPS = 20  # of a task that does not say
_COMMANDS = """
commands, given before the flags; all of them share these settings:
  train     train, or continue the run in --out (default)
  prepare   prepare the task's data, on a node with network access
  sample    write text with the newest checkpoint of the run in --out
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise FlagError(f"{message} (--help lists the flags)")


def parse_flags(arguments: Sequence[str], *, recorded: bool = False) -> Config:
    """Return the settings that the flags ask for.

    With `recorded`, they start from those that the run in --out was started with. Raises
    FlagError for one that is unknown or wrong, and SystemExit after printing the help.
    """
    parser = _make_parser()
    known, unknown = parser.parse_known_args(arguments)
    if unknown:
        flags = [f"--{name.replace('_', '-')}" for name in _FIELDS]
        hint = next(filter(None, (_suggest(word.split("=")[0], flags) for word in unknown)), "")
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    settings: dict[str, Any] = {"out": Path(os.environ.get("JOBGEN_RUN_DIR") or "runs/trainer")}
    settings |= vars(known)
    return _settle(_read_record(settings["out"]) | settings if recorded else settings)


def _read_record(out: Path) -> dict[str, Any]:
    """Return the settings of the run in a folder; FlagError if there is no run."""
    try:
        record = json.loads((out / "config.json").read_text(encoding="utf-8"))
        return {
            name: value if isinstance(value, bool) else _read_value(name, str(value))
            for name, value in record.items()
        }
    except FileNotFoundError:
        raise FlagError(f"--out {out}: this folder has no run") from None
    except (OSError, ValueError, KeyError, ArgumentTypeError) as error:
        raise FlagError(f"{out / 'config.json'} cannot be read: {error}") from error


def _get_type(name: str) -> type:
    kind: type = (get_args(_FIELDS[name].type) or (_FIELDS[name].type,))[0]
    return kind


def _read_value(name: str, text: str) -> object:
    """Return the setting's value; ArgumentTypeError if the text is not one."""
    kind, about = _get_type(name), _FIELDS[name].metadata
    if about["words"] and text not in about["words"]:
        raise ArgumentTypeError(f"{text!r} is not one of {', '.join(about['words'])}")
    if kind not in (int, float):
        return kind(text)
    return _read_number(text, kind, zero=about["zero"])


def _read_number(text: str, kind: Callable[[str], float], *, zero: bool) -> float:
    """Return a positive number, or also 0; ArgumentTypeError for another text."""
    try:
        number = kind(text)
    except ValueError:
        number = math.nan
    if 0 < number < math.inf or (number == 0 and zero):
        return number
    what = ("" if zero else "positive ") + ("whole " if kind is int else "")
    raise ArgumentTypeError(f"{text} is not a {what}number")


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m jobgen.trainer",
        usage="%(prog)s [train|prepare|sample] [FLAG ...]",
        description="Train a model, on one process or many.",
        epilog=_COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for name, item in _FIELDS.items():
        if name in TOPICS:
            group = parser.add_argument_group(TOPICS[name])
        text, words = item.metadata["help"], ",".join(item.metadata["words"])
        if item.default is not None:
            text += f" (default: {item.default!r})"
        how: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        if _get_type(name) is not bool:
            metavar = f"{{{words}}}" if words else None
            how = {"type": partial(_read_value, name), "metavar": metavar}
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, default=argparse.SUPPRESS, help=text, **how)
    return parser


def _settle(given: dict[str, Any]) -> Config:
    """Add the defaults of the task, and of its model, and compare the settings with each other."""
    usual = _list_usual(given)
    config = Config(**{name: usual[name] for name in usual.keys() & _FIELDS.keys()} | given)
    if "warmup_steps" not in given:
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


def _list_usual(given: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of the task, and of its model."""
    task = tasks.import_task(given.get("task", "gpt"))
    models: dict[str, Any] = getattr(task, "MODELS", {})
    model: str = given.get("model") or next(iter(models), "")
    if models and model not in models:
        hint = _suggest(model, models) or f"; it has {', '.join(models)}"
        raise FlagError(f"--model: the task does not have {model!r}{hint}")
    usual: dict[str, Any] = {"model": model or None, "lr": 1e-3}
    usual |= {**getattr(task, "DEFAULTS", {}), **models.get(model, {})}
    batches = {"batch_tokens", "batch_samples"}
    if not batches & (usual.keys() | given.keys()):
        usual["batch_samples"] = 64
    wrong = batches & given.keys() - usual.keys()
    if wrong and (right := batches & usual.keys()):
        own, wanted = (names.pop().replace("_", "-") for names in (wrong, right))
        raise FlagError(f"--{own}: this task wants --{wanted}")
    return usual


def _suggest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
