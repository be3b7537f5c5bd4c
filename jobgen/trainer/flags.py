"""From flags, and a file of settings, to a Config. Flags win over the file; it, over defaults."""

import argparse
import dataclasses
import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import tasks
from .config import Config, UsageError

_FIELDS = {item.name: item for item in dataclasses.fields(Config)}
_COMMANDS = """
commands, before the flags; the same settings serve all of them:
  train     (or nothing) train, or continue the run in --out
  prepare   make the task's data ready, on a node that may use the network
  sample    write text with the newest checkpoint of the run in --out
  export    write that checkpoint's weights as one safetensors file, and as Hugging Face's
            libraries read them, into the folder `export` of --out
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (--help lists the flags)")


def parse_flags(arguments: Sequence[str], *, recorded: bool = False) -> Config:
    """Return the settings that the flags, and a file they name, ask for.

    With `recorded`, they start from those that the run in --out was started with.

    Raises UsageError for one that is unknown or has a wrong value, and SystemExit after printing
    the help.
    """
    given = vars(_parser().parse_args(arguments))
    file = given.pop("config", None)
    settings = read_file(file) if file else {}
    if recorded:
        out = given.get("out") or settings.get("out") or Config().out
        if not (out / "config.json").exists():
            raise UsageError(f"--out {out}: no run was started there")
        settings = read_file(out / "config.json") | settings | {"out": out}
    return _settle(settings | given)


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings in a YAML or JSON file, each read as the flag of its name is.

    Raises UsageError, with line and column, for what is no setting or has a wrong value.
    """
    import yaml

    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise UsageError(f"{path}{at}: not YAML: {problem}") from error

    def refuse(node: Any, problem: str) -> NoReturn:
        raise UsageError(
            f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}: {problem}"
        )

    settings: dict[str, Any] = {}
    if root is None:
        return settings
    if not isinstance(root, yaml.MappingNode):
        refuse(root, "write settings as `name: value`, one a line")
    for key, value in root.value:
        name = str(key.value).replace("-", "_")
        if name not in _FIELDS:
            near = difflib.get_close_matches(name, _FIELDS, n=1)
            refuse(
                key, f"no setting {key.value!r}" + (f"; did you mean {near[0]}?" if near else "")
            )
        if name in settings:
            refuse(key, f"{key.value} is here twice")
        if not isinstance(value, yaml.ScalarNode):
            refuse(value, f"{key.value} takes one value")
        try:
            settings[name] = _read(name, value.value)
        except ValueError as error:
            refuse(value, f"{key.value}: {error}")
    return settings


def _read(name: str, text: str) -> object:
    """Return the setting's value; ValueError when the text is none."""
    read, choices = (_FIELDS[name].metadata[key] for key in ("read", "choices"))
    if read is bool:
        if text not in ("true", "false"):
            raise ValueError(f"{text!r} is neither true nor false")
        return text == "true"
    if choices and text not in choices:
        raise ValueError(f"{text!r} is none of {', '.join(choices)}")
    value: object = read(text)
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m jobgen.trainer",
        usage="%(prog)s [train|prepare|sample|export] [FLAG ...]",
        description=f"Train a model, on one process or many. Tasks: {', '.join(tasks.names())}.",
        epilog=_COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    topics = dict.fromkeys(item.metadata["topic"] for item in _FIELDS.values())
    groups = {topic: parser.add_argument_group(topic) for topic in topics}
    groups["run"].add_argument(
        "--config", type=Path, metavar="FILE", help="YAML file of these settings; flags win over it"
    )
    for name, item in _FIELDS.items():
        read, choices = item.metadata["read"], item.metadata["choices"]
        explanation = item.metadata["help"]
        if item.metadata["tasks"]:
            explanation += " (default: the task's)"
        elif item.default not in (None, dataclasses.MISSING):
            explanation += f" (default: {item.default!r})"
        how: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        if read is not bool:
            how = {"type": _told(name), "metavar": read.__name__.upper()}
            if choices:
                how["metavar"] = "{" + ",".join(choices) + "}"
        flag = "--" + name.replace("_", "-")
        groups[item.metadata["topic"]].add_argument(
            flag, default=argparse.SUPPRESS, help=explanation, **how
        )
    return parser


def _told(name: str) -> Callable[[str], object]:
    """Return what reads the flag's text, such that argparse shows why it is wrong."""

    def read(text: str) -> object:
        try:
            return _read(name, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def _settle(given: dict[str, Any]) -> Config:
    """Add what the task, or its model, has for settings that were not given, and compare them."""
    task = tasks.about(given.get("task", "gpt"))
    model: str = given.get("model") or next(iter(task.models), "")
    if task.models and model not in task.models:
        near = difflib.get_close_matches(model, task.models, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(task.models)}"
        raise UsageError(f"--model: the task has no {model!r}{hint}")
    usual: dict[str, Any] = (
        {"model": model or None, "lr": 1e-3} | task.defaults | task.models.get(model, {})
    )
    batches = [name for name in ("batch_tokens", "batch_samples") if name in usual]
    for name in ("batch_tokens", "batch_samples"):
        if name in given and batches and name not in batches:
            right = batches[0].replace("_", "-")
            raise UsageError(f"--{name.replace('_', '-')}: this task wants --{right}")
    if not batches and not {"batch_tokens", "batch_samples"} & given.keys():
        usual["batch_samples"] = 64
    config = Config(**{name: usual[name] for name in usual.keys() & _FIELDS.keys()} | given)
    if config.batch_tokens and config.context and config.batch_tokens % config.context:
        nearest = max(1, round(config.batch_tokens / config.context)) * config.context
        raise UsageError(
            f"--batch-tokens {config.batch_tokens} is not a whole number of sequences of "
            f"{config.context}; {nearest} would be"
        )
    return config
