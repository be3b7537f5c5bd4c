"""Pages of the documentation as programs: files, and commands to run beside them.

A block whose first line is a comment with a file's name, or whose fence has `title=NAME`, is that
file. A console block is run, command by command, unless a line `<!-- needs WHAT -->` stands above
it; after `<!-- needs WHAT: WORD, WORD -->` the commands with one of the words are not run.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from support import ROOT

_BLOCK = re.compile(
    r"(?:^<!-- needs (?P<needs>[^:>]+?)(?:: (?P<words>[^>]+?))? -->\n)?"
    r"^```(?P<language>\w+)(?: title=(?P<title>\S+))?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Command(NamedTuple):
    """A line behind a `$`, with what the page says it prints; it may not be for this machine."""

    line: str
    output: str
    here: bool


class Page(NamedTuple):
    """What a page has a reader write, and what to run then."""

    files: dict[str, str]
    commands: list[Command]
    scripts: list[tuple[str, bool]]  # blocks of sh without prompts: text, and whether for here


def read_page(path: Path) -> Page:
    """Read the blocks of a page."""
    page = Page({}, [], [])
    for block in _BLOCK.finditer(path.read_text()):
        text, language = block["text"], block["language"]
        words = re.split(", *", block["words"]) if block["words"] else []
        named = re.match(r"# ([\w.-]+\.\w+)( .*)?\n", text)
        title = block["title"] or (named[1] if named else None)
        if language == "console":
            for line, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                left_out = any(re.search(rf"\b{re.escape(word)}\b", line) for word in words)
                here = not left_out if words else not block["needs"]
                page.commands.append(Command(line, output, here))
        elif title:
            page.files[title] = text
        elif language == "sh":
            page.scripts.append((text, not block["needs"]))
    return page


def run_command(command: Command, folder: Path, *, first: Sequence[Path] = ()) -> str:
    """Run it as a reader would; the exit code is 0, or one that its comment speaks of.

    Programs are sought in the folders `first`, then in the virtual environment.
    """
    folders = [*map(str, first), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = dict(os.environ) | {
        "PATH": ":".join(folders),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", "-c", command.line],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    expected = {0, *map(int, re.findall(r"\bexits? (?:with )?(\d+)", command.line))}
    printed = done.stdout + done.stderr
    assert done.returncode in expected, f"{command.line}: {done.returncode}\n{printed}"
    missing = [line for line in command.output.splitlines() if line not in printed.splitlines()]
    assert not missing, f"{command.line}: {missing}\n{printed}"
    return done.stdout
