"""Whether a chain goes on: the script decides at the end of a start."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, plan_of

from jobgen.rendering.render import render


@pytest.mark.parametrize("node", ["", "n1"])
def test_a_full_disk_is_no_loss_of_nodes(tmp_path: Path, node: str) -> None:
    """The nodes' last records are missing, as nothing can be written any more."""
    (tmp_path / "nodes").write_text("n1\nn2\n")
    (tmp_path / "node-0.started").touch()
    (tmp_path / "node-1.started").touch()
    for name in ("lost", "killed"):
        (tmp_path / name).symlink_to("/dev/full")
    program = f"""
        has() {{ false; }}; say() {{ echo "$*"; }}
        . {ROOT}/templates/runtime/chain.sh
        at_most=3 chain=requeue names=(n1 n2) attempt=0 run_dir={tmp_path} attempt_dir={tmp_path}
        word='' lost='' stop='' warned='' status=1 SLURMD_NODENAME={node}
        settle_chain
        echo "$word$status$reason"
    """
    ended = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    assert ended.stdout == f"1: nothing can be written to {tmp_path} any more\n"


SETTLE = """
    has() { [[ $1 == settle_chain ]]; }; say() { echo "$*"; }
    . templates/runtime/chain.sh; . templates/runtime/notice.sh
    at_most=3 chain=held names=(n1 n2) attempt=0 run_dir=$1 attempt_dir=$1 run_end=9999999999
    word='' lost='' stop='' warned=$2 status=$3 reason=$4
    settle_walltime
    echo "$word $status"
"""


@pytest.mark.parametrize(
    ("warned", "status", "reason", "outcome"),
    [
        ("", 3, "", " 3"),  # the others have saved as they were ended
        ("", 0, "", "continued 0"),  # its own decision
        ("5", 1, "", "continued 0"),  # to torchrun, a stop may be an error
        ("", 1, ": PREEMPTED: by x", "continued 0"),
        ("", 1, ": n2: not started: x", " 1"),
    ],
)
def test_a_failure_is_no_stop_though_others_have_stopped(
    tmp_path: Path, warned: str, status: int, reason: str, outcome: str
) -> None:
    (tmp_path / "nodes").write_text("n1\nn2\n")
    (tmp_path / "progress").write_text("before")
    (tmp_path / "STOPPED").touch()
    argv = ["bash", "-c", SETTLE, "settle", tmp_path, warned, str(status), reason]
    ended = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT)
    assert ended.stdout.splitlines()[-1] == outcome, ended.stderr


@pytest.mark.parametrize(
    ("ended", "lost", "saved", "failed", "said"),
    [
        ("1", "", True, "", "the processes on n1,n3 were killed"),
        ("", "", True, "", "the processes on n1,n2,n3 were killed"),
        ("", "", False, "", "the processes on n1,n2,n3 were killed"),
        ("", "", True, "1 3", ""),  # a process has failed, and was not killed
        ("0", "", True, "", "the run goes on without n2,n3"),
        ("0 1 2", "n1", True, "", "the run goes on without n1"),  # Slurm says so
    ],
)
def test_a_node_on_which_the_script_itself_goes_on_is_not_lost(
    tmp_path: Path, ended: str, lost: str, saved: bool, failed: str, said: str
) -> None:
    """Slurm kills all of a step where it has no room, or an operator does."""
    for index in range(3):
        (tmp_path / f"node-{index}.started").touch()
    for index in ended.split():
        (tmp_path / f"node-{index}.ended").touch()
    (tmp_path / "nodes").touch()
    if failed:
        (tmp_path / "failed").write_text(failed)
    program = SETTLE.replace("chain=held names=(n1 n2)", "chain=requeue names=(n1 n2 n3)")
    program = program.replace("lost=''", f"SLURMD_NODENAME=n1 lost={lost} job_id=7 killed=''")
    program = program.replace(
        "settle_walltime",
        "scontrol() { :; }; exclude_lost() { :; }; hash_progress >$1/progress; "
        + ("mkdir $1/checkpoints; echo 1 >$1/checkpoints/1; " if saved else "")
        + "settle_walltime",
    )
    argv = ["bash", "-c", program, "settle", tmp_path, "", "137", ""]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT)
    lines = done.stdout.splitlines()
    assert lines[0] == (said or " 137"), done.stderr
    assert (lines[-1] == "continued 0") == (saved and said != ""), lines


@pytest.mark.parametrize("then", ["held", "resubmit"])
def test_only_where_a_job_can_exclude_nodes_does_the_run_go_on_without_them(
    tmp_path: Path, then: str
) -> None:
    (tmp_path / "nodes").write_text("n1\nn2\n")
    (tmp_path / "progress").write_text("before")
    program = SETTLE.replace("chain=held", f"chain={then}").replace("lost=''", "lost=n2")
    program = program.replace("settle_walltime", "settle_successor() { :; }; settle_walltime")
    argv = ["bash", "-c", program, "settle", tmp_path, "", "1", ""]
    said = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT).stdout.splitlines()[0]
    known = {"held": "; PBS may assign n2 again", "resubmit": " without n2"}
    assert said == f"the run goes on{known[then]}"


@pytest.mark.parametrize(
    ("printed", "early"),
    [("=>> PBS: job killed: walltime 40 exceeded limit 40", "continued 143"), ("other", "")],
)
def test_a_walltime_that_was_made_shorter_is_not_a_cancellation(
    tmp_path: Path, printed: str, early: str
) -> None:
    program = f"""
        has() {{ [[ $1 == settle_chain ]]; }}
        . {ROOT}/templates/runtime/notice.sh
        run_end=9999999999 early_outcome=''
        echo "{printed}" >&2
        note_signal
        echo "$early_outcome"
    """
    with (tmp_path / "err").open("w") as err:
        done = subprocess.run(
            ["bash", "-c", program], stdout=subprocess.PIPE, stderr=err, text=True
        )
    assert done.stdout == f"{early}\n"


@pytest.mark.parametrize("failed", ["failed", "start-of-server/failed"])
def test_a_notice_that_comes_after_a_failure_asks_nobody(tmp_path: Path, failed: str) -> None:
    (tmp_path / "start-of-server").mkdir()
    program = f"""
        has() {{ false; }}; say() {{ echo "$*"; }}; remind() {{ :; }}
        . {ROOT}/templates/runtime/notice.sh
        attempt_dir=$PWD run_dir=$PWD warned='' stop='' run_end=0 notice=60 last_call=30
        mind_walltime; echo "${{warned:+asked}}"
    """
    run = ["bash", "-c", program]
    asked = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    (tmp_path / failed).write_text("1 3\n")
    late = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert (asked.stdout.splitlines()[-1], late.stdout) == ("asked", "\n")


SAVES = "trap ': >\"$JOBGEN_RUN_DIR/STOPPED\"; exit 0' TERM; : >ready; "
SAVES += "for _ in {1..300}; do sleep 0.1; done"
DIES = "until [[ -e ready ]]; do sleep 0.1; done; exit 3"
ONE = {"command": ["bash", "-c", f"if ((RANK)); then {DIES}; else {SAVES}; fi"]}
TWO = {
    "server": {"nodes": 1, "run": {"command": ["bash", "-c", DIES]}},
    "train": {"nodes": 1, "run": {"command": ["bash", "-c", SAVES]}},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"run": ONE, "launch": {"mode": "direct"}}, "FAILED with exit code 3: rank 1 on node1"),
        (
            {"run": ONE, "launch": {"mode": "direct"}, "on_failure": "restart"},
            "verdict: unknown (exit-3) on node1: ",
        ),
        ({"roles": TWO}, "FAILED: role server with exit code 3: rank 0 on node0"),
    ],
)
def test_a_crash_is_a_failure_though_the_others_save_and_stop(
    tmp_path: Path, what: dict[str, Any], said: str
) -> None:
    job = {"name": "a", "resources": {"nodes": 2, "walltime": "9m"}, "on_walltime": {}} | what
    (tmp_path / "job.sh").write_text(render(plan_of(job, scheduler="local")))
    ended = subprocess.run(["bash", "job.sh"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, said in ended.stdout) == (3, True), ended.stdout
    assert any(tmp_path.glob("runs/a/*/STOPPED"))
