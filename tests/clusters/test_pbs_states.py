"""Every state of a job on PBS, with a history of ended jobs and, as PBS is installed, without."""

import sys
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Pbs, wait_until
from jobs import Job, submit
from standing import Expected, Standing

WAITS = "until [ -e go ]; do sleep 0.2; done"
RESOURCES = {"nodes": 1, "cpus_per_node": 1, "walltime": "10m"}
ENDED = {
    "good": Expected("done", "", "healthy"),
    "bad": Expected("failed", "exit code 3", "exit 3"),
    "overdue": Expected("timeout", "", "walltime"),
    "stopped": Expected("cancelled", "", "cancelled"),
    "never": Expected("cancelled", "", "cancelled"),
}
OPEN = {
    "running": Expected("running", "", "healthy"),
    "again": Expected("running", "", "healthy"),
    "suspended": Expected("running", "suspended", "suspended"),
    "dependent": Expected("queued", "it waits for running {running} (running)", "healthy"),
    "held": Expected("queued", "the job is held by its owner", "held"),
    "hopeless": Expected("queued", "Can Never Run: Insufficient", "refused-resources"),
}
# Without a history PBS forgets what it has deleted, and says nothing of a lost node.
GONE = {
    False: {
        "vanished": Expected("unknown", "it has not begun here", "dependency"),
        "lost": Expected("failed", "it has left no outcome: it was killed", "unknown"),
    },
    True: {
        "vanished": Expected("cancelled", "", "dependency"),
        "lost": Expected("node lost", "Exit_status -20", "node-lost"),
    },
}


@pytest.mark.parametrize("history", [False, True], ids=["no-history", "history"])
def test_every_state_has_its_word(pbs: Pbs, tmp_path: Path, history: bool) -> None:
    def start(name: str, command: str, **changes: Any) -> Job:
        content: dict[str, Any] = {
            "name": name,
            "resources": RESOURCES,
            "launch": {"mode": "direct"},
            "environment": {"venv": sys.prefix},
            "run": {"command": ["bash", "-c", command]},
        }
        standing.jobs[name] = submit(content | changes, scheduler="pbs", cwd=tmp_path, env=pbs.env)
        return standing.jobs[name]

    def begins(job: Job) -> None:
        job.wait_for(lambda: list(job.run_dir.glob("attempts/*/node-0.started")))

    settings = {"history": history, "kill_delay": 1, "poll": 0.3, "operators": True}
    with pbs.settings(**settings), Standing(pbs.env, tmp_path) as standing:
        start("overdue", "sleep 600", resources=RESOURCES | {"walltime": "20s"})
        bad, _ = start("bad", "exit 3"), start("good", "true")
        running, stopped = start("running", WAITS), start("stopped", WAITS)
        suspended, again = start("suspended", WAITS), start("again", WAITS)
        start("held", "true", directives=["#PBS -h"])
        never = start("never", "true", directives=["#PBS -h"])
        start("hopeless", "true", resources=RESOURCES | {"cpus_per_node": 99})
        start("dependent", "true", after=[running.id])
        bad.wait()
        start("vanished", "true", after=[bad.id])
        for job in (running, stopped, suspended, again):
            begins(job)
        pbs.run("qsig", "-s", "suspend", suspended.id)
        pbs.run("qrerun", again.id)
        cancelled = standing.run("cancel", stopped.id, never.id)
        assert (cancelled.returncode, cancelled.stdout) == (0, "")
        assert {*cancelled.stderr.splitlines()} == {
            f"never {never.id}: cancelled",
            f"stopped {stopped.id}: cancelled",
        }
        dependent = OPEN["dependent"]
        reason = dependent.reason.format(running=running.id)
        table = ENDED | OPEN | {"dependent": dependent._replace(reason=reason)}
        table["vanished"] = GONE[history]["vanished"]
        standing.expect(table, seconds=120)
        assert (again.run_dir / "attempts" / "1").is_dir()

        waiting = {name: standing.start_waiting(name) for name in OPEN}
        for name, expected in ENDED.items():
            standing.ends(name, state=expected.state)
        for name in OPEN:
            standing.refuses_another(name)
        # What vanished without a word is given up after a second look, a minute later.
        waits = standing.start_waiting("vanished")
        assert waits[0].wait(100) == 7
        assert waits[1].wait(100) == 0
        assert [each.poll() for some in waiting.values() for each in some] == [None] * 12

        pbs.run("qsig", "-s", "resume", suspended.id)
        (tmp_path / "go").touch()
        assert standing.run("cancel", standing.jobs["hopeless"].id).returncode == 0
        pbs.run("qrls", standing.jobs["held"].id)
        codes = {name: [each.wait(100) for each in some] for name, some in waiting.items()}
        assert codes == {name: [0, 0] for name in OPEN} | {"hopeless": [7, 0]}

        (tmp_path / "go").unlink()
        lost = start("lost", WAITS, directives=["#PBS -r n"])
        begins(lost)
        waits = standing.start_waiting("lost")
        node = (lost.run_dir / "attempts" / "0" / "nodes").read_text().strip()
        pbs.fail(node)
        try:
            standing.expect({"lost": GONE[history]["lost"]}, seconds=60)
            assert waits[0].wait(100) == 7
            assert waits[1].wait(100) == 0
        finally:
            pbs.heal(node)
            wait_until(lambda: "down" not in pbs.run("pbsnodes", node).stdout)
