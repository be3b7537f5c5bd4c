"""What jobs use on nodes: `jobgen top` while they run, `jobgen report` after, and large logs."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import PATIENCE, Cluster, Pbs, wait_until
from jobs import JOBGEN, PROGRAMS, jobgen, submit

GIB = 2**30
# A stand-in for the tool of a node that has GPUs, as the job's script starts it, but more often.
NVIDIA_SMI = """\
#!/bin/sh
while stamp=$(date '+%Y/%m/%d %H:%M:%S.000'); do
    echo "$stamp, 0, 97, 40960, 81920, 400.5"
    echo "$stamp, 1, 95, 20480, 81920, 300.5"
    sleep 5
done
"""


@pytest.fixture(params=["slurm", "pbs"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    found = request.getfixturevalue(request.param)
    if isinstance(found, Pbs):  # of a job that has ended, qstat tells nothing without
        with found.settings(history=True):
            yield found
    else:
        yield found


class Watched:
    """A command on a terminal, and what it has shown there."""

    def __init__(self, *words: str, env: Mapping[str, str], cwd: Path) -> None:
        ours, theirs = pty.openpty()
        argv = [*JOBGEN, *words]
        self.process = subprocess.Popen(argv, env=env, cwd=cwd, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.shown = b""
        self._reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self._reader.start()

    def _read(self, terminal: int) -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while more := os.read(terminal, 65536):
                self.shown += more
        os.close(terminal)

    def wait(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join()
        return code


def test_top_and_report_tell_what_processes_hold(cluster: Cluster, tmp_path: Path) -> None:
    """3 GB on the first node, which `top` asks for, and GPUs, which the job itself records."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(NVIDIA_SMI)
    tool.chmod(0o755)
    env = {**cluster.env, "PATH": f"{tool.parent}{os.pathsep}{cluster.env['PATH']}"}
    gpus = cluster.kind == "slurm"  # a node of PBS has its own PATH
    content = {
        "name": "hold",
        "resources": {
            "nodes": 2,
            "cpus_per_node": 2,
            "memory_per_node": "16GB",
            "walltime": "10m",
            **({"gpus_per_node": 2} if gpus else {}),
        },
        "launch": {"processes_per_node": 2, "mode": "direct"},
        "environment": {"venv": sys.prefix},
        "run": {"command": ["python", str(PROGRAMS / "hold.py"), "1536", "1536", "64", "64"]},
    }
    job = submit(content, scheduler=cluster.kind, cwd=tmp_path, env=env)

    login = cluster.add_ssh(tmp_path) if isinstance(cluster, Pbs) else cluster.env

    def run(*words: str) -> str:
        done = jobgen(*words, env=login, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def top() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run("top", "--json"))
        return found

    told: list[dict[str, Any]] = []

    def is_busy() -> bool:
        """Whether both nodes answer and the first computes, which is not seen at each look."""
        told.append(top())
        nodes, progress = told[-1]["nodes"], told[-1]["job"]["progress"]
        held = [node["memory"] or 0 for node in nodes]
        used = [node["cpus"] or 0 for node in nodes]
        busy = len(nodes) == 2 and held[0] > 3 * GIB and held[1] > 128 << 20 and used[0] > used[1]
        begun = bool(progress and progress["step"]) and (nodes[0]["processes"] or 0) >= 3
        return bool(busy and begun)

    wait_until(is_busy, every=1, what=lambda: f"{told[-1]}\n{job.everything()}")
    assert told[-1]["job"]["state"] == "running"
    first, second = told[-1]["nodes"]
    assert (first["node"].partition(".")[0], second["node"].partition(".")[0]) == ("n1", "n2")
    assert first["memory"] < 5 * GIB
    assert second["memory"] < 2 * GIB
    assert [gpu["use"] for gpu in first["gpus"]] == ([97, 95] if gpus else [])
    head, columns, *lines = run("top", job.id).splitlines()
    assert re.match(rf"hold {re.escape(job.id)}: running; step \d+, loss ", head)
    assert columns.split()[0] == "NODE"
    shown = ("2: 96 % (95-97)", "40 GB of 80 GB") if gpus else ()
    for words in (*shown, " 3."):
        assert words in lines[0], words

    (tmp_path / "seen").touch()
    top_shows, logs_show = (
        Watched(*words, job.id, env=login, cwd=tmp_path) for words in (("top",), ("logs", "-f"))
    )

    def has_seen_enough() -> bool:
        """Whether top has drawn its table again, and one line stands where another one stood.

        A curve of GPU use needs half a minute of notes, 5 s apart.
        """
        notes = [path.read_text().count(", 0, 97") for path in job.run_dir.glob("usage/n1*.csv")]
        noted = bool(notes and min(notes) > 7)
        again = top_shows.shown.count(b"\x1b[H\x1b[J") > 1
        line = re.search(rb"\r\x1b\[Krunning on n1-n2, step \d+", logs_show.shown)
        return bool(line and again and noted == gpus)

    wait_until(has_seen_enough, what=lambda: f"{top_shows.shown!r}\n{logs_show.shown!r}")
    (tmp_path / "go").touch()
    assert job.wait() == "done 0"
    assert (top_shows.wait(), logs_show.wait()) == (0, 0)
    assert f"hold {job.id}: done" in top_shows.shown.decode()

    (reported,) = json.loads(run("report", job.id, "--json", "-o", "page.html"))["runs"]
    if gpus:
        assert reported["usage"]["gpu_use"] == pytest.approx(96)
    else:
        assert reported["usage"] is None
    # CPU time and memory are the scheduler's own accounting: nothing else is said of them.
    uses = {use["what"]: use for use in reported["uses"]}
    source = {"slurm": "", "pbs": "qstat"}[cluster.kind]  # this Slurm has no accounting
    assert uses["memory"]["source"] == source
    assert ("GPU use" in (tmp_path / "page.html").read_text()) == gpus


def test_a_job_with_large_logs_on_pbs_takes_little_memory_and_time(
    pbs: Pbs, tmp_path: Path
) -> None:
    line = "step 12 of 99: loss 2.5 " + "x" * 200
    flood = (
        f"yes '{line}' | head -c 750M; yes 'a note' | head -c 1M >&2; touch wrote-$RANK; "
        "until [ -e wrote-0 -a -e wrote-1 ]; do sleep 0.1; done; exit 3"
    )
    content = {
        "name": "flood",
        "resources": {"nodes": 1, "cpus_per_node": 2, "walltime": "5m"},
        "launch": {"mode": "direct", "processes_per_node": 2},
        "environment": {"venv": sys.prefix},
        "run": {"command": ["bash", "-c", flood]},
    }
    job = submit(content, scheduler="pbs", cwd=tmp_path, env=pbs.env)
    try:
        assert job.wait() == "failed 3"
        assert sum(path.stat().st_size for path in job.run_dir.glob("logs/*/*")) > 1.5e9
        limited = ["prlimit", "--as=700000000", "--cpu=15", *JOBGEN]
        for words in (("report", job.id), ("diagnose", job.id), ("status", job.id)):
            done = jobgen(*words, env=pbs.env, cwd=tmp_path, command=limited)
            assert done.returncode == 0, (words, done)
        assert (job.run_dir / "report.html").stat().st_size < 3e6
    finally:
        for path in job.run_dir.glob("logs/*/*"):
            path.unlink()
