"""The embedded scheduler: the same script on one machine, with what a cluster would do."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster_fixtures import PATIENCE
from jobs import JOBGEN, Job, jobgen, spec, submit

from jobgen import process

pytest.importorskip("torch", reason="jobs need torch")

pytestmark = pytest.mark.torch

TWO_NODES = {"resources": {"nodes": 2, "walltime": "10m"}}
#: where torchrun is not the point: each of its agents takes a second of processor time
DIRECT = {"launch": {"mode": "direct", "processes_per_node": 2}}


def run(cwd: Path, *options: str, **changes: object) -> Job:
    return submit(spec(**{**TWO_NODES, **changes}), *options, scheduler="local", cwd=cwd)


def state(job: Job, cwd: Path) -> str:
    return jobgen("status", job.id, env=os.environ, cwd=cwd).stdout.splitlines()[0]


def alive(job: Job) -> list[int]:
    """The ranks' processes that are still there."""
    return [rank["pid"] for rank in job.ranks().values() if Path(f"/proc/{rank['pid']}").exists()]


def test_two_jobs_at_once_run_and_are_done(tmp_path: Path) -> None:
    one = {"launch": {"mode": "direct"}}
    hold = ("--set", f"run.args.sleep-until={tmp_path}/go")
    jobs = [run(tmp_path, *hold, **one), run(tmp_path, "--again", *hold, **one)]
    assert state(jobs[0], tmp_path) == "running"
    (tmp_path / "go").touch()
    for job in jobs:
        assert job.wait() == "done 0", job.everything()
        ranks = job.ranks()
        assert {rank["sum"] for rank in ranks.values()} == {3.0}
        assert {rank["JOBGEN_NODE"] for rank in ranks.values()} == {"node0", "node1"}
        assert state(job, tmp_path) == "done"
        assert (job.run_dir / "DONE").exists()
        assert json.loads((job.run_dir / "job.json").read_text())["id"] == job.id
        assert (job.run_dir / "job.yaml").exists()


def test_a_rank_that_raises_fails_the_job_and_is_named(tmp_path: Path) -> None:
    job = run(tmp_path, "--set", "run.args.raise-on=3", **DIRECT)
    assert job.wait() == "failed 1"
    assert state(job, tmp_path) == "failed"
    output = (job.run_dir / "job.out").read_text()
    assert "FAILED with exit code 1: rank 3 on node" in output
    assert "RuntimeError: planted on rank 3" in output
    assert not (job.run_dir / "DONE").exists()


def test_a_killed_shell_of_an_agent_ends_the_job(tmp_path: Path) -> None:
    job = run(tmp_path, "--set", f"run.args.sleep-until={tmp_path}/go")
    job.wait_for(lambda: len(job.ranks()) == 4)
    lines = subprocess.run(
        ["pgrep", "-af", "attempts/0/script run_node 1"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    pid = next(int(line.split()[0]) for line in lines if job.id in line)  # the oldest
    os.kill(pid, signal.SIGKILL)
    assert job.wait().startswith("failed"), job.everything()
    job.wait_for(lambda: not alive(job))


def test_a_cancelled_job_ends_its_processes_and_says_so(tmp_path: Path) -> None:
    job = run(tmp_path, "--set", f"run.args.sleep-until={tmp_path}/go", **DIRECT)
    job.wait_for(lambda: len(job.ranks()) == 4)
    assert jobgen("cancel", job.id, env=os.environ, cwd=tmp_path).returncode == 0
    assert job.outcome() == "cancelled 143"
    assert state(job, tmp_path) == "cancelled"
    assert not alive(job)
    again = jobgen("cancel", job.id, env=os.environ, cwd=tmp_path)
    assert again.returncode == 5
    assert "has already ended" in again.stderr


# What the script, which looks each second, is to see before it ends; a busy machine takes longer.
UNTIL_SEEN = """
import glob, os, time

def seen():
    paths = glob.glob(os.environ["JOBGEN_RUN_DIR"] + "/attempts/0/{records}")
    return paths and sum(open(path).read().count("{word}") for path in paths) >= {wanted}

while not seen():
    time.sleep(0.1)
"""
WRAPPER = """
import subprocess, sys
name = ".".join(["torch", "distributed", "run"])  # which no look into the file finds
words = "-m", name, "--standalone", "--nproc-per-node", "2", "world.py"
sys.exit(subprocess.run([sys.executable, *words]).returncode)
"""


@pytest.mark.parametrize(
    ("options", "worlds"),
    [
        ("", True),
        ("wrapper on one node", True),
        (
            "--nnodes 2 --node-rank $RANK --master-addr $MASTER_ADDR"
            " --master-port $((MASTER_PORT + 1))",
            False,
        ),
    ],
)
def test_worlds_apart_are_counted_and_are_no_good_end(
    tmp_path: Path, options: str, worlds: bool
) -> None:
    launch = f"{sys.executable} -m torch.distributed.run --nproc-per-node 2 {options}"
    (tmp_path / "world.py").write_text(
        UNTIL_SEEN.format(records="worlds-*", word="TORCHELASTIC", wanted=1 + worlds)
    )
    (tmp_path / "run.sh").write_text(f"cd {tmp_path}\nexec {launch} world.py\n")
    (tmp_path / "wrapper.py").write_text(WRAPPER)
    target, start = "command: [bash, run.sh]", "{mode: direct}"
    if options.startswith("wrapper"):
        target = "script: wrapper.py"
    if options.endswith("one node"):
        start = "{processes_per_node: 2}"
    nodes = 1 if options.endswith("one node") else 2
    here = f"{{setup: 'export PATH={Path(sys.executable).parent}:$PATH'}}"  # has torch
    (tmp_path / "job.yaml").write_text(
        f"name: worlds\nscheduler: local\nresources: {{nodes: {nodes}, walltime: 5m}}\n"
        f"environment: {here}\nlaunch: {start}\nrun: {{{target}}}\n"
    )
    result = jobgen("submit", "job.yaml", "--wait", env=os.environ, cwd=tmp_path)
    said = "FAILED: 2 worlds of 2, and not one of 4 processes"
    found = (result.returncode, said in result.stderr)
    assert found == ((7, True) if worlds else (0, False)), result.stderr
    cause = jobgen("diagnose", env=os.environ, cwd=tmp_path).stdout
    assert ("[worlds]" in cause) == worlds


@pytest.mark.parametrize("meets", ["", "tcp", "mpi"])
def test_ranks_that_never_met_are_told_at_the_end(tmp_path: Path, meets: str) -> None:
    connect = (
        "port = int(os.environ['MASTER_PORT']) + 1\n"
        "if os.environ['RANK'] == '0':\n    kept = socket.create_server(('', port)).accept()\n"
        "elif os.environ['RANK'] == '2':\n"
        "    while True:\n"
        "        try:\n            kept = socket.create_connection(('127.0.0.1', port))\n"
        "        except OSError:\n            continue\n"
        "        break\n"
    )
    # An MPI may do without TCP; that its library is loaded is what can be seen of it.
    (tmp_path / "libmpi.so.40").write_bytes(bytes(4096))
    load = "kept = mmap.mmap(os.open('libmpi.so.40', os.O_RDONLY), 0, prot=mmap.PROT_READ)\n"
    ways = {"": "", "tcp": connect, "mpi": load}
    seen = UNTIL_SEEN.format(records="met-*", word="ERROR_FILE", wanted=2 if meets else 0)
    (tmp_path / "train.py").write_text(f"import os, mmap, socket\n{ways[meets]}{seen}")
    job = run(tmp_path, **DIRECT, run={"script": "train.py"})
    assert job.wait() == "done 0", job.everything()
    cause = jobgen("diagnose", env=os.environ, cwd=tmp_path).stdout
    assert "[apart]" not in cause  # a meeting of less than a second may have been missed
    script = job.run_dir / "attempts" / "0" / "script"
    os.utime(script, (script.stat().st_mtime - 60,) * 2)
    cause = jobgen("diagnose", env=os.environ, cwd=tmp_path).stdout
    assert ("[apart]" in cause) == (not meets)
    told = jobgen("status", job.id, env=os.environ, cwd=tmp_path).stdout
    assert ("no two of its processes had a connection to each other" in told) == (not meets)


SLOW_TASK = """
import os, runpy, time

toy = runpy.run_path({toy!r})
DEFAULTS = toy["DEFAULTS"]

class Slow(toy["Toy"]):
    passed = 0

    def loss(self, model, batch):
        if os.environ["RANK"] == "2":
            Slow.passed += 400
        return super().loss(model, batch)

# By the clock that durations are measured with, one rank takes 400 seconds for each forward pass.
real = time.perf_counter
time.perf_counter = lambda: real() + Slow.passed

def load(config):
    return Slow()
"""


def test_a_rank_of_the_trainer_that_is_slow_is_named(tmp_path: Path) -> None:
    toy = Path(__file__).parents[1] / "helpers" / "programs" / "toy_task.py"
    (tmp_path / "slow.py").write_text(SLOW_TASK.format(toy=str(toy)))
    args = {"task": "slow.py", "steps": 8, "log-every": 4, "device": "cpu"}
    job = run(tmp_path, **DIRECT, run={"module": "jobgen.trainer", "args": args})
    assert job.wait() == "done 0", job.everything()
    said = r"rank (\d) on (\S+) is slow: [4-9]\d\d\.\d+ s a step for its data and forward passes"
    (output,) = job.run_dir.glob("logs/*/rank-0.out")
    for text in (output.read_text(), jobgen("diagnose", env=os.environ, cwd=tmp_path).stdout):
        assert {match.groups() for match in re.finditer(said, text)} == {("2", "node1")}


@pytest.mark.parametrize("watched", [True, False])
def test_nothing_is_left_of_a_killed_script(
    tmp_path: Path, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    job = run(tmp_path, "--set", f"run.args.sleep-until={tmp_path}/go")
    job.wait_for(lambda: len(job.ranks()) == 4)
    watchers = [
        int(line.split()[0])
        for line in subprocess.run(
            ["pgrep", "-af", "script guard_node"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        if job.id in line
    ]
    assert len(watchers) == 2
    mark = f"JOBGEN_RUN_DIR={job.run_dir}"
    assert {rank["pid"] for rank in job.ranks().values()} < {*process.list_marked({mark})}
    if not watched:  # as if they slept, or were killed too
        for pid in watchers:
            os.kill(pid, signal.SIGSTOP)
    os.kill(json.loads((job.run_dir / "job.json").read_text())["pid"], signal.SIGKILL)
    if not watched:
        ended = jobgen("cancel", job.id, env=os.environ, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        for pid in watchers:
            os.kill(pid, signal.SIGCONT)
    job.wait_for(lambda: not alive(job) and not any(temporary.iterdir()))
    # The ranks' agents are killed beside them, but may take longer to end on a busy machine.
    job.wait_for(lambda: not process.list_marked({mark}))
    assert jobgen("cancel", job.id, env=os.environ, cwd=tmp_path).returncode == 5


def test_the_walltime_ends_the_job(tmp_path: Path) -> None:
    options = ("--set", "resources.walltime=8s", "--set", f"run.args.sleep-until={tmp_path}/go")
    job = run(tmp_path, *options, **DIRECT)
    job.wait_for(lambda: state(job, tmp_path) == "timeout")
    assert "ENDED by the walltime of 8 s" in (job.run_dir / "job.out").read_text()
    assert not alive(job)


def test_a_job_outlives_the_terminal_it_was_submitted_from(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(spec(**TWO_NODES, **DIRECT)))
    primary, secondary = pty.openpty()
    shell = subprocess.Popen(
        [*JOBGEN, "submit", "--scheduler", "local", "--wait"],
        cwd=tmp_path,
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        start_new_session=True,
    )
    os.close(secondary)
    folder = tmp_path / "runs" / "reduce"
    end = time.monotonic() + PATIENCE
    while not list(folder.glob("*/attempts/0")):
        assert time.monotonic() < end
        time.sleep(0.1)
    os.killpg(shell.pid, signal.SIGHUP)
    os.close(primary)
    shell.wait()
    (record,) = folder.glob("*/job.json")
    job = Job(record.parent.name, tmp_path, "reduce")
    assert job.wait() == "done 0", job.everything()


SWEEP = {"resources": {"nodes": 1}, "launch": {}}
SWEEP_DIRECT = {"resources": {"nodes": 1}, "launch": {"mode": "direct"}}


def test_the_tasks_of_an_array_run_side_by_side_and_one_that_fails_stops_none(
    tmp_path: Path,
) -> None:
    values = {"list": [{"raise-on": 0}, {}, {"sleep-until": f"{tmp_path}/go"}], "at_once": 2}
    job = run(tmp_path, array=values, **SWEEP)
    tasks = [job.task(index) for index in range(3)]
    for index, ranks in ((1, 1), (2, 1)):
        tasks[index].wait_for(lambda index=index, ranks=ranks: len(tasks[index].ranks()) == ranks)
    assert tasks[0].wait() == "failed 1"
    assert tasks[1].wait() == "done 0"
    assert [state(each, tmp_path) for each in (job, *tasks)] == [
        "running",
        "failed",
        "done",
        "running",
    ]
    refused = jobgen("cancel", tasks[2].id, env=os.environ, cwd=tmp_path)
    assert refused.returncode == 5
    assert f"cannot be cancelled alone; cancel {job.id}" in refused.stderr
    (tmp_path / "go").touch()
    assert job.wait() == "failed 1"
    assert tasks[2].outcome() == "done 0"
    assert [state(each, tmp_path) for each in (job, tasks[2])] == ["failed", "done"]
    assert "FAILED: 1 of 3 tasks" in (job.run_dir / "job.out").read_text()
    assert "task 2: --sleep-until" in (tasks[2].run_dir / "job.out").read_text()
    logs = [(task.run_dir / "logs/node0/agent.log").read_text() for task in tasks]
    assert all("it needs no rendezvous" in log for log in logs)


def test_one_task_at_a_time_unless_told_otherwise(tmp_path: Path) -> None:
    values = {"zip": {"sleep-until": [f"{tmp_path}/go", f"{tmp_path}/go"]}}
    job = run(tmp_path, array=values, **SWEEP_DIRECT)
    first, second = job.task(0), job.task(1)
    first.wait_for(first.ranks)
    assert [state(each, tmp_path) for each in (first, second)] == ["running", "queued"]
    assert jobgen("cancel", job.id, env=os.environ, cwd=tmp_path).returncode == 0
    assert [job.outcome(), first.outcome(), second.outcome()] == [
        "cancelled 143",
        "cancelled 143",
        None,
    ]
    assert [state(each, tmp_path) for each in (job, first)] == ["cancelled", "cancelled"]
    assert not alive(first)


def test_an_array_waits_for_another_job_and_for_a_task_of_one(tmp_path: Path) -> None:
    first = run(tmp_path, array={"tasks": 2, "at_once": 2}, **SWEEP_DIRECT)
    second = run(tmp_path, "--after", f"{first.id}_1", array={"tasks": 2}, **SWEEP_DIRECT)
    third = run(tmp_path, "--after", first.id, **SWEEP_DIRECT)
    for job in (first, third, second):
        assert job.wait() == "done 0", job.everything()
    ended = (first.task(1).run_dir / "attempts/0/outcome").stat().st_mtime
    began = (second.task(0).run_dir / "job.out").stat().st_ctime
    assert ended <= began
    assert state(second, tmp_path) == "done"
    assert {task.ranks()[0]["JOBGEN_TASK"] for task in (first.task(0), first.task(1))} == {"0", "1"}


def test_jobs_come_after_others(tmp_path: Path) -> None:
    first = run(tmp_path, "--set", f"run.args.sleep-until={tmp_path}/go", **DIRECT)
    second = run(tmp_path, "--after", first.id, **DIRECT)
    bad = run(tmp_path, "--after", f"afternotok:{first.id}", **DIRECT)
    begun = run(tmp_path, "--after", f"after:{first.id}", **DIRECT)
    last = run(tmp_path, "--after", f"afterany:{bad.id}:{second.id}", **DIRECT)
    assert begun.wait() == "done 0", begun.everything()
    assert [state(job, tmp_path) for job in (second, bad, last)] == ["queued"] * 3
    assert not second.ranks()
    (tmp_path / "go").touch()
    for job in (first, second, last):
        assert job.wait() == "done 0", job.everything()
    assert bad.outcome() == "failed 1"
    message = f"job {first.id} has ended well, so this one does not run"
    assert message in (bad.run_dir / "job.out").read_text()
    assert not bad.ranks()


def test_a_job_that_waits_can_be_cancelled_and_sees_that_another_was_killed(
    tmp_path: Path,
) -> None:
    first = run(tmp_path, "--set", f"run.args.sleep-until={tmp_path}/go", **DIRECT)
    first.wait_for(first.ranks)
    waits = run(tmp_path, "--after", first.id, **DIRECT)
    sees = run(tmp_path, "--after", first.id, "--again", **DIRECT)
    waits.wait_for((waits.run_dir / "waits").exists)
    assert jobgen("cancel", waits.id, env=os.environ, cwd=tmp_path).returncode == 0
    assert waits.outcome() == "cancelled 143"
    sees.wait_for((sees.run_dir / "waits").exists)
    record = json.loads((first.run_dir / "job.json").read_text())
    os.killpg(record["pid"], signal.SIGKILL)  # without a chance to leave its outcome
    assert sees.wait() == "failed 1"
    assert f"job {first.id} has not ended well" in (sees.run_dir / "job.out").read_text()


def test_there_is_no_job_to_wait_for(tmp_path: Path) -> None:
    job = run(tmp_path, "--after", "20300101-120000-1")
    assert job.wait() == "failed 1"
    assert "there is no job 20300101-120000-1 below" in (job.run_dir / "job.out").read_text()


def test_a_job_that_another_one_submits_outlives_it(tmp_path: Path) -> None:
    """A job ends what has its marker in its environment, wherever that came from."""
    marker = f"JOBGEN_AGENT={tmp_path}"
    around = {**os.environ, "JOBGEN_AGENT": str(tmp_path)}
    options = ("--set", f"run.args.sleep-until={tmp_path}/go")
    content = spec(**TWO_NODES, **DIRECT)
    job = submit(content, *options, scheduler="local", cwd=tmp_path, env=around)
    job.wait_for(lambda: len(job.ranks()) == 4)
    with_marker = ["grep", "-slzxF", "-e", marker, *map(str, Path("/proc").glob("[0-9]*/environ"))]
    assert subprocess.run(with_marker, capture_output=True, text=True, check=False).stdout == ""
    (tmp_path / "go").touch()
    assert job.wait() == "done 0", job.everything()


def test_the_script_runs_without_jobgen_and_at_its_end_lets_go_of_its_output(
    tmp_path: Path,
) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(spec(**TWO_NODES, **DIRECT)))
    rendered = jobgen("render", "--scheduler", "local", env=os.environ, cwd=tmp_path).stdout
    (tmp_path / "job.sh").write_text(rendered)
    # A pipe, which a process that waits for the walltime would keep open.
    words, pipes = ["bash", "job.sh"], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(words, cwd=tmp_path, **pipes, timeout=PATIENCE, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (folder,) = (tmp_path / "runs" / "reduce").iterdir()
    assert len(Job(folder.name, tmp_path, "reduce").ranks()) == 4


@pytest.mark.parametrize("mode", ["torchrun", "direct", "plain"])
def test_no_name_is_too_common_for_a_variable_or_a_setup(tmp_path: Path, mode: str) -> None:
    """The script has names of its own, for nodes, GPUs, tasks, the walltime, and its job."""
    names = (
        "NODES",
        "GPUS",
        "PROCESSES",
        "TASKS",
        "WALLTIME",
        "JOB_NAME",
        "TIMER",
        "NOTICE",
        "ADDRESSES",
    )
    (tmp_path / "p.py").write_text(f"import os\nprint(*(os.environ[one] for one in {names}))\n")
    setup = "node=x rank=9 local_rank=9 node_rank=9 names=x processes=9 walltime=1 job_name=x"
    told = run(
        tmp_path,
        launch={"mode": mode, "processes_per_node": 2},
        environment={
            "venv": sys.prefix,
            "variables": {name: f"own-{name}" for name in names},
            "setup": setup,
        },
        run={"script": "p.py"},
    )
    assert told.wait() == "done 0", told.everything()
    said = [path.read_text() for path in told.run_dir.glob("logs/*/rank-*.out")]
    assert said == [" ".join(f"own-{name}" for name in names) + "\n"] * 4
