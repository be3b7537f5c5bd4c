"""What leaves the program: JSON, tables and files, each in one form."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from collections.abc import Sequence
from typing import Any


def simplify(value: Any) -> Any:
    """Turn records into mappings of their fields, all the way down."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: simplify(item) if item else item for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [simplify(item) for item in value]
    return value


def format_json(value: Any) -> str:
    """Return the text that a command with --json prints (`docs/reference/json.md`)."""
    text = io.StringIO()  # json.dumps keeps each number of it as a text of its own
    json.dump(simplify(value), text, indent=2)
    return text.getvalue() + "\n"


def make_printable(text: str) -> str:
    """Return what a terminal may show of what others have printed.

    Of what a terminal obeys colours alone are passed on: other sequences write files, clipboards
    and titles, or answer as if the user had typed. They become visible.
    """
    if text.isprintable():
        return text
    return re.sub(_NO_COLOUR, "\ufffd", text.translate(_HARMLESS))


_NO_COLOUR = r"\x1b(?!\[[0-9;:]*m)"
# Control characters but for tabs, ends of lines and the escape of colours.
_HARMLESS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if code not in (9, 10, 27)}


class Offered(str):
    """Words of a line that somebody is to type, as a shell reads them: they are quoted once."""

    __slots__ = ()


def offer_line(*words: str | os.PathLike[str]) -> Offered:
    """Return words to type, of which a shell makes the same words; no path reads as an option."""
    return Offered(shlex.join(one if isinstance(one, str) else _name(one) for one in words))


def _name(path: os.PathLike[str]) -> str:
    name = os.fspath(path)
    return f"./{name}" if name.startswith("-") else name


def format_table(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """Return a line for each row, its cells in columns.

    With `right` they are aligned to the right, but for those of the last column.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        padded = [cell.rjust(width) if right else cell.ljust(width) for cell, width in cells]
        lines.append("  ".join([*padded[:-1], row[-1]]).rstrip())
    return lines


def format_count(number: int, what: str, several: str = "") -> str:
    """Return a number with its noun: `1 node`, `2,000 nodes`, `2 processes`."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def format_names(names: Sequence[str], *, most: int = 3) -> str:
    """Return `n1, n2`; of many the first, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def format_annotation(
    level: str, message: str, *, file: str, line: int = 0, column: int = 0, title: str = ""
) -> str:
    """Return a command of a GitHub workflow, which shows a message in a pull request."""
    place = f"file={_escape(file, ',:')}"
    place += f",line={line},col={column}" if line else ""
    place += f",title={_escape(title, ',:')}" if title else ""
    return f"::{level} {place}::{_escape(message, '')}\n"


def _escape(text: str, more: str) -> str:
    for char in "%\r\n" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replace the file at `path` as a whole, and make its folder; a reader never sees half of it.

    Where `path` is a symbolic link, what it leads to is replaced.
    """
    target = os.path.realpath(path) if os.path.islink(path) else str(path)
    folder, name = os.path.split(target)
    # Process ids are not enough: many hosts may write into one folder.
    temporary = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    if os.path.exists(path) and not os.path.isfile(path):
        # A pipe or a device is written to, not replaced; the real path of /dev/stdout may be none.
        temporary = target = str(path)
    elif not os.path.isdir(folder or "."):
        os.makedirs(folder, exist_ok=True)
    try:
        with open(temporary, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8"))
        if temporary != target:
            os.replace(temporary, target)
    except BaseException as error:
        if temporary != target and os.path.exists(temporary):
            os.unlink(temporary)
        if isinstance(error, OSError):  # which names no file, or the temporary one
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
