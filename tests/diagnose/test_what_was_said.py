"""What a process is said to have ended of: not what others had printed who went on.

Each case has what the four ranks print, with {end} where the one that fails prints more.
"""

from pathlib import Path

import pytest
from run_folders import Run

from jobgen.schedulers.base import State

NOISE = "2026-11-26 23:18:00 x ERROR cannot load libfoo.so: not found; using plain\n"
RAISED = """\
Traceback (most recent call last):
  File "/h/a.py", line 3, in load
    raise ValueError("bad row")
ValueError: bad row
"""
OF_WORKER = RAISED.replace("bad row", "worker 2 is bad")
CUT = RAISED[: RAISED.index("ValueError: bad")]
SKIPPED = f"2026-11-26 23:18:00 x ERROR molecule 4 is skipped\n{RAISED}"
STEP = "2026-11-26 23:18:03 x INFO step 3\n"
OF_CHILD = """\
Process SpawnProcess-1:
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/process.py", line 314, in _bootstrap
    self.run()
  File "/h/a.py", line 9, in work
    x = t["k"]
KeyError: 'k'
"""
CASES = {
    # An error that all have, and others lived on after.
    "noise long ago": (NOISE, "", "", 7, "it left with exit code 7 [exit 7]"),
    "said by all": ("CUDA out of memory\n", "", "", 1, ".err:1: CUDA out of memory"),
    "an access log": (
        "",
        '10.0.0.7 - - [30/Nov/2026 05:12:43] "GET / HTTP/1.1" 200 -\n',
        STEP,
        1,
        "it left with exit code 1 [exit 1]",
    ),
    "handled by all": (SKIPPED, "batch 7 is empty\n", STEP, 3, "and said: batch 7 is empty"),
    "ends its trace": (
        f"+ python p.py\n{RAISED}++ grep -c x s\n+ n=3\n",
        "",
        "+ sleep 2\n",
        1,
        ".err:6: ++ grep -c x s",
    ),
    "trace of a test": ("+ '[' 3 -gt 2 ']'\n", "", "+ sleep 3\n", 1, ".err:1: + '[' 3 -gt 2 ']'"),
    "trace with an error": (
        "+ cp a b\n",
        "cp: cannot stat 'a': No such file or directory\n+ exit 3\n",
        "+ sleep 3\n",
        3,
        "and said: cp: cannot stat 'a'",
    ),
    "logged before": (
        "",
        "2026-11-26 23:18:00 x ERROR best.pt: No such file or directory\n"
        "2026-11-26 23:18:01 x INFO refines\nfatal: the mesh has holes\n",
        STEP,
        3,
        "and said: fatal: the mesh has holes [exit 3]",
    ),
    "cleans up": ("+ python t.py\n", f"{RAISED}+ rm -rf /tmp/x\n", "", 1, "ValueError: bad row"),
    # What explains the code of a shell.
    "not found": (
        "sh: 1: nvidia-smi: not found\n",
        "sh: 2: ffmpeg: not found\nERROR: stage 2 exited with 127\n",
        STEP,
        127,
        "and said: sh: 2: ffmpeg: not found",
    ),
    "not loaded": (
        "",
        "./s: error while loading shared libraries: libx.so.1: cannot open\nFATAL: solver failed\n",
        STEP,
        127,
        "and said: ./s: error while loading",
    ),
    "by timeout": (
        "",
        "timeout: failed to run command 'mdrun': No such file or directory\nERROR: no step\n",
        STEP,
        127,
        "and said: timeout: failed to run command 'mdrun'",
    ),
    "not executable": (
        "ls: cannot open directory '/x': Permission denied\n",
        "run.sh: line 4: ./pre.sh: Permission denied\nERROR: stage failed with status 126\n",
        STEP,
        126,
        "and said: run.sh: line 4: ./pre.sh: Permission denied",
    ),
    "of another machine": (
        "",
        "run.sh: line 4: ./tool: cannot execute binary file: Exec format error\nERROR: ends\n",
        STEP,
        126,
        "and said: run.sh: line 4: ./tool: cannot execute",
    ),
    # A traceback whose end is cut off.
    "cut, with a reason": (
        "",
        f"mesh: no route to node 4\n[12:09:34 TP14] Scheduler hit an exception: {CUT}",
        STEP,
        1,
        "and said: mesh: no route to node 4 [exit 1]",
    ),
    "cut": ("", CUT, "", 1, "it left with exit code 1 [exit 1]"),
    # What frames the traceback of a process of its own is no reason.
    "framed": ("", f"{RAISED}------\n{OF_WORKER}", STEP, 1, "worker 2 is bad [exception]"),
    # Several processes of one rank.
    "two children": ("", f"{RAISED}{STEP}{RAISED}", STEP, 5, "ValueError: bad row"),
    "two parts": ("", f"{RAISED}{RAISED}2 of 2 parts failed\n", STEP, 2, "ValueError: bad row"),
    "children ended": (
        "",
        f"{OF_CHILD}{OF_CHILD}2026-11-26 23:18:00 x CRITICAL workers ended with [1, 1]\n",
        STEP,
        5,
        "and said: KeyError: 'k'",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_process_is_quoted_by_what_it_alone_ended_of(tmp_path: Path, name: str) -> None:
    common, end, others, code, said = CASES[name]
    run = Run(tmp_path)
    for rank in range(4):
        text = common + (end if rank == 2 else others)
        run.write(f"logs/n{1 + rank // 2}/rank-{rank}.err", text, after=10)
        run.processes(1 + rank // 2, (rank, code if rank == 2 else 143))
    run.write("attempts/0/failed", f"1 {code} 2\n", after=20)
    found = run.diagnose(State("failed", f"exit code {code}"))
    assert found.rank == 2
    assert said in found.as_text()


LAUNCHED = """\
Traceback (most recent call last):
  File "/x/bin/accelerate", line 8, in <module>
  File "/x/site-packages/torch/distributed/launcher/api.py", line 270, in launch_agent
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
a.py FAILED
"""
LISTED = f"""\
{"=" * 60}
a.py FAILED
{"-" * 60}
Failures:
  <NO_OTHER_FAILURES>
{"-" * 60}
Root Cause (first observed failure):
[0]:
  host      : n2
  rank      : 2 (local_rank: 0)
  exitcode  : 1 (pid: 7)
"""
ELASTIC = "E0801 13:23:20 32974 torch/distributed/elastic/multiprocessing/api.py:874] failed"
DEEPSPEED = "[2026-11-26 23:18:04] [{}] [launch.py:321:sigkill_handler] {}\n"
LOST_NCCL = RAISED.replace(
    "ValueError: bad row", "DistBackendError: NCCL error: remote process exited"
)
KILLED = "of a process that it had started: it was killed (SIGKILL)"
STARTED = {
    "of torchrun": (
        f"{RAISED}{ELASTIC} (exitcode: 1) local_rank: 2\n{LAUNCHED}",
        1,
        "ValueError: b",
    ),
    "of torchrun, without its exception": (
        f"fatal: the mesh has holes\n{LISTED}",
        1,
        "it left with exit code 1, and said: fatal: the mesh has holes",
    ),
    "of torchrun alone": (LISTED, 1, "it left with exit code 1, and said: exitcode  : 1 (pid: 7)"),
    "killed": (f"{ELASTIC} (exitcode: -9) local_rank: 2 (pid: 7)\n{LAUNCHED}", 1, KILLED),
    "of DeepSpeed": (
        f"{RAISED}{LOST_NCCL}{DEEPSPEED.format('INFO', 'Killing subprocess 7')}"
        f"{DEEPSPEED.format('ERROR', '[a.py] exits with return code = 1')}",
        1,
        "ValueError: bad row",
    ),
    "of DeepSpeed, killed": (
        DEEPSPEED.format("ERROR", "[a.py] exits with return code = -9"),
        247,
        KILLED,
    ),
    "of srun": (
        "srun: error: n2: task 1: Terminated\nsrun: error: n1: task 3: Segmentation fault\n",
        139,
        "of a process that it had started: it made a forbidden memory access",
    ),
    "of mpirun": (
        "mpirun noticed that process rank 1 on node n1 exited on signal 4 (Illegal instruction).\n",
        132,
        "of a process that it had started: it met an instruction",
    ),
    "of pdsh": (
        "".join(f"n2: {line}\n" for line in RAISED.splitlines()),
        1,
        "ValueError: bad row",
    ),
}


@pytest.mark.parametrize(("text", "code", "title"), STARTED.values(), ids=STARTED)
def test_what_a_launcher_tells_of_its_processes_counts(
    run: Run, text: str, code: int, title: str
) -> None:
    run.rank(2, text, after=10, code=code)
    assert run.diagnose().title.startswith(title), run.diagnose().as_text()


def test_a_torchrun_that_lost_its_store_is_named_though_the_others_log_on(run: Run) -> None:
    """Of a script of one's own, all of whose torchruns write to the same log."""
    lost = RAISED.replace("ValueError: bad row", "torch.distributed.DistNetworkError: Broken pipe")
    store = "x.api.RendezvousConnectionError: The connection to the C10d store has failed."
    linked = "\nThe above exception was the direct cause of the following exception:\n\n"
    sends = "[W1130 02:51:00.6 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=3)\n"
    ended = "srun: error: n1: task 1: Exited with exit code 1\n"
    logs = "E1130 02:51:15.9 14 torch/distributed/elastic/api.py:1008] Error waiting on barrier\n"
    text = f"{lost}{linked}{RAISED.replace('ValueError: bad row', store)}{sends}{ended}{logs}"
    run.rank(2, text, after=10)
    found = run.diagnose()
    assert (found.cause, found.node, found.rank) == ("rendezvous", "n1", None)
    assert found.title == store
    assert store in found.evidence[0]
    assert "a fixed number (`jobgen lint` finds it)" in found.remedy


def test_the_walltime_that_ends_a_step_is_named_if_the_step_is_of_this_job(run: Run) -> None:
    ends = (
        "slurmstepd: error: *** STEP {}.0 ON n1 CANCELLED AT 2026-11-26T23:18 DUE TO TIME LIMIT ***"
    )
    for number, cause in ((4711, "walltime"), (4712, "exit 3")):
        run.rank(2, ends.format(number), after=10, code=3)
        assert run.diagnose().cause == cause
    run.rank(2, "=>> PBS: job killed: walltime 86415 exceeded limit 86400\n", after=10, code=1)
    assert run.diagnose().cause == "walltime"


def test_advice_to_make_a_file_executable_is_given_where_permission_is_denied(run: Run) -> None:
    for words, advised in (("Permission denied", True), ("Argument list too long", False)):
        run.rank(2, f"run.sh: line 4: ./pre.sh: {words}\n", after=10, code=126)
        assert ("chmod" in run.diagnose().remedy) is advised


def test_a_rank_is_the_odd_one_only_where_all_others_agree(run: Run) -> None:
    for rank, group in enumerate(("1 of (0, 1)", "2 of (1, 2)", "0 of (0, 2)", "2 of (0, 3)")):
        run.rank(rank, f"exchange with {group}\n{TIMED_OUT}", after=10 + rank)
    found = run.diagnose()
    assert (found.rank, found.ranks) == (None, (0, 1, 2, 3))
    assert "waited in vain for each other in dist.all_reduce(field)" in found.title


TIMED_OUT = """\
Traceback (most recent call last):
  File "/h/halo.py", line 31, in exchange
    dist.all_reduce(field)
  File "/x/site-packages/torch/distributed/distributed_c10d.py", line 3000, in all_reduce
    work.wait()
RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 15000ms for recv operation
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_what_a_process_said_in_an_earlier_start_is_of_no_later_one(run: Run) -> None:
    text = "Traceback (most recent call last):\nKeyError: 'old'\njobgen: start 1\n"
    run.rank(2, text, after=5, code=5)
    found = run.diagnose()
    assert (found.cause, found.exception) == ("exit 5", ""), found.as_text()
