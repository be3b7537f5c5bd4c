"""Verdicts and bad nodes as `status`, `diagnose` and `list` show them."""

import json
from pathlib import Path

import pytest
from run_folders import FAILED, Run
from support import jobgen

from jobgen.jobs.verdicts import read_bad_nodes, read_verdicts, sum_bad_nodes

BAD = "n2\tgpu-error\t2026-03-01T12:00:00Z\tRuntimeError: CUDA error: uncorrectable ECC error\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    run = Run(tmp_path)
    run.write("attempts/0/verdict", "restart gpu-error 3 n2\nRuntimeError: CUDA error: ECC\n")
    run.write("attempts/0/outcome", "continued 1\n")
    run.write("attempts/1/nodes", "n1\nn3\n")
    run.write("attempts/1/verdict", "stop program 0 n1\nKeyError: 'x'\x1b]0;title\x07\n")
    run.write("attempts/1/outcome", "failed 1\n")
    run.write("bad-nodes", BAD)
    return run


def test_they_are_read_and_what_is_damaged_is_left_out(run: Run) -> None:
    attempts = [run.job.run_dir / "attempts" / name for name in ("0", "1")]
    first, second = read_verdicts(attempts)
    assert (first.start, first.verdict, first.cause, first.rank) == (0, "restart", "gpu-error", 3)
    assert first.nodes == ("n2",)
    assert "\x1b" not in second.evidence
    (bad,) = read_bad_nodes(run.job.run_folder)
    assert bad.node == "n2"
    run.write("attempts/1/verdict", "\x00\x01")
    run.write("bad-nodes", "n2 without tabs\n" + BAD * 2)
    assert len(list(read_verdicts(attempts))) == 1
    (record,) = sum_bad_nodes([run.job])
    assert (record.node, record.times, record.jobs) == ("n2", 2, ("4711",))


def test_diagnose_and_list_show_them(run: Run) -> None:
    text = run.diagnose(FAILED).as_text()
    assert "start 1 failed; verdict: restart (gpu-error) on n2: RuntimeError" in text
    assert "bad node n2: gpu-error, 2026-03-01T12:00:00Z" in text
    listed = jobgen("list", "--bad-nodes")
    assert listed.out.splitlines()[1].split()[:3] == ["n2", "1", "gpu-error"]
    (node,) = json.loads(jobgen("list", "--bad-nodes", "--json").out)["nodes"]
    assert node["causes"] == ["gpu-error"]


def test_a_node_that_a_job_has_lost_is_listed_without_a_verdict(run: Run) -> None:
    run.write("attempts/0/failed", "lost n2\n")  # as its verdict says
    run.write("attempts/1/failed", "lost n3 n4\nn3 is lost: no sign of life for 120 s\n")
    (run.job.run_dir / "attempts/1/verdict").unlink()
    nodes = json.loads(jobgen("list", "--bad-nodes", "--json").out)["nodes"]
    listed = [(node["node"], node["causes"], node["evidence"]) for node in nodes]
    lost = "n3 is lost: no sign of life for 120 s"
    assert listed[1:] == [("n3", ["node-lost"], lost), ("n4", ["node-lost"], lost)]
    assert (listed[0][:2], nodes[0]["times"]) == (("n2", ["gpu-error"]), 1)
