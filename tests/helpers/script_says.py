"""What the function of the job script finds in what a job has left, beside `jobgen diagnose`."""

import os
import re
import subprocess
from pathlib import Path

from fault_archive import Fault
from support import ROOT

from jobgen.diagnose import Diagnosis

CORE = ROOT / "templates" / "runtime" / "core.sh"
FIND = r"""
eval "$(sed -nE '/^(has_lost_peer|find_first_error)\(\)/,/^\}/p' "$1")"
run_dir=$2 attempt_dir=$2/attempts/$3 attempt=$3 job_id=1 reason=''
mapfile -t names <"$attempt_dir/nodes"
find_first_error
echo "$reason"
"""


def find_first_error(folder: Path) -> str:
    """What the script's function finds."""
    attempt = max(map(int, (path.name for path in folder.glob("attempts/[0-9]*"))))
    for log in folder.glob("logs/*/agent.log"):  # of scripts that counted starts from 0
        about, text = log.stat(), log.read_text()
        log.write_text(text.replace(f" of start {attempt};", f" in start {attempt + 1};"))
        os.utime(log, ns=(about.st_atime_ns, about.st_mtime_ns))
    words = ["bash", "-c", FIND, "bash", str(CORE), str(folder), str(attempt)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def ask_script(folder: Path) -> tuple[str, int | None]:
    """The node and the rank of that."""
    named = re.match(r": (?:rank (\d+) on )?([\w.-]+), see ", find_first_error(folder))
    return (named[2], int(named[1]) if named[1] else None) if named else ("", None)


def show_end(folder: Path) -> str:
    """The end of the log that the script shows."""
    path = Path(find_first_error(folder).strip().rpartition(" see ")[2])
    return "\n".join(path.read_text().splitlines()[-20:])


def differ(fault: Fault, found: Diagnosis, folder: Path) -> str:
    """What the two say, if they do not agree on whose failure it is."""
    role = f"roles/{found.role}" if found.role else ""
    node, rank = ask_script(folder / fault.job / role)
    ranks, nodes = {*found.ranks, found.rank}, {*found.nodes, found.node}
    agree = node in nodes | {""} and rank in ranks | {None}
    # The script names who failed first. Where another had made it fail (it could not write what
    # this one then missed), the headline says who, and in the same words that this one failed.
    agree = agree or f"; then rank {rank} on {node} failed: " in found.headline
    return "" if agree else f"the script: rank {rank} on {node}; diagnose: {found.who}"
