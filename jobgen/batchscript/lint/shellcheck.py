"""What shellcheck calls an error in a script, passed on where it is on the PATH."""

from __future__ import annotations

import json
from collections.abc import Iterator

from jobgen import process
from jobgen.batchscript.lint.rule import Fault, rule
from jobgen.batchscript.readable import find_shell
from jobgen.batchscript.reader import Script

# One of its warnings is a fault in every script: a flag taken for a command.
_MORE = (2215,)
# What bash itself is asked about, by another rule; and three that are a matter of style: words that
# are meant to split, a loop over ls, and an array in a line that is printed.
_OTHERS = {*range(1000, 2000), 2045, 2068, 2145}
# Bytes; of 450 KB shellcheck takes 14 s and 760 MB, and nobody writes a job script of 50.
_LONGEST = 50_000


@rule("shellcheck", "An error that shellcheck finds", "https://www.shellcheck.net/wiki/")
def _run_shellcheck(script: Script) -> Iterator[Fault]:
    """shellcheck reads scripts as bash does; jobgen passes on its errors if it is on the PATH.

    Fix: see its page on the number: https://www.shellcheck.net/wiki/
    """
    if find_shell(script) not in ("bash", "sh", "dash", "ksh"):
        return
    text = script.text.replace("\r\n", "\n").encode("utf-8", "replace")
    if len(text) > _LONGEST:
        return
    command = ["shellcheck", "--shell=bash", "--format=json", "-"]
    answer = process.filter_text(command, text, cpu_seconds=2)
    try:
        comments = json.loads(answer or "[]")
    except ValueError:
        return
    for comment in comments:
        fault = comment["level"] == "error" or comment["code"] in _MORE
        if fault and comment["code"] not in _OTHERS:
            message = f"SC{comment['code']}: {comment['message'].rstrip('.')}"
            yield Fault(comment["line"], comment["column"], message)
