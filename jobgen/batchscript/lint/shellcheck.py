"""What shellcheck finds, where it is on the PATH."""

from __future__ import annotations

import json
from collections.abc import Iterator

from jobgen import process
from jobgen.batchscript import readable
from jobgen.batchscript.lint.rule import Fault, rule
from jobgen.batchscript.reader import Script

# What other rules find: what bash itself refuses, and words that stand in place of a command.
_OTHERS = {*range(1000, 2000), 2276, *range(2282, 2290)}
# Words that are meant to split, a loop over ls, an array in a line that is printed, output that
# backticks do not get: a style.
_STYLE = {2045, 2068, 2145, 2328}


@rule("shellcheck", "An error that shellcheck finds", "https://www.shellcheck.net/wiki/")
def _run_shellcheck(script: Script) -> Iterator[Fault]:
    """shellcheck reads scripts as bash does; jobgen passes on its errors if it is on the PATH.

    Fix: see its page on the number: https://www.shellcheck.net/wiki/
    """
    if readable.find_shell(script) not in readable.SHELLS:
        return
    argv = ["shellcheck", "--shell=bash", "--severity=error", "--format=json", "-"]
    text = script.text.replace("\r\n", "\n").encode("utf-8", "replace")
    for comment in json.loads(process.filter_text(argv, text, cpu_seconds=2) or "[]"):
        # Another rule tells of a place that is to be filled in.
        place = readable.PLACEHOLDER.search(script.lines[comment["line"] - 1])
        if not place and comment["code"] not in _OTHERS | _STYLE:
            message = f"SC{comment['code']}: {comment['message'].rstrip('.')}"
            yield Fault(comment["line"], comment["column"], message)
