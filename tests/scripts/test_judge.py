"""The verdict in a script with `on_failure`: whose the failure is, and which node is to blame."""

import subprocess
from pathlib import Path

import pytest
from support import ROOT

JUDGE = """
set +eu
for file in core $4 restart; do . "$1/$file.sh"; done
restarts=3 run_dir=$2 attempt=$3 attempt_dir=$2/attempts/$3 names=(n1 n2)
chosen=$'n1\\nn2' lost=$5
reason=${lost:+": $6${lost% *} is lost: Slurm says that it has failed"}
status=1
judge
"""


def judge(
    folder: Path,
    *,
    launcher: str = "",
    rank: str = "",
    attempt: int = 0,
    kind: str = "nodes",
    lost: str = "",
    role: str = "",
) -> tuple[list[str], str]:
    """Return the words of the verdict, and its line; rank 1 on n2 has failed if it says a word."""
    own, logs = folder / f"attempts/{attempt}", folder / "logs/n2"
    own.mkdir(parents=True)
    logs.mkdir(parents=True, exist_ok=True)
    (own / "sizes").touch()
    (own / "launcher.log").write_text(f"{launcher}\n")
    if rank:
        if kind == "nodes":
            (own / "failed").write_text("1 1\n")
        (logs / "rank-1.err").write_text(f"{rank}\n")
        begun = f"jobgen: n2 is node 1 in start {attempt + 1}; the rendezvous is at n1:20000\n"
        (logs / "agent.log").write_text(f"{begun}rank : 1\nexitcode : 1\n")
    runtime = str(ROOT / "templates" / "runtime")
    argv = ["bash", "-c", JUDGE, "judge", runtime, str(folder), str(attempt), kind, lost, role]
    subprocess.run(argv, check=False, capture_output=True)
    words, line = (own / "verdict").read_text().rstrip("\n").split("\n")
    return words.split(), line


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ("srun: error: Timed out in slurm_launch_step_wait", ["unknown", "ambiguous", "-"]),
        ("  Remote daemon: [[53,0],1] on node n2", ["restart", "node-lost", "-", "n2"]),
        (
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED DUE TO NODE FAILURE ***",
            ["restart", "node-lost", "-"],
        ),
        ("slurmstepd: error: Munge encode failed: no socket", ["restart", "launch-failed", "-"]),
    ],
)
def test_where_the_launcher_alone_failed_a_node_is_blamed_if_it_is_named(
    tmp_path: Path, launcher: str, words: list[str]
) -> None:
    assert judge(tmp_path, launcher=launcher) == (words, launcher)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("ValueError: shapes do not go together", ["stop", "program", "1", "n2"]),
        ("CUDA error: uncorrectable ECC error", ["restart", "gpu-error", "1", "n2"]),
        ("jobgen: preflight: n1: clock 41 s ahead", ["restart", "preflight", "1", "n1"]),
        ("OSError: [Errno 98] Address already in use", ["unknown", "ambiguous", "1", "n2"]),
        (
            "OSError: [Errno 28] No space left on device: '/tmp/x'",
            ["unknown", "ambiguous", "1", "n2"],
        ),
        ("OSError: [Errno 28] No space left on device: '/home/x'", ["stop", "program", "1", "n2"]),
        (
            "jobgen.trainer: error: --batch-samples: this task wants --batch-tokens",
            ["stop", "program", "1", "n2"],
        ),
        ("t.py: error: choose one of --lr and --schedule", ["stop", "program", "1", "n2"]),
        ("UserWarning: [Errno 28] No space left on device", ["unknown", "exit-1", "1", "n2"]),
        ("The actor is dead because its node has died. ip: n0", ["restart", "node-lost", "1"]),
        (
            "Indexing.cu:9: block: [1,0,0], thread: [2,0,0] Assertion `i < size` failed.",
            ["stop", "program", "1", "n2"],
        ),
    ],
)
def test_what_a_rank_has_said_decides(tmp_path: Path, said: str, words: list[str]) -> None:
    assert judge(tmp_path, rank=said) == (words, said)


BY_N1 = (
    "slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2030-01-02T03:04:05 DUE TO NODE FAILURE,"
    " SEE SLURMCTLD LOG FOR DETAILS ***"
)


@pytest.mark.parametrize(
    ("launcher", "lost", "nodes"),
    [
        (f"srun: error: Node failure on n2\n{BY_N1}", "", ["n2"]),
        (f"srun: error: Node failure on n2\n{BY_N1}", "n2", ["n2"]),
        (BY_N1, "", []),
        (
            "n1: lost communication with a daemon\n  Remote daemon: x on node n2",
            "",
            ["n2"],
        ),
        ("[n1:99] ping failed on n2", "", ["n2"]),
        ("srun: error: Node failure on n2", "n2 n1", ["n1", "n2"]),
    ],
)
def test_a_node_that_tells_of_the_loss_of_another_is_not_to_blame(
    tmp_path: Path, launcher: str, lost: str, nodes: list[str]
) -> None:
    assert judge(tmp_path, launcher=launcher, lost=lost)[0] == ["restart", "node-lost", "-", *nodes]


def test_a_node_that_a_role_has_lost_is_to_blame(tmp_path: Path) -> None:
    words, line = judge(tmp_path, lost="n2", role="role train: ")
    assert words == ["restart", "node-lost", "-", "n2"]
    assert line == "jobgen: FAILED: role train: n2 is lost: Slurm says that it has failed"


def test_a_full_file_system_that_is_not_named_may_be_the_nodes(tmp_path: Path) -> None:
    said = "OSError: [Errno 28] No space left on device"
    later = f"-bash: cannot create temp file: {said[19:]}\nls: not found"
    for number, text in enumerate([said, later, f"{said}\nValueError: the file is cut short"]):
        assert judge(tmp_path / f"{number}", rank=text)[0][:2] == ["unknown", "ambiguous"]


def test_a_file_that_is_missed_and_is_there_was_hidden_by_the_machine(tmp_path: Path) -> None:
    (tmp_path / "data.bin").touch()
    for number, said in enumerate(
        [
            "FileNotFoundError: [Errno 2] No such file or directory: '{}/data.bin'",
            "python3: can't open file '{}/data.bin': [Errno 2] No such file or directory",
            "run.sh: line 3: {}/data.bin: No such file or directory",
        ]
    ):
        missing, there = said.format("/no/where"), said.format(tmp_path)
        assert judge(tmp_path / f"{number}", rank=missing)[0][:2] == ["stop", "program"]
        assert judge(tmp_path / f"{number}-there", rank=there)[0][:2] == ["unknown", "hidden-file"]


def test_the_only_node_leaves_no_word_of_its_own_and_its_program_is_judged(tmp_path: Path) -> None:
    said = "ValueError: shapes do not go together"
    assert judge(tmp_path, rank=said, kind="alone") == (["stop", "program", "1", "n2"], said)


def test_peers_that_lose_one_another_again_without_progress_end_the_run(tmp_path: Path) -> None:
    said = "RuntimeError: Connection closed by peer [10.0.0.1]:20000"
    assert judge(tmp_path, rank=said)[0][:2] == ["restart", "peer-lost"]
    words, line = judge(tmp_path, rank=said, attempt=1)
    assert words[:2] == ["stop", "peer-lost"]
    assert line == f"{said} (again, and nothing was saved in between)"


def test_another_node_that_fails_in_its_turn_ends_no_run(tmp_path: Path) -> None:
    for attempt in (0, 1):
        found = judge(
            tmp_path, launcher=f"srun: error: Node failure on n{attempt + 1}", attempt=attempt
        )
        assert found[0] == ["restart", "node-lost", "-", f"n{attempt + 1}"]


@pytest.mark.parametrize(
    ("count", "kept", "nodes"), [(2, 0, "n3 n4"), (3, 0, "n2 n3 n4"), (2, 1, "n1 n3")]
)
def test_bad_nodes_are_chosen_last_and_before_them_the_suspected(
    tmp_path: Path, count: int, kept: int, nodes: str
) -> None:
    (tmp_path / "avoid").write_text("n2\nn1\n")  # n1 is bad
    program = f"""
        set -euo pipefail
        . {ROOT}/templates/runtime/restart.sh
        run_dir=$PWD attempt_dir=$PWD attempt=1 job_number=7 names=(n1 n2 n3 n4)
        choose_nodes {count} {kept}
        echo "${{names[*]}}"
    """
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{nodes}\n", "")


def test_a_failure_without_a_word_is_told_so(tmp_path: Path) -> None:
    words, line = judge(tmp_path)
    assert (words[0], line) == ("unknown", "it said nothing")
    assert (
        judge(tmp_path, attempt=1)[1] == "it said nothing (again, and nothing was saved in between)"
    )
