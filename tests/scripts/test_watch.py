"""How the first node finds out that another is lost: the script looks at the nodes' records."""

import re
import subprocess
from pathlib import Path

from support import ROOT

RUNTIME = ROOT / "templates" / "runtime"


def looks(folder: Path, *rounds: str) -> list[str]:
    """What each of the looks says, after the commands of its round; nodes are n1, n2.x and n3."""
    program = [
        "set -euo pipefail",
        f"cd {folder}; attempt_dir=$PWD run_dir=$PWD",
        "names=(n1 n2.x n3) reason=''",
        f". {RUNTIME}/watch.sh; . {RUNTIME}/lost.sh; lost=''",
        "sleep 600 & launchers=($!); trap 'kill $launchers' EXIT",
    ]
    for number, commands in enumerate(rounds):
        program += [f"round={number}", commands, 'turn=0; find_lost; echo "$reason"']
    ended = subprocess.run(["bash", "-c", "\n".join(program)], capture_output=True, text=True)
    assert ended.stderr == ""
    return ended.stdout.splitlines()


def signs(*nodes: int) -> str:
    return "; ".join(f"echo $round >node-{node}.alive" for node in nodes)


def test_a_node_that_falls_silent_is_named_after_six_looks(tmp_path: Path) -> None:
    said = looks(tmp_path, *[signs(0, 1, 2)] * 3, *[signs(0, 2)] * 6)
    assert said == [""] * 8 + [": n2.x is lost: no sign of life for 120 s"]


def test_two_nodes_that_fall_silent_are_both_named(tmp_path: Path) -> None:
    said = looks(tmp_path, *[signs(0, 1, 2)] * 3, *[signs(0)] * 6)
    assert said[-1] == ": n2.x is lost: no sign of life for 120 s; so is n3"
    assert (tmp_path / "failed").read_text() == f"lost n2.x n3\n{said[-1][2:]}\n"


def test_a_node_that_never_gave_a_sign_has_longer(tmp_path: Path) -> None:
    said = looks(tmp_path, *[signs(0, 1)] * 16)
    assert said == [""] * 15 + [": n3 is lost: no sign of life for 300 s"]


def test_a_node_whose_launcher_ends_before_its_first_record_was_not_started(
    tmp_path: Path,
) -> None:
    """On PBS its words are in the job's output: that is read too, where it is a file."""
    (tmp_path / "launcher.log").write_text("pbsdsh: task 0x00000000 exit status 1\n")
    began = "touch node-0.started; : & wait $!; launchers+=($! $!)"
    wrote = 'exec 2>job.out; echo "jobgen: see $PWD/" >&2; echo "mkdir: $PWD/logs: full" >&2'
    code = ": n2.x: not started: pbsdsh: task 0x00000000 exit status 1; so is n3"
    assert looks(tmp_path, began, ":") == ["", code]
    words = "n2.x: not started: mkdir: logs: full; so is n3"
    assert looks(tmp_path, f"{began}; {wrote}", ":") == ["", f": {words}"]
    assert (tmp_path / "failed").read_text() == f"lost n2.x n3\n{words}\n"
    assert looks(tmp_path, f"{began}; touch node-1.started node-2.started", ":") == ["", ""]


def test_a_node_that_has_ended_need_not_give_signs(tmp_path: Path) -> None:
    assert looks(tmp_path, signs(0, 1, 2), "touch node-1.ended", *[signs(0, 2)] * 8) == [""] * 10


def test_looks_count_and_not_time_so_that_a_stalled_file_system_is_nobodys_fault(
    tmp_path: Path,
) -> None:
    assert looks(tmp_path, signs(0, 1, 2), "sleep 1", signs(0, 1, 2)) == [""] * 3


def test_a_role_gives_signs_while_the_node_of_the_script_answers(tmp_path: Path) -> None:
    """Its own first node may be the lost one, which says nothing of the others."""
    (tmp_path / "role").write_text("role=train script_node=n1 MASTER_PORT=20005\n")
    program = "\n".join(
        [
            "MASTER_ADDR=n2 tmp_dir=/ node_rank=0 node=n2 this_script=/",
            f". {RUNTIME}/guard.sh; . {RUNTIME}/roles.sh; enter_role {tmp_path}/role",
            'setsid() { echo "asks ${*: -2:1}"; }; start_guard; wait',
        ]
    )
    ended = subprocess.run(["bash", "-euc", program], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("asks n1/20005\n", "")


def test_readmes_bound_is_that_of_the_signs_of_life() -> None:
    found = re.search(r"^pause=(\d+) most_same=(\d+) ", (RUNTIME / "lost.sh").read_text(), re.M)
    assert found
    beat, silent = map(int, found.groups())
    believed = 60  # nfs(5), acregmax: how long the first node may see an old sign
    stopping = 30 + 10
    bound = beat * (silent + 2) + believed - beat + stopping
    assert bound <= 240
    assert "within 4 minutes" in (ROOT / "docs" / "concepts" / "the-script.md").read_text()
