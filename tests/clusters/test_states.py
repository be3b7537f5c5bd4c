"""Every state of a job, reached by a real job on a real Slurm, and what is said of it after."""

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Slurm, running, wait_until
from jobs import Job, jobgen, submit

pytestmark = pytest.mark.cluster

RESOURCES = {"nodes": 1, "cpus_per_node": 1, "walltime": "10m"}
WAITS = "until [ -e go ]; do sleep 0.2; done"


class Own(Slurm):
    """One that limits memory where this machine's cgroups can, and has less patience."""

    kind = "slurm"

    def __init__(self, run: Path, options: tuple[str, ...] = ()) -> None:
        super().__init__(run.with_name(f"{run.name}-own"), options)
        self.script_env["JOBGEN_SLURM_PREFIX"] += "o"


@pytest.fixture
def slurm() -> Iterator[Own]:
    options = ["--conf", "KillWait=10", "--conf", "SlurmdTimeout=10"]
    if "cgroup/memory" in Path("/proc/mounts").read_text():
        options.append("--cgroup")
    yield from running(Own, options=options)


def forget(slurm: Slurm) -> None:
    """Have Slurm forget jobs as soon as they have ended."""
    conf = slurm.run_folder / "etc/slurm/slurm.conf"
    conf.write_text(re.sub("(?m)^MinJobAge=.*", "MinJobAge=2", conf.read_text()))
    slurm.run("scontrol", "reconfigure")


def test_every_state_has_its_word_and_keeps_it_when_slurm_forgets(
    slurm: Slurm, tmp_path: Path
) -> None:
    def run(name: str, command: str, *directives: str, **changes: Any) -> Job:
        content: dict[str, Any] = {
            "name": name,
            "resources": RESOURCES,
            "launch": {"mode": "direct"},
            "environment": {"venv": sys.prefix},
            "run": {"command": ["bash", "-c", command]},
            "directives": [f"#SBATCH {text}" for text in directives],
        }
        return submit(content | changes, scheduler="slurm", cwd=tmp_path, env=slurm.env)

    def told(*jobs: Job) -> list[dict[str, Any]]:
        words = ("status", "--json", *(job.id for job in jobs))
        said = jobgen(*words, env=slurm.env, cwd=tmp_path)
        assert said.returncode == 0, said.stderr
        return list(json.loads(said.stdout)["jobs"])

    def becomes(job: Job, state: str, *, seconds: float = 120) -> dict[str, Any]:
        seen = told(job)

        def reached() -> bool:
            seen[:] = told(job)
            return seen[0]["state"] == state

        wait_until(reached, timeout=seconds, every=0.5, what=lambda: f"{seen} {job.everything()}")
        return seen[0]

    def program_runs(job: Job) -> None:
        job.wait_for(lambda: list(job.run_dir.glob("attempts/*/node-0.started")))

    # Slurm takes a minute at least, and looks twice a minute.
    overdue = run("overdue", "sleep 600", resources={**RESOURCES, "walltime": "1m"})
    stubborn = run("stubborn", "trap '' TERM; for _ in {1..999}; do sleep 1; done")
    fails, good = run("fails", "exit 3"), run("good", "true")
    for job in (fails, good):
        job.wait()
    never = run("never", "true", f"--dependency=afterok:{fails.id}")
    ended = run("ended", "true", after=[fails.id])
    again = run("again", WAITS)
    limited = "cgroup/memory" in Path("/proc/mounts").read_text()
    hungry = run(
        "hungry",
        "exec python3 -c 'a = bytearray(10**9)'" if limited else "kill -KILL $$",
        resources={**RESOURCES, "memory_per_node": "200MB"},
        launch={"mode": "direct", "launcher": "local"},  # what its script's step exceeds is told
    )
    weak = run("weak", WAITS, "--partition=low", "--nodelist=n3", "--exclusive", "--no-requeue")
    lost = run("lost", WAITS, "--no-requeue", "--nodelist=n2")
    for job in (overdue, stubborn, again, weak, lost):
        program_runs(job)
    slurm.fail("n2")
    # In a time of grace only the program is told to end, and it ends by itself.
    slurm.run("scontrol", "update", "PartitionName=low", "GraceTime=0")
    try:
        strong = run("strong", WAITS, "--nodelist=n3", "--exclusive")
        waits = run("waits", "true", "--nodelist=n3", "--exclusive")
        assert jobgen("cancel", stubborn.id, env=slurm.env, cwd=tmp_path).returncode == 0
        assert becomes(stubborn, "stopping")
        found = becomes(weak, "cancelled")
        assert found["reason"] == "PREEMPTED"
        found = becomes(strong, "running")
        assert found["limit"] - found["start"] == 600
        slurm.run("scontrol", "requeue", again.id)
        assert becomes(again, "queued")["starts"] == 1
        wait_until(lambda: told(waits)[0]["start"] is not None, timeout=60)
        (found,) = told(waits)
        assert (found["state"], found["reason"]) == ("queued", "Resources")
        assert found["start"] > time.time()
        assert becomes(never, "queued")["reason"].startswith("DependencyNeverSatisfied: what it")
        assert becomes(ended, "cancelled")["reason"] == "DependencyNeverSatisfied"
        assert becomes(fails, "failed")["reason"] == "exit code 3"
        assert becomes(good, "done")
        short = "OUT_OF_MEMORY" if limited else "exit code 137, killed"
        wait_until(
            lambda: told(hungry)[0]["state"] == "failed" and short in told(hungry)[0]["reason"],
            timeout=60,
            what=lambda: str(told(hungry)),
        )
        found = becomes(again, "running")
        wait_until(lambda: told(again)[0]["starts"] == 2, timeout=60)
        assert becomes(stubborn, "cancelled")
        assert becomes(lost, "node lost")["reason"].startswith("NODE_FAIL")
        assert becomes(overdue, "timeout", seconds=200)["reason"] == "TIMEOUT TimeLimit"
    finally:
        slurm.heal("n2")
    (tmp_path / "go").touch()
    gone = run("gone", "true", "--begin=now+1hour")
    for job in (never, gone):
        slurm.cancel(job.id)
    assert becomes(never, "cancelled")
    said = jobgen("wait", again.id, strong.id, waits.id, env=slurm.env, cwd=tmp_path)
    assert sorted(said.stdout.splitlines()) == sorted(
        f"{job.id} done" for job in (again, strong, waits)
    )
    everybody = (overdue, stubborn, fails, good, never, ended, again, weak, lost, strong, waits)
    before = [each["state"] for each in told(*everybody)]
    forget(slurm)
    ids = ",".join(job.id for job in (*everybody, gone))
    asked = ("squeue", "--noheader", "--states=all", f"--jobs={ids}")
    wait_until(lambda: not slurm.run(*asked).stdout, timeout=200, every=1)
    assert [each["state"] for each in told(*everybody)] == before
    (found,) = told(gone)
    assert (found["state"], found["reason"].partition(";")[0]) == (
        "unknown",
        "it has not begun here",
    )
