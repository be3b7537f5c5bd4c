"""What `list`, `wait`, `logs -f`, `diagnose` and the guard of `submit` say of some jobs.

Commands run in this process, where starting one would cost more than what it does; only those that
wait for a job are processes, as they all wait at a time.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from cluster_fixtures import PATIENCE, wait_until
from jobs import JOBGEN, Job
from support import Ended, jobgen, working_in


class Expected(NamedTuple):
    """A job's state, what its reason begins with, and the cause that `diagnose` names."""

    state: str
    reason: str
    cause: str


class Standing:
    """Jobs by their names, submitted from one folder; each is one bash on one node."""

    def __init__(self, scheduler: str, env: Mapping[str, str], cwd: Path) -> None:
        self.scheduler, self.env, self.cwd = scheduler, env, cwd
        self.jobs: dict[str, Job] = {}
        self._waiting: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Standing":
        return self

    def __exit__(self, *_: object) -> None:
        for waiting in self._waiting:
            waiting.kill()
            waiting.wait()

    def run(self, *words: str) -> Ended:
        with mock.patch.dict(os.environ, self.env, clear=True), working_in(self.cwd):
            return jobgen(*words)

    def start(self, name: str, command: str, **changes: Any) -> Job:
        """Submit one; `changes` replace whole keys."""
        content: dict[str, Any] = {
            "name": name,
            "resources": RESOURCES,
            "launch": {"mode": "direct"},
            "environment": {"venv": sys.prefix},
            "run": {"command": ["bash", "-c", command]},
        }
        (self.cwd / "job.yaml").write_text(json.dumps(content | changes))
        done = self.run("submit", "job.yaml", "--scheduler", self.scheduler)
        assert done.code == 0, done
        self.jobs[name] = Job(done.out.strip(), self.cwd, name)
        return self.jobs[name]

    def begins(self, *names: str) -> None:
        """Return when their programs have been started."""
        for job in map(self.jobs.__getitem__, names):
            job.wait_for(lambda job=job: list(job.run_dir.glob("attempts/*/node-0.started")))

    def read_states(self) -> dict[str, tuple[str, str]]:
        """State and reason of each."""
        told = json.loads(self.run("list", "--json").out)["jobs"]
        return {job["name"]: (job["state"], job["reason"]) for job in told}

    def status(self, name: str) -> dict[str, Any]:
        """Everything that is known about one."""
        (told,) = json.loads(self.run("status", "--json", self.jobs[name].id).out)["jobs"]
        return dict(told)

    def forget(self) -> None:
        """Take away what schedulers have told before, so that they are asked again."""
        for job in self.jobs.values():
            (job.run_dir / "state.json").unlink(missing_ok=True)

    def expect(self, table: Mapping[str, Expected], *, seconds: float = PATIENCE) -> None:
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
            found: dict[str, Any] = json.loads(told.out)
            if found["cause"] != wanted.cause:
                causes[name] = found
        assert not causes, causes

    def ends(self, table: Mapping[str, Expected]) -> None:
        """What waits for one of these jobs sees at once that it has ended, and how."""
        sleep, pauses = time.sleep, [0.0]

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            sleep(seconds)

        for name, wanted in table.items():
            pauses.clear()
            with mock.patch("time.sleep", pause):
                told = self.run("wait", self.jobs[name].id)
                followed = self.run("logs", "-f", self.jobs[name].id)
            assert told.out.endswith(f" {wanted.state}\n"), (name, told)
            assert told.code == (0 if wanted.state == "done" else 7), (name, told)
            never = wanted.cause == "dependency"
            assert followed.code == (7 if never else 0), (name, followed)
            # A command that it starts is waited for by many short ones.
            assert sum(seconds for seconds in pauses if seconds >= 1) < 10, (name, pauses)

    def start_waiting(self, *names: str) -> "list[subprocess.Popen[bytes]]":
        """Wait for jobs that have not ended, meanwhile: `wait` for all, and `logs -f` for each."""
        ids = [self.jobs[name].id for name in names]
        started = [
            subprocess.Popen(
                [*JOBGEN, *words],
                env=dict(self.env),
                cwd=self.cwd,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for words in (["wait", *ids], *(["logs", "-f", id] for id in ids))
        ]
        self._waiting += started
        return started

    def refuses_another(self, *names: str) -> None:
        """None of these is submitted a second time."""
        for name in names:
            job = self.jobs[name]
            spec = str(job.run_dir / "job.yaml")
            again = self.run("submit", spec, "--scheduler", self.scheduler)
            assert again.code == 2, (name, again)
            assert f"job {job.id} has the same script and is " in again.err


RESOURCES = {"nodes": 1, "cpus_per_node": 1, "walltime": "10m"}
WAITS = "until [ -e go ]; do echo waits; sleep 0.5; done"  # of a quiet one: it may hang
