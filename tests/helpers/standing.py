"""What `list`, `wait`, `logs -f`, `diagnose` and the guard of `submit` say of some jobs."""

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cluster_fixtures import wait_until
from jobs import JOBGEN, Job, jobgen


class Expected(NamedTuple):
    """A job's state, what its reason begins with, and the cause that `diagnose` names."""

    state: str
    reason: str
    cause: str


class Standing:
    """Jobs by their names, submitted from one folder."""

    def __init__(self, env: Mapping[str, str], cwd: Path) -> None:
        self.env, self.cwd = env, cwd
        self.jobs: dict[str, Job] = {}
        self._waiting: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Standing":
        return self

    def __exit__(self, *_: object) -> None:
        for waiting in self._waiting:
            waiting.kill()
            waiting.wait()

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return jobgen(*words, env=self.env, cwd=self.cwd)

    def read_states(self) -> dict[str, tuple[str, str]]:
        """State and reason of each."""
        told = json.loads(self.run("list", "--json").stdout)["jobs"]
        return {job["name"]: (job["state"], job["reason"]) for job in told}

    def status(self, name: str) -> list[dict[str, Any]]:
        """All that is told of one."""
        told = self.run("status", "--json", self.jobs[name].id)
        return list(json.loads(told.stdout)["jobs"])

    def expect(self, table: Mapping[str, Expected], *, seconds: float) -> None:
        """Wait until `list` says of each what the table has; then `diagnose` has to at once."""
        differ: dict[str, tuple[str, str]] = {}

        def compare() -> bool:
            told = self.read_states()
            differ.clear()
            for name, wanted in table.items():
                state, reason = told[name]
                if state != wanted.state or not reason.startswith(wanted.reason):
                    differ[name] = told[name]
            return not differ

        wait_until(compare, timeout=seconds, every=1, what=lambda: str(differ))
        causes = {}
        for name, wanted in table.items():
            told = self.run("diagnose", "--json", self.jobs[name].id)
            found: dict[str, Any] = json.loads(told.stdout)
            if found["cause"] != wanted.cause:
                causes[name] = found
        assert not causes, causes

    def ends(self, name: str, *, state: str) -> None:
        """Both that wait for the job see at once that it has ended, and how."""
        begin = time.monotonic()
        told = self.run("wait", self.jobs[name].id)
        assert told.stdout.endswith(f" {state}\n"), (name, told)
        assert told.returncode == (0 if state == "done" else 7), (name, told)
        assert self.run("logs", "-f", self.jobs[name].id).returncode == 0
        assert time.monotonic() - begin < 30, name

    def start_waiting(self, name: str) -> "list[subprocess.Popen[bytes]]":
        """Wait for a job that has not ended, by both commands, meanwhile."""
        started = [
            subprocess.Popen(
                [*JOBGEN, *words, self.jobs[name].id],
                env=dict(self.env),
                cwd=self.cwd,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for words in (("wait",), ("logs", "-f"))
        ]
        self._waiting += started
        return started

    def refuses_another(self, name: str) -> None:
        """The same is not submitted a second time."""
        job = self.jobs[name]
        spec = json.loads((job.run_dir / "job.json").read_text())
        words = ("submit", str(job.run_dir / "job.yaml"), "--scheduler", spec["scheduler"])
        again = self.run(*words)
        assert again.returncode == 2, (name, again)
        assert f"job {job.id} is of the same script and " in again.stderr
