"""Of a job that waits, `jobgen diagnose` names the process that is waited for."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_folders import LOST, Run

from jobgen.diagnose import flight
from jobgen.jobs import top
from jobgen.jobs.gpu_samples import GpuSample
from jobgen.jobs.record import JobRecord
from jobgen.jobs.top import NodeUse
from jobgen.plan.plan import NodeGroup
from jobgen.rendering import header
from jobgen.schedulers.base import State

RUNNING = State("running")
TIMED_OUT = (
    "[rank{0}]:[E1120 03:11:02.001 ProcessGroupNCCL.cpp:685] [Rank {0}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600042 "
    "milliseconds before timing out.\n"
)
WAITS = """\
no progress for 5 s in: step 3
Current thread 0x00007f42a3e146c0 (most recent call first):
  File "/venv/lib/python3.11/site-packages/jobgen/trainer/watchdog.py", line 68 in _bark
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f42c564cb80 (most recent call first):
  File "/v/site-packages/torch/distributed/distributed_c10d.py", line 3245 in all_reduce
  File "/home/u/train.py", line 58 in step
  File "/home/u/train.py", line 72 in <module>
"""
SLEEPS = WAITS.replace(
    "/v/site-packages/torch/distributed/distributed_c10d.py", "/home/u/data.py"
).replace("3245 in all_reduce", "9 in load")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def dump(*names: str, group: tuple[str, str] = ("0", "default_pg")) -> dict[str, Any]:
    """What torch 2.13 dumps of a process that has entered these collectives."""
    torch_file = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    frames = [
        {"name": "all_reduce", "filename": torch_file, "line": 3245},
        {"name": "step", "filename": "/home/u/train.py", "line": 58},
    ]
    entries = [
        {
            "frames": frames,
            "record_id": number,
            "pg_id": 0,
            "process_group": group,
            "collective_seq_id": number + 1,
            "p2p_seq_id": 0,
            "profiling_name": name,
            "input_sizes": [[4]],
            "state": "scheduled",
            "is_p2p": False,
        }
        for number, name in enumerate(names)
    ]
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}


REDUCE = "nccl:all_reduce"


def traces(run: Run, dumps: dict[int, Any]) -> None:
    for rank, content in dumps.items():
        path = run.job.run_dir / f"errors/n{1 + rank // 2}-flight-{rank}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pickle.dumps(content))


def test_the_straggler_of_a_time_out_is_named_by_the_flight_recorders(run: Run) -> None:
    for rank in (0, 1, 2):
        run.rank(rank, TIMED_OUT.format(rank), after=10 + rank)
    traces(run, {rank: dump(*[REDUCE] * (2 if rank == 3 else 3)) for rank in range(4)})
    run.write("logs/n2/rank-3.err", "", after=1)
    found = run.diagnose()
    assert (found.cause, found.node, found.rank) == ("collective-timeout", "n2", 3)
    assert found.waited_for == (3,)
    assert found.followed == (0, 1, 2)
    first, second, *_ = found.evidence
    assert first.endswith(
        "errors/n2-flight-3:1: rank 3 has last entered nccl:all_reduce [[4]], number 2, at "
        "/home/u/train.py:58"
    )
    assert "rank 0 has last entered nccl:all_reduce [[4]], number 3" in second


@pytest.mark.parametrize(
    ("dumps", "ranks"),
    [
        # 3 hangs; 2 waits for it in a group of two, and is behind in that of all.
        (
            {
                0: [dump(REDUCE, REDUCE)],
                2: [dump(REDUCE), dump(REDUCE, REDUCE, group=("1", "tp"))],
                3: [dump(REDUCE), dump(REDUCE, group=("1", "tp"))],
            },
            (3,),
        ),
        # All have come as far, but one runs something else.
        ({0: [dump(REDUCE)], 1: [dump(REDUCE)], 2: [dump("nccl:broadcast")]}, (2,)),
        # One has left nothing.
        ({0: [dump(REDUCE)], 1: [dump(REDUCE)], 2: [dump(REDUCE)]}, (3,)),
        ({0: [dump(REDUCE)], 1: [dump()]}, (1,)),
        ({rank: [dump(REDUCE)] for rank in range(4)}, None),
    ],
    ids=["nested", "odd", "absent", "none", "alike"],
)
def test_who_is_behind(
    tmp_path: Path, dumps: dict[int, Any], ranks: tuple[int, ...] | None
) -> None:
    paths = {}
    for rank, several in dumps.items():
        whole = several[0]
        for other in several[1:]:
            whole["entries"] += other["entries"]
        paths[rank] = tmp_path / f"flight-{rank}"
        paths[rank].write_bytes(pickle.dumps(whole))
    found = flight.find_behind(paths)
    assert (found and found[0]) == ranks


class _Harmful:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch harmed",)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        pickle.dumps(_Harmful()),
        pickle.dumps({"entries": _Harmful()}),
        pickle.dumps({"entries": [1, {"process_group": 3}]})[:-3],
        pickle.dumps([1]),
        pickle.dumps({"entries": 5}),
    ],
)
def test_a_dump_that_is_none_is_passed_over_and_runs_nothing(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flight-0").write_bytes(content)
    assert flight.load(tmp_path / "flight-0") is None
    assert flight.find_behind({0: tmp_path / "flight-0"}) is None
    assert not (tmp_path / "harmed").exists()


def test_entries_of_another_form_are_passed_over(tmp_path: Path) -> None:
    odd = {"entries": [None, {"process_group": 3}, *dump(REDUCE)["entries"]], "pg_config": [1]}
    (tmp_path / "flight-0.json").write_text(json.dumps(odd))
    (tmp_path / "flight-1.json").write_text(json.dumps(dump(REDUCE, REDUCE)))
    found = flight.find_behind({rank: tmp_path / f"flight-{rank}.json" for rank in range(2)})
    assert found
    assert found[0] == (0,)


def test_the_trainers_stacks_tell_who_does_not_wait(run: Run) -> None:
    for rank in range(4):
        text = "jobgen.trainer: error: no progress for 5 s in step 3; stacks in hangs\n"
        run.rank(rank, text, after=9 + rank)
        run.write(f"hangs/host-rank-{rank}.stacks", SLEEPS if rank == 2 else WAITS)
    found = run.diagnose()
    assert (found.cause, found.node, found.rank) == ("hang", "n2", 2)
    assert found.place == "/home/u/data.py:9, in load"
    assert found.evidence[0].endswith('rank-2.stacks:7: File "/home/u/data.py", line 9 in load')
    (run.job.run_dir / "hangs/host-rank-2.stacks").unlink()
    assert run.diagnose().rank == 2, "it could not even write"


def test_the_rank_that_did_not_take_part_is_named_with_the_end_of_its_log(run: Run) -> None:
    run.write("logs/n2/rank-3.err", "loading\n", after=1)
    run.rank(0, LOST, after=20)
    for rank in (1, 2):
        run.rank(rank, TIMED_OUT.format(rank), after=10)
    found = run.diagnose()
    assert (found.cause, found.node, found.rank) == ("collective-timeout", "n2", 3)
    assert found.title == "it did not take part, and the others waited for it"
    assert found.evidence[0].endswith("rank-3.err:1: loading")
    assert found.followed == (0, 1, 2)


def test_of_several_that_did_not_say_that_they_waited_none_is_blamed(run: Run) -> None:
    for rank in (1, 2):
        run.write(f"logs/n{1 + rank // 2}/rank-{rank}.err", "loading\n", after=1)
    for rank in (0, 3):
        run.rank(rank, TIMED_OUT.format(rank), after=10)
    found = run.diagnose()
    assert (found.cause, found.node, found.rank) == ("collective-timeout", None, None)
    assert "ranks 1, 2 did not say that they waited" in found.title


def test_ranks_that_waited_at_another_line_than_the_others_are_named(run: Run) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/u/ddp.py", line {}, in step\n'
        "RuntimeError: [gloo/unbound_buffer.cc:81] Timed out waiting 30000ms for recv operation\n"
    )
    for rank in (0, 2, 3):
        run.rank(rank, text.format(19 if rank == 3 else 42), after=10)
    run.write("logs/n1/rank-1.err", "", after=1)  # its agent has ended it
    found = run.diagnose()
    assert (found.node, found.rank) == ("n2", 3)
    assert found.title == "it waits at ddp.py:19, and 2 others wait at ddp.py:42"


def alive(run: Run, *, after: float) -> None:
    """Signs of life: it is so late on the shared file system."""
    for node in (0, 1):
        run.write(f"attempts/0/node-{node}.alive", "1\n", after=after)


def steps(run: Run, *seconds: float, written: float) -> None:
    lines = [
        json.dumps({"kind": "step", "step": number, "time": run.clock + second})
        for number, second in enumerate(seconds)
    ]
    run.write("metrics.jsonl", "\n".join(lines) + "\n", after=written)


def test_a_job_that_gets_on_is_healthy_and_when_it_has_last_written_is_said(run: Run) -> None:
    steps(run, 10, 70, 130, written=130)
    alive(run, after=200)
    found = run.diagnose(RUNNING)
    assert (found.cause, found.rank) == ("healthy", None)
    assert found.as_text().splitlines()[1] == "it runs; it has last written 70 s ago"
    assert 'metrics.jsonl:3: {"kind": "step", "step": 2' in found.evidence[0]


def test_a_job_that_is_alive_and_writes_nothing_hangs_and_its_last_is_named(run: Run) -> None:
    steps(run, 10, 70, 130, written=130)
    for rank in range(4):
        last = 2 if rank == 1 else 3
        text = "".join(f"step {number} of 9\n" for number in range(last + 1))
        run.write(f"logs/n{1 + rank // 2}/rank-{rank}.out", text, after=120)
        run.write(f"logs/n{1 + rank // 2}/rank-{rank}.err", "", after=2)
    alive(run, after=700)
    assert run.diagnose(RUNNING).cause == "healthy", "steps take a minute"
    alive(run, after=800)
    run.write(
        "logs/n1/agent.log", "jobgen: rank 0 is process 17\njobgen: rank 1 is process 23\n", after=2
    )
    found = run.diagnose(RUNNING)
    assert (found.cause, found.node, found.rank) == ("hang", "n1", 1)
    assert "`jobgen shell 4711 --node n1 -- py-spy dump --pid 23`" in found.remedy
    assert "has written nothing for 670 s" in found.title
    assert "rank-1.out:3: step 2 of 9" in found.evidence[0]
    steps(run, 10, 90, 130, written=130)
    assert run.diagnose(RUNNING).cause == "healthy", "one step took longer"
    steps(run, 10, 70, 130, written=130)
    assert run.diagnose(State("timeout", "TIMEOUT")).title.startswith(
        "it had written nothing for 670 s when its walltime was over"
    )


def test_without_metrics_ten_minutes_of_silence_are_a_hang_of_nobody_in_particular(
    run: Run,
) -> None:
    for rank in range(4):
        run.write(f"logs/n{1 + rank // 2}/rank-{rank}.err", "begins\n", after=5)
    alive(run, after=500)
    assert run.diagnose(RUNNING).cause == "healthy"
    alive(run, after=700)
    found = run.diagnose(RUNNING)
    assert (found.cause, found.rank) == ("hang", None)
    assert "no file shows which rank the others wait for" in found.title
    run.write("logs/n2/rank-2.out", "reads a shard\n", after=6)
    assert run.diagnose(RUNNING).evidence[0].endswith("rank-2.out:1: reads a shard")
    assert "`jobgen shell 4711 --node NODE -- py-spy dump --pid PID`" in found.remedy
    assert "a short timeout in init_process_group" in found.remedy


@pytest.mark.parametrize("talks", ["monitor", "server"])
def test_a_job_of_roles_hangs_only_if_none_of_them_writes(run: Run, talks: str) -> None:
    roles = ("server", "monitor")
    about = header.Header("a", "a.yaml", "", "slurm", groups=(NodeGroup(2, 1),), roles=roles)
    run.write("plan.json", header.write_json(about), after=60 - run.clock)  # as it was submitted
    for role in roles:
        run.write(f"roles/{role}/plan.json", header.write_json(about))
        run.write(f"roles/{role}/attempts/0/script", "")
        run.write(f"roles/{role}/attempts/0/nodes", "n1\n")
        run.write(f"roles/{role}/logs/n1/rank-0.err", "loading\n", after=1)
    run.write(f"roles/{talks}/logs/n1/rank-0.err", "loading\nstep 9\n", after=118)
    run.write("roles/monitor/attempts/0/outcome", "cancelled 143\n", after=120)
    about = run.diagnose(State("timeout", "TIMEOUT"))
    assert (about.cause, about.role) == ("walltime", "")
    assert "step 9" in about.evidence[-1]
    run.write(f"roles/{talks}/logs/n1/rank-0.err", "loading\n", after=1)
    about = run.diagnose(State("timeout", "TIMEOUT"))
    assert "it had written nothing for 119 s" in about.title
    assert "which rank" not in about.title


@pytest.mark.parametrize(("state", "cause"), [("timeout", "walltime"), ("running", "hang")])
def test_one_process_that_is_silent_waits_for_no_other(run: Run, state: Any, cause: str) -> None:
    about = header.Header("a", "a.yaml", "", "slurm", groups=(NodeGroup(1, 1),), mode="direct")
    run.write("plan.json", header.write_json(about), after=60 - run.clock)  # as it was submitted
    run.write("attempts/0/nodes", "n1\n", after=-3600)
    run.write("logs/n1/rank-0.err", "serving at port 8000\n", after=-3500)
    found = run.diagnose(State(state, "TIMEOUT" if state == "timeout" else ""))
    assert (found.cause, found.ranks) == (cause, ())
    assert "it had written nothing for 3" in found.title or state == "running"
    assert "serving at port 8000" in found.as_text()
    assert "rank" not in found.title
    assert "init_process_group" not in found.remedy


def test_a_run_that_ends_at_its_walltime_while_it_gets_on_is_told_to_ask_for_more(
    run: Run,
) -> None:
    steps(run, 10, 70, 130, written=130)
    alive(run, after=200)
    assert run.diagnose(State("timeout", "TIMEOUT")).cause == "walltime"


def test_a_process_that_was_started_again_is_no_cause_while_the_job_gets_on(run: Run) -> None:
    run.rank(2, "Traceback (most recent call last):\nValueError: seven\n", after=5)
    run.write("logs/n1/rank-0.out", "step 900\n", after=30)
    alive(run, after=100)
    assert run.diagnose(RUNNING).cause == "exception"
    run.write("logs/n1/rank-0.out", "step 9000\n", after=95)
    assert run.diagnose(RUNNING).cause == "healthy"


def test_a_quiet_job_is_well_only_if_its_nodes_say_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpus: dict[str, float | None] = {"n1": 0.03, "n2": 0.0}
    gpus = {"n1": 0.0, "n2": 0.0}
    asked = []

    def list_nodes(job: JobRecord, *, running: bool) -> list[NodeUse]:
        asked.append(job.id)
        return [
            NodeUse(node, (GpuSample(gpus[node], 1.0, 2.0, None),), busy, 1.0, 3, 0.0)
            for node, busy in cpus.items()
        ]

    monkeypatch.setattr(top, "list_nodes", list_nodes)
    run.write("logs/n1/rank-0.err", "begins\n", after=5)
    alive(run, after=40)
    assert run.diagnose(RUNNING).title == "it runs; it has last written 35 s ago"
    assert not asked  # it has written a moment ago
    alive(run, after=209)
    found = run.diagnose(RUNNING)
    assert found.title.startswith("it has been quiet for 204 s, and all nodes are idle: ")
    quiet = "it runs; it has last written 204 s ago"
    gpus["n2"] = 100.0
    assert run.diagnose(RUNNING).title == quiet
    gpus["n2"] = 0.0
    for busy in (2.0, None):  # it does not answer
        cpus["n2"] = busy
        assert run.diagnose(RUNNING).title == quiet
    cpus.clear()
    assert run.diagnose(RUNNING).title == quiet


def test_a_rank_that_takes_five_times_as_long_as_all_others_is_named_though_all_is_well(
    run: Run,
) -> None:
    def time_steps(slowest: float) -> tuple[str, ...]:
        for rank in range(4):
            took = slowest if rank == 3 else 0.4
            lines = (f"step {step} took {took:.2f}s\n" for step in range(9))
            log = f"logs/n{1 + rank // 2}/rank-{rank}"
            run.write(f"{log}.err", "", after=1)
            run.write(f"{log}.out", "".join(lines), after=9)
        return run.diagnose(State("done")).warnings

    named = ("rank 3 on n2 is slow (others: 0.4 s): step 8 took 2.50s",)
    assert (time_steps(2.5), time_steps(1.9)) == (named, ())


@pytest.mark.parametrize(
    ("words", "rank"),
    [
        ("TimeoutError: barrier of epoch 3: 10 s without worker-3; missing: 3", 3),
        ("TimeoutError: rank 3 has not answered", 3),
        ("RuntimeError: DataLoader timed out after 60 s waiting for worker 3", 0),
        ("TimeoutError: task 3 in pool 'decode' timed out", 0),
        ("TimeoutError: [Errno 110] Connection timed out: 10.0.0.3", 0),
        ("RuntimeError: rank 2 and rank 3 have not answered", 0),
        ("ValueError: rank 3 is no valid choice", 0),
    ],
)
def test_who_is_named_as_missing_is_named_unless_it_is_no_rank(
    run: Run, words: str, rank: int
) -> None:
    raised = (
        f'Traceback (most recent call last):\n  File "/a/train.py", line 9, in <module>\n{words}\n'
    )
    run.rank(0, raised, after=9)
    for other in (1, 2, 3):
        run.write(f"logs/n{1 + other // 2}/rank-{other}.err", f"step {other}\n", after=4)
    assert run.diagnose().rank == rank
