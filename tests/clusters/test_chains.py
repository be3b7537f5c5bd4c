"""Runs that outlast a walltime, on a real Slurm and on the emulated PBS."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import PATIENCE, Cluster, Pbs, Slurm, skip_without
from jobs import JOBGEN, PROGRAMS, Job, jobgen, spec, submit
from support import ROOT

skip_without("torch")

pytestmark = pytest.mark.cluster

TRAINER = {
    "module": "jobgen.trainer",
    "args": {
        "context": 32,
        "batch-tokens": 256,
        "save-every": 10_000,
        "val-every": 10_000,
        "steps": 1_000_000,  # no machine comes to the end of them
    },
}
#: a program that takes no processor time, and goes on for ever
STEPS = {"script": str(PROGRAMS / "steps.py")}
# What docs/guides/long-runs.md tells a program of one's own to do; it ends in its third start.
SNIPPET = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guides/long-runs.md").read_text(), re.S)[
    0
]
OWN = f"""\
import os, pathlib, time, torch
print("begins", flush=True)
checkpoints = pathlib.Path(os.environ["JOBGEN_RUN_DIR"], "checkpoints")
saved = [int(path.name[5:13]) for path in checkpoints.glob("step-*.pt")]
STEPS = 10**6 if int(os.environ["JOBGEN_ATTEMPT"]) < 2 else max(saved) + 5
trained = 0
def train(step):
    global trained
    time.sleep(0.05)
    trained += 1
def collect_state():
    return {{"trained": trained}}
def restore_state(state):
    global trained
    trained = state["trained"]
    assert trained == step == max(saved)
{SNIPPET}
assert not stop or trained == step < STEPS
"""


def chain(
    cluster: Cluster, cwd: Path, *options: str, command: Sequence[str] = JOBGEN, **changes: Any
) -> Job:
    """Submit a job of two nodes with a process each."""
    resources = {"nodes": 2, "cpus_per_node": 1, "walltime": "20m"}
    content = spec(**{"resources": resources, "launch": {}, "run": TRAINER, **changes})
    content["environment"] = {**content["environment"], "variables": {"PYTHONPATH": str(ROOT)}}
    target: dict[str, Any] = {"scheduler": cluster.kind, "cwd": cwd, "env": cluster.env}
    return submit(content, *options, command=command, **target)


def output(job: Job) -> str:
    """What the scripts of the job, or of its chain, have said."""
    folder = job.run_dir.parent.parent.parent
    files = sorted([*folder.glob("reduce-*.out"), *folder.glob("reduce.o*")])
    return "\n".join(path.read_text() for path in files)


def outcomes(job: Job) -> list[str]:
    return [path.read_text().strip() for path in sorted(job.run_dir.glob("attempts/*/outcome"))]


def ids(job: Job) -> list[str]:
    """The jobs that have had a start, in order."""
    return [path.read_text().strip() for path in sorted(job.run_dir.glob("attempts/*/job"))]


def tell(slurm: Slurm, job_id: str) -> None:
    """What --signal=B:USR1@N makes Slurm do."""
    slurm.run("scancel", "--batch", "--signal=USR1", job_id)


def ask_state(job: Job, slurm: Slurm, cwd: Path) -> str:
    """What `jobgen status` says, once Slurm has emptied the nodes of a start (COMPLETING)."""
    states: list[str] = []

    def is_past_the_start() -> bool:
        states.append(jobgen("status", job.id, env=slurm.env, cwd=cwd).stdout.splitlines()[0])
        return states[-1] != "stopping"

    job.wait_for(is_past_the_start)
    return states[-1]


def stepping(job: Job, number: int) -> bool:
    """Whether the trainer is at work in start `number`."""
    path = job.run_dir / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    kinds = [json.loads(line)["kind"] for line in lines]
    return kinds.count("start") == number and kinds[-1] == "step"


def printed(job: Job) -> str:
    """What rank 0 has printed in all starts."""
    path = job.run_dir / "logs" / "n1" / "rank-0.out"
    return path.read_text() if path.exists() else ""


def at_work(job: Job, number: int) -> bool:
    """Whether the program is at work in start `number`."""
    return printed(job).count("begins") == number


def test_slurm_requeues_until_the_run_is_done(slurm: Slurm, tmp_path: Path) -> None:
    walltime = {"notice": "10m", "then": "requeue", "at_most": 4}
    run, launch = STEPS | {"args": {"starts": 3}}, {"mode": "direct"}
    job = chain(slurm, tmp_path, run=run, on_walltime=walltime, launch=launch)
    argv = [*JOBGEN, "logs", "-f", job.id]
    with subprocess.Popen(
        argv, env=slurm.env, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as follower:
        try:
            for number in (1, 2):
                job.wait_for(lambda number=number: at_work(job, number))
                tell(slurm, job.id)
                job.wait_for(lambda number=number: len(outcomes(job)) == number)
                assert outcomes(job)[-1] == "continued 0", output(job)
                assert ask_state(job, slurm, tmp_path) in ("queued", "running")
            job.wait_for(lambda: len(outcomes(job)) == 3)
            assert outcomes(job) == ["continued 0", "continued 0", "done 0"], output(job)
            followed = follower.communicate(timeout=PATIENCE)[0].splitlines()
            assert follower.returncode == 0
        finally:
            follower.kill()
    assert [line for line in followed if " | " not in line] == output(job).splitlines()
    assert set(printed(job).splitlines()) <= {line.partition(" | ")[2] for line in followed}
    first, second, third = map(int, re.findall(r"begins after step (\d+)", printed(job)))
    assert first < second < third
    assert slurm.wait(job.id)["JobState"] == "COMPLETED"


def test_slurm_signals_before_the_limit_and_at_most_ends_the_chain(
    slurm: Slurm, tmp_path: Path
) -> None:
    """It signals half a minute too early where a check of its own comes then."""
    resources = {"nodes": 2, "cpus_per_node": 2, "walltime": "20m"}
    walltime = {"notice": "10m", "then": "requeue", "at_most": 2}
    options = {"resources": resources, "launch": {"mode": "direct"}}
    job = chain(slurm, tmp_path, run=STEPS, on_walltime=walltime, **options)
    job.wait_for(lambda: at_work(job, 1))
    slurm.run("scontrol", "update", f"JobId={job.id}", "TimeLimit=10")
    job.wait_for(lambda: at_work(job, 2))
    tell(slurm, job.id)
    job.wait_for(lambda: len(outcomes(job)) == 2)
    assert outcomes(job) == ["continued 0", "failed 1"], output(job)
    assert "the walltime ends in" in output(job)
    assert "the chain ends without DONE: it has had its 2 starts" in output(job)
    assert slurm.wait(job.id)["JobState"] == "FAILED"


def test_a_start_that_saves_nothing_is_the_last(slurm: Slurm, tmp_path: Path) -> None:
    """By a program that knows of no STOP: it is ended before Slurm would do it."""
    walltime = {"notice": "4s", "then": "requeue"}
    run = {**spec()["run"], "args": {"sleep-until": f"{tmp_path}/never"}}
    job = chain(slurm, tmp_path, run=run, on_walltime=walltime, launch={"mode": "direct"})
    job.wait_for(lambda: len(job.ranks()) == 2)
    tell(slurm, job.id)
    assert job.wait() == "failed 1", output(job)
    assert "the walltime has ended\n" in output(job)
    assert "the chain ends without DONE: this start has saved nothing" in output(job)
    assert slurm.wait(job.id)["JobState"] == "FAILED"


def test_a_job_of_slurm_that_is_cancelled_saves_and_does_not_go_on(
    slurm: Slurm, tmp_path: Path
) -> None:
    from jobgen.trainer.checkpoint import Checkpoints

    walltime = {"notice": "10m", "then": "requeue"}
    job = chain(slurm, tmp_path, on_walltime=walltime, launch={"mode": "direct"})
    job.wait_for(lambda: stepping(job, 1))
    assert jobgen("cancel", job.id, env=slurm.env, cwd=tmp_path).returncode == 0
    slurm.wait(job.id, "CANCELLED")
    assert outcomes(job) == ["cancelled 143"], output(job)
    status = json.loads((job.run_dir / "status.json").read_text())
    assert (status["state"], status["reason"]) == ("stopped", "a signal"), job.everything()
    checkpoints = Checkpoints(job.run_dir)
    path, skipped = checkpoints.newest_whole()
    assert path is not None
    assert not skipped  # it is of every rank
    assert checkpoints.newest_step() == status["step"]


def test_a_job_that_is_preempted_saves_and_goes_on(slurm: Slurm, tmp_path: Path) -> None:
    """And is put back into the queue once: by the script, and not by Slurm as well."""
    walltime = {"notice": "10m", "then": "requeue"}
    run = STEPS | {"args": {"starts": 2}}
    launch = {"mode": "direct"}
    job = chain(slurm, tmp_path, queue="low", run=run, on_walltime=walltime, launch=launch)
    job.wait_for(lambda: at_work(job, 1))
    urgent = slurm.submit("--nodes=3", "--exclusive", "--wrap=sleep 1", cwd=tmp_path)
    slurm.wait(urgent)
    job.wait_for(lambda: len(outcomes(job)) == 2)
    assert outcomes(job) == ["continued 0", "done 0"], output(job)
    assert "jobgen: another job has preempted this one" in output(job)
    assert "begins after step 0\njobgen: start 2\nbegins after step " in printed(job)
    shown = slurm.wait(job.id)
    assert (shown["JobState"], shown["Restarts"]) == ("COMPLETED", "1")


def test_a_program_that_dies_of_a_preemption_starts_again(slurm: Slurm, tmp_path: Path) -> None:
    """It knows neither STOP nor SIGTERM, and has saved nothing yet."""
    (tmp_path / "train.py").write_text(
        "import os, time\nprint('begins', flush=True)\n"
        "again = os.path.exists(os.environ['JOBGEN_RUN_DIR'] + '/attempts/1')\n"
        "time.sleep(1 if again else 300)\n"
    )
    walltime = {"notice": "10m", "then": "requeue"}
    job = chain(slurm, tmp_path, queue="low", run={"script": "train.py"}, on_walltime=walltime)
    job.wait_for(lambda: at_work(job, 1))
    urgent = slurm.submit("--nodes=3", "--exclusive", "--wrap=sleep 1", cwd=tmp_path)
    slurm.wait(urgent)
    job.wait_for(lambda: len(outcomes(job)) == 2)
    assert outcomes(job) == ["continued 0", "done 0"], output(job)
    assert "jobgen: another job has preempted this one" in output(job)
    assert slurm.wait(job.id)["Restarts"] == "1"


def test_a_job_of_slurm_submits_the_next_one_in_its_run_folder(
    slurm: Slurm, tmp_path: Path
) -> None:
    walltime = {"notice": "10m", "then": "resubmit", "at_most": 4}
    run, launch = {"command": ["python3", "-c", OWN]}, {"mode": "direct"}
    job = chain(slurm, tmp_path, run=run, on_walltime=walltime, launch=launch)
    for number in (1, 2):
        job.wait_for(lambda number=number: at_work(job, number))
        tell(slurm, ids(job)[-1])
        job.wait_for(lambda number=number: len(outcomes(job)) == number)
    job.wait_for(lambda: len(outcomes(job)) == 3)
    assert outcomes(job) == ["continued 0", "continued 0", "done 0"], output(job)
    said = jobgen("status", job.id, env=slurm.env, cwd=tmp_path)
    assert said.stdout.startswith("done\n")
    assert ids(job) == [str(int(job.id) + number) for number in range(3)]
    assert [slurm.wait(id)["JobState"] for id in ids(job)] == ["COMPLETED"] * 3
    assert not slurm.run("squeue", "--noheader").stdout


def test_after_the_loss_of_a_node_the_run_goes_on_elsewhere(slurm: Slurm, tmp_path: Path) -> None:
    walltime = {"notice": "10m", "then": "requeue", "at_most": 3}
    run, launch = STEPS | {"args": {"save-every": 2}}, {"mode": "direct"}
    job = chain(slurm, tmp_path, run=run, on_walltime=walltime, launch=launch)
    job.wait_for(lambda: (job.run_dir / "checkpoints/steps").exists())
    slurm.fail("n2")
    try:
        job.wait_for(lambda: at_work(job, 2))
        assert {path.name for path in job.run_dir.glob("logs/*")} == {"n1", "n2", "n3"}
        assert "begins after step 0\n" not in printed(job).partition("\n")[2]
    finally:
        slurm.cancel(job.id)
        slurm.wait(job.id)
        slurm.heal("n2")


def test_the_next_job_after_a_loss_is_not_given_the_lost_node(slurm: Slurm, tmp_path: Path) -> None:
    run = {**spec()["run"], "args": {"sleep-until": f"{tmp_path}/go"}}
    walltime = {"notice": "10m", "then": "resubmit"}
    options = {"directives": ["#SBATCH --no-requeue"], "launch": {"mode": "direct"}}
    job = chain(slurm, tmp_path, run=run, on_walltime=walltime, **options)
    job.wait_for(lambda: len(job.ranks()) == 2)
    assert {rank["host"] for rank in job.ranks().values()} == {"n1", "n2"}
    slurm.fail("n2")
    (tmp_path / "go").touch()
    try:
        job.wait_for(lambda: (job.run_dir / f"attempts/after-{job.id}").exists())
        following = (job.run_dir / f"attempts/after-{job.id}").read_text().strip()
        assert slurm.job(following)["ExcNodeList"] == "n2", output(job)
        job.wait_for(lambda: len(outcomes(job)) == 2)
        assert outcomes(job) == ["continued 0", "done 0"], output(job)
        assert (job.run_dir / "attempts/1/nodes").read_text() == "n1\nn3\n"
    finally:
        slurm.heal("n2")


def test_slurm_gives_as_many_nodes_as_it_has(slurm: Slurm, tmp_path: Path) -> None:
    held = slurm.submit("--nodes=1", "--exclusive", "--wrap=sleep 600", cwd=tmp_path)
    slurm.wait(held, "RUNNING")
    resources = {"nodes": {"min": 1, "max": 3}, "cpus_per_node": 30, "walltime": "5m"}
    content = spec(resources=resources, launch={}) | {"preflight": True}
    job = submit(content, scheduler="slurm", cwd=tmp_path, env=slurm.env)
    assert job.wait() == "done 0", job.everything()
    assert {rank["WORLD_SIZE"] for rank in job.ranks().values()} == {"2"}
    assert {rank["sum"] for rank in job.ranks().values()} == {3.0}
    slurm.cancel(held)


def test_pbs_jobs_go_on_one_after_the_other_until_the_run_is_done(pbs: Pbs, tmp_path: Path) -> None:
    resources = {"nodes": 2, "cpus_per_node": 2, "walltime": "3m"}
    options = {"resources": resources, "launch": {"mode": "direct"}}
    walltime = {"notice": "175s", "then": "resubmit", "at_most": 4}
    run = STEPS | {"args": {"starts": 3}}
    with pbs.settings(history=True):
        job = chain(pbs, tmp_path, run=run, on_walltime=walltime, **options)
        record = json.loads((job.run_dir / "job.json").read_text())
        assert len(record["links"]) == 3
        job.wait_for(lambda: len(outcomes(job)) == 4)
        expected = ["continued 0", "continued 0", "done 0", "done 0"]
        assert outcomes(job) == expected, output(job)
        assert "the walltime ends in" in output(job)
        assert "DONE already" in output(job)
        for link in (job.id, *record["links"]):
            assert pbs.wait(link)["Exit_status"] == 0
        assert jobgen("status", job.id, env=pbs.env, cwd=tmp_path).stdout.startswith("done\n")


def test_a_chain_that_is_cancelled_does_not_go_on(pbs: Pbs, tmp_path: Path) -> None:
    walltime = {"notice": "10m", "then": "resubmit", "at_most": 3}
    options = {"run": STEPS, "on_walltime": walltime, "launch": {"mode": "direct"}}
    job, other = (chain(pbs, tmp_path / name, **options) for name in ("all", "first"))
    links = json.loads((job.run_dir / "job.json").read_text())["links"]
    others = json.loads((other.run_dir / "job.json").read_text())["links"]
    job.wait_for(lambda: at_work(job, 1))
    other.wait_for(lambda: at_work(other, 1))
    assert jobgen("cancel", job.id, env=pbs.env, cwd=tmp_path / "all").returncode == 0
    pbs.cancel(other.id)
    for link in (job.id, *links, other.id, *others):
        pbs.wait(link)
    assert outcomes(job) == ["cancelled 143"], output(job)
    assert outcomes(other) == ["cancelled 143"] * 3, output(other)
    for one, folder in ((job, "all"), (other, "first")):
        said = jobgen("status", one.id, env=pbs.env, cwd=tmp_path / folder)
        assert said.stdout.startswith("cancelled\n")


def test_a_walltime_of_pbs_that_is_made_shorter_ends_no_chain(pbs: Pbs, tmp_path: Path) -> None:
    """The script knows only the walltime of its directives, and took PBS's signal for a qdel."""
    walltime = {"notice": "1m", "then": "resubmit", "at_most": 2}
    run = STEPS | {"args": {"starts": 2}}
    job = chain(pbs, tmp_path, run=run, on_walltime=walltime, launch={"mode": "direct"})
    job.wait_for(lambda: at_work(job, 1))
    pbs.run("qalter", "-l", "walltime=1", job.id)
    job.wait_for(lambda: len(outcomes(job)) == 2)
    assert outcomes(job) == ["continued 0", "done 0"], output(job)
    assert "job killed: walltime" in output(job)
    assert "the walltime has ended\n" in output(job) or "has stopped in order\n" in output(job)


def go_on(cluster: Cluster, cwd: Path, then: str) -> None:
    """Cancel a chain, and let it go on in its run folder and count its starts from 1 again."""
    run = STEPS | {"args": {"save-every": 5, "starts": 2}}
    walltime = {"then": then, "at_most": 2}
    job = chain(cluster, cwd, run=run, on_walltime=walltime, launch={"mode": "direct"})

    def tell(*words: str) -> str:
        return jobgen(*words, env=cluster.env, cwd=cwd).stdout.partition("\n")[0]

    saved = job.run_dir / "checkpoints" / "steps"
    job.wait_for(saved.exists)
    early = jobgen("rerun", job.id, "--continue", env=cluster.env, cwd=cwd)
    assert "of its chain has not ended; jobgen cancel" in early.stderr
    tell("cancel", job.id)
    job.wait_for(lambda: tell("status", job.id) == "cancelled")
    steps = int(saved.read_text())
    again = jobgen("rerun", job.id, "--continue", env=cluster.env, cwd=cwd)
    assert (again.returncode, again.stdout.strip()) == (0, job.id), again.stderr
    assert tell("status", job.id) in ("queued", "running")
    job.wait_for(lambda: tell("status", job.id) == "done")
    assert [line.split()[0] for line in outcomes(job)][:2] == ["cancelled", "done"]
    assert int(saved.read_text()) >= steps
    done = jobgen("rerun", job.id, "--continue", env=cluster.env, cwd=cwd)
    assert "nothing left to do, because it is done" in done.stderr or "not ended" in done.stderr


def test_a_chain_of_slurm_that_has_ended_goes_on_in_its_run_folder(
    slurm: Slurm, tmp_path: Path
) -> None:
    go_on(slurm, tmp_path, "resubmit")


def test_a_chain_of_pbs_that_has_ended_goes_on_in_its_run_folder(pbs: Pbs, tmp_path: Path) -> None:
    go_on(pbs, tmp_path, "resubmit")
