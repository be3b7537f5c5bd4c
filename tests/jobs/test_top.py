"""`jobgen top`: what a running job uses on its nodes, as asked of them or noted by them."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run_folders import Run
from support import jobgen

from jobgen.jobs.top import format_nodes, list_nodes

GIB = 2**30


def test_the_gpus_are_those_that_nvidia_smi_has_listed_last(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write(
        "usage/n1.csv",
        "2026/11/23 14:05:06.123, 0, 5, 100, 81920, 70.1\n"
        "2026/11/23 14:05:06.125, 1, 6, 100, 81920, 70.1\n"
        "2026/11/23 14:05:36.123, 0, 90, 30720, 81920, 300.5\n"
        "2026/11/23 14:05:36.125, 1, 70, 20480, 81920, 300.5\n",
    )
    first, second = list_nodes(run.job, running=False)
    assert [gpu.use for gpu in first.gpus] == [90, 70]
    head, line, other = format_nodes([first, second], running=True)
    assert head.split("  ")[0] == "NODE"
    for words in ("2: 80 % (70-90)", "30 GB of 80 GB"):
        assert words in line, words
    assert other.split() == ["n2", "-", "-", "no", "answer", "-"]
    assert second.gpus == ()
    # What was noted in an earlier start is not what they do now.
    run.write("attempts/1/nodes", "n1\n")
    os.utime(run.job.run_dir / "usage/n1.csv", (1, 1))
    assert list_nodes(run.job, running=False)[0].gpus == ()


def test_the_processes_of_a_running_job_are_asked_of_the_node(tmp_path: Path) -> None:
    """Those that have the variables of the job and of the node, and no others."""
    job = replace(Run(tmp_path).job, scheduler="local")
    hold = "import time; held = b'x' * (200 << 20); print(flush=True)\nwhile True: time.sleep(1)"
    spin = "held = b'x' * (100 << 20); print(flush=True)\nwhile True: pass"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "JOBGEN_RUN_DIR": folder, "JOBGEN_NODE": node},
            stdout=subprocess.PIPE,
        )
        for program, folder, node in (
            (spin, job.run_folder, "n1"),
            (hold, job.run_folder, "n2"),
            (hold, f"{job.run_folder}0", "n2"),
        )
    ]
    try:
        for one in started:
            assert one.stdout is not None
            one.stdout.readline()
        first, second = list_nodes(job, running=True)
    finally:
        for one in started:
            one.kill()
            one.communicate()
    assert (first.processes, second.processes) == (1, 1)
    assert first.memory is not None
    assert second.memory is not None
    assert 100 << 20 < first.memory < 150 << 20
    assert 200 << 20 < second.memory < 250 << 20
    assert first.cpus is not None
    assert first.cpus > 0  # of a busy machine it gets little


def test_a_node_that_does_not_answer_has_no_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    nodes = list_nodes(Run(tmp_path).job, running=True)
    assert [(node.cpus, node.memory, node.age) for node in nodes] == [(None, None, None)] * 2


def test_the_command_prints_a_table_once_where_it_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    run = Run(tmp_path)
    run.write("usage/n1.csv", "2026/11/23 14:05:06.123, 0, 90, 30720, 81920, 300.5\n")
    run.write("metrics.jsonl", '{"kind": "step", "step": 7, "time": 1.0, "loss": 2.5}\n')
    ended = jobgen("top", "4711")
    assert ended.code == 0, ended.err
    first, head, *nodes = ended.out.splitlines()[:4]
    assert first.startswith("job 4711: ")
    assert head.startswith("NODE")
    assert [line.split()[0] for line in nodes] == ["n1", "n2"]
    assert all("not asked" in line for line in nodes)
    assert "it has ended" not in ended.out  # with no scheduler that is not known
    run.write("attempts/0/outcome", "failed 1\n")
    assert jobgen("top", "4711").out.splitlines()[-1] == (
        "it has ended; `jobgen report 4711` shows what it used, and `jobgen logs 4711` its output"
    )
    told = json.loads(jobgen("top", "4711", "--json").out)
    assert [node["node"] for node in told["nodes"]] == ["n1", "n2"]
    assert told["nodes"][0]["gpus"][0]["use"] == 90
    assert told["job"]["id"] == "4711"
    run.write("attempts/0/nodes", "")
    assert "no node has started" in jobgen("top", "4711").out.splitlines()
