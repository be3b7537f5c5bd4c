"""The variables that go with a job: PBS_O_*, -v and -V."""

import os
import re

from link import RefusedError


def _tokens(text: str) -> list[str]:
    """Split at commas outside quotes; a quote ends only at its like."""
    tokens, start, quote, at = [], 0, "", 0
    while at < len(text):
        letter = text[at]
        if letter in "\"'":
            quote = "" if letter == quote else letter
        elif letter == "," and not quote:
            tokens.append(text[start:at])
            start = at + 1
        elif letter == "\\":
            at += 1
        at += 1
    return [*tokens, text[start:]] if start < len(text) else tokens


def _escape(text: str, *, whole: bool) -> tuple[str, int]:
    """A value as the server's lists hold it, and how much of the text it took.

    `whole`: the text is one value, as it is. Otherwise quotes are taken off and a
    comma outside them ends it. Raises RefusedError for a quote that is left open.
    """
    result, quote, at = "", "", 0
    while at < len(text):
        letter = text[at]
        if letter in "\"'":
            if quote == letter:
                quote = ""
            elif quote or whole:
                result += "\\" + letter
            else:
                quote = letter
        elif letter == "\\":
            result += letter if text[at + 1 : at + 2] == "," else "\\\\"
        elif letter == ",":
            if quote or whole:
                result += "\\,"
            elif result.endswith("\\"):
                result += ","
            else:
                at += 1
                break
        else:
            result += letter
        at += 1
    if quote:
        raise RefusedError(1, "qsub: cannot send environment with the job")
    return result, at


def listed_variables(text: str) -> dict[str, str]:
    """The variables of -v, after the two passes that the real qsub makes over them."""
    first = []
    for token in _tokens(text):
        name, equals, value = token.partition("=")
        if equals:
            first.append(f"{name}={_escape(value, whole=False)[0]}")
        elif name in os.environ:
            first.append(f"{name}={_escape(os.environ[name], whole=True)[0]}")
        else:
            raise RefusedError(1, "qsub: cannot send environment with the job")
    rest = ",".join(first)
    variables = {}
    while rest:
        name, _, rest = rest.partition("=")
        if not name or "," in name:
            raise RefusedError(1, "qsub: cannot send environment with the job")
        value, taken = _escape(rest, whole=False)
        rest = rest[taken:]
        variables[name] = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
    return {name: value for name, value in variables.items() if not name.startswith("PBS_O_")}


def variables(options: dict[str, str], *, queue: str, host: str, folder: str) -> dict[str, str]:
    """PBS_O_*, then -v, then -V over it."""
    result = {"PBS_O_HOME": os.environ.get("HOME", "/")}
    for name in ("LANG", "LOGNAME", "PATH", "MAIL", "SHELL", "TZ"):
        if name in os.environ:
            result[f"PBS_O_{name}"] = os.environ[name]
    result |= {
        "PBS_O_INTERACTIVE_AUTH_METHOD": "resvport",
        "PBS_O_INTERACTIVE_ENCRYPT_METHOD": "",
        "PBS_O_WORKDIR": folder,
        "PBS_O_SYSTEM": "Linux",
        "PBS_O_QUEUE": queue,
        "PBS_O_HOST": host,
    }
    if "v" in options:
        result |= listed_variables(options["v"])
    if "V" in options:
        keep = {k: v for k, v in os.environ.items() if not k.startswith("PBS_O_")}
        keep.pop("PBS_JOBCOOKIE", None)
        result |= keep
    return result
