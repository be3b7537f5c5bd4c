"""Every state of a job on PBS, with a history of ended jobs and, as PBS is installed, without."""

import os
from pathlib import Path

from cluster_fixtures import PATIENCE, Pbs, wait_until
from standing import RESOURCES, WAITS, Expected, Standing

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
    "vanished": Expected("cancelled", "it needed bad", "dependency"),
    "lost": Expected("failed", "it left no outcome: it was killed", "killed"),
}
KEPT = {
    "vanished": Expected("cancelled", "", "dependency"),
    "lost": Expected("node lost", "Exit_status -20", "node-lost"),
}


def test_every_state_has_its_word_with_a_history_and_without(pbs: Pbs, tmp_path: Path) -> None:
    def begin() -> dict[str, Expected]:
        """Bring jobs into all states; what is expected of those that have not ended."""
        whole = RESOURCES | {"cpus_per_node": 16}  # all of n1, so that no other job is lost with it
        lost = start("lost", WAITS, resources=whole, directives=["#PBS -r n"])
        start("overdue", "sleep 600", resources=RESOURCES | {"walltime": "20s"})
        # A job that needs another can be submitted only before that has failed.
        bad = start("bad", "until [[ -e fail ]]; do sleep 0.2; done; exit 3")
        start("vanished", "true", after=[bad.id])
        (tmp_path / "fail").touch()
        start("good", "true")
        running, stopped = start("running", WAITS), start("stopped", WAITS)
        suspended, again = start("suspended", WAITS), start("again", WAITS)
        start("held", "true", directives=["#PBS -h"])
        never = start("never", "true", directives=["#PBS -h"])
        start("hopeless", "true", resources=RESOURCES | {"cpus_per_node": 99})
        start("dependent", "true", after=[running.id])
        bad.wait()
        standing.begins("lost", "running", "stopped", "suspended", "again")
        assert (lost.run_dir / "attempts" / "0" / "nodes").read_text().strip() == "n1"
        pbs.run("qsig", "-s", "suspend", suspended.id)
        pbs.run("qrerun", again.id)
        cancelled = standing.run("cancel", stopped.id, never.id)
        assert (cancelled.code, cancelled.out) == (0, "")
        assert {*cancelled.err.splitlines()} == {
            f"never {never.id}: cancelled",
            f"stopped {stopped.id}: cancelled",
        }
        dependent = OPEN["dependent"]
        reason = dependent.reason.format(running=running.id)
        return OPEN | {"dependent": dependent._replace(reason=reason)}

    settings = {"history": True, "poll": 0.3, "operators": True}
    with pbs.settings(**settings), Standing("pbs", pbs.env, tmp_path) as standing:
        start, jobs = standing.start, standing.jobs
        table = begin()
        *names, hopeless = OPEN
        try:
            loses = standing.start_waiting("lost")
            pbs.fail("n1")
            standing.expect(ENDED | table | KEPT)
            assert (jobs["again"].run_dir / "attempts" / "1").is_dir()
            waiting = standing.start_waiting(*names)
            # Nothing waits for a job that will never start.
            assert [each.wait(PATIENCE) for each in standing.start_waiting(hopeless)] == [7, 7]
            standing.ends(ENDED | KEPT)
            standing.refuses_another(*OPEN)

            # From here on nothing is known of jobs that have ended. The signs of life of a lost
            # node count for five minutes: they go by.
            pbs.script("set", "history=false")
            standing.forget()
            for sign in jobs["lost"].run_dir.glob("attempts/*/node-*.alive"):
                os.utime(sign, (before := sign.stat().st_mtime - 301, before))
            vanishes = standing.start_waiting("vanished")
            standing.expect(ENDED | table | GONE, seconds=0)
            standing.ends(ENDED | {"lost": GONE["lost"]})
            standing.refuses_another(*OPEN)
        finally:
            pbs.heal("n1")
        assert {each.poll() for each in waiting} == {None}
        pbs.run("qsig", "-s", "resume", jobs["suspended"].id)
        (tmp_path / "go").touch()
        jobs["running"].wait()
        # Though PBS is asked each minute.
        waiting[1 + names.index("running")].wait(50)
        assert standing.run("cancel", jobs[hopeless].id).code == 0
        pbs.run("qrls", jobs["held"].id)
        assert [each.wait(PATIENCE) for each in waiting] == [0] * len(waiting)
        for some, followed in ((vanishes, 7), (loses, 0)):
            assert [each.wait(PATIENCE) for each in some] == [7, followed]
        wait_until(lambda: "down" not in pbs.run("pbsnodes", "n1").stdout)
