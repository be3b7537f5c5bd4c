"""Logs of gigabytes, left by a real job."""

import sys
import time
from pathlib import Path

from cluster_fixtures import Pbs
from jobs import JOBGEN, jobgen, submit


def test_a_job_with_3_gb_of_logs_on_pbs_takes_little_memory_and_time(
    pbs: Pbs, tmp_path: Path
) -> None:
    line = "step 12 of 99: loss 2.5 " + "x" * 200
    flood = (
        f"yes '{line}' | head -c 1500M; yes 'a note' | head -c 1M >&2; touch wrote-$RANK; "
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
        assert job.wait(200) == "failed 3"
        assert sum(path.stat().st_size for path in job.run_dir.glob("logs/*/*")) > 3.1e9
        for words in (("report", job.id), ("diagnose", job.id), ("status", job.id)):
            begin = time.monotonic()
            done = jobgen(
                *words, env=pbs.env, cwd=tmp_path, command=["prlimit", "--as=700000000", *JOBGEN]
            )
            assert done.returncode == 0, done.stderr
            assert time.monotonic() - begin < 20, words
        assert (job.run_dir / "report.html").stat().st_size < 3e6
    finally:
        for path in job.run_dir.glob("logs/*/*"):
            path.unlink()
