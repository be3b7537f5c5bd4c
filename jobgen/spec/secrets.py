"""What looks like a secret, so that it is warned of and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from jobgen.spec.array import name_argument, name_variable
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec
from jobgen.spec.tables import explain

MASK = "********"
# Parts of a name; `TOKENIZERS_PARALLELISM` and `batch-tokens` have none of them.
_NAME = (
    r"(?:[A-Za-z0-9]+[_-])*(?:pat|auth|(?:api)?(?:key|token|secret|password|passwd|passphrase"
    r"|credentials?)(?:[_-][A-Za-z0-9]+)*)"
)
_WORDS = ("key", "token", "secret", "passw", "passphrase", "credential", "pat", "auth")
# Values that are secrets whatever their names are: tokens of GitHub, GitLab, Hugging Face, OpenAI,
# AWS, NVIDIA and Slack, and what stands before the host of an address.
_FORM = (
    r"(?<!\w)(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|hf_\w{20,}|sk-[\w-]{20,}"
    r"|AKIA[0-9A-Z]{16}|nvapi-[\w-]{20,}|xox[abprs]-[\w-]{10,}|(?<=Bearer )[\w.~+/=-]{16,})"
    r"|(?<=://)[^\s/:@'\"$*]+:[^\s/@'\"$*]+(?=@)"
)
# What each of these forms contains.
_SIGNS = ("gh", "github_pat_", "glpat-", "hf_", "sk-", "AKIA", "nvapi-", "xox", "Bearer ", "://")
_SURE = ("secret", "passw")  # no setting has such a name: its value may be short, or a number
_QUOTED = r"'[^'\n]*'(?:\\''[^'\n]*')*|\"(?:\\.|[^\"\\\n])*\""
_WORD = rf"({_QUOTED}|(?:\\.|[^\s'\",}}\]\\])+)"
_LINE = rf"({_QUOTED}|[^\s'\",{{}}\[\]#|>][^\n'\",}}\]#]*)"
_CALLED = r"(?i)(?<![\w-])(?=[\w-]*(?:key|token|secret|passw))"
# --name value, NAME=value and NAME: value, as scripts and specs have them, and what programs have.
# Compiled when there is something to look at: that takes as long as importing some rooms.
_WRITTEN = (
    rf"{_CALLED}(--[\w-]+(?:[ =]|,[ \t]*|\n[ \t]*-[ \t]+)){_WORD}",
    rf"{_CALLED}([\w-]+['\"]?=){_WORD}",
    rf"{_CALLED}([\w-]+['\"]? = )({_QUOTED})",
    rf"{_CALLED}([\w-]+['\"]?:[ \t]+){_LINE}",
)


def is_secret(name: str, value: str) -> bool:
    """Return whether a value is one that others should not read, by its name or its form."""
    if may_be_token(value) and re.search(_FORM, value):
        return True
    name = name.strip("-").lower()
    if len(name) > 120 or not any(map(name.__contains__, _WORDS)):
        return False
    return bool(re.fullmatch(_NAME, name)) and _is_opaque(name, value)


def may_be_token(text: str) -> bool:
    """Return whether `_FORM` can match; it takes a third of a millisecond to compile."""
    return any(map(text.__contains__, _SIGNS))


def mask(name: str, value: str) -> str:
    """Return what to show of a value."""
    return MASK if is_secret(name, value) else value


def mask_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return what to show of the words of a command."""
    shown = list(words)
    for index, _, value in _find_in_words(tuple(shown)):
        shown[index] = shown[index].removesuffix(value) + MASK
    return tuple(shown)


def mask_override(override: str) -> str:
    """Return what to show of PATH=VALUE, as --set has it."""
    path, equals, value = override.partition("=")
    secret = is_secret(path.rpartition(".")[2], value)
    return path + equals + MASK if secret else mask_text(override)


def mask_text(text: str) -> str:
    """Return a script or a spec with the secrets in it masked."""
    for form in _WRITTEN:
        text = re.sub(form, _hide, text)
    return re.sub(_FORM, MASK, text)


def _hide(match: re.Match[str]) -> str:
    head, value = match.groups()
    own = re.sub(r"""^(['"])(.*)\1$""", r"\2", value.rstrip())
    name = re.split(r"[^\w-]", head, maxsplit=1)[0]
    return head + value.replace(own, MASK) if is_secret(name, own) else match[0]


def holds_secret(text: str) -> bool:
    """Return whether a script or a spec has a secret in it, as far as names and forms tell."""
    return mask_text(text) != text


def list_warnings(loaded: LoadedSpec) -> Iterator[str]:
    """Yield a warning for each secret that stands in the spec, and how to hand it over instead."""
    for part in loaded.programs():
        for path, name in _list_secrets(part.spec):
            facts = {"path": path, "variable": re.sub(r"\W", "_", name).upper()}
            yield f"warning: {part.problem(*explain('secret', facts))}"


def _list_secrets(spec: JobSpec) -> Iterator[tuple[str, str]]:
    environment, run, first = spec.environment, spec.run, next(spec.choices(), {})
    for name in _find_in_text(environment.setup or ""):
        yield "environment.setup", name
    for path, words in (("run.args", run.listed_args), ("run.command", run.words)):
        yield from ((f"{path}[{index}]", name) for index, name, _ in _find_in_words(words))
    named: dict[str, Mapping[str, object]] = {
        "environment.variables.{}": environment.named_variables,
        "run.args.{}": run.keyed_args,
        "array": {name_variable(key) or name_argument(key): one for key, one in first.items()},
    }
    for path, pairs in named.items():
        for name, value in pairs.items():
            if isinstance(value, str) and is_secret(name, value):
                yield path.format(name), name


def _find_in_words(words: tuple[str, ...]) -> Iterator[tuple[int, str, str]]:
    """Yield which of the words of a command have secrets: index, name and value."""
    for index, (before, word) in enumerate(zip(("", *words), words, strict=False)):
        name, equals, value = word.partition("=")
        if equals and is_secret(name, value):
            yield index, name.removeprefix("--"), value
        elif before.startswith("--") and is_secret(before, word):
            yield index, before.removeprefix("--"), word


def _find_in_text(text: str) -> Iterable[str]:
    """Return the names of the secrets that lines of bash set."""
    lower, names = text.lower(), []
    if any(word in lower for word in ("key", "token", "secret", "passw")):
        pairs = ((head.strip("'\"=-"), value) for head, value in re.findall(_WRITTEN[1], text))
        names = [name for name, value in pairs if is_secret(name, value.strip("'\""))]
    if may_be_token(text):
        names += re.findall(rf"(\w+)=['\"]?[^\s'\"]*?(?:Bearer )?(?:{_FORM})", text)
    return dict.fromkeys(names)


def _is_opaque(name: str, value: str) -> bool:
    """Whether it could be a key: no path, number, or name of a variable."""
    if value[:1] in ("", *"/~.-$") or not value.strip("*"):
        return False
    if any(word in name for word in _SURE):
        return len(value) >= 4 and value.lower() not in ("true", "false", "none", "null")
    return len(value) >= 8 and not value.isdecimal()
