"""Every state of a job on PBS, with a history of ended jobs and, as PBS is installed, without."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Pbs, wait_until
from jobs import Job, jobgen, submit

WAITS = "until [ -e go ]; do sleep 0.2; done"
# By job: its state, and what its reason says; without a history PBS forgets what it has deleted.
STATES = {
    "good": ("done", ""),
    "bad": ("failed", "exit code 3"),
    "overdue": ("timeout", ""),
    "running": ("running", ""),
    "dependent": ("queued", "it waits for afterok:"),
    "held": ("queued", "held by its owner"),
    "hopeless": ("queued", "Insufficient amount of resource"),
    "stopped": ("cancelled", ""),
    "never": ("cancelled", ""),
}


@pytest.mark.parametrize("history", [False, True], ids=["no-history", "history"])
def test_every_state_has_its_word(pbs: Pbs, tmp_path: Path, history: bool) -> None:
    def start(name: str, command: str, **changes: Any) -> Job:
        content: dict[str, Any] = {
            "name": name,
            "resources": {"nodes": 1, "cpus_per_node": 1, "walltime": "10m"},
            "launch": {"mode": "direct"},
            "environment": {"venv": sys.prefix},
            "run": {"command": ["bash", "-c", command]},
        }
        return submit(content | changes, scheduler="pbs", cwd=tmp_path, env=pbs.env)

    def run(*words: str) -> Any:
        return jobgen(*words, env=pbs.env, cwd=tmp_path)

    def read_states() -> dict[str, tuple[str, str]]:
        listed = json.loads(run("list", "--json").stdout)["jobs"]
        return {job["name"]: (job["state"], job["reason"]) for job in listed}

    def differ() -> dict[str, tuple[str, str]]:
        states = read_states()
        return {
            name: states[name]
            for name, (state, reason) in STATES.items()
            if states[name][0] != state or reason not in states[name][1]
        }

    with pbs.settings(history=history, kill_delay=1, poll=0.3):
        jobs = {
            "overdue": start(
                "overdue",
                "sleep 600",
                resources={"nodes": 1, "cpus_per_node": 1, "walltime": "20s"},
            ),
            "bad": start("bad", "exit 3"),
            "good": start("good", "true"),
            "running": start("running", WAITS),
            "stopped": start("stopped", WAITS),
            "held": start("held", "true", directives=["#PBS -h"]),
            "never": start("never", "true", directives=["#PBS -h"]),
            "hopeless": start("hopeless", "true", resources={"nodes": 1, "cpus_per_node": 99}),
        }
        jobs["dependent"] = start("dependent", "true", after=[jobs["running"].id])
        jobs["bad"].wait()
        vanished = start("vanished", "true", after=[jobs["bad"].id])
        stopped = jobs["stopped"]
        stopped.wait_for(lambda: list(stopped.run_dir.glob("attempts/*/node-0.started")))
        cancelled = run("cancel", stopped.id, jobs["never"].id)
        assert (cancelled.returncode, cancelled.stdout) == (0, "")
        assert (
            cancelled.stderr.splitlines()
            == [
                f"never {jobs['never'].id}: cancelled",
                f"stopped {stopped.id}: cancelled",
            ]
            or cancelled.stderr.count(": cancelled") == 2
        )
        wait_until(lambda: not differ(), timeout=120, every=1, what=lambda: str(differ()))

        # Who waits is told at once of an end that is in the run folder, and of a job that is gone.
        for name, code in (("good", 0), ("bad", 7), ("overdue", 7), ("stopped", 7), ("never", 7)):
            assert run("wait", jobs[name].id).returncode == code, name
            assert run("logs", "-f", jobs[name].id).returncode == 0, name
        words = {"cancelled"} if history else {"unknown"}
        assert read_states()["vanished"][0] in words
        causes = {
            name: json.loads(run("diagnose", "--json", jobs[name].id).stdout)["cause"]
            for name in ("good", "overdue", "stopped", "held")
        }
        assert causes["good"] == "healthy"
        assert causes["overdue"] == "walltime"
        assert causes["stopped"] == "cancelled"

        # The guard: what is queued, held or running is not submitted a second time.
        for name in ("running", "dependent", "held", "hopeless"):
            again = run("submit", str(jobs[name].run_dir / "job.yaml"), "--scheduler", "pbs")
            assert again.returncode == 2, (name, again)
            assert f"job {jobs[name].id} is of the same script and " in again.stderr
        if history:
            assert run("wait", vanished.id).returncode == 7
        (tmp_path / "go").touch()
        for name in ("held", "hopeless"):
            pbs.cancel(jobs[name].id)
        assert run("wait", jobs["running"].id, jobs["dependent"].id).returncode == 0
