"""A job in an allocation that one's shell holds, a shell on a node of a job, and calls in jobs."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import jobgen, load, plan_of

from jobgen import process, schedulers
from jobgen.errors import UsageError
from jobgen.jobs import call, inside
from jobgen.jobs.find import find_job
from jobgen.jobs.inside import write_held_job
from jobgen.jobs.record import JobRecord
from jobgen.jobs.status import JobStatus, StatusReport
from jobgen.rendering import header
from jobgen.schedulers.base import State

SHAPE = {"nodes": 2, "gpus_per_node": 2, "cpus_per_node": 8, "memory_per_node": "4GB"}
SPEC = {"name": "a", "scheduler": "slurm", "resources": SHAPE, "run": {"module": "m"}}
# What `scontrol show job` tells of two nodes with 8 CPUs, 4 GB and 2 GPUs each.
HELD = "JobId=7 Nodes=n[1-2] CPU_IDs=0-7 Mem=4096 GRES=gpu:a100:2(IDX:0-1) MinCPUsNode=1"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A shell in an allocation of Slurm; what Slurm tells of it can be set."""
    answers = {"job": HELD, "n[1-2]": "n1\nn2\n", "n1": "n1\n"}
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.chdir(tmp_path)

    def ask(argv: Sequence[str]) -> str:
        return answers["job" if "job" in argv else argv[-1]]

    monkeypatch.setattr(process, "run", ask)
    return answers


def write(**changes: Any) -> list[str]:
    content = json.dumps(SPEC | changes)
    return write_held_job(load(content).spec, plan_of(content))


def test_a_script_runs_in_the_allocation_that_has_its_shape(shell: Any) -> None:
    argv = write()
    script = Path("runs/a/submissions/held.sh").absolute()
    assert argv == ["bash", str(script)]
    assert "torch.distributed.run" in script.read_text()
    shell["job"] = HELD.replace("n[1-2]", "n1")
    # On the login node a script of one node would run its processes there.
    assert write(resources={**SHAPE, "nodes": 1}) == [
        *("srun", "--overlap", "--nodes=1", "--ntasks=1", "--cpu-bind=none", "--cpus-per-task=8"),
        *("bash", str(script)),
    ]


def test_a_run_is_recorded_before_the_next_one_takes_its_place(shell: Any) -> None:
    """Of two runs without a look between them, no command knew anything any more."""
    write()
    start = Path("runs/a/7/attempts/0")
    start.mkdir(parents=True)
    script = Path("runs/a/submissions/held.sh").read_text()
    about = header.read(script)
    assert about is not None
    Path("runs/a/7/plan.json").write_text(header.write_json(about))
    (start / "script").write_text(script)
    (start / "job").write_text("7\n")
    write()
    assert not (start / "script").exists()
    assert find_job("7").name == "a"


@pytest.mark.parametrize(
    ("told", "changes", "message"),
    [
        (HELD.replace("[1-2]", "1"), {}, "nodes: 1, but the spec asks for 2"),
        (
            HELD.replace("a100:2(IDX:0-1)", "a100:1(IDX:0)"),
            {},
            "GPUs of its nodes: 1, but the spec asks for 2",
        ),
        (HELD.replace("0-7", "0-3"), {}, "CPUs of its nodes: 4, but the spec asks for 8"),
        (HELD.replace("4096", "2048"), {}, "memory of its nodes: 2GB, but the spec asks for 4"),
        (HELD, {"array": {"tasks": 2}}, "an array cannot run in one allocation"),
        (HELD, {"on_walltime": {"then": "requeue", "at_most": 2}}, "makes one start"),
        (HELD, {"snapshot": True}, "uses the code in this folder"),
    ],
)
def test_an_allocation_of_another_shape_is_said_before_srun_waits_for_ever(
    shell: Any, told: str, changes: dict[str, Any], message: str
) -> None:
    shell["job"] = told
    resources = {**SHAPE, "walltime": "1h"} if "on_walltime" in changes else SHAPE
    with pytest.raises(UsageError) as refused:
        write(resources=resources, **changes)
    assert message in str(refused.value)
    assert not Path("runs").exists()


def test_a_node_is_named_or_counted_from_0(monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobRecord("7", "a", "slurm", ".", 1.0, ())
    running = StatusReport((JobStatus(job, State("running")),), ())
    monkeypatch.setattr(inside, "look", lambda _: running)
    monkeypatch.setattr(inside, "read_nodes", lambda _: ["n1", "n2"])
    assert [inside.find_node(job, node) for node in (None, "1", "n2")] == ["n1", "n2", "n2"]
    with pytest.raises(UsageError, match=r"no node '2': it runs on n1, n2 \(counted from 0\)"):
        inside.find_node(job, "2")
    monkeypatch.setattr(inside, "read_nodes", lambda _: [])
    for node in (None, "0", "n1"):
        with pytest.raises(UsageError, match="7 is running, but no node of it has started yet"):
            inside.find_node(job, node)


def test_where_no_ssh_leads_to_a_node_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobgen.find", lambda job: job)
    for code, said in ((255, "ssh could not reach the node"), (3, "")):
        monkeypatch.setattr("jobgen.jobs.inside.enter_job", lambda *_, **__: ["ssh", "n1", "true"])
        monkeypatch.setattr("jobgen.process.run_here", lambda _, code=code: code)
        ended = jobgen("shell", "12")
        assert ended.code == code
        assert ended.err.startswith(said)
        assert bool(ended.err) == bool(said)


def test_a_shell_that_holds_nothing_is_told_how_to_get_an_allocation(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(UsageError, match="this shell holds no Slurm job; get one with salloc"):
        write()


@pytest.mark.parametrize(
    ("shown", "options"),
    [
        ("", ["--jobid=7"]),
        ("9 7_2\n", ["--jobid=9"]),  # a task of an array has an id of its own
        ("8 7+1\n", ["--jobid=7", "--het-group=1"]),  # the parts of unequal nodes have numbers
    ],
)
def test_a_step_beside_the_job_goes_to_a_node(shown: str, options: list[str]) -> None:
    argv = schedulers.SCHEDULERS["slurm"].access.shell_argv(
        "7", "n2", ["top"], lambda _: shown, terminal=True
    )
    assert [word for word in argv if word.startswith(("--jobid", "--het"))] == options
    assert argv[0] == "srun"
    assert argv[-3:] == ["--nodelist=n2", "--pty", "top"]


# --- calls -------------------------------------------------------------------------------


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a job that makes calls of functions of a module of the user's."""
    (tmp_path / "mine_in_a_job.py").write_text(
        "class Maths:\n"
        "    @staticmethod\n"
        "    def divide(a, b=2):\n"
        "        return a / b\n"
        "def give(): return lambda: 0\n"
    )
    monkeypatch.setenv("JOBGEN_RUN_DIR", str(tmp_path))
    monkeypatch.setattr("sys.path", ["elsewhere"])
    return tmp_path


def make_call(folder: Path, name: str, *args: Any, **kwargs: Any) -> tuple[bool, Any, str]:
    about = ([str(folder)], "mine_in_a_job", name, False)
    (folder / "about.pickle").write_bytes(pickle.dumps(about))
    (folder / "3.pickle").write_bytes(pickle.dumps((args, kwargs)))
    try:
        call.call_function(str(folder))
    finally:
        kept: tuple[bool, Any, str] = pickle.loads((folder / "result.pickle").read_bytes())
    return kept


def test_the_result_of_a_task_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBGEN_TASK", "3")
    assert make_call(folder, "Maths.divide", 7, b=2) == (True, 3.5, "")


def test_an_exception_ends_the_process_and_is_kept_with_its_traceback(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBGEN_TASK", "3")
    with pytest.raises(ZeroDivisionError):
        make_call(folder, "Maths.divide", 7, b=0)
    good, error, text = pickle.loads((folder / "result.pickle").read_bytes())
    assert (good, type(error)) == (False, ZeroDivisionError)
    assert 'mine_in_a_job.py", line 4, in divide' in text
    assert not (folder / "result.pickle.part").exists()


def test_a_result_that_cannot_be_pickled_is_no_success(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBGEN_TASK", "3")
    with pytest.raises(Exception, match=r"pickle|local object"):
        make_call(folder, "give")
    good, error, text = pickle.loads((folder / "result.pickle").read_bytes())
    assert (good, error) == (False, None)
    assert text.startswith("its result cannot be pickled: ")


def test_one_process_keeps_the_result(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBGEN_TASK", "3")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(FileNotFoundError):
        make_call(folder, "Maths.divide", 1)
