"""The verdicts of a script with `on_failure` on failures from public threads (`verdicts.tsv`).

Prints each that is wrong, and the score. With --check it fails where a failure of the machine is a
stop, or where more than 5 % of the errors of programs lead to a restart.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_WASTED = 0.05
JUDGE = """
for file in core restart; do . "$1/$file.sh"; done
restarts=3 run_dir=$2 attempt=0 attempt_dir=$2/attempts/0 names=(n1 n2)
chosen=$'n1\\nn2' reason='' lost=''
status=$3
judge
"""


def judge(fault: str, where: str, code: int, text: str) -> list[str]:
    """Return the words of the verdict on what rank 1 on n2, or the launcher, has printed.

    A file that was missed by the machine's fault is there.
    """
    with tempfile.TemporaryDirectory() as folder:
        if fault == "machine" and (hidden := re.search(r"'/([^']+)': No such file", text)):
            text = text.replace(f"'/{hidden[1]}'", f"'{folder}/{hidden[1]}'")
            Path(folder, hidden[1]).parent.mkdir(parents=True)
            Path(folder, hidden[1]).touch()
        attempt, logs = Path(folder, "attempts/0"), Path(folder, "logs/n2")
        for made in (attempt, logs):
            made.mkdir(parents=True)
        (attempt / "sizes").touch()
        (attempt / "failed").write_text("1 1\n")
        (attempt / "launcher.log").write_text(text if where == "launcher" else "")
        if where == "rank":
            (logs / "rank-1.err").write_text(text)
            said = "jobgen: n2 is node 1 of start 0; the rendezvous is at n1:20000\n"
            (logs / "agent.log").write_text(f"{said}rank : 1\nexitcode : {code}\n")
        runtime = str(ROOT / "templates" / "runtime")
        argv = ["bash", "-c", JUDGE, "judge", runtime, folder, str(abs(code))]
        subprocess.run(argv, check=False, capture_output=True)
        return (attempt / "verdict").read_text().split("\n")[0].split()


def main() -> int:
    """Judge all, and print the score."""
    counts: Counter[str] = Counter()
    for line in (ROOT / "benchmarks" / "verdicts.tsv").read_text().splitlines():
        if line.startswith("#"):
            continue
        fault, where, code, source, text = line.split("\t")
        words = judge(
            fault, where, int(code), text.replace("\\n", "\n").replace("\\t", "\t") + "\n"
        )
        wrong = (fault, words[0] == "stop") in {("machine", True), ("program", False)}
        counts[fault] += 1
        counts[f"wrong {fault}"] += wrong
        counts["once"] += fault == "program" and words[0] == "unknown"
        if wrong:
            print(f"{fault}, but {' '.join(words[:2])}: {source}: {text[:120]}")
    print(
        f"{counts['wrong machine']} of {counts['machine']} failures of the machine are stops; "
        f"{counts['wrong program']} of {counts['program']} errors of programs waste a restart, "
        f"{counts['once']} of them once, as unknown; "
        f"{counts['either']} may be either's"
    )
    wasted = counts["wrong program"] > MOST_WASTED * counts["program"]
    return int("--check" in sys.argv[1:] and (counts["wrong machine"] > 0 or wasted))


if __name__ == "__main__":
    sys.exit(main())
