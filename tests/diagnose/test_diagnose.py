"""`jobgen diagnose` names the first cause, and who it was, by what a job has left behind.

`diagnose/` has what processes, agents and scripts print: CAUSE--CASE.log is of the cause CAUSE.
"""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from jobs import spec, submit
from run_folders import FAILED, LOST, Run
from support import ROOT, jobgen, plan_of

from jobgen import schedulers
from jobgen.diagnose import diagnose, matching, reading
from jobgen.diagnose.cause import ADVICE, CAUSES
from jobgen.jobs import find
from jobgen.jobs.files import open_left
from jobgen.plan.plan import NodeGroup
from jobgen.rendering import header
from jobgen.rendering.render import render
from jobgen.schedulers.base import State, StateName

TRACE = "Traceback (most recent call last):\n"
LOGS = sorted(Path(__file__).with_name("logs").glob("*.log"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_each_kind_of_output_is_known_and_its_rank_is_named(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for log in LOGS:
        with subtests.test(log.stem):
            check_output(Run(tmp_path / log.stem), log)


def check_output(run: Run, log: Path) -> None:
    """That `diagnose` says the cause that an output is named after, and whose it is."""
    text = log.read_text()
    about = dict(re.findall(r"^# (where|node): (\w+)\n", text, re.MULTILINE))
    text = re.sub(r"(# (where|node): \w+\n)+", "", text, count=1)
    where, state = about.get("where"), FAILED
    if where == "script":
        run.script(text)
    elif where == "agent":
        run.node(2, text)
    elif where == "state":
        name, _, reason = text.strip().partition(": ")
        state = State(cast(StateName, name), reason)
    elif where:
        states, _ = schedulers.SCHEDULERS[where].queue.read_states(text)
        (state,) = states.values()
    else:
        for other in (0, 1, 3):
            run.rank(other, LOST, after=20)
        run.rank(2, text, after=10)
    found = run.diagnose(state)
    assert found.cause == log.stem.partition("--")[0], found.as_text()
    assert found.remedy
    assert found.evidence
    if "node" in about or where == "agent":
        assert (found.node, found.rank) == (about.get("node", "n2"), None)
    elif not where and "which rank the others wait for" in found.title:
        assert (found.node, found.rank) == (None, None)
    elif not where:
        assert (found.node, found.rank) == ("n2", 2)
        assert found.followed == (0, 1, 3)


ADVISED = re.findall(
    r"^## (.*) \| .*\n((?:(?!## ).*\n)+)",
    Path(__file__).with_name("advice.txt").read_text(),
    re.MULTILINE,
)


def test_what_the_words_of_an_exception_mean_is_said_with_what_to_do(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Of each row of advice by a log of others, which it stands in `advice.txt` with."""
    assert {title for title, _ in ADVISED} == {remedy.partition(": ")[0] for _, remedy in ADVICE}
    for number, (title, text) in enumerate(ADVISED):
        with subtests.test(title):
            run = Run(tmp_path / str(number))
            run.rank(2, text, after=10)
            assert run.diagnose().remedy.startswith(f"{title}: "), run.diagnose().as_text()


def test_a_number_of_thousands_of_digits_names_nobody(tmp_path: Path) -> None:
    run, many = Run(tmp_path), "9" * 5000
    run.rank(0, f"RuntimeError: no answer from rank {many}\n", after=2)
    run.rank(1, f"rank {many} on n1 is slow: 2 s\n", after=3)
    run.write("logs/n2/agent.log", f"jobgen: n2; \n  rank      : {many}\n  exitcode  : {many}\n")
    assert run.diagnose().rank == 0


def test_there_is_an_output_for_every_cause() -> None:
    shown = {path.stem.partition("--")[0] for path in LOGS}
    assert {cause.id for cause in CAUSES} <= shown | {"peer-lost"}  # which is never the first
    assert len(shown) >= 40


@pytest.mark.parametrize(
    ("words", "of_machine"),
    [
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", True),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", False),
        ("ValueError: Dataset scripts want trust_remote_code; No module named 'foo'", False),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", False),
    ],
)
def test_a_cause_says_whether_it_is_the_machines_fault(words: str, of_machine: bool) -> None:
    found = matching.find_cause([reading.Line(Path("rank-0.err"), 1, words)], "rank")
    assert found
    assert found[0].of_machine == of_machine


def test_an_import_by_dots_in_a_script_is_no_package_to_install() -> None:
    words = "ImportError: attempted relative import with no known parent package"
    found = matching.find_cause([reading.Line(Path("rank-0.err"), 1, words)], "rank")
    assert found
    assert "run.module" in found[0].remedy


def test_what_the_script_itself_says_is_always_known() -> None:
    texts = [path.read_text() for path in ROOT.glob("templates/**/*.*")]
    said = {
        match for text in texts for match in re.findall(r'\bdie "((?:[^"]|\$\([^)]*\))*)', text)
    }
    assert len(said) > 35
    for message in said:
        value = r"\$\([^)]*\)|\$\{#?\w+[^}]*\}|\$\w+|\{\{.*?\}\}"
        message = re.sub(r"\{%.*?%\}", "", message)
        line = "jobgen: error: " + re.sub(value, "1", message)
        assert any(cause.own and re.search(cause.own, line) for cause in CAUSES), line


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
        (State("cancelled", "it needed prepare 99 (failed)"), "dependency"),
        (State("unknown", "it has not begun here; it needed first 9 (failed)"), "dependency"),
        (State("queued", "Resources"), "healthy"),
        (State("done"), "healthy"),
    ],
)
def test_the_schedulers_word_decides(run: Run, state: State, cause: str) -> None:
    assert run.diagnose(state).cause == cause


def test_a_snapshot_lacks_what_git_ignores(run: Run) -> None:
    run.rank(0, f"{TRACE}FileNotFoundError: [Errno 2] No such file: 'data/a.bin'\n", after=3)
    assert "paths are relative to the folder you submit from; " in run.diagnose().remedy
    run.job = replace(run.job, token="20260301-120000-abc")
    (run.folder / "runs/job/code" / run.job.token).mkdir(parents=True)
    remedy = run.diagnose().remedy
    assert "to the copy that `snapshot` makes, without what git ignores (`snapshot: [" in remedy


def test_a_full_disk_is_the_cause_where_nobody_could_say_why(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(4):
        run.rank(rank, "step 15\n", after=10)
    assert run.diagnose().cause == "exit 1"
    run.script("cp: error writing '/job/attempts/1/script': No space left on device\n")
    full = run.diagnose()
    words = "; it left with exit code 1, and said: step 15"
    assert (full.cause, full.headline) == (
        "no-space",
        f"all 4 ranks: a file system was full{words}",
    )
    assert "No space left on device" in full.evidence[0]
    run.script("")
    real = os.statvfs(run.folder)
    fields = ["bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail"]
    values = {f"f_{name}": getattr(real, f"f_{name}") for name in fields} | {"f_bavail": 0}
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**values))
    said = run.diagnose().headline
    assert said == f"all 4 ranks: the file system of the run folder is full{words}"
    run.rank(1, f"{TRACE}ValueError: of the program\n", after=5)
    assert run.diagnose().cause == "exception"


def test_a_job_that_has_begun_was_not_prevented_from_it(run: Run) -> None:
    """Slurm has one word for an output that it cannot open and for a script that was killed."""
    run.write("attempts/0/script", "")
    run.rank(1, "step 230\n", after=240, code=-9)
    killed = run.diagnose(State("failed", "FAILED JobLaunchFailure"))
    assert (killed.cause, killed.rank) == ("killed", None)
    assert killed.title.startswith("the job's script was killed while it ran")
    run.write("attempts/0/outcome", "continued 0\n")  # of a start before
    assert run.diagnose(State("failed", "FAILED JobLaunchFailure")).cause == "output-folder"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (State("node lost", "NODE_FAIL"), "srun: error: Node failure on n2\n"),
        (State("node lost", "no sign of life from n2"), ""),
    ],
)
def test_the_lost_node_is_named_by_whoever_knows_it(run: Run, state: State, said: str) -> None:
    run.script(said)
    found = run.diagnose(state)
    assert (found.cause, found.node) == ("node-lost", "n2")


def test_a_job_that_ended_well_is_healthy_whatever_it_printed(run: Run) -> None:
    run.write("logs/n1/rank-0.err", "UserWarning: Permission denied for the cache; going on\n")
    run.write("logs/n1/rank-0.out", "retrying: Connection refused\nloss nan in a debug line\n")
    assert run.diagnose(State("done")).cause == "healthy"


def test_a_task_of_pbsdsh_that_failed_is_told_though_the_job_ended_well(run: Run) -> None:
    run.write("logs/n1/rank-0.err", "")
    run.write("logs/n1/rank-0.out", "pbsdsh: task 0x00000000 exit status 0\n")
    assert run.diagnose(State("done")).cause == "healthy"
    run.write("logs/n1/rank-0.out", "up\npbsdsh: task 0x00000001 exit status 127\n")
    found = run.diagnose(State("done"))
    assert found.cause == "hidden-exit"
    assert found.evidence[0].endswith("rank-0.out:2: pbsdsh: task 0x00000001 exit status 127")


def test_a_floating_point_error_of_another_matter_is_not_of_the_loss(run: Run) -> None:
    run.rank(2, f"{TRACE}FloatingPointError: CFL violated\n", after=5)
    assert run.diagnose().cause == "exception"


@pytest.mark.parametrize(
    "said",
    [
        "forrtl: severe (174): SIGSEGV, segmentation fault occurred\n"
        "Image              PC                Routine            Line        Source\n"
        "a.out              0000000000401A2B  MAIN__                     12  a.f90\n",
        f"{'-' * 74}\nMPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\n"
        f"with errorcode 77.\n{'-' * 74}\n",
    ],
)
def test_what_mpirun_says_of_an_end_is_not_the_reason(run: Run, said: str) -> None:
    noticed = "mpirun detected that one or more processes exited with non-zero status.\n"
    named = "  Process name: [[23430,1],2]\n  Exit code:    77\n"
    more = "[n1:7] 3 more processes have sent help message help-mpi-api.txt / mpi-abort\n"
    run.rank(0, f"{said}{'-' * 74}\n{noticed}\n{named}{'-' * 74}\n{more}", after=5, code=77)
    assert run.diagnose().title.endswith(said.strip("-\n").partition("\n")[0])


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


def test_who_lost_the_first_follows_though_it_was_stopped_before_it_failed(run: Run) -> None:
    run.rank(0, LOST, after=5)
    run.rank(1, "Traceback (most recent call last):\nValueError: bad\n", after=3)
    run.write("logs/n2/rank-2.err", LOST, after=5)
    found = run.diagnose()
    assert (found.rank, found.followed) == (1, (0, 2))


@pytest.mark.parametrize(
    ("link", "cause", "led"),
    [
        (
            "During handling of the above exception, another exception occurred",
            "exception",
            "while handling",
        ),
        (
            "The above exception was the direct cause of the following exception",
            "file-missing",
            "from",
        ),
    ],
)
def test_the_last_exception_of_a_chain_counts_and_its_place_is_the_programs_own(
    run: Run, link: str, cause: str, led: str
) -> None:
    text = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/home/u/train.py", line 12, in load\n'
        '[rank1]:   File "/venv/lib/python3.11/site-packages/numpy/npyio.py", line 4, in load\n'
        "[rank1]: FileNotFoundError: [Errno 2] No such file or directory: 'tokens.bin'\n"
        "[rank1]: \n"
        f"[rank1]: {link}:\n"
        "[rank1]: \n"
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/home/u/train.py", line 90, in main\n'
        '[rank1]:   File "/venv/lib/python3.11/site-packages/numpy/npyio.py", line 4, in fail\n'
        "[rank1]: RuntimeError: no data\n"
    )
    run.rank(1, text, after=1)
    found = run.diagnose()
    assert (found.cause, found.place) == (cause, "/home/u/train.py:90, in main")
    assert found.title.startswith(f"RuntimeError: no data, {led} FileNotFoundError: [Errno 2] No ")
    assert any("rank-1.err:4: FileNotFoundError" in line for line in found.evidence)


def test_exceptions_in_records_of_json_are_read(run: Run) -> None:
    trace = 'Traceback (most recent call last):\n  File "t.py", line 3\n{}'
    noise = {"level": "error", "event": "telemetry is unreachable", "rank": 2}
    goes = {"level": "info", "event": "step", "step": 3}
    ends = {"level": "error", "event": "training failed"}
    lost = "ConnectionError: lost connection to rank 2"
    for rank, raised in ((2, "KeyError: 'lr'"), (0, lost)):
        last = ends | {"exc_info": trace.format(raised)}
        lines = (noise | {"rank": rank}, goes, last)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        run.rank(rank, "", after=5, code=1)
        run.write(f"logs/n{1 + rank // 2}/rank-{rank}.out", text, after=5)
    found = run.diagnose()
    assert (found.rank, found.title, found.followed) == (2, "KeyError: 'lr'", (0,))


def test_a_killed_rank_is_named_where_the_scheduler_ran_out_of_memory(run: Run) -> None:
    run.rank(0, LOST, after=9)
    run.rank(2, "", after=5, code=-9)
    run.script("slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0.\n")
    found = run.diagnose()
    assert (found.cause, found.node, found.rank) == ("out-of-memory-host", "n2", 2)
    assert found.title.endswith("as the job's memory on its node was used up")


def test_a_rank_that_left_while_the_others_were_at_work_is_named(run: Run) -> None:
    for rank in (0, 1, 2):
        run.rank(rank, LOST, after=5)
    run.write("logs/n2/rank-3.err", "end of my data\n", after=4)
    diagnosis = run.diagnose()
    assert (diagnosis.cause, diagnosis.node, diagnosis.rank) == ("left-early", "n2", 3)
    assert any(line.endswith("rank-3.err:1: end of my data") for line in diagnosis.evidence)


def test_a_node_that_went_silent_is_named_where_the_others_lost_it(run: Run) -> None:
    run.rank(0, LOST, after=5)
    run.rank(1, LOST, after=5)
    run.write("attempts/0/node-0.ended", "1\n", after=9)
    run.write("logs/n2/agent.log", "jobgen: n2; the rendezvous is at\n", after=1)
    diagnosis = run.diagnose()
    assert (diagnosis.cause, diagnosis.node) == ("node-lost", "n2")


def test_a_node_that_its_own_words_name_is_named_once(run: Run) -> None:
    run.node(2, "jobgen: n2\njobgen: error: port 24711 on n2 is in use by another program\n")
    found = run.diagnose()
    assert found.headline.startswith("n2: port 24711 is in use by another program")
    assert found.remedy == "submit again: the port follows from the job's id"


@pytest.mark.parametrize("code", [-9, -11, -7, 127, 3])
def test_a_process_that_says_nothing_is_told_by_its_exit_code(run: Run, code: int) -> None:
    run.rank(0, LOST, after=9)
    run.rank(2, "", after=5, code=code)
    found = run.diagnose()
    assert (found.cause, found.rank) == (f"exit {code}", 2)


@pytest.mark.parametrize(
    ("said", "title"),
    [("It usually means the child failed.", "KeyError: 'w2'"), ("step 9", "it was killed")],
)
def test_what_a_child_raised_counts_where_a_process_kills_itself_for_it(
    run: Run, said: str, title: str
) -> None:
    raised = "Scheduler hit an exception: Traceback (most recent call last):\nKeyError: 'w2'\n"
    run.rank(2, f"{raised}\n[2026-01-02 03:04:05] {said}\n", after=5, code=-9)
    assert run.diagnose().title.startswith(title)


def test_a_launcher_tells_by_which_signal_its_own_process_ended(run: Run) -> None:
    run.rank(2, "ERROR:launcher:Rank 1 crashed with exit code -7.\n", after=5, code=3)
    found = run.diagnose()
    assert (found.cause, found.rank) == ("exit -7", 2)
    assert "of a process that it had started: a bus error ended it" in found.title


@pytest.mark.parametrize(
    ("raised", "ends"),
    [
        (f"RuntimeError: {'x' * 300} No space left on device, it says", "No space left on device"),
        ("x.ActorDiedError: it died.\npid: 8\nIt did because its node has died, it says", "died"),
    ],
)
def test_what_shows_a_cause_is_quoted_though_it_stands_far_behind(
    run: Run, raised: str, ends: str
) -> None:
    run.rank(2, f"Traceback (most recent call last):\n{raised}\n", after=5)
    assert run.diagnose().title.endswith(f"{ends}, it says")


def test_the_last_line_shown_of_a_process_has_words(run: Run) -> None:
    run.rank(2, "step 7\n\n", after=5, code=3)
    (line,) = run.diagnose().evidence
    assert line.endswith("logs/n2/rank-2.err:1: step 7")


def test_an_earlier_attempt_is_not_taken_for_the_last(run: Run) -> None:
    run.rank(0, "Traceback (most recent call last):\nKeyError: 'old'\n", after=-500)
    log = run.job.run_dir / "logs/n1/agent.log"
    log.write_text(log.read_text() + "jobgen: n1 is node 0 of start 0; the rendezvous is at\n")
    run.rank(1, "Traceback (most recent call last):\nValueError: new\n", after=5)
    assert run.diagnose().rank == 1


def test_a_job_that_was_put_back_is_not_told_by_its_earlier_start(run: Run) -> None:
    begins = "jobgen: 2 nodes x 2 processes on n1 n2; logs are in /scratch/runs/job/4711\n"
    preempted = (
        "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-01-02 DUE TO PREEMPTION ***\n"
    )
    run.script(begins + preempted + begins)
    run.rank(2, "Traceback (most recent call last):\nValueError: seven\n", after=5)
    assert run.diagnose().cause == "exception"
    run.script(begins + begins + preempted)
    assert run.diagnose().cause == "preempted"


@pytest.mark.parametrize(
    ("said", "cause", "remedy"),
    [
        (
            "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026 DUE TO NODE FAILURE ***\n"
            "jobgen: FAILED: n3 is lost: Slurm says that it has failed\n",
            "node-lost",
            "it starts again by itself; to leave the node out (directives: "
            '["#SBATCH --exclude=n3"]), cancel it and submit again',
        ),
        (
            "jobgen: ENDED by SIGTERM: PREEMPTED: Slurm gives its nodes to another job\n",
            "preempted",
            "it starts again by itself; other queues or QoS are not preempted",
        ),
    ],
)
def test_nobody_has_to_submit_again_what_starts_again_by_itself(
    run: Run, said: str, cause: str, remedy: str
) -> None:
    run.script(said)
    found = run.diagnose(State("queued", "BeginTime"))
    assert (found.cause, found.remedy) == (cause, remedy)
    assert found.title.startswith("start 1 ended: ")


WAITS = "wait: start 2 follows by itself"
MAY = "wait: start 2 may follow by itself; if it does not: submit again; "
RESTARTS = render(
    plan_of(
        "name: a\nresources: {walltime: 1h}\nrun: {script: a.py}\non_failure: {then: restart}\n",
        scheduler="slurm",
    )
)
LOST_NODE = "jobgen: FAILED: n2 is lost: Slurm says that it has failed\n"


@pytest.mark.parametrize(
    ("left", "state", "remedy"),
    [
        ({"outcome": "continued 0"}, State("stopping"), WAITS),
        ({}, State("stopping"), MAY),
        ({"failed": "lost n2"}, State("running"), MAY),
        ({"start-of-train/failed": "lost n2"}, State("running"), MAY),
        ({"verdict": "restart node-lost - n2"}, State("stopping"), MAY),
        ({"script": RESTARTS, "chain": ""}, State("stopping"), MAY),
        # It does not go on, or has ended.
        ({"verdict": "stop program 1 n2"}, State("stopping"), "submit again; "),
        ({"chain": ""}, State("stopping"), "submit again; "),
        ({"chain": ', "then": "requeue", "at_most": 1'}, State("stopping"), "submit again; "),
        ({"../../cancelled": ""}, State("stopping"), "submit again; "),
        ({"outcome": "failed 1"}, State("failed"), "submit again; "),
    ],
    ids=lambda one: str(one)[:99],
)
def test_nobody_is_told_to_submit_again_what_is_about_to_go_on(
    run: Run, left: dict[str, str], state: State, remedy: str
) -> None:
    chain = left.pop("chain", ', "then": "resubmit", "at_most": 3')
    about = f'"name": "job", "spec": "job.yaml", "digest": "", "scheduler": "slurm"{chain}'
    run.write("plan.json", f'{{{about}, "groups": [{{"nodes": 2, "processes": 2}}]}}')
    run.script(LOST_NODE)
    for name, text in left.items():
        run.write(f"attempts/0/{name}", text + "\n")
    assert run.diagnose(state).remedy.startswith(remedy)


def test_a_killed_script_is_the_cause_of_what_was_killed_after_it(run: Run) -> None:
    killed = State("failed", "its supervising script was killed")
    run.rank(2, "step 7\n", after=5, code=-9)
    assert run.diagnose(killed).cause == "killed"
    assert "script was killed on the machine" in run.diagnose(killed).title
    run.rank(1, f"{TRACE}ValueError: of the program\n", after=3)
    assert run.diagnose(killed).cause == "exception"


def test_a_command_that_is_not_there_has_no_path_to_check(run: Run) -> None:
    said = "jobgen: n2 is node 1\njobgen: error: there is no conda command on n2\n"
    run.node(2, said)
    found = run.diagnose()
    assert (found.cause, found.node) == ("environment-missing", "n2")
    assert found.remedy.startswith("let environment.modules or setup bring it")


def test_what_a_program_has_said_is_not_looked_for_again(run: Run) -> None:
    run.rank(2, "bad lr\n", after=5)
    found = run.diagnose()
    assert found.title == "it left with exit code 1, and said: bad lr"
    assert found.remedy == "look at what the program does before it says its last words"


def test_a_step_of_the_script_is_told_with_the_words_of_its_command(run: Run) -> None:
    said = "/x/attempts/0/script: line 19: /venv/bin/activate: No such file or directory\n"
    end = "jobgen: error: no virtual environment on n2\njobgen: the program never began on n2; 1\n"
    run.node(2, f"{said}{end}")
    assert run.diagnose().title.startswith(
        "no virtual environment on n2: line 19: /venv/bin/activate: No such file or directory"
    )


@pytest.mark.parametrize("killed", ["", "=>> PBS: job killed: walltime 90 exceeded limit 90\n"])
def test_the_error_that_the_script_says_of_itself_is_the_cause(run: Run, killed: str) -> None:
    """Of a chain that ended at a walltime, its last words and this walltime were taken for it."""
    run.node(1, "jobgen: n1 is node 0\njobgen: the walltime ends in 30 s\n")
    error = "the chain ends without DONE: it has had its 3 starts"
    run.script(f"{killed}jobgen: error: an earlier one\njobgen: error: {error}\n")
    found = run.diagnose()
    assert (found.cause, found.title) == ("chain-ended", error)
    assert found.evidence[0].endswith(error)
    run.script(
        "jobgen: FAILED: n2, see /job/agent.log\njobgen: error: module load failed on n2: a\n"
    )
    assert run.diagnose().node == "n1"  # what a node has said is only quoted


def test_what_the_script_notes_of_a_good_order_is_no_reason(run: Run) -> None:
    notes = "Python 3.11.7", "jobgen: rank 0 is process 7", "jobgen: the walltime ends in 30 s: it"
    run.node(1, "\n".join(["jobgen: n1 is node 0 in start 1; it needs no rendezvous", *notes, ""]))
    assert run.diagnose().title == "it left with exit code 1; n2 was ended too early to tell"


def test_a_silent_program_without_torchrun_is_told_by_its_exit_code_alone(run: Run) -> None:
    """The script's own note of that code was taken for its words, and for torchrun's."""
    run.write("attempts/0/nodes", "n1\n")
    run.write("attempts/0/node-0.ended", "3\n")
    run.write("attempts/0/failed", "0 3 0\n")
    for ending in ("err", "out"):
        run.write(f"logs/n1/rank-0.{ending}", "")
    notes = "jobgen: n1 is node 0 in start 1; it needs no rendezvous\nrank : 0\nexitcode : 3\n"
    run.write("logs/n1/agent.log", notes)
    found = run.diagnose()
    assert (found.title, found.rank) == ("it left with exit code 3", 0)
    assert "torchrun" not in found.remedy


def test_a_job_that_no_node_fits_is_told_so() -> None:
    verdict = matching.find_verdict(
        [reading.Line(Path("slurm"), 0, "failed (FAILED BadConstraints)")]
    )
    assert verdict
    assert verdict.cause.title == "the cluster has no such nodes"


def test_a_role_that_was_not_ready_in_time_is_a_cause_with_its_remedy(run: Run) -> None:
    fault = "role server was not ready within 10 s: no answer at http://n1:23000/health"
    run.write("roles/server/attempts/0/nodes", "n1\n")
    run.write("roles/server/logs/n1/rank-0.out", "loading\n", after=1)
    run.script(f"jobgen: FAILED: {fault}: rank 0 on n1, see /job/rank-0.out\n")
    found = run.diagnose()
    assert (found.cause, found.title) == ("role-not-ready", fault)
    assert "within of ready" in found.remedy


@pytest.mark.parametrize("raised", ["", "Traceback (most recent call last):\nKeyError: 'a'\n"])
def test_a_role_that_ended_too_early_is_a_cause_that_names_ends_alone(
    run: Run, raised: str
) -> None:
    fault = "role server ended before train did"
    run.write("roles/server/attempts/0/nodes", "n1\n")
    run.write("roles/server/logs/n1/rank-0.err", f"{raised}bye\n", after=1)
    run.write("roles/server/attempts/0/node-0.ranks", "0 0 n1\n", after=2)
    run.script(f"jobgen: FAILED: {fault}: rank 0 on n1, see /job/rank-0.err\n")
    found = run.diagnose()
    assert (found.cause, found.title) == ("role-ended", fault)
    assert "ends: alone" in found.remedy


def test_a_job_of_roles_that_has_been_started_again_is_judged_by_its_last_start(run: Run) -> None:
    for role in ("server", "train"):
        run.write(f"roles/{role}/attempts/0/nodes", "n1\n")
    begins = "".join(
        f"jobgen: {role} starts; its logs are in {run.job.run_dir}/roles/{role}\n"
        for role in ("server", "train")
    )
    lost = "slurmstepd-n1: error: *** JOB 4711 ON n1 CANCELLED AT 19:36 DUE TO NODE FAILURE ***\n"
    ended = f"{begins}{lost}jobgen: ENDED by SIGTERM\n"
    run.script(ended + begins)
    assert run.diagnose(State("running")).cause == "healthy"
    fault = "jobgen: error: port 20280 on n2 is in use by another program\n"
    role, train = begins.splitlines(keepends=True)
    run.script(f"{ended}{role}{fault}{train}")
    assert run.diagnose().cause == "port-in-use"
    run.script(ended)
    assert run.diagnose(State("running")).cause == "node-lost"


def test_ray_that_has_ended_on_a_node_is_the_headline_and_not_the_end_of_its_log(run: Run) -> None:
    log = (ROOT / "tests/diagnose/logs/ray-ended--raylet.log").read_text()
    run.rank(2, log, after=2)
    run.rank(0, "SystemExit: 15\n", after=3, code=-11)
    found = run.diagnose()
    assert (found.cause, found.headline) == ("ray-ended", "rank 2 on n2: Ray has ended on n2")
    assert "Object store current usage" in str(found.evidence)


def test_a_prolog_that_fails_on_pbs_is_told_by_the_words_of_the_daemon(run: Run) -> None:
    run.script("Could not run prolog: /var/spool/pbs/mom_priv/prologue, exit: 1\n")
    found = run.diagnose(State("failed", "Exit_status -2"))
    assert found.cause == "launch-failed"
    assert "exit: 1" in found.evidence[0]


def test_a_job_that_waits_to_start_again_says_why_its_last_start_ended(run: Run) -> None:
    run.rank(2, "Traceback (most recent call last):\nValueError: seven\n", after=5)
    found = run.diagnose(State("queued", "BeginTime"))
    waits = "start 1 was ended from outside, by a lost node or a requeue; it waits to start again"
    assert (found.cause, found.title) == ("healthy", f"{waits}: BeginTime")
    run.write("attempts/0/outcome", "continued 1")
    assert "nothing is wrong so far" in run.diagnose(State("queued", "BeginTime")).title
    run.script("srun: error: Node failure on n2\n")
    found = run.diagnose(State("queued", "Resources"))
    assert (found.cause, found.node) == ("node-lost", "n2")
    assert "--exclude=n2" in found.remedy
    assert found.title == "start 1 ended: a node was lost; it waits to start again: Resources"
    assert run.diagnose(State("queued", "JobHeldUser")).cause == "held"


@pytest.mark.parametrize("code", [137, 3])
def test_processes_that_were_started_directly_are_known_by_the_nodes_records(
    run: Run, code: int
) -> None:
    log = "jobgen: rank 2 is process 0 of n2, node 1; the rendezvous is at n1:24711\n"
    run.write("logs/n2/agent.log", log + "jobgen: torch 2.9.1 of python3, OMP_NUM_THREADS=1\n")
    run.write("attempts/0/failed", f"1 {code} 2\n", after=20)
    run.write("logs/n2/rank-2.out", "step 7\n", after=1)
    run.write("logs/n1/rank-0.err", LOST, after=10)
    run.processes(2, (2, code), (3, 143))
    run.processes(1, (0, 1), (1, 143))
    found = run.diagnose()
    assert (found.node, found.rank, found.followed) == ("n2", 2, (0,))
    assert found.cause == ("exit -9" if code == 137 else "exit 3")


@pytest.mark.parametrize(("word", "first"), [("in", 1), ("of", 0)])  # earlier scripts: from 0
def test_what_a_node_says_counts_for_processes_that_never_began(
    run: Run, word: str, first: int
) -> None:
    begin = f"jobgen: n2 is node 1 {word} start {{}}; the rendezvous is at n1:24711\n"
    error = "jobgen: error: module load failed on n2: cuda/99.9\n"
    old = begin.format(5) + "jobgen: error: there is no torch on n2 for /usr/bin/python3\n"
    run.write("logs/n2/agent.log", old + (begin.format(first) + error) * 2)
    run.write("attempts/0/failed", "1 1 2\n")
    run.processes(2, (2, 1), (3, 1))
    run.write("attempts/0/node-0.started", "")
    found = run.diagnose()
    assert (found.cause, found.node) == ("module-missing", "n2")
    assert found.title == "module load failed on n2: cuda/99.9"


def test_a_slow_network_is_told_whatever_the_cause(run: Run) -> None:
    run.rank(0, "Traceback (most recent call last):\nKeyError: 'late'\n", after=50)
    about = header.Header("a", "a.yaml", "", "slurm", groups=(NodeGroup(2, 2),), fabric="slingshot")
    run.write("plan.json", header.write_json(about))
    run.write("preflight/nccl", "n1:7:7 [0] NCCL INFO Using network Socket\n")
    found = run.diagnose()
    (warning,) = found.warnings
    assert (found.exception, warning[:21]) == ("KeyError: 'late'", "NCCL uses TCP sockets")
    assert f"\nwarning: {warning}\n" in found.as_text()


def test_the_node_that_srun_names_in_a_log_is_the_one_and_not_where_srun_ran(run: Run) -> None:
    for end in ("Exited with exit code 1", "Segmentation fault", "Out Of Memory"):
        run.rank(0, f"srun: error: n2: task 3: {end}\n", after=10)
        assert (run.diagnose().node, run.diagnose().rank) == ("n2", None)


def test_the_reason_is_the_line_before_an_exception_that_refers_to_it(run: Run) -> None:
    for start in ("(Core pid=7) ", "(Worker pid=7, ip=10.0.0.2) ", ""):
        reason = f"{start}ValueError: 32768 tokens are too many\n"
        run.rank(0, f"{reason}{TRACE}RuntimeError: it failed, see root cause above\n", after=10)
        assert "after ValueError: 32768 tokens" in run.diagnose().title


@pytest.mark.parametrize(
    "said", ["Timed out after 61 seconds waiting for clients. 4/5", "No step for 600 s"]
)
def test_where_ranks_waited_the_remedy_names_what_looks_into_the_program(
    run: Run, said: str
) -> None:
    run.rank(0, f"{TRACE}torch.distributed.DistStoreError: {said}\n", after=10)
    assert "`jobgen check` looks into the program" in run.diagnose().remedy


@pytest.mark.parametrize("code", [1, 143])
def test_what_preflight_has_found_is_told_where_a_node_is_stopped_before_it_has_ended(
    run: Run, code: int
) -> None:
    """All nodes say it and end; the script ends whoever takes longer, as on a busy machine."""
    said = (
        "jobgen: preflight: n2: clock 41 s ahead\njobgen: preflight: n2: torch 2.9, others 2.13\n"
    )
    for node, rank, left in ((1, 0, 1), (2, 1, code)):
        end = f"jobgen: error: preflight failed on n{node}; what each node has is in /job\n"
        run.write(f"logs/n{node}/rank-{rank}.err", said + (end if left == 1 else ""), after=10)
        run.processes(node, (rank, left))
    run.write("attempts/0/failed", "0 1 0\n", after=20)
    found = run.diagnose()
    assert (found.cause, found.node) == ("version-mismatch", "n2")


def test_the_error_of_a_server_that_goes_on_is_told_beside_the_client_that_it_cost(
    run: Run,
) -> None:
    server = 'File "/job/server.py", line 6, in do_GET\n'
    trace = f"Traceback (most recent call last):\n  {server}KeyError: 'prompt'\n"
    lost = "http.client.RemoteDisconnected: Remote end closed connection without response\n"
    for role in ("server", "client"):
        run.write(f"roles/{role}/attempts/0/nodes", "n1\n")
    run.write("roles/server/logs/n1/rank-0.err", f"Exception occurred\n{trace}-----\n", after=1)
    client = 'Traceback (most recent call last):\n  File "/job/client.py", line 3, in <module>\n'
    run.write("roles/client/logs/n1/rank-0.err", client + lost, after=2)
    run.write("roles/client/attempts/0/node-0.ranks", "0 1 n1\n", after=3)
    run.script("jobgen: FAILED: role client with exit code 1: rank 0 on n1, by /job/rank-0.err\n")
    found = run.diagnose()
    assert found.headline.startswith("client rank 0 on n1: http.client.RemoteDisconnected")
    (warning,) = found.warnings
    assert warning == (
        "server rank 0 on n1 had printed KeyError: 'prompt', at /job/server.py:6, in do_GET"
    )


def test_each_failed_task_of_an_array_is_named_with_its_own_cause(run: Run) -> None:
    job = replace(run.job, tasks=14)
    for index in range(14):
        task = job.task(index).run_folder
        run.write(f"{task}/attempts/0/nodes", "n1\n")
        run.write(f"{task}/attempts/0/outcome", "failed 1\n" if index != 1 else "done 0\n")
        run.write(f"{task}/attempts/0/node-0.ranks", "0 1 n1\n")
        run.write(f"{task}/logs/n1/rank-0.err", f"{TRACE}KeyError: 'no {index}'\n")
    found = diagnose(job, FAILED, now=0.0)
    assert found.headline == "rank 0 on n1: KeyError: 'no 0'"
    tasks = [
        f"task {index}: rank 0 on n1: KeyError: 'no {index}' [exception]" for index in range(2, 12)
    ]
    assert found.besides == (*tasks, "2 more tasks")


@pytest.mark.parametrize("array", ["", "7"])
def test_no_task_is_advised_to_go_on_in_its_folder(run: Run, array: str) -> None:
    job = replace(run.job, array=array)
    run.script("jobgen: error: the chain ends without DONE: it has had its 3 starts\n")
    remedy = diagnose(job, FAILED, now=0.0).remedy
    assert ("--continue` goes on" in remedy) == (not array)
    assert ("--failed` begins the task again" in remedy) == bool(array)


@pytest.mark.parametrize("number", [0, 1])
def test_a_copy_that_has_lost_its_times_is_told_by_what_its_files_say(
    run: Run, number: int
) -> None:
    """Its logs were taken for those of an earlier start."""
    run.write("script", "")  # a job of 1970 has not had it for minutes
    run.write(f"attempts/{number}/nodes", "n1\nn2\n")
    run.rank(0, LOST, after=-20)
    run.rank(2, "Traceback (most recent call last):\nValueError: bad shape\n", after=-10)
    agent = (run.job.run_dir / "logs/n2/agent.log").read_text()
    run.write(
        "logs/n2/agent.log", f"jobgen: n2 is node 1 in start {number + 1}; no\n{agent}", after=-5
    )
    found = run.diagnose()
    assert (found.title, found.rank, found.followed) == ("ValueError: bad shape", 2, (0,))


def test_each_file_is_read_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.node(2, "jobgen: n2 is node 1; the rendezvous is at n1:24711\njobgen: error: odd\n")
    opened = []

    def noted(path: Path) -> Any:
        opened.append(path.name)
        return open_left(path)

    monkeypatch.setattr(reading, "open_left", noted)
    run.diagnose()
    assert opened.count("agent.log") == 1


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


@pytest.mark.torch
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
    assert find.find_job(job.id).name in jobgen("diagnose", job.id).out


def test_the_only_node_says_itself_why_its_program_never_began(tmp_path: Path) -> None:
    """Nobody else has to know how it ended, so the outcome alone is on record."""
    run = Run(tmp_path)
    run.write("attempts/0/nodes", "n1\n")
    run.write("attempts/0/outcome", "failed 1\n")
    said = (
        "ModuleNotFoundError: No module named 'torch'\njobgen: the program never began on n1; 1\n"
    )
    run.write("logs/n1/agent.log", said)
    run.script(f"jobgen: FAILED with exit code 1: n1, by agent.log\n{said}")
    diagnosis = run.diagnose()
    assert diagnosis.cause == "import"
    assert "agent.log:1: ModuleNotFoundError: No module named 'torch'" in diagnosis.evidence[0]


def test_status_names_the_file_that_has_the_words(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script says `see .../rank-0.err`, which is empty where a program prints all to stdout."""
    run.rank(0, "", after=10, code=3)
    run.write("logs/n1/rank-0.out", "the data set is gone\n", after=10)
    run.write("attempts/0/outcome", "failed 3\n")
    monkeypatch.chdir(run.folder)
    for command in ("status", "wait"):
        told = "".join(map(str, jobgen(command, "4711")))
        assert "the data set is gone; see runs/job/4711/logs/n1/rank-0.out\n" in told
