"""The line as it was typed, with what was meant in the place of what was wrong."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise

from jobgen.spec.spelling import find_near
from jobgen.spec.table import find_rule


def end_line(message: str, argv: Sequence[str]) -> str:
    """Return a message with the line to type, where it tells what was typed and what is meant."""
    row = find_rule("retyped", {"message": message})
    typed, words = row.get("typed", ""), part_options(argv)
    if not typed or "type: jobgen" in message:
        return message
    near = find_near(typed, re.findall(r"\w[\w-]*", row.get("known", "")))
    option, meant = row.get("option", ""), row.get("meant", near or typed * ("known" not in row))
    now = retype(words, option, typed, [option, meant] if meant else [])
    return name_line(f"{message.rstrip('.')}; {row.get('say', '')}", words, now)


def name_line(message: str, words: Sequence[str], now: Sequence[str]) -> str:
    """Return a message with the line to type if it is another; the message may introduce it."""
    if [*now] == [*words]:
        return message.rstrip(",; ")
    lead = re.sub("([^,?])(?:: name that)?$", r"\1;", message.rstrip("; "))
    return f"{lead} type: jobgen {shlex.join(now)}"


def part_options(argv: Sequence[str]) -> list[str]:
    """Return words with each option apart from its value: `--time=4h` and `-N4` are two."""
    joined = r"(?<![^\0])(--[\w-]+(?==)|-[A-Za-z](?=\d))=?"
    return re.sub(joined, "\\1\0", "\0".join(argv)).split("\0")


def find_typed(words: Sequence[str], options: Sequence[str], start: str = "") -> tuple[str, str]:
    """Return the option of some that was typed with a value that starts so, and the value."""
    known = (pair for pair in pairwise(words) if pair[0] in options and pair[1].startswith(start))
    return next(known, ("", ""))


def retype(words: Sequence[str], option: str, value: str, instead: Sequence[str]) -> list[str]:
    """Return words with others in the place of an option and its value, or of a word alone."""
    parts = (words, [option, value], instead)
    text, old, new = ("\0".join(["", *filter(None, part), ""]) for part in parts)
    return text.replace(old, new, 1).split("\0")[1:-1]
