"""What looks like a secret, so that it is warned of and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jobgen.errors import Problem
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec

MASK = "********"
# Parts of a name; `TOKENIZERS_PARALLELISM` and `batch-tokens` have none of them.
_NAME = r"(?:[A-Za-z0-9]+[_-])*(?:api)?(?:key|token|secret|password|passwd)(?:[_-][A-Za-z0-9]+)*"
_WORDS = ("key", "token", "secret", "passw")
# NAME=value, NAME: value and --name value, as scripts and specs have them. Compiled when there is
# something to look at: that takes as long as importing some rooms.
_WRITTEN = (
    rf"(?i)(?<![\w-])(--{_NAME}(?:[ =]|,\s*|\n\s*-\s+)|{_NAME}['\"]?(?:=|:\s+))"
    r"(['\"]?)([^\s'\",}\]]+)"
)


def is_secret(name: str, value: str) -> bool:
    """Return whether a value is one that nobody else should read, by the name that it has."""
    name = name.removeprefix("--").lower()
    return any(word in name for word in _WORDS) and bool(
        re.fullmatch(_NAME, name) and _is_opaque(value)
    )


def mask(name: str, value: str) -> str:
    """Return what to show of a value."""
    return MASK if is_secret(name, value) else value


def mask_text(text: str) -> str:
    """Return a script or a spec with the secrets in it masked."""

    def hide(match: re.Match[str]) -> str:
        return match[1] + match[2] + MASK if _is_opaque(match[3]) else match[0]

    return re.sub(_WRITTEN, hide, text)


def list_warnings(loaded: LoadedSpec) -> Iterator[str]:
    """Yield a warning for each secret that stands in the spec, and how to hand it over instead."""
    for path, name in _list_secrets(loaded.spec):
        message = "looks like a secret, for all who can read the script or its copies"
        variable = re.sub(r"\W", "_", name).upper()
        hint = f"write environment.from_shell: [{variable}], and export it where you submit"
        yield f"warning: {Problem(loaded.where(path), path, message, hint)}"


def _list_secrets(spec: JobSpec) -> Iterator[tuple[str, str]]:
    for name, value in (spec.environment.variables or {}).items():
        if is_secret(name, value):
            yield f"environment.variables.{name}", name
    args = spec.run.args or ()
    if isinstance(args, dict):
        for name, word in args.items():
            if isinstance(word, str) and is_secret(name, word):
                yield f"run.args.{name}", name
    else:
        yield from _list_in_words(args, "run.args")
    yield from _list_in_words(spec.run.command or (), "run.command")


def _list_in_words(words: Iterable[str], path: str) -> Iterator[tuple[str, str]]:
    before = ""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word.startswith("--") and equals and is_secret(name, value):
            yield f"{path}[{index}]", name.removeprefix("--")
        elif before.startswith("--") and is_secret(before, word):
            yield f"{path}[{index}]", before.removeprefix("--")
        before = word


def _is_opaque(value: str) -> bool:
    """Whether it could be a key: no path, number, or name of a variable."""
    plain = "$" in value or value.isdecimal()
    return len(value) >= 8 and value[0] not in "/~.-" and not plain
