"""Every state of a job, reached by a real job on a real Slurm, and what is said of it after.

Slurm keeps accounts here. Where it does not, all that differs is that `sacct` refuses to answer,
by what it reads in slurm.conf: so the same jobs are looked at with and without.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_fixtures import PATIENCE, Slurm, running, wait_until
from standing import RESOURCES, WAITS, Expected, Standing

pytestmark = pytest.mark.cluster

LIMITED = "cgroup/memory" in Path("/proc/mounts").read_text()
ENDED = {
    "good": Expected("done", "", "healthy"),
    "fails": Expected("failed", "exit code 3", "exit 3"),
    "overdue": Expected("timeout", "TIMEOUT TimeLimit", "walltime"),
    "stubborn": Expected("cancelled", "", "cancelled"),
    "never": Expected("cancelled", "", "cancelled"),
    "doomed": Expected("cancelled", "DependencyNeverSatisfied", "dependency"),
    "weak": Expected("cancelled", "PREEMPTED", "preempted"),
    "lost": Expected("node lost", "NODE_FAIL", "node-lost"),
    "hungry": Expected("failed", "OUT_OF_MEMORY", "out-of-memory-host")
    if LIMITED
    else Expected("failed", "exit code 137, by SIGKILL", "exit -9"),
}
OPEN = {
    "strong": Expected("running", "", "healthy"),
    "again": Expected("running", "", "healthy"),
    "suspended": Expected("running", "suspended", "suspended"),
    "dependent": Expected("queued", "it waits for strong {strong} (running)", "healthy"),
    "waits": Expected("queued", "Resources", "healthy"),
    "held": Expected("queued", "JobHeldUser: release it with scontrol release", "held"),
    "put-back": Expected("queued", "", "held"),
    "stuck": Expected("queued", "DependencyNeverSatisfied: it waits for something", "dependency"),
}
# Jobs that are cancelled by scancel before they begin.
GONE = {
    "stuck": Expected("cancelled", "", "dependency"),
    "gone": Expected("cancelled", "", "cancelled"),
}
# What accounting says of those of which Slurm itself would give a reason.
ACCOUNTED = {
    "overdue": Expected("timeout", "TIMEOUT", "walltime"),
    "doomed": Expected("cancelled", "", "dependency"),
}
# Where Slurm has forgotten a job that nobody has asked about.
FORGOTTEN = {
    "overdue": Expected("timeout", "", "walltime"),
    "weak": Expected("cancelled", "", "preempted"),
    "lost": Expected("failed", "it left no outcome: it was killed", "killed"),
    "doomed": Expected("cancelled", "it needed fails", "dependency"),
    "hungry": ENDED["hungry"]._replace(reason="exit code 137, by SIGKILL"),
    "stuck": Expected("cancelled", "it needed fails", "dependency"),
    "gone": Expected("unknown", "it has not begun here", "unknown"),
}


class Own(Slurm):
    """One that limits memory where this machine's cgroups can, and has less patience."""

    kind = "slurm"

    @property
    def conf(self) -> Path:
        return self.run_folder / "etc/slurm/slurm.conf"

    @contextlib.contextmanager
    def without_accounting(self) -> Iterator[None]:
        """Have `sacct` find that nobody keeps accounts."""
        before = self.conf.read_text()
        kept = "AccountingStorageType=accounting_storage/"
        self.conf.write_text(before.replace(f"{kept}slurmdbd", f"{kept}none"))
        try:
            refusal = self.run("sacct", check=False)
            assert "Slurm accounting storage is disabled" in refusal.stderr, refusal
            yield
        finally:
            self.conf.write_text(before)

    def forget(self) -> None:
        """Have it forget jobs as soon as they have ended."""
        self.conf.write_text(re.sub("(?m)^MinJobAge=.*", "MinJobAge=2", self.conf.read_text()))
        self.run("scontrol", "reconfigure")


@pytest.fixture
def slurm() -> Iterator[Own]:
    options = ["--conf", "KillWait=60", "--conf", "SlurmdTimeout=30", "--accounting"]
    yield from running(Own, options=[*options, *["--cgroup"] * LIMITED])


def test_every_state_has_its_word_and_keeps_it_when_slurm_forgets(
    slurm: Own, tmp_path: Path
) -> None:
    def ask(*words: str) -> dict[str, list[str]]:
        return {"directives": [f"#SBATCH {word}" for word in words]}

    def begin() -> dict[str, Expected]:
        """Bring jobs into all states but those that time alone brings."""
        # Slurm takes a minute at least, and looks twice a minute.
        limit = {**RESOURCES, "walltime": "1m"}
        start("overdue", "while sleep 2; do echo step; done", resources=limit)
        start("stubborn", "trap '' TERM; for _ in {1..999}; do sleep 1; done")
        # A job that needs another can be submitted only before that has failed.
        fails = start("fails", "until [[ -e fail ]]; do sleep 0.2; done; setsid sleep 997 & exit 3")
        start("stuck", "true", **ask(f"--dependency=afterok:{fails.id}"))
        start("doomed", "true", after=[fails.id])
        (tmp_path / "fail").touch()
        weak = ask("--partition=low", "--nodelist=n3", "--exclusive", "--no-requeue")
        start("weak", WAITS, **weak)
        start("lost", WAITS, **ask("--no-requeue", "--nodelist=n2"))
        for name in ("again", "put-back", "suspended"):
            start(name, WAITS)
        start("good", "true")
        start(
            "hungry",
            "exec python3 -c 'a = bytearray(10**9)'" if LIMITED else "kill -KILL $$",
            resources={**RESOURCES, "memory_per_node": "200MB"},
            launch={"mode": "direct", "launcher": "local"},  # whose memory is told
        )
        start("held", "true", **ask("--hold"))
        start("never", "true", **ask("--hold"))
        start("gone", "true", **ask("--begin=now+1hour"))
        fails.wait()
        # The script ends nothing that outlives its agent: Slurm does.
        wait_until(lambda: not any(slurm.processes("sleep 997").values()))
        standing.begins("weak", "lost", "stubborn", "again", "put-back", "suspended")
        slurm.fail("n2")
        # In a time of grace only the program is told to end, and it ends by itself.
        slurm.run("scontrol", "update", "PartitionName=low", "GraceTime=0")
        strong = start("strong", WAITS, **ask("--nodelist=n3", "--exclusive"))
        start("waits", "true", **ask("--nodelist=n3", "--exclusive"))
        start("dependent", "true", after=[strong.id])
        cancelled = standing.run("cancel", jobs["stubborn"].id, jobs["never"].id)
        assert cancelled.code == 0, cancelled
        for change, name in (
            ("requeue", "again"),
            ("requeuehold", "put-back"),
            ("suspend", "suspended"),
        ):
            slurm.run("scontrol", change, jobs[name].id)
        output = tmp_path / f"stubborn-{jobs['stubborn'].id}.out"
        wait_until(lambda: "CANCELLED AT" in output.read_text())
        standing.expect({"stubborn": Expected("stopping", "", "cancelled")})
        dependent = OPEN["dependent"]
        reason = dependent.reason.format(strong=strong.id)
        return OPEN | {"dependent": dependent._replace(reason=reason)}

    with Standing("slurm", slurm.env, tmp_path) as standing:
        start, jobs = standing.start, standing.jobs
        table = begin()
        try:
            standing.expect(table)
            wait_until(lambda: standing.status("waits")["start"] is not None)
        finally:
            slurm.heal("n2")
        found = standing.status("strong")
        assert found["limit"] - found["start"] == 600
        assert standing.status("again")["starts"] == 2
        assert standing.status("waits")["start"] > time.time()
        *names, stuck = OPEN
        waiting = standing.start_waiting(*names)
        # Nothing waits for a job that will never start.
        assert [each.wait(PATIENCE) for each in standing.start_waiting(stuck)] == [7, 7]
        standing.refuses_another(*names)
        with slurm.without_accounting():
            standing.forget()
            standing.expect(table, seconds=0)
            standing.refuses_another(*names)
        assert {each.poll() for each in waiting} == {None}

        slurm.run("scontrol", "resume", jobs["suspended"].id)
        (tmp_path / "go").touch()
        jobs["suspended"].wait()
        # Though Slurm is asked each minute.
        waiting[1 + names.index("suspended")].wait(50)
        for name in ("held", "put-back"):
            slurm.run("scontrol", "release", jobs[name].id)
        for name in GONE:
            slurm.cancel(jobs[name].id)
        standing.expect(ENDED | GONE)
        standing.ends(ENDED | GONE)
        standing.forget()
        with slurm.without_accounting():
            standing.expect(ENDED | GONE, seconds=0)
            standing.ends(ENDED | GONE)
        assert [each.wait(PATIENCE) for each in waiting] == [0] * len(waiting)

        # What was told is kept; of what was not accounting knows, and else the folder alone.
        before = standing.read_states()
        slurm.forget()
        ids = ",".join(job.id for job in jobs.values())
        asked = ("squeue", "--noheader", "--states=all", f"--jobs={ids}")
        wait_until(lambda: not slurm.run(*asked).stdout, every=1)
        with slurm.without_accounting():
            assert standing.read_states() == before
            standing.forget()
            standing.expect(ENDED | FORGOTTEN, seconds=0)
            known = (ENDED | FORGOTTEN).items()
            standing.ends({name: each for name, each in known if each.state != "unknown"})
        standing.forget()
        standing.expect(ENDED | GONE | ACCOUNTED, seconds=0)
