"""`jobgen diagnose` names the first cause, and who it was, by what a job has left behind.

`diagnose/` has what processes, agents and scripts print: CAUSE--CASE.log is of the cause CAUSE.
"""

import json
import os
import re
from pathlib import Path

import pytest
from jobs import spec, submit
from support import jobgen

from jobgen import runs
from jobgen.diagnose import Diagnosis, diagnose, machine, program
from jobgen.runs import Job
from jobgen.schedulers.base import State

LOGS = sorted(Path(__file__).with_name("diagnose").glob("*.log"))
LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.1.0.7]:41213"
FAILED = State("failed", "exit code 1")


class Run:
    """A run folder of two nodes with two processes each, as a job on Slurm leaves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = Job("4711", "job", "slurm", str(folder), 0.0, ("sbatch",))
        self.job.save()
        self.write("attempts/0/nodes", "n1\nn2\n")
        self.clock = (self.job.run_dir / "attempts/0/nodes").stat().st_mtime

    def write(self, name: str, text: str, *, after: float = 0) -> None:
        """A file of the run folder, written some seconds after the beginning."""
        path = self.job.run_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if after:
            os.utime(path, (self.clock + after, self.clock + after))

    def rank(self, rank: int, text: str, *, after: float, code: int = 1) -> None:
        """A process that fails: what it prints, and what its agent says of it."""
        node = f"n{1 + rank // 2}"
        self.write(f"logs/{node}/rank-{rank}.err", text, after=after)
        agent = self.job.run_dir / f"logs/{node}/agent.log"
        before = agent.read_text() if agent.exists() else f"jobgen: {node}; the rendezvous is at\n"
        table = f"  rank      : {rank} (local_rank: {rank % 2})\n  exitcode  : {code} (pid: 7)\n"
        self.write(f"logs/{node}/agent.log", before + table)

    def node(self, node: int, text: str) -> None:
        """A node whose agent fails."""
        self.write(f"logs/n{node}/agent.log", text)
        self.write(f"attempts/0/node-{node - 1}.ended", "1\n")
        self.write("attempts/0/failed", f"{node - 1} 1\n")

    def script(self, text: str) -> None:
        """The script's output."""
        (self.folder / "job-4711.out").write_text(text)

    def diagnose(self, state: State = FAILED) -> Diagnosis:
        """What it looks like."""
        return diagnose(self.job, state)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_each_kind_of_output_is_known_and_its_rank_is_named(run: Run, log: Path) -> None:
    text = log.read_text()
    where = re.match(r"# where: (\w+)\n", text)
    if where and where[1] == "script":
        run.script(text)
    elif where:
        run.node(2, text)
    else:
        for other in (0, 1, 3):
            run.rank(other, LOST, after=20)
        run.rank(2, text, after=10)
    found = run.diagnose()
    assert found.cause == log.stem.partition("--")[0], found.as_text()
    assert found.remedy
    assert found.evidence
    if not where:
        assert (found.node, found.rank) == ("n2", 2)
        assert found.followed == (0, 1, 3)


def test_there_is_an_output_for_every_cause() -> None:
    shown = {path.stem.partition("--")[0] for path in LOGS}
    words = {"dependency", "output-folder", "refused-resources", "peer-lost"}  # tested below
    assert {cause.id for cause in (*machine.CAUSES, *program.CAUSES)} <= shown | words
    assert len(LOGS) >= 40


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (State("failed", "TIMEOUT None"), "walltime"),
        (State("failed", "OUT_OF_MEMORY None"), "out-of-memory-host"),
        (State("failed", "NODE_FAIL None"), "node-lost"),
        (State("failed", "PREEMPTED None"), "preempted"),
        (State("queued", "DependencyNeverSatisfied"), "dependency"),
        (State("failed", "FAILED JobLaunchFailure"), "output-folder"),
        (State("queued", "Can Never Run: Insufficient amount of resource"), "refused-resources"),
        (State("cancelled"), "cancelled"),
        (State("queued", "Resources"), "healthy"),
        (State("done"), "healthy"),
    ],
)
def test_the_schedulers_word_decides(run: Run, state: State, cause: str) -> None:
    assert run.diagnose(state).cause == cause


def test_a_job_that_ended_well_is_healthy_whatever_it_printed(run: Run) -> None:
    run.write("logs/n1/rank-0.err", "UserWarning: Permission denied for the cache; going on\n")
    run.write("logs/n1/rank-0.out", "retrying: Connection refused\nloss nan in a debug line\n")
    assert run.diagnose(State("done")).cause == "healthy"


def test_what_healthy_ranks_print_is_no_cause(run: Run) -> None:
    run.write("logs/n1/rank-0.err", "FileNotFoundError: no cache yet; it is made\n")
    run.rank(2, "Traceback (most recent call last):\nValueError: seven\n", after=5)
    found = run.diagnose()
    assert (found.cause, found.rank) == ("exception", 2)
    assert "ValueError: seven" in found.title


def test_the_first_to_fail_is_the_cause_and_not_the_first_in_order(run: Run) -> None:
    run.rank(0, "Traceback (most recent call last):\nKeyError: 'late'\n", after=30)
    run.rank(3, "Traceback (most recent call last):\nKeyError: 'early'\n", after=3)
    assert run.diagnose().rank == 3


def test_the_first_exception_of_a_chain_counts_and_its_place_is_the_programs_own(run: Run) -> None:
    text = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/home/u/train.py", line 12, in load\n'
        '[rank1]:   File "/venv/lib/python3.11/site-packages/numpy/npyio.py", line 4, in load\n'
        "[rank1]: FileNotFoundError: [Errno 2] No such file or directory: 'tokens.bin'\n"
        "[rank1]: \n"
        "[rank1]: During handling of the above exception, another exception occurred:\n"
        "[rank1]: \n"
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/home/u/train.py", line 90, in main\n'
        "[rank1]: RuntimeError: no data\n"
    )
    run.rank(1, text, after=1)
    found = run.diagnose()
    assert (found.cause, found.place) == ("file-missing", "/home/u/train.py:12, in load")
    assert any("rank-1.err:4: FileNotFoundError" in line for line in found.evidence)


def test_a_killed_rank_is_named_where_the_scheduler_ran_out_of_memory(run: Run) -> None:
    run.rank(0, LOST, after=9)
    run.rank(2, "", after=5, code=-9)
    run.script("slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0.\n")
    found = run.diagnose()
    assert (found.cause, found.node, found.rank) == ("out-of-memory-host", "n2", 2)


@pytest.mark.parametrize("code", [-9, -11, -7, 127, 3])
def test_a_process_that_says_nothing_is_told_by_its_exit_code(run: Run, code: int) -> None:
    run.rank(0, LOST, after=9)
    run.rank(2, "", after=5, code=code)
    found = run.diagnose()
    assert (found.cause, found.rank) == (f"exit {code}", 2)


def test_an_earlier_attempt_is_not_taken_for_the_last(run: Run) -> None:
    run.rank(0, "Traceback (most recent call last):\nKeyError: 'old'\n", after=-500)
    log = run.job.run_dir / "logs/n1/agent.log"
    log.write_text(log.read_text() + "jobgen: n1; the rendezvous is at\n")
    run.rank(1, "Traceback (most recent call last):\nValueError: new\n", after=5)
    assert run.diagnose().rank == 1


def test_the_end_of_a_long_log_has_the_right_line_number(run: Run) -> None:
    noise = "".join(
        f"step {number}: all is well, and this line is not short\n" for number in range(20_000)
    )
    run.rank(2, noise + "Traceback (most recent call last):\nMemoryError\n", after=5)
    found = run.diagnose()
    assert found.cause == "out-of-memory-host"
    assert "rank-2.err:20002: MemoryError" in found.evidence[0]


def test_an_unknown_failure_says_so_and_shows_the_evidence(run: Run) -> None:
    run.script("something odd\nand then it was over\n")
    found = run.diagnose()
    assert found.cause == "unknown"
    assert "job-4711.out:2: and then it was over" in found.evidence[1]


def test_the_command_names_the_rank_of_a_real_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = spec(resources={"nodes": 2})
    content["run"] = content["run"] | {"args": {"raise-on": 3}}
    job = submit(content, scheduler="local", cwd=tmp_path)
    assert job.wait() == "failed 1"
    monkeypatch.chdir(tmp_path)
    answer = json.loads(jobgen("diagnose", "--json", job.id).out)
    assert (answer["cause"], answer["rank"]) == ("exception", 3)
    assert f"{answer['node']}-3.json" in job.errors()
    assert "planted on rank 3" in answer["title"]
    assert "allreduce.py:" in answer["place"]
    assert runs.find(job.id).name in jobgen("diagnose", job.id).out
