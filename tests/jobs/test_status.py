"""How jobs stand: by their scheduler's word, by their own records, and how often who is asked."""

import io
import json
import os
import re
import subprocess
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, edited, jobgen, plan_of

from jobgen import process, schedulers
from jobgen.jobs import find, status, watch
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import find_tracked
from jobgen.plan.plan import NodeGroup
from jobgen.process import CommandResult
from jobgen.rendering import header
from jobgen.rendering.render import render
from jobgen.schedulers.base import Queue, State
from jobgen.schedulers.pbs import qstat as pbs_jobs

SLURM, PBS = schedulers.SCHEDULERS["slurm"].queue, schedulers.SCHEDULERS["pbs"].queue
STOCK = ROOT / "tests" / "helpers" / "bin"

# As scripts have it: ten minutes, and four starts.
HEADER = (
    '# jobgen: {"name": "a", "spec": "job.yaml", "digest": "0", "scheduler": "slurm", "groups": '
    '[{"nodes": 1, "processes": 1}], "walltime": 600, "at_most": 4}\n'
)


# --- what schedulers print ----------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "reason", "wanted"),
    [
        ("PENDING", "Resources", ("queued", "Resources")),
        ("CONFIGURING", "None", ("queued", "")),
        ("RUNNING", "None", ("running", "")),
        ("COMPLETING", "None", ("stopping", "")),
        ("COMPLETED", "None", ("done", "")),
        ("CANCELLED", "None", ("cancelled", "")),
        ("CANCELLED by 1000", "None", ("cancelled", "")),
        ("CANCELLED", "ReqNodeNotAvail, UnavailableNodes:n3", ("cancelled", "")),
        ("FAILED", "NonZeroExitCode", ("failed", "FAILED NonZeroExitCode")),
        ("TIMEOUT", "TimeLimit", ("timeout", "TIMEOUT TimeLimit")),
        ("NODE_FAIL", "", ("node lost", "NODE_FAIL")),
        ("PREEMPTED", "None", ("cancelled", "PREEMPTED")),
        ("LAUNCH_FAILED", "None", ("failed", "LAUNCH_FAILED")),
        ("REQUEUE_FED", "None", ("queued", "")),
        ("REVOKED", "None", ("unknown", "Slurm calls it REVOKED")),
        ("POWER_UP_NODE", "None", ("unknown", "Slurm calls it POWER_UP_NODE")),
        ("RUNN", "None", ("unknown", "Slurm calls it RUNN")),
        ("RUNNING", "a|b", ("running", "a|b")),
        ("OUT_OF_MEMORY", "OutOfMemory", ("failed", "OUT_OF_MEMORY OutOfMemory")),
        (
            "PENDING",
            "launch failed requeued held",
            (
                "queued",
                "launch failed requeued held: a node could not start it, and sinfo -R says which "
                "and why; then scontrol release",
            ),
        ),
        (
            "PENDING",
            "job requeued in held state",
            ("queued", "job requeued in held state: release it with scontrol release"),
        ),
    ],
)
def test_state_by_squeue(word: str, reason: str, wanted: tuple[str, str]) -> None:
    line = f"4242|{word}|{reason}|N/A|N/A\n"
    assert SLURM.read_states(line) == ({"4242": State(*wanted)}, "")
    # A heterogeneous job has a line for each part; the first has the script.
    parts = line.replace("4242", "4242+0") + "4242+1|PENDING|None|N/A|N/A\n"
    assert SLURM.read_states(parts) == ({"4242": State(*wanted)}, "")


def test_an_answer_of_slurm_that_is_cut_is_none_and_other_lines_are_passed_over() -> None:
    line = "7|RUNNING|None|1700000000|1700003600\n"
    found = SLURM.read_states(line)
    assert found[0].keys() == {"7"}
    assert SLURM.read_states(f"CLUSTER: c2\n{line}") == found
    assert SLURM.read_states(line + "8|RUNN") == (found[0], "8|RUNN")
    assert SLURM.read_states("maintenance at noon\n") == ({}, "maintenance at noon")


def test_a_job_that_accounting_alone_knows_as_running_has_not_failed() -> None:
    found, _ = SLURM.read_history("7|RUNNING|None|1700000000|Unknown\n")
    assert found == {"7": State("unknown", "only sacct knows it, as running")}


def test_times_and_reasons_by_squeue() -> None:
    found, _ = SLURM.read_states(
        "7|RUNNING|None|1700000000|1700003600\n"
        "8|PENDING|Priority|1700009000|1700009100\n"
        "9|PENDING|DependencyNeverSatisfied|N/A|N/A\n"
        "10_3|RUNNING|None|1700000000|N/A\n10_[4-9%2]|PENDING|JobArrayTaskLimit|N/A|N/A\n"
    )
    assert found["7"] == State("running", "", 1700000000, 1700003600)
    assert found["8"] == State("queued", "Priority", 1700009000)
    assert found["9"].reason.startswith("DependencyNeverSatisfied: it waits for something")
    assert (found["10_3"].name, found["10"].name) == ("running", "queued")


def qstat(**attributes: object) -> str:
    """What `qstat -f -F dsv` prints of one job."""
    job = {"Job_Name": "a", "Job_Owner": "user@login", "queue": "workq", **attributes}
    told = (f"|{name}={value}" for name, value in job.items())
    return f"Job Id: 4242.pbs{''.join(told)}\n"


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        ({"job_state": "Q", "comment": "Not Running: no node"}, ("queued", "Not Running: no node")),
        ({"job_state": "Q", "comment": "Job run at noon on (n1:ncpus=2)"}, ("queued", "")),
        ({"job_state": "H"}, ("queued", "the job is held by PBS")),
        (
            {"job_state": "H", "comment": "Not Running: no node", "Hold_Types": "u"},
            ("queued", "the job is held by its owner: release it with qrls"),
        ),
        (
            {"job_state": "H", "comment": "job held, too many failed attempts to run"},
            ("queued", "job held, too many failed attempts to run"),
        ),
        (
            {"job_state": "H", "depend": "afterok:1", "Hold_Types": "us"},
            (
                "queued",
                "it waits for another job: afterok:1; the job is held by its owner: "
                "release it with qrls",
            ),
        ),
        ({"job_state": "W"}, ("queued", "")),
        ({"job_state": "R", "comment": "Job run at noon"}, ("running", "")),
        ({"job_state": "E"}, ("stopping", "")),
        ({"job_state": "S"}, ("running", "suspended")),
        ({"job_state": "F", "Exit_status": 0}, ("done", "")),
        ({"job_state": "F", "Exit_status": 1}, ("failed", "Exit_status 1")),
        ({"job_state": "F", "Exit_status": -29}, ("timeout", "Exit_status -29")),
        ({"job_state": "F", "Exit_status": -20}, ("node lost", "Exit_status -20")),
        ({"job_state": "F", "Exit_status": -14}, ("node lost", "Exit_status -14")),
        (
            {
                "job_state": "F",
                "Exit_status": 271,
                "comment": "Job run on n1 and terminated by a@b",
            },
            ("cancelled", "by a@b"),
        ),
        (
            {"job_state": "F", "Exit_status": 265, "comment": "Job run on n1 and terminated"},
            ("cancelled", ""),
        ),
        (
            {"job_state": "F", "Exit_status": 271, "comment": "Job run"},
            ("failed", "Exit_status 271"),
        ),
        ({"job_state": "F"}, ("cancelled", "")),  # deleted before it ran
        ({"job_state": "X", "Exit_status": 3}, ("failed", "Exit_status 3")),
        # Of a task, where the server keeps no history.
        ({"job_state": "X", "comment": "Subjob finished"}, ("unknown", "it has ended")),
        # This exit status is the array's: that of the task that ended last.
        (
            {"job_state": "X", "Exit_status": 0, "comment": "Subjob finished"},
            ("unknown", "it has ended"),
        ),
        ({"job_state": "X", "comment": "Subjob failed"}, ("unknown", "it has ended")),
        ({"job_state": "X", "comment": "Subjob terminated"}, ("cancelled", "")),
        ({"job_state": "?"}, ("unknown", "")),
        ({"job_state": ""}, ("unknown", "")),
        ({}, ("unknown", "")),
    ],
)
def test_state_by_qstat(job: dict[str, object], wanted: tuple[str, str]) -> None:
    assert list(PBS.read_states(qstat(**job))[0].values()) == [State(*wanted)]


def test_times_by_qstat() -> None:
    began = time.mktime(time.strptime("Fri Nov 20 10:00:00 2026"))
    running = {"job_state": "R", "stime": "Fri Nov 20 10:00:00 2026"}
    asked = {"Resource_List.walltime": "02:00:00"}
    (found,) = PBS.read_states(qstat(**running, **asked))[0].values()
    assert found == State("running", "", began, began + 7200)
    estimate = {"estimated.start_time": "Fri Nov 20 10:00:00 2026"}
    (found,) = PBS.read_states(qstat(job_state="Q", **estimate))[0].values()
    assert found == State("queued", "", began)


@given(
    jobs=st.dictionaries(
        st.integers(0).map("{}[3].server".format),
        st.dictionaries(st.from_regex(r"[A-Za-z_.]+", fullmatch=True), st.text()),
    )
)
def test_what_qstat_tells_of_many_jobs_is_read_as_it_was(jobs: dict[str, dict[str, str]]) -> None:
    """As escape_delimiter and convert_feed_chars of OpenPBS print it."""
    told, wanted = "", {}
    for job_id, attributes in jobs.items():
        told += f"Job Id: {job_id}"
        wanted[job_id] = {name: value.replace("\n", r"\n") for name, value in attributes.items()}
        for name, value in attributes.items():
            escaped = re.sub(r"""\\(?!['",])|\|""", r"\\\g<0>", value)
            told += f"|{name}={escaped}".replace("\n", r"\n")
        told += "\n"
    assert pbs_jobs.parse(told) == wanted


PBS_STATE_LETTERS = frozenset("BEFHMQRSTUWX")  # qstat(1B)


@pytest.mark.parametrize("queue", [SLURM, PBS])
@given(
    text=st.text(min_size=1)
    | st.text().filter(PBS_STATE_LETTERS.isdisjoint).map("Job Id: 7|job_state={}".format)
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["Jobs", "job_state"]), inner)
        ),
    ).map(json.dumps)
)
def test_an_answer_without_a_state_is_none(queue: Queue, text: str) -> None:
    found, stray = queue.read_states(text)
    assert stray or {state.name for state in found.values()} <= {"unknown"}


# --- many jobs ----------------------------------------------------------------------


class Scheduler:
    """A scheduler's commands, in this process: notes what is asked, answers by table."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.answers: dict[str, CommandResult] = {}

    def ask(self, argv: list[str], **_: object) -> CommandResult:
        self.calls.append(argv)
        return self.answers.get(argv[0], CommandResult("", 1, f"{argv[0]}: disabled"))

    def says(self, command: str, output: str, *, words: str = "") -> None:
        self.answers[command] = CommandResult(output, int(bool(words)), words)


@pytest.fixture
def scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    monkeypatch.chdir(tmp_path)
    made = Scheduler()
    monkeypatch.setattr(process, "ask", made.ask)
    return made


def job(id: str, *, name: str = "a", kind: str = "slurm", **more: Any) -> JobRecord:
    """A recorded job."""
    made = JobRecord(
        id, name, kind, os.getcwd(), more.pop("submitted", float(len(id))), ("x",), **more
    )
    made.run_dir.mkdir(parents=True)
    (made.run_dir / "job.json").write_text(json.dumps(asdict(made)))
    return made


def attempt(one: JobRecord, outcome: str = "", *, number: int = 0, nodes: str = "") -> Path:
    """What a start of its script leaves."""
    folder = one.run_dir / "attempts" / str(number)
    folder.mkdir(parents=True)
    (folder / "script").write_text(f"#!/bin/bash\n{HEADER}")
    (folder / "nodes").write_text("".join(f"{node}\n" for node in nodes.split()))
    if outcome:
        (folder / "outcome").write_text(outcome + "\n")
    return folder


def test_hundreds_of_jobs_take_one_query(scheduler: Scheduler) -> None:
    for number in range(500):
        one = job(str(100_000 + number), submitted=number)
        if number < 400:
            attempt(one, "done 0" if number % 8 else "failed 1")
    lines = [f"{100400 + number}|RUNNING|None|1700000000|N/A\n" for number in range(100)]
    scheduler.says("squeue", "".join(lines))
    assert jobgen("list").code == 0
    # Who knows if the scheduler has ended those that failed? That is asked once.
    assert [call[0] for call in scheduler.calls] == ["squeue", "sacct"]
    assert [call[4].count(",") + 1 for call in scheduler.calls] == [150, 50]
    scheduler.calls.clear()
    code, out, err = jobgen("list", "--json")
    assert (code, err) == (0, "")
    assert [call[0] for call in scheduler.calls] == ["squeue"]
    assert scheduler.calls[0][4].count(",") + 1 == 100
    states = [each["state"] for each in json.loads(out)["jobs"]]
    assert states[:100] == ["running"] * 100
    assert (states.count("done"), states.count("failed")) == (350, 50)


def test_each_scheduler_is_asked_once_and_only_about_what_is_not_known(
    scheduler: Scheduler,
) -> None:
    attempt(job("1"), "done 0")
    job("2")
    job("3")
    job("4.pbs", kind="pbs", links=("5.pbs",))
    job("6[].pbs", kind="pbs", tasks=2)
    scheduler.says("squeue", "2|PENDING|Priority|1700000000|N/A\n")
    scheduler.says("sacct", "3|TIMEOUT|None|1|2\n")
    states = {"4.pbs": "Q", "5.pbs": "H", "6[].pbs": "B", "6[0].pbs": "R", "6[1].pbs": "Q"}
    lines = (f"Job Id: {id}|job_state={letter}\n" for id, letter in states.items())
    scheduler.says("qstat", "".join(lines))
    code, out, err = jobgen("list")
    assert (code, err) == (0, "")
    words = {line.split()[0]: line.split()[2] for line in out.splitlines()[1:]}
    assert words == {
        "1": "done",
        "2": "queued",
        "3": "timeout",
        "4.pbs": "queued",
        "6[].pbs": "running",
    }
    assert [call[:1] + call[-2:] for call in scheduler.calls if call[0] != "qstat"] == [
        ["squeue", "--jobs=2,3", "--format=%i|%T %B %N|%r|%S|%e"],
        ["sacct", "--jobs=3", "--format=JobID,State,Reason,Start,End"],
    ] or sorted(call[0] for call in scheduler.calls) == ["qstat", "sacct", "squeue"]
    (asked,) = (call for call in scheduler.calls if call[0] == "qstat")
    assert asked[:5] == ["qstat", "-f", "-t", "-F", "dsv"]
    assert sorted(asked[5:]) == ["4.pbs", "5.pbs", "6[].pbs"]
    told = json.loads(jobgen("status", "6", "--json").out)["jobs"][0]
    assert (told["reason"], [task["state"] for task in told["tasks"]]) == (
        "1 running, 1 queued",
        ["running", "queued"],
    )
    # What has ended by the scheduler's word is not asked for again.
    scheduler.answers.pop("sacct")
    scheduler.calls.clear()
    assert jobgen("status", "3").out.startswith("timeout\n")
    assert scheduler.calls == []


def test_tasks_of_whose_end_pbs_keeps_nothing_are_judged_by_what_they_left(
    scheduler: Scheduler,
) -> None:
    array = job("6[].pbs", kind="pbs", tasks=4)
    for index, outcome in enumerate(("failed 3", "cancelled 143", "")):
        attempt(array.task(index), outcome)
    states = {"6[].pbs": "B", **{f"6[{index}].pbs": "X" for index in range(4)}}
    words = "comment=Subjob finished"
    lines = (f"Job Id: {id}|job_state={letter}|{words}\n" for id, letter in states.items())
    scheduler.says("qstat", "".join(lines))
    for _ in range(2):  # what is kept is the same
        (told,) = json.loads(jobgen("status", "6", "--json").out)["jobs"]
        states = [(task["state"], task["reason"]) for task in told["tasks"]]
        assert states[:2] == [("failed", "exit code 3"), ("cancelled", "")]
        assert states[2][0] == "failed"
        assert states[2][1].startswith("it left no outcome: it was killed")
        assert states[3][0] == "cancelled"


def test_a_notice_among_the_answers_leaves_only_jobs_without_a_line_unknown(
    scheduler: Scheduler,
) -> None:
    for number in ("1", "2"):
        attempt(job(number))
    attempt(job("3.pbs", kind="pbs"))
    scheduler.says("squeue", "** Maintenance on Monday **\nCLUSTER: c2\n1|RUNNING|a|b|1|2\n")
    scheduler.says("qstat", "Maintenance on Monday\nJob Id: 3.pbs|job_state=R\n")
    code, out, err = jobgen("status", "1", "3.pbs")
    assert (code, err) == (0, "")
    assert out.count("running") == 2
    code, out, err = jobgen("status", "2")
    assert (code, out.splitlines()[0]) == (6, "unknown")
    assert "squeue has printed no answer but '** Maintenance on Monday **'" in err


def test_what_squeue_lists_under_another_name_is_not_called_gone(scheduler: Scheduler) -> None:
    """Those of `sbatch --array` with a script of no array were called failed, and then removed."""
    for number in ("6", "7", "9"):
        attempt(job(number))
    array = job("8", tasks=2)
    for index in (0, 1):
        attempt(array.task(index))
    scheduler.says("squeue", "6_0|RUNNING|None|1|2\n6_1|RUNNING|None|1|2\n")
    assert "failed" not in jobgen("list").out
    assert jobgen("status", "6", "7").out.count("unknown") == 2
    code, out, _ = jobgen("clean", "--failed", "--older", "1s", "--yes")
    assert (code, out) == (0, "removed 0.0 MB of 0 jobs\n")
    scheduler.says("squeue", "8_1|RUNNING|None|1|2\n8_2|RUNNING|None|1|2\n")
    assert jobgen("status", "6", "8").out.count("failed") == 2, "its own tasks are no others"


@pytest.mark.parametrize("cut", ["1|RUNN", "1|RUNNING|None|N/A|N/A"])
def test_half_a_line_is_no_answer(scheduler: Scheduler, cut: str) -> None:
    attempt(job("1"))
    scheduler.says("squeue", cut)
    code, out, err = jobgen("status", "1")
    assert (code, out.splitlines()[0]) == (6, "unknown")
    assert repr(cut) in err


def test_accounting_counts_where_squeue_is_silent(scheduler: Scheduler) -> None:
    attempt(job("1"))
    scheduler.says("squeue", "", words="slurm_load_jobs error: Invalid job id specified")
    scheduler.says("sacct", "1|RUNNING|None|1700000000|Unknown\n")
    assert jobgen("status", "1").out.startswith("unknown\n")
    assert "only sacct knows it, as running" in jobgen("list").out
    scheduler.says("sacct", "1|COMPLETED|None|1|2\n", words="sacct: error: slurmdbd is down")
    assert jobgen("status", "1").out.startswith("failed\n")


def test_many_ids_are_asked_for_in_portions(scheduler: Scheduler) -> None:
    here = os.getcwd()
    jobs = [JobRecord(f"{10**15 + number}", "a", "slurm", here, 0, ()) for number in range(9000)]
    scheduler.says("squeue", "")
    scheduler.says("sacct", "")
    status.look(jobs)
    asked = [call[4] for call in scheduler.calls if call[0] == "squeue"]
    assert len(asked) == 2
    assert all(len(one) < 131_072 for one in asked)
    assert sum(one.count(",") + 1 for one in asked) == 9000


# --- a scheduler that has forgotten, or does not answer -----------------------------


def alive(folder: Path, index: int, *, seconds_ago: float = 0) -> None:
    sign = folder / f"node-{index}.alive"
    sign.touch()
    os.utime(sign, (time.time() - seconds_ago,) * 2)


def ran(folder: Path, seconds: float) -> None:
    """So long before its outcome."""
    os.utime(folder / "script", ((folder / "outcome").stat().st_mtime - seconds,) * 2)


def own_word(what: str) -> tuple[str, str]:
    """How `7` stands once its scheduler has forgotten it, with what its script has left."""
    submitted = 1.0 if "copied" in what else time.time()  # a copy has the times of now
    one = job("7", submitted=submitted)
    if what == "never began":
        pass
    elif what == "was copied":
        attempt(one, "cancelled 143")
    elif what == "was copied with its output":
        attempt(one, "cancelled 143")
        Path("a-7.out").write_text("=>> PBS: job killed: walltime 600 exceeded limit 600\n")
    elif what == "was cancelled":
        ran(attempt(one, "cancelled 143"), 60)
    elif what == "was told to end at its limit":
        ran(attempt(one, "cancelled 143"), 595)
    elif what == "was to go on":
        attempt(one, "continued 0")
    elif what == "lost a node":
        folder = attempt(one, "failed 1", nodes="n1 n2")
        for index in (0, 1):
            alive(folder, index)
        (folder / "node-0.ended").write_text("143\n")
        (folder / "failed").write_text("lost n2\n")
    elif what == "was killed within":
        attempt(one, "failed 137")
    elif what == "was told to end within":
        attempt(one, "failed 143")
    elif what == "had a node that failed":
        folder = attempt(one, "failed 3", nodes="n1 n2")
        alive(folder, 0)
        (folder / "failed").write_text("0 3\n")
    elif what == "is alive":
        alive(attempt(one, nodes="n1"), 0)
    elif what == "was killed":
        alive(attempt(one, nodes="n1"), 0, seconds_ago=3600)
    elif what == "came to the end of its walltime":
        attempt(one, "failed 143")
        Path("a-7.out").write_text("7: ENDED by the end of the walltime; logs are in runs/a/7\n")
    elif what == "lost a node that PBS noticed":
        attempt(one, "cancelled 143")
        Path("a-7.out").write_text("node 1 (n2) requested job die, code 15009\n")
    found = status.look([one]).jobs[0].state
    return found.name, found.reason


FORGOTTEN = "the scheduler no longer knows it"


@pytest.mark.parametrize(
    ("what", "name", "reason"),
    [
        ("never began", "unknown", f"it has not begun here; {FORGOTTEN}"),
        ("was cancelled", "cancelled", ""),
        ("was told to end at its limit", "timeout", "it ended at its walltime"),
        ("lost a node that PBS noticed", "node lost", "node 1 (n2) requested job die"),
        ("was copied", "unknown", "it was cancelled, or ended at its walltime: a copy without its"),
        ("was copied with its output", "timeout", "it ended at its walltime"),
        ("was to go on", "unknown", "it was going to be restarted"),
        ("lost a node", "node lost", "no sign of life from n2"),
        ("had a node that failed", "failed", "exit code 3"),
        ("was killed within", "failed", "exit code 137, by SIGKILL"),
        ("was told to end within", "failed", "exit code 143, by SIGTERM"),
        ("is alive", "running", f"{FORGOTTEN}; its last sign of life is "),
        ("was killed", "failed", "it ran on n1, with the last sign of life at "),
        ("came to the end of its walltime", "timeout", "its script has ended it"),
    ],
)
def test_the_word_of_the_run_folder(
    scheduler: Scheduler, what: str, name: str, reason: str
) -> None:
    scheduler.says("squeue", "", words="slurm_load_jobs error: Invalid job id specified")
    found = own_word(what)
    assert found[0] == name
    assert reason in found[1]


@pytest.mark.parametrize(
    "answer",
    [
        ("", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"),
        ("<html>503</html>\n", ""),
    ],
)
@pytest.mark.parametrize(
    ("what", "name"),
    [("never began", "unknown"), ("was killed", "unknown"), ("is alive", "running")],
)
def test_a_scheduler_that_does_not_answer_ends_with_6(
    scheduler: Scheduler, answer: tuple[str, str], what: str, name: str
) -> None:
    scheduler.says("squeue", answer[0], words=answer[1])
    own_word(what)
    attempt(job("8"), "done 0")
    code, out, err = jobgen("status", "7", "8")
    assert code == 6
    assert [line.split()[2] for line in out.splitlines()[1:]] == [name, "done"]
    assert (answer[1] or "503") in err
    assert jobgen("status", "7").out.startswith(f"{name}\n")
    assert (answer[1] or "503") not in jobgen("list").out  # which says it once, on stderr
    told = "a 7: running (the scheduler does not answer; its last sign of life is "
    assert jobgen("diagnose", "7").out.startswith(told) == (name == "running")


def test_a_job_that_ends_while_the_scheduler_is_asked_is_done(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = job("7")
    folder = attempt(one)

    def ask(argv: list[str], **_: object) -> CommandResult:
        (folder / "outcome").write_text("done 0\n")
        return CommandResult("", 1, "slurm_load_jobs error: Invalid job id specified")

    monkeypatch.setattr(process, "ask", ask)
    assert jobgen("status", "7")[1].startswith("done\n")


def test_a_local_job_that_ends_while_it_is_looked_at_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = attempt(job("7", kind="local", pid=2**22, started=1))

    def end(*_: object) -> bool:
        (folder / "outcome").write_text("done 0\n")
        return False

    monkeypatch.setattr(process, "is_running", end)
    assert jobgen("status", "7")[1].startswith("done\n")


def test_a_run_that_was_asked_to_stop_says_so(scheduler: Scheduler) -> None:
    one = job("7")
    attempt(one, "done 0")
    (one.run_dir / "STOPPED").touch()
    assert jobgen("status", "7")[1].startswith("done\n")  # for programs
    assert status.read_state(one).reason == "it stopped early, as requested"
    assert "\nit stopped early, as requested" in jobgen("diagnose", "7")[1]
    assert "It stopped when asked" in jobgen("report", "7", "--text")[1]


def test_a_role_that_the_job_has_stopped_is_not_called_ended(scheduler: Scheduler) -> None:
    one = job("7")
    attempt(one, "done 0")
    about = header.Header("a", "a", "", "slurm", groups=(NodeGroup(2, 1),), roles=("one", "two"))
    (one.run_dir / "plan.json").write_text(header.write_json(about))
    for role, outcome in (("one", "cancelled 143"), ("two", "done 0")):
        folder = one.run_dir / f"roles/{role}/attempts/0"
        folder.mkdir(parents=True)
        (folder / "script").touch()
        (folder / "nodes").write_text("n1\n")
        (folder / "outcome").write_text(outcome)
    script = one.run_dir / "attempts/0/script"
    script.write_text("    start_role one alone notice\n    start_role two\n")
    said = "one was stopped before it ended"
    _, told, _ = jobgen("status", "7")
    assert told.splitlines()[:4] == ["done", said, "one stopped, on n1", "two done, on n1"]
    assert said in jobgen("report", "7", "--text")[1]
    script.write_text("    start_role one notice\n    start_role two\n")
    assert jobgen("status", "7")[1].splitlines()[:2] == ["done", "one stopped, on n1"]
    (one.run_dir / "roles/two/STOPPED").touch()  # it has stopped in order, as at the notice
    assert "two stopped, on n1" in jobgen("status", "7")[1]


def test_a_job_is_stopping_once_it_was_told_to_end(scheduler: Scheduler) -> None:
    one = job("7")
    folder = attempt(one, "cancelled 143")
    began = (folder / "outcome").stat().st_mtime - 60
    scheduler.says("squeue", f"7|RUNNING|None|{began:.0f}|N/A\n")
    assert status.read_state(one).name == "stopping"
    scheduler.says("squeue", f"7|RUNNING|None|{began + 120:.0f}|N/A\n")  # it was started again
    assert status.read_state(one).name == "running"


@pytest.mark.parametrize(
    ("line", "state", "reason"),
    [
        ("PREEMPTED|None|1|2", "cancelled", "PREEMPTED"),
        ("FAILED|NonZeroExitCode|1|2", "failed", "exit code 1"),
        ("OUT_OF_MEMORY|OutOfMemory|1|2", "failed", "OUT_OF_MEMORY OutOfMemory"),
        ("COMPLETED|None|1|2", "failed", "exit code 1"),
        ("COMPLETING|None|1|N/A", "failed", "exit code 1"),
        ("PENDING|BeginTime|N/A|N/A", "queued", "BeginTime"),  # it was put back by the scheduler
        ("RUNNING|None|3000000000|N/A", "running", ""),
    ],
)
def test_a_failure_may_be_the_schedulers_doing(
    scheduler: Scheduler, line: str, state: str, reason: str
) -> None:
    one = job("7")
    attempt(one, "failed 1")
    scheduler.says("squeue", f"7|{line}\n")
    for _ in range(2):
        found = status.read_state(one)
        assert (found.name, found.reason) == (state, reason)
    asked = [call[0] for call in scheduler.calls]
    assert asked.count("squeue") == (2 if "N/A" in line else 1)
    assert asked.count("scontrol") == (1 if line.startswith("FAILED") else 0)


def test_a_job_that_ended_within_the_grace_time_of_its_preemption_was_preempted(
    scheduler: Scheduler,
) -> None:
    one = job("7")
    attempt(one, "failed 143")
    scheduler.says("squeue", "7|FAILED|NonZeroExitCode|1|2\n")
    scheduler.says("scontrol", "JobId=7 PreemptEligibleTime=1 PreemptTime=1700000000 TimeLimit=1\n")
    for _ in range(2):
        found = status.read_state(one)
        assert (found.name, found.reason[:27]) == ("cancelled", "preempted by another job at")
    assert [call[0] for call in scheduler.calls] == ["squeue", "scontrol"]


def test_a_job_that_runs_for_its_grace_time_says_that_it_is_preempted(
    scheduler: Scheduler,
) -> None:
    one = job("7")
    attempt(one)  # of ten minutes
    end = int(time.time()) + 120
    scheduler.says("squeue", f"7|RUNNING|None|1|{end}\n")
    scheduler.says("scontrol", "JobId=7 EndTime=03:06:05 PreemptTime=03:04:05 TimeLimit=1\n")
    found = status.read_state(one)
    assert found.name == "running"
    assert found.reason == "preempted by another job at 03:04:05; Slurm ends it at 03:06:05"
    scheduler.says("squeue", f"7|RUNNING|None|1|{end + 480}\n")
    assert status.read_state(one).reason == ""


@pytest.mark.parametrize(
    ("host", "nodes", "lost"),
    [
        ("n1", "n[1-3]", False),
        ("n1", "n[2-3]", True),
        ("n1", "m1,n[2,11-12]", True),
        ("n11", "m1,n[2,11-12]", False),
        ("gpu-009", "gpu-[008-012]", False),
        ("gpu-013", "gpu-[008-012]", True),
        ("n1", "n2", True),
        ("a1b2", "a[1-2]b[2-3]", False),
        ("a9b2", "a[1-2]b[2-3]", False),  # lists of this kind are not read
        ("n/a", "", False),
    ],
)
def test_a_job_whose_script_is_gone_with_its_node_says_so(
    scheduler: Scheduler, host: str, nodes: str, lost: bool
) -> None:
    """With --no-kill, Slurm lets it have the other nodes until its walltime, and runs nothing."""
    one = job("7")
    attempt(one)
    scheduler.says("squeue", f"7|RUNNING {host} {nodes}|None|1|{int(time.time()) + 600}\n")
    found = status.read_state(one)
    why = f"Node failure on {host} has ended its script: cancel it, and submit again"
    assert (found.name, found.reason) == ("running", why if lost else "")


def test_a_job_that_excludes_too_many_nodes_says_so_and_is_not_waited_for(
    scheduler: Scheduler,
) -> None:
    scheduler.says("squeue", "7|PENDING|BadConstraints|N/A|N/A\n")
    scheduler.says("scontrol", "JobId=7 ReqNodeList=n[2-3] ExcNodeList=n3 NodeList=\n")
    one = job("7")
    found = status.read_state(one)
    held = "BadConstraints: no nodes fit what it asks for, so it is held"
    assert found.reason == f"{held}; it excludes n3 (ExcNodeList)"
    assert found.hopeless
    scheduler.says("scontrol", "JobId=7 ReqNodeList=(null) ExcNodeList=(null) NodeList=\n")
    assert status.read_state(one).reason == held


@pytest.mark.parametrize(
    ("reason", "node"),
    [
        ("launch_failed_requeued_held", True),
        ("launch failure limit exceeded requeued held", True),  # from 23.02 on
        ("JobHoldMaxRequeue", True),  # before
        ("user env retrieval failed requeued held", False),  # from 25.05 on
    ],
)
def test_a_job_that_slurm_has_put_back_and_holds_is_not_waited_for(
    scheduler: Scheduler, reason: str, node: bool
) -> None:
    scheduler.says("squeue", f"7|PENDING|{reason}|N/A|N/A\n")
    found = status.read_state(job("7"))
    assert found.hopeless
    assert found.reason.startswith(f"{reason}: {'a node' if node else 'release it'}")
    assert found.reason.endswith("scontrol release")


def test_the_node_that_could_not_start_a_job_is_named(scheduler: Scheduler) -> None:
    """Of the job's own partitions: somewhere in a large cluster a node is always drained."""
    scheduler.says("squeue", "7|PENDING|launch_failed_requeued_held|N/A|N/A\n")
    scheduler.says("scontrol", "JobId=7 Partition=gpu,long AllocNode:Sid=login:1\n")
    scheduler.says("sinfo", " n5|down|not responding\n n2|drained|Prolog error\n")
    found = status.read_state(job("7"))
    why = "launch_failed_requeued_held: n2 could not start it (Prolog error); then scontrol release"
    assert (found.name, found.reason) == ("queued", why)
    assert scheduler.calls[-1][:2] == ["sinfo", "--partition=gpu,long"]
    away = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority"
    scheduler.says("squeue", f"8|PENDING|{away}|N/A|N/A\n")
    found = status.read_state(job("8"))
    why = f"{away}; n5 is down (not responding); n2 is drained (Prolog error)"
    assert (found.name, found.reason) == ("queued", why)


def test_a_failure_is_one_though_the_scheduler_does_not_answer(scheduler: Scheduler) -> None:
    attempt(job("7"), "failed 1")
    for _ in range(2):
        assert jobgen("status", "7") == (0, "failed\nexit code 1\n", "")
    assert len(scheduler.calls) == 2


def test_what_the_scheduler_said_last_does_not_outlive_another_start(scheduler: Scheduler) -> None:
    one = job("7")
    attempt(one)
    scheduler.says("squeue", "7|NODE_FAIL|None|1|2\n")
    assert status.read_state(one).name == "node lost"
    scheduler.says("squeue", "7|RUNNING|None|1|2\n")
    assert status.read_state(one).name == "node lost"
    attempt(one, number=1)
    assert status.read_state(one).name == "running"


@pytest.mark.parametrize(
    ("states", "state", "reason"),
    [
        ("PENDING PENDING", "queued", ""),
        ("RUNNING PENDING", "running", "1 running, 1 queued"),
        ("COMPLETED PENDING", "running", "1 done, 1 queued"),
        ("COMPLETED RUNNING", "running", "1 done, 1 running"),
        ("COMPLETED FAILED CANCELLED", "failed", "1 done, 1 failed, 1 cancelled"),
        ("COMPLETED CANCELLED", "cancelled", "1 done, 1 cancelled"),
        ("TIMEOUT CANCELLED", "timeout", "1 timeout, 1 cancelled"),
        ("COMPLETED COMPLETED", "done", "2 done"),
    ],
)
def test_an_array_stands_as_its_tasks_do(
    scheduler: Scheduler, states: str, state: str, reason: str
) -> None:
    words = states.split()
    array = job("7", tasks=len(words))
    lines = [f"7_{index}|{word}|None|N/A|N/A\n" for index, word in enumerate(words)]
    scheduler.says("squeue", "".join(lines))
    (found,) = status.look([array]).jobs
    assert (found.state.name, found.state.reason) == (state, reason)
    _, out, err = jobgen("status", "7")
    assert (out.splitlines()[0], out.count("\ntask "), err) == (state, len(words), "")
    assert jobgen("status", "7_0").out.splitlines()[0] == found.tasks[0].name


def test_tasks_that_have_not_begun_stand_as_their_array(scheduler: Scheduler) -> None:
    array = job("7", tasks=3)
    attempt(array.task(0), "done 0")
    scheduler.says("squeue", "")
    scheduler.says("sacct", "7_[1-2%2]|CANCELLED by 0|None|N/A|N/A\n")
    (found,) = status.look([array]).jobs
    assert [state.name for state in found.tasks] == ["done", "cancelled", "cancelled"]
    assert found.state == State("cancelled", "1 done, 2 cancelled")


def test_an_array_that_is_held_says_so_also_where_some_tasks_have_ended(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobgen.jobs.watch.Watch.over", lambda watch, index: True)
    array = job("7[].pbs", kind="pbs", tasks=3)
    lines = "Job Id: 7[].pbs|job_state=H|Hold_Types=u|comment=Job Array Began at noon\n"
    scheduler.says("qstat", lines + "".join(f"Job Id: 7[{i}].pbs|job_state=Q\n" for i in range(3)))
    held = "the job is held by its owner: release it with qrls"
    for word, begun in (("queued", ""), ("running", "1 done, 2 queued; ")):
        if begun:
            attempt(array.task(0), "done 0")
        assert jobgen("status", "7").out.startswith(f"{word}\n{begun}{held}\n")
        told = jobgen("diagnose", "7").out
        assert "[held]" in told
        assert "`qrls '7[].pbs'`" in told
        assert f"job 7[].pbs is queued: {held}\n" in jobgen("wait", "7").err


def test_tasks_that_never_began_are_over_once_the_others_have_ended(scheduler: Scheduler) -> None:
    """Slurm forgets a task that was cancelled while it waited, at once or after minutes."""
    array = job("7", tasks=4)
    attempt(array.task(0), "done 0")
    attempt(array.task(1))
    scheduler.says("scancel", "")
    scheduler.says("squeue", "7_1|RUNNING|None|N/A|N/A\n")
    assert jobgen("cancel", "7_2").code == 0
    states = [state.name for state in status.look([array]).jobs[0].tasks]
    assert states == ["done", "running", "cancelled", "unknown"]
    (array.task(1).run_dir / "attempts/0/outcome").write_text("done 0\n")
    scheduler.says("squeue", "", words="squeue: something else")
    assert status.look([array]).jobs[0].state.name == "unknown"
    scheduler.says("squeue", "")  # as of a job that it knows
    assert status.look([array]).jobs[0].state.name == "unknown"
    for known in ("7_1|COMPLETED|None|N/A|N/A\n", ""):
        words = "slurm_load_jobs error: Invalid job id specified" * (not known)
        scheduler.says("squeue", known, words=words)
        (found,) = status.look([array]).jobs
        assert found.state == State("cancelled", "2 done, 2 cancelled")
    assert found.tasks[3].reason.startswith("it did not run")
    # sbatch --array=0-1 by hand: nobody has asked for the others.
    replace(array, argv=()).save()
    (array.task(2).run_dir / "cancelled").unlink()
    assert jobgen("status", "7").out.startswith("done\n")


# --- what is shown ------------------------------------------------------------------


def test_a_task_is_shown_with_what_it_alone_has_and_found_by_its_arrays_name(
    scheduler: Scheduler,
) -> None:
    spec = edited(
        ("run:", "array: {values: {lr: [0.1, 0.3], API_KEY: [hf_0123456789abcdefghijk]}}\nrun:")
    )
    array = job("7", tasks=2)
    (array.run_dir / "script").write_text(render(plan_of(spec)))
    scheduler.says("squeue", "7_0|COMPLETED|None|N/A|N/A\n7_1|FAILED|None|N/A|N/A\n")
    said = jobgen("status", "7").out
    assert "task 0: done  --lr 0.1 --API_KEY ********\n" in said
    assert "task 1: failed  --lr 0.3 --API_KEY ********, FAILED\n" in said
    assert jobgen("status", "a_1").out.startswith("failed\n")
    assert jobgen("status", "a_2").err.endswith("no job 'a_2' below ./runs; 7 has tasks 0 to 1\n")


def metrics(one: JobRecord, *lines: object, torn: str = "") -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (one.run_dir / "metrics.jsonl").write_text(text + torn)


START = {"kind": "start", "step": 0, "attempt": 0, "time": 1.0, "steps": 1000}


def step(number: int, **more: object) -> dict[str, object]:
    line = {"kind": "step", "step": number, "time": time.time(), "loss": 2.5, "step_s": 2.0}
    return line | {"tokens_per_s": 51200.4} | more


def test_progress_is_that_of_the_last_line_that_is_whole(scheduler: Scheduler) -> None:
    one = job("7")
    attempt(one)
    filler = [step(number, text="x" * 200) for number in range(1000)]  # more than is read
    metrics(one, START, *filler, step(200), {"kind": "save", "step": 200}, torn='{"kind": "st')
    scheduler.says("squeue", f"7|RUNNING|None|1700000000|{time.time() + 3600:.0f}\n")
    code, out, err = jobgen("status")
    assert (code, out.splitlines()[0], err) == (0, "running", "a 7:\n")
    assert "step 200 of 1000, loss 2.5, 51,200 tokens/s\n" in out
    assert "of the walltime, 00:26:" in out
    found = json.loads(jobgen("status", "--json").out)["jobs"][0]["progress"]
    assert (found["step"], found["steps"], found["left"]) == (200, 1000, 1600.0)


@pytest.mark.parametrize(
    "text",
    ["", "[]\n", '{"kind": "step"}\n', '{"kind": "step", "step": []}\n', "\xff\n", "[" * 99999],
)
def test_metrics_of_somebody_else_are_no_traceback(scheduler: Scheduler, text: str) -> None:
    one = job("7")
    attempt(one)
    (one.run_dir / "metrics.jsonl").write_bytes(text.encode("latin-1"))
    scheduler.says("squeue", "7|RUNNING|None|N/A|N/A\n")
    assert jobgen("status", "7") == (0, "running\n", "")


def test_a_loss_that_is_no_number_is_still_json(scheduler: Scheduler) -> None:
    one = job("7")
    attempt(one)
    metrics(one, START, step(3, loss=float("nan")))
    scheduler.says("squeue", "7|RUNNING|None|N/A|N/A\n")
    out = jobgen("status", "--json").out
    assert json.loads(out, parse_constant=pytest.fail)["jobs"][0]["progress"]["loss"] is None


def test_a_chain_tells_its_position(scheduler: Scheduler) -> None:
    one = job("7")
    attempt(one, "continued 0")
    attempt(one, number=1)
    (one.run_dir / "script").write_text(f"#!/bin/bash\n{HEADER}")
    scheduler.says("squeue", "7|RUNNING|None|N/A|N/A\n")
    assert jobgen("status", "7").out == "running\nstart 2 of at most 4\n"
    (one.run_dir / "attempts" / "1" / "outcome").write_text("continued 0\n")
    scheduler.says("squeue", "7|PENDING|None|N/A|N/A\n")
    assert jobgen("status", "7").out == "queued\nnext: start 3 of at most 4\n"
    attempt(one, "failed 1", number=2)
    attempt(one, number=3)
    assert jobgen("status", "7").out == "queued\nnext: start 5\n"


def test_what_pbs_starts_once_a_chain_is_done_is_no_start_of_it(scheduler: Scheduler) -> None:
    one = job("7.pbs", kind="pbs", links=("8.pbs", "9.pbs", "10.pbs"))
    for number, outcome in enumerate(("continued 0", "done 0", "done 0", "done 0")):
        attempt(one, outcome, number=number)
        if number > 1:
            (one.run_dir / f"attempts/{number}/nodes").unlink()
    assert jobgen("status", "7").out == "done\nstart 2\n"


def test_a_chain_that_has_gone_on_has_one_count_of_starts_and_the_scheduler_s_id(
    scheduler: Scheduler,
) -> None:
    one = replace(job("7"), counted_from=1, links=("35",))
    one.save()
    attempt(one, "failed 1")
    (one.run_dir / "attempts/0/job").write_text("7\n")
    (one.run_dir / "script").write_text(f"#!/bin/bash\n{HEADER}")
    scheduler.says("squeue", "35|PENDING|Priority|N/A|N/A\n")
    waits = "queued\nPriority\nthe scheduler has it as job 35\nnext: start 2 of at most 5\n"
    assert jobgen("status", "7").out == waits
    attempt(one, number=1)
    (one.run_dir / "attempts/1/job").write_text("35\n")
    scheduler.says("squeue", "35|RUNNING|None|N/A|N/A\n")
    runs = "running\nthe scheduler has it as job 35\nstart 2 of at most 5\n"
    assert jobgen("status", "7").out == runs


def test_a_chain_that_was_submitted_by_hand_is_not_done_when_its_first_job_has_ended(
    scheduler: Scheduler,
) -> None:
    """PBS called the first job finished, and jobgen the run done at a tenth of its steps."""
    one = replace(job("7.pbs"), scheduler="pbs")
    one.save()
    for number, (id, outcome) in enumerate((("7.pbs", "continued 0"), ("8.pbs", ""))):
        (attempt(one, outcome, number=number) / "job").write_text(f"{id}\n")
    ended = "Job Id: 7.pbs|job_state=F|Exit_status=0\n"
    scheduler.says("qstat", f"{ended}Job Id: 8.pbs|job_state=R\n")
    assert status.read_state(one).name == "running"
    (one.run_dir / "attempts/1/outcome").write_text("continued 0\n")
    scheduler.says("qstat", f"{ended}{ended.replace('7', '8')}")
    assert status.read_state(one).name == "failed"


def test_a_job_that_has_ended_tells_when_it_began(scheduler: Scheduler) -> None:
    one = job("7")
    attempt(one, "done 0")
    (one.run_dir / "attempts/0/script").write_text(f"#!/bin/bash\n{HEADER}")
    (row,) = json.loads(jobgen("status", "7", "--json").out)["jobs"]
    assert row["limit"] - row["start"] == 600


def test_an_earlier_start_tells_how_far_a_run_has_come_but_not_when_it_is_done(
    scheduler: Scheduler,
) -> None:
    one = job("7")
    attempt(one, "continued 0")
    metrics(one, START, step(200, time=time.time() - 60))
    attempt(one, number=1)
    scheduler.says("squeue", f"7|RUNNING|None|1700000000|{time.time() + 3600:.0f}\n")
    _, start, progress, left = jobgen("status", "7").out.splitlines()
    assert (start, progress) == ("start 2", "step 200 of 1000")
    assert left.endswith(" of the walltime")


def test_a_later_job_of_a_chain_names_it(scheduler: Scheduler) -> None:
    (attempt(job("7"), "done 0").parent / "after-7").write_text("62\n")
    attempt(job("80.pbs", kind="pbs", name="b", links=("81.pbs",)), "done 0")
    for word in ("62", "81", "81.pbs"):
        assert jobgen("status", word).out.startswith("done\n"), word
    assert "no job '63' below ./runs" in jobgen("status", "63").err


def test_the_reason_to_wait_and_the_expected_start_are_told(scheduler: Scheduler) -> None:
    job("7")
    noon = time.mktime(time.strptime("2030-01-01 12:00", "%Y-%m-%d %H:%M"))
    scheduler.says("squeue", f"7|PENDING|Priority|{noon:.0f}|N/A\n")
    assert jobgen("status") == (
        0,
        "queued\nPriority\nexpected to start 2030-01-01 12:00\n",
        "a 7:\n",
    )


@pytest.mark.parametrize(
    ("kind", "line", "answer"),
    [
        ("slurm", "#SBATCH --dependency=afterok:5:6", "9|PENDING|Dependency|N/A|N/A\n"),
        ("pbs", "#PBS -W depend=afterok:5:6", "Job Id: 9|job_state=H|depend=afterok:5:6\n"),
    ],
)
def test_a_job_that_waits_for_others_names_them_and_how_they_stand(
    scheduler: Scheduler, kind: str, line: str, answer: str
) -> None:
    attempt(job("5", name="first", kind=kind))
    one = job("9", name="last", kind=kind, submitted=9.0)
    (one.run_dir / "script").write_text(f"#!/bin/bash\n{line}\n")
    scheduler.says("squeue" if kind == "slurm" else "qstat", answer)
    told = "it waits for first 5 (running), job 6\n"
    assert jobgen("status") == (0, f"queued\n{told}", "last 9:\n")
    attempt(job("6", name="second", kind=kind), "done 0")
    job("7", name="third", kind=kind)
    # What the command said is in the place of the script's.
    other = "--dependency=afterany:6,afterok:7" if kind == "slurm" else "depend=afterany:6:7"
    record = one.run_dir / "job.json"
    record.write_text(record.read_text().replace('["x"]', f'["x", "{other}"]'))
    told = "it waits for second 6 (done), third 7 (not begun)"
    assert jobgen("status", "9") == (0, f"queued\n{told}\n", "")
    if kind == "pbs":
        scheduler.says("qstat", answer.replace("|depend", "|Hold_Types=us|depend"))
        held = f"{told}; the job is held by its owner: release it with qrls\n"
        assert jobgen("status", "9") == (0, f"queued\n{held}", "")
    attempt(job("8", name="fourth", kind=kind), "failed 3")
    needs = "--dependency=afterok:8" if kind == "slurm" else "depend=afterok:8"
    record.write_text(record.read_text().replace(other, needs))
    told = "it needed fourth 8 (failed), so it never starts: cancel it\n"
    scheduler.says("squeue" if kind == "slurm" else "qstat", answer)
    assert jobgen("status", "9") == (0, f"queued\n{told}", "")
    assert jobgen("wait", "9").code == 7  # at once
    gone = {"slurm": "9|CANCELLED|None|N/A|N/A\n", "pbs": "Job Id: 9|job_state=F\n"}
    scheduler.says("squeue" if kind == "slurm" else "qstat", gone[kind])
    needed = "it needed fourth 8 (failed)\n"
    assert jobgen("status", "9") == (0, f"cancelled\n{needed}", "")


@pytest.mark.parametrize(
    ("trace", "began", "word"),
    [("state.json", True, "timeout"), ("cancelled", True, "cancelled"), ("cancelled", False, "")],
)
def test_a_job_that_is_gone_as_another_has_not_ended_well_is_cancelled(
    scheduler: Scheduler, trace: str, began: bool, word: str
) -> None:
    other = job("8.pbs", name="first", kind="pbs")
    if began:
        attempt(other, "failed 143")
    kept = {"state": "timeout", "reason": "", "attempts": 1, "submitted": other.submitted}
    (other.run_dir / trace).write_text(json.dumps(kept))
    one = job("9.pbs", name="last", kind="pbs", submitted=9.0)
    (one.run_dir / "script").write_text("#!/bin/bash\n#PBS -W depend=afterok:8.pbs\n")
    needed = f"it needed first 8.pbs ({word or 'cancelled'})\n"
    scheduler.says("qstat", "", words="qstat: cannot connect to server pbs")
    assert jobgen("status", "9").out.startswith("unknown\n")  # PBS may have it
    scheduler.says("qstat", "", words="qstat: Unknown Job Id 9.pbs")
    assert jobgen("status", "9") == (0, f"cancelled\n{needed}", "")
    assert jobgen("logs", "-f", "9").code == 7


@pytest.mark.parametrize("link", ["9.pbs", "10.pbs"])
def test_a_job_that_waits_for_a_chain_is_cancelled_if_the_chain_fails(
    scheduler: Scheduler, link: str
) -> None:
    """`--after` waits for the last job of a chain, which has no folder: the job was unknown."""
    chain = replace(job("8.pbs", name="long", kind="pbs"), links=("9.pbs", "10.pbs"))
    chain.save()
    attempt(chain, "continued 0")
    one = replace(job("11.pbs", name="last", kind="pbs"), argv=("qsub", f"depend=afterok:{link}"))
    one.save()
    scheduler.says("qstat", f"Job Id: 11.pbs|job_state=H|depend=afterok:{link}\n")
    told = "it waits for long 8.pbs (running)\n"
    assert jobgen("status", "11") == (0, f"queued\n{told}", "")
    (chain.run_dir / "attempts/0/outcome").write_text("failed 1\n")
    scheduler.says("qstat", "", words="qstat: Unknown Job Id 11.pbs")
    assert jobgen("status", "11") == (0, "cancelled\nit needed long 8.pbs (failed)\n", "")
    told = jobgen("diagnose", "11").out
    assert told.startswith("last 11.pbs: cancelled (it needed long 8.pbs (failed))\n")
    assert " [dependency]\n" in told
    assert "what to do: repair the first job, " in told  # it is cancelled already


@pytest.mark.parametrize(
    ("array", "task", "kind"), [("8[].pbs", "8[1].pbs", "pbs"), ("8", "8_1", "slurm")]
)
def test_a_job_that_waits_for_one_task_of_an_array_is_cancelled_if_that_fails(
    scheduler: Scheduler, array: str, task: str, kind: str
) -> None:
    """Its record is that of the array: the job was unknown for ever."""
    whole = job(array, name="sweep", kind=kind, tasks=3)
    attempt(whole.task(0), "failed 1")
    attempt(whole.task(1))
    one = job("11", name="last", kind=kind)
    replace(one, argv=("x", f"--dependency=afterok:{task}")).save()
    listed = f"Job Id: 11|job_state=H|depend=afterok:{task}\n"
    listed = listed if kind == "pbs" else "11|PENDING|Dependency|N/A|N/A\n"
    scheduler.says("qstat" if kind == "pbs" else "squeue", listed)
    assert jobgen("status", "11") == (0, f"queued\nit waits for sweep {task} (running)\n", "")
    (whole.task(1).run_dir / "attempts/0/outcome").write_text("failed 1\n")
    scheduler.says("qstat" if kind == "pbs" else "squeue", "")
    scheduler.says("sacct", "11|CANCELLED|None|N/A|N/A\n")
    if kind == "pbs":
        scheduler.says("qstat", "", words="qstat: Unknown Job Id 11")
    assert jobgen("status", "11") == (0, f"cancelled\nit needed sweep {task} (failed)\n", "")


def test_a_chain_whose_next_job_is_gone_before_it_began_is_cancelled(scheduler: Scheduler) -> None:
    """Deleted while it waited: the run was unknown for ever, and nothing said how it goes on."""
    chain = replace(job("8.pbs", name="long", kind="pbs"), links=("9.pbs", "10.pbs"))
    chain.save()
    outcome = attempt(chain, "continued 0") / "outcome"
    outcome.with_name("job").write_text("8.pbs\n")
    scheduler.says("qstat", "", words="qstat: Unknown Job Id 8.pbs")
    assert jobgen("status", "8").out.splitlines()[:2] == [  # its files may be seen here later
        "unknown",
        "it was going to be restarted; the scheduler no longer knows it",
    ]
    os.utime(outcome, (1, 1))
    told = "job 9.pbs, which was to go on, is gone before it began"
    assert jobgen("status", "8") == (0, f"cancelled\n{told}\n", "")
    about = jobgen("diagnose", "8").out
    assert " [chain-ended]\n" in about
    assert "`jobgen rerun 8.pbs --continue`" in about
    held = "Job Id: 10.pbs|job_state=H|depend=afterany:9.pbs\n"
    scheduler.says("qstat", held, words="qstat: Unknown Job Id 9.pbs")
    waits = "it needed job 9.pbs (gone), which never began, so it never starts: cancel it"
    assert jobgen("status", "8").out == f"queued\n{waits}\nnext: start 2\n"
    (attempt(chain, number=1) / "job").write_text("9.pbs\n")
    scheduler.says("qstat", "Job Id: 9.pbs|job_state=R\nJob Id: 10.pbs|job_state=H\n")
    assert jobgen("status", "8").out == "running\nthe scheduler has it as job 9.pbs\nstart 2\n"


def test_a_chain_waits_in_vain_behind_a_job_that_was_deleted_before_it_began(
    scheduler: Scheduler,
) -> None:
    """The scheduler's own word is enough: it was "queued", and `wait` went on, for ever."""
    chain = replace(job("8.pbs", name="long", kind="pbs"), links=("9.pbs", "10.pbs"))
    chain.save()
    job("12.pbs", name="other", kind="pbs")
    held = "Job Id: 9.pbs|job_state=H|depend=afterany:8.pbs@pbs,beforeany:10.pbs@pbs\n"
    held += "Job Id: 10.pbs|job_state=H|depend=afterany:9.pbs@pbs\n"
    scheduler.says("qstat", held, words="qstat: Unknown Job Id 8.pbs")
    waits = "it needed job 8.pbs (gone), which never began, so it never starts: cancel it"
    assert jobgen("status", "8").out.startswith(f"queued\n{waits}\n")
    assert waits in jobgen("list").out
    assert " [dependency]\n" in jobgen("diagnose", "8").out
    assert jobgen("wait", "8").code == 7
    (attempt(chain, "continued 0") / "job").write_text("8.pbs\n")
    scheduler.says("qstat", held.split("\n", 1)[1], words="qstat: Unknown Job Id 8.pbs")
    assert jobgen("status", "8").out.startswith(f"queued\n{waits.replace('8.', '9.')}\n")


def test_a_cancelled_chain_that_its_scheduler_has_forgotten_is_cancelled(
    scheduler: Scheduler,
) -> None:
    """Between two of its jobs: it was "unknown", and going to be restarted, for minutes."""
    chain = replace(job("8.pbs", name="long", kind="pbs"), links=("9.pbs",))
    chain.save()
    (attempt(chain, "continued 0") / "job").write_text("8.pbs\n")
    scheduler.says("qstat", "", words="qstat: Unknown Job Id 8.pbs")
    assert jobgen("status", "8").out.startswith("unknown\n")
    scheduler.says("qdel", "", words="qdel: Unknown Job Id 9.pbs")
    assert jobgen("cancel", "8").err == "long 8.pbs: cancelled\n"
    assert jobgen("status", "8").out == "cancelled\n"
    assert jobgen("cancel", "8").err == "job 8.pbs has already ended\n"


def test_between_two_jobs_a_chain_by_hand_has_not_failed(scheduler: Scheduler) -> None:
    """Its second job is known once it begins: for a second it was "failed", and `wait` ended."""
    first = replace(job("8.pbs", name="long", kind="pbs"), argv=())
    first.save()
    outcome = attempt(first, "continued 0") / "outcome"
    scheduler.says("qstat", "Job Id: 8.pbs|job_state=F|Exit_status=0\n")
    assert jobgen("status", "8").out.startswith("unknown\nit was going to be restarted\n")
    os.utime(outcome, (1, 1))
    assert jobgen("status", "8").out.startswith("failed\nit stopped before it was done")


@pytest.mark.parametrize("named", [True, False])
def test_a_chain_by_hand_goes_on_while_its_scheduler_is_asked(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """Its next job was not asked about, or had not noted its id: it was "failed" for a second."""
    first = replace(job("8.pbs", name="long", kind="pbs"), argv=())
    first.save()
    attempt(first, "continued 0")
    scheduler.says("qstat", "", words="qstat: Unknown Job Id 8.pbs")

    def go_on(argv: list[str], **_: object) -> CommandResult:
        answer, next_one = scheduler.ask(argv), first.run_dir / "attempts/1"
        if "-x" in argv and not next_one.exists():
            next_one.mkdir()
            if named:
                (next_one / "job").write_text("9.pbs\n")
                scheduler.says("qstat", "Job Id: 9.pbs|job_state=R\n")
        return answer

    monkeypatch.setattr(process, "ask", go_on)
    expected = "running\n" if named else "unknown\nit was going to be restarted; "
    assert jobgen("status", "8").out.startswith(expected)


def test_a_chain_that_was_submitted_since_is_found(scheduler: Scheduler) -> None:
    """A program that looks at jobs again and again has read the chains of the folder before."""
    for first, link, waiting in (("20", "21", "22"), ("30", "31", "32")):
        replace(
            job(f"{first}.pbs", name=f"chain{first}", kind="pbs"), links=(f"{link}.pbs",)
        ).save()
        argv, now = ("qsub", f"depend=afterok:{link}.pbs"), time.time()
        replace(job(f"{waiting}.pbs", kind="pbs"), argv=argv, submitted=now).save()
        held = f"Job Id: {waiting}.pbs|job_state=H|depend=afterok:{link}.pbs\n"
        scheduler.says("qstat", held)
        assert f"it waits for chain{first} {first}.pbs" in jobgen("status", waiting).out


def test_a_job_of_pbs_waits_in_vain_for_one_that_ended_before_it_began(
    scheduler: Scheduler,
) -> None:
    job("8.pbs", name="first", kind="pbs")
    one = replace(job("9.pbs", name="last", kind="pbs"), argv=("qsub", "depend=afterany:8.pbs"))
    one.save()
    waits = "Job Id: 9.pbs|job_state=H|depend=afterany:8.pbs\n"
    scheduler.says("qstat", f"Job Id: 8.pbs|job_state=Q\n{waits}")
    assert jobgen("status", "9").out == "queued\nit waits for first 8.pbs (not begun)\n"
    scheduler.says("qstat", f"Job Id: 8.pbs|job_state=F\n{waits}")
    never = "it needed first 8.pbs (cancelled), which never began, so it never starts: cancel it"
    assert jobgen("status", "9").out == f"queued\n{never}\n"
    assert " [dependency]\n" in jobgen("diagnose", "9").out
    assert jobgen("wait", "9").code == 7


def test_of_a_job_that_pbs_has_forgotten_all_views_say_the_same(scheduler: Scheduler) -> None:
    """By qdel, without a history: it was "unknown", and "cancelled" for the one that needed it."""
    job("8.pbs", name="first", kind="pbs")
    replace(job("9.pbs", name="last", kind="pbs"), argv=("qsub", "depend=afterany:8.pbs")).save()
    job("12.pbs", name="other", kind="pbs")
    waits = "Job Id: 9.pbs|job_state=H|depend=afterany:8.pbs\n"
    scheduler.says("qstat", waits, words="qstat: Unknown Job Id 8.pbs")
    gone = "it has not begun here; the scheduler no longer knows it"
    never = "it needed first 8.pbs (gone), which never began, so it never starts: cancel it"
    assert jobgen("status", "8").out == f"unknown\n{gone}\n"
    assert jobgen("status", "9").out == f"queued\n{never}\n"
    for views in (("list",), ("status", "8", "9"), ("status", "9", "12")):  # 8 is not asked for
        assert never in jobgen(*views).out, views


def test_pbs_deletes_who_waits_with_a_job_that_waits_itself(scheduler: Scheduler) -> None:
    """It had been "cancelled" without a reason, whatever it waited for."""
    job("8.pbs", name="first", kind="pbs")
    replace(job("9.pbs", name="last", kind="pbs"), argv=("qsub", "depend=afterany:8.pbs")).save()
    scheduler.says("qstat", "Job Id: 8.pbs|job_state=F\nJob Id: 9.pbs|job_state=F\n")
    told = "it needed first 8.pbs (cancelled), which never began"
    assert jobgen("status", "9").out == f"cancelled\n{told}\n"
    assert " [dependency]\n" in jobgen("diagnose", "9").out


def test_a_task_that_never_began_is_what_its_array_says(scheduler: Scheduler) -> None:
    """Alone it was "unknown" for ever, where the array had it as cancelled."""
    array = replace(job("8[].pbs", name="sweep", kind="pbs"), tasks=2, argv=("qsub",))
    array.save()
    scheduler.says("qstat", "", words="qstat: Unknown Job Id 8[].pbs")
    assert jobgen("status", "8_1").out.startswith("unknown\n")
    attempt(array.task(0), "done 0")
    told = "it did not run, or its run folder was removed"
    assert f"task 1: cancelled  {told}\n" in jobgen("status", "8").out
    assert jobgen("status", "8_1").out == f"cancelled\n{told}\n"


def test_a_job_is_named_by_id_name_folder_or_is_the_latest(scheduler: Scheduler) -> None:
    for id, name, submitted in (("5", "a", 3), ("6", "a", 2), ("7", "b", 1), ("8", "b", 4)):
        attempt(job(id, name=name, submitted=submitted), "done 0")
    job("5", name="old", submitted=0)  # the scheduler has begun to count again
    named = {word: find.find_job(word).id for word in ("6", "a", "b", "runs/b/7", "runs/b/7/")}
    assert named == {"6": "6", "a": "5", "b": "8", "runs/b/7": "7", "runs/b/7/": "7"}
    assert find.find_job().id == "8"
    assert find.find_job("5").name == "a"
    code, out, err = jobgen("status", "7", "b", "nothing")
    assert code == 2
    assert [line.split()[0] for line in out.splitlines()] == ["JOB", "7", "8"]
    assert (
        err
        == "no job 'nothing' below ./runs; give an ID, a name or a run folder, such as a, b, old\n"
    )


def test_a_folder_without_jobs(scheduler: Scheduler) -> None:
    message = (
        "no job was submitted from this folder; `jobgen list --all` lists those of other folders\n"
    )
    assert jobgen("status") == (2, "", message)
    assert jobgen("list", "--json") == (0, '{\n  "jobs": []\n}\n', "")
    assert jobgen("list")[::2] == (0, message)


def test_runs_that_cannot_be_read_are_not_called_none(scheduler: Scheduler) -> None:
    Path("runs").write_text("")
    problem = "cannot read runs/: Not a directory\n"
    assert jobgen("status") == (2, "", problem)
    assert jobgen("list")[::2] == (2, problem)


def test_cancel_ends_plain_jobs_together_and_none_where_one_is_not_there(
    scheduler: Scheduler,
) -> None:
    for id in "123":
        job(id)
    scheduler.says("scancel", "")
    assert jobgen("cancel", "1", "3") == (0, "", "a 1: cancelled\na 3: cancelled\n")
    assert scheduler.calls == [["scancel", "1", "3"]]
    assert jobgen("cancel", "1", "9").code == 2
    assert len(scheduler.calls) == 1
    assert jobgen("cancel", "2", "--json").err == "a 2: cancelled\n"
    assert scheduler.calls[1:] == [["scancel", "2"]]


def test_cancel_names_others_of_the_same_name(scheduler: Scheduler) -> None:
    for id in "123":
        job(id, submitted=float(id))
    scheduler.says("scancel", "")
    scheduler.says("squeue", "1|RUNNING|None|N/A|N/A\n2|COMPLETED|None|N/A|N/A\n")
    others = "a name is the latest job of that name; for the others: jobgen cancel 1\n"
    assert jobgen("cancel", "a") == (0, "", f"a 3: cancelled\n{others}")
    over = "job 3 has already ended\n"
    assert jobgen("cancel", "a") == (5, "", f"{others}{over}")
    assert jobgen("cancel", "1").err == "a 1: cancelled\n"


@pytest.mark.parametrize(("answer", "calls"), [("n", []), ("y", [["scancel", "3"]])])
def test_cancel_asks_before_it_ends_a_job_that_was_not_named(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, answer: str, calls: list[list[str]]
) -> None:
    for id in "135":
        attempt(job(id, submitted=float(id)), "done 0" if id == "5" else "")  # which is no more
    scheduler.says("scancel", "")
    scheduler.says("squeue", "1|RUNNING|None|N/A|N/A\n3|RUNNING|None|N/A|N/A\n")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    refused = jobgen("cancel", "--json")
    assert (refused.code, refused.out) == (2, "")
    line = "type: jobgen cancel 3 --json"
    assert refused.err == f"name the job to cancel; the latest is a 3; {line}\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert jobgen("cancel").code == (0 if calls else 130)
    assert [call for call in scheduler.calls if call[0] == "scancel"] == calls


def test_cancel_says_of_a_job_that_it_has_ended(scheduler: Scheduler) -> None:
    job("84.login", kind="pbs")
    scheduler.says("qdel", "", words="qdel: Job has finished 84.login")
    assert jobgen("cancel", "84.login")[::2] == (5, "job 84.login has already ended\n")
    scheduler.says("qdel", "", words="qdel: Unauthorized Request 84.login")
    assert "Unauthorized Request" in jobgen("cancel", "84.login").err


@pytest.mark.parametrize(
    ("kind", "server", "command", "refusal"),
    [
        ("pbs", ".login", "qdel", "qdel: Unknown Job Id 14.login"),
        (
            "slurm",
            "",
            "scancel",
            "scancel: error: Kill job error on job id 14: Invalid job id specified",
        ),
    ],
)
def test_of_several_jobs_those_that_have_not_ended_are_cancelled(
    scheduler: Scheduler, kind: str, server: str, command: str, refusal: str
) -> None:
    for number in (14, 24):
        job(f"{number}{server}", kind=kind)
    scheduler.says(command, "", words=refusal)
    code, _, err = jobgen("cancel", "14", "24")
    told = f"a 24{server}: cancelled\njob 14{server} has already ended\n"
    assert (code, err) == (5, told)
    assert [path.parent.name for path in Path("runs").rglob("cancelled")] == ["24"]


def test_a_job_is_cancelled_once(scheduler: Scheduler) -> None:
    job("1")
    attempt(job("2"), "done 0")
    attempt(job("3"))
    scheduler.says("scancel", "")
    assert jobgen("cancel", "1", "3").err == "a 1: cancelled\na 3: cancelled\n"
    over = "job 1 has already ended\njob 2 has already ended\n"
    assert jobgen("cancel", "1", "2", "3") == (5, "", f"a 3: cancelled\n{over}")  # still stopping


@pytest.mark.parametrize("word", ["9", "9_1"])
def test_an_array_or_a_task_that_has_ended_is_not_called_cancelled(
    scheduler: Scheduler, word: str
) -> None:
    """Which scancel takes without a word: whether a failed task starts again, the queue knows."""
    array = job("9", tasks=2)
    attempt(array.task(0), "done 0")
    attempt(array.task(1), "failed 1")
    scheduler.says("scancel", "")
    scheduler.says("squeue", "9_1|PENDING|requeued|N/A|N/A\n")
    scheduler.says("sacct", "")
    assert jobgen("cancel", word)[::2] == (0, f"a {word}: cancelled\n")
    scheduler.says("squeue", "")
    assert jobgen("cancel", word)[::2] == (5, f"job {word} has already ended\n")


@pytest.mark.parametrize(
    ("listed", "over"),
    [
        ("", True),
        ("7|COMPLETING|None|N/A|N/A\n", True),
        ("7|FAILED|NonZeroExitCode|N/A|N/A\n", True),
        ("7|PENDING|BeginTime|N/A|N/A\n", False),
    ],
)
def test_a_job_that_has_just_failed_is_cancelled_only_if_it_is_to_start_again(
    scheduler: Scheduler, listed: str, over: bool
) -> None:
    attempt(job("7"), "failed 3")
    scheduler.says("scancel", "")
    scheduler.says("squeue", listed)
    scheduler.says("sacct", "")
    told = (5, "job 7 has already ended\n") if over else (0, "a 7: cancelled\n")
    assert jobgen("cancel", "7")[::2] == told
    assert Path("runs/a/7/cancelled").exists() != over


def test_a_chain_is_cancelled_from_its_end(scheduler: Scheduler) -> None:
    ids = ["80", "81", "82"]
    job(ids[0], links=tuple(ids[1:]))
    scheduler.says("scancel", "")
    assert jobgen("cancel", ids[0]).code == 0
    assert scheduler.calls == [["scancel", *ids[::-1]]]


def test_of_a_chain_those_that_have_ended_do_not_matter_but_all_do(scheduler: Scheduler) -> None:
    job("80.pbs", kind="pbs", links=("81.pbs", "82.pbs"))
    ended = ["qdel: Job has finished 81.pbs", "qdel: Unknown Job Id 80.pbs"]
    all_three = "\n".join([*ended, *ended[:1]])
    for words, code in (("cannot connect to server pbs", 6), (all_three, 5), ("\n".join(ended), 0)):
        scheduler.says("qdel", "", words=words)
        assert jobgen("cancel", "80").code == code


def test_list_chooses_by_state_and_number(scheduler: Scheduler) -> None:
    for number, id in enumerate(("1201", "1202", "34", "5")):
        job(id, submitted=float(number))
    states = {"1201": "RUNNING", "1202": "PENDING", "34": "RUNNING", "5": "PENDING"}
    lines = (f"{id}|{state}|None|1|2\n" for id, state in states.items())
    scheduler.says("squeue", "".join(lines))
    listed = [line.split()[0] for line in jobgen("list", "--state", "running").out.splitlines()]
    assert listed == ["JOB", "34", "1201"]
    assert len(jobgen("list", "--limit", "2").out.splitlines()) == 3
    assert jobgen("list", "--state", "RUNNING").out == jobgen("list", "--state", "running").out
    assert jobgen("list", "--state", "lost").code == 2
    assert jobgen("status", "34").out.startswith("running\n")


LOCAL_IDS = ("20261123-070424-16132", "20261123-080000-9")


def test_no_command_takes_how_an_id_begins(scheduler: Scheduler) -> None:
    """Part of a scheduler's number is the number of another job, and a digit or two are a slip."""
    for id in ("12345", *LOCAL_IDS):
        attempt(job(id), "done 0")
    scheduler.says("scancel", "")
    for command in (("status",), ("cancel",), ("clean", "--yes"), ("rerun",)):
        for word in ("1234", "2", "2026", "20261123-07"):
            ended = jobgen(*command, word)
            assert (ended.code, ended.out) == (2, "")
            assert f"no job {word!r} below ./runs" in ended.err
    assert not scheduler.calls
    assert all(Path("runs/a", id).is_dir() for id in ("12345", *LOCAL_IDS))


# --- looking again and again --------------------------------------------------------


class Clock:
    """Time that passes only in `sleep`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.at: dict[float, Any] = {}  # what happens then
        monkeypatch.setattr(watch, "time", self)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in [each for each in self.at if each <= self.now]:
            self.at.pop(moment)()


def test_wait_asks_once_a_minute_and_sees_the_scripts_own_record_at_once(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    first, second = job("7"), job("8")
    asked: list[float] = []
    scheduler.says("squeue", "7|RUNNING|None|N/A|N/A\n8|RUNNING|None|N/A|N/A\n")
    ask = scheduler.ask
    monkeypatch.setattr(process, "ask", lambda argv, **more: asked.append(clock.now) or ask(argv))
    clock.at = {1100: lambda: attempt(first, "done 0"), 1150: lambda: attempt(second, "failed 1")}
    code, out, err = jobgen("wait", "7", "8")
    assert (code, out) == (7, "7 done\n8 failed\n")
    assert err == "job 8: failed (exit code 1)\n"
    assert asked == [1000, 1060, 1120, 1153]  # the last a moment after the end


def test_wait_asks_once_and_at_once_what_an_outcome_means(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    one = job("7")
    scheduler.says("squeue", "7|RUNNING|None|N/A|N/A\n")

    def end() -> None:
        attempt(one, "cancelled 143")
        scheduler.says("squeue", "7|CANCELLED|None|1|2\n")

    clock.at = {1005: end}
    assert jobgen("wait")[:2] == (7, "7 cancelled\n")
    assert [call[0] for call in scheduler.calls] == ["squeue"] * 2
    assert 1008 <= clock.now <= 1010


def test_wait_for_many_jobs_returns_within_5_s_of_the_last_end_too(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    jobs = [job(str(id)) for id in range(100, 130)]
    for one in jobs[1:]:
        attempt(one, "done 0")
    scheduler.says("squeue", "100|RUNNING|None|N/A|N/A\n")

    def end() -> None:
        attempt(jobs[0], "failed 1")
        scheduler.says("squeue", "100|FAILED|None|1|2\n")

    clock.at = {1010.2: end}
    assert jobgen("wait", *(one.id for one in jobs)).code == 7
    assert 1013 <= clock.now <= 1015


def test_wait_says_why_a_job_is_queued_at_each_change_and_ends_where_it_will_never_start(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    job("7")
    scheduler.says("squeue", "7|PENDING|Priority|N/A|N/A\n")
    reasons = {1050: "Resources", 1300: "DependencyNeverSatisfied"}
    clock.at = {
        at: lambda reason=reason: scheduler.says("squeue", f"7|PENDING|{reason}|N/A|N/A\n")
        for at, reason in reasons.items()
    }
    code, out, err = jobgen("wait", "7")
    assert (code, out) == (7, "7 queued\n")
    first, second, last = err.splitlines()
    assert (first, second) == ("job 7 is queued: Priority", "job 7 is queued: Resources")
    assert last.startswith("job 7: queued (DependencyNeverSatisfied: it waits for something")
    assert clock.now < 1370
    followed = jobgen("logs", "-f", "7")
    assert (followed.code, followed.out) == (7, "")
    assert followed.err.endswith(last + "\n")


def test_control_c_in_wait_says_which_jobs_go_on(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    first = job("7")
    job("8"), job("9")
    scheduler.says("squeue", "".join(f"{id}|RUNNING|None|N/A|N/A\n" for id in (7, 8, 9)))

    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.at = {1010: lambda: attempt(first, "done 0"), 1030: interrupt}
    code, out, err = jobgen("wait", "7", "8", "9")
    assert (code, out) == (130, "7 done\n")
    told = (
        "jobs 8, 9 are not cancelled; wait for them with jobgen wait 8 9, or end them with"
        " jobgen cancel 8 9"
    )
    assert err.split("\n")[0] == told


def test_wait_ends_where_nobody_knows_the_job_and_not_where_nobody_answers(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    job("7")
    scheduler.says("squeue", "", words="Unable to contact slurm controller")
    clock.at = {2000: lambda: scheduler.says("squeue", "")}
    code, out, err = jobgen("wait", "7")
    assert (code, out) == (7, "7 unknown\n")
    assert err.count("Unable to contact slurm controller") == 1
    assert 2050 < clock.now < 2130


def test_watch_ends_with_the_jobs(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    one = job("7")
    scheduler.says("squeue", "7|PENDING|Priority|N/A|N/A\n")
    clock.at = {1010: lambda: attempt(one, "done 0")}
    assert jobgen("status", "--watch") == (0, "7 queued\n7 done\n", "")
    assert len(scheduler.calls) == 1


def test_a_local_job_that_is_cancelled_before_its_script_can_note_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = subprocess.Popen(["sleep", "1000"])
    began = process.get_start(script.pid)
    JobRecord("7", "a", "local", str(tmp_path), time.time(), (), script.pid, began).save()
    assert jobgen("cancel", "7").err == "a 7: cancelled\n"
    assert jobgen("status", "7").out.startswith("cancelled\n")
    script.wait()


@pytest.mark.parametrize("outcome", ["done 0", "failed 1"])
def test_a_local_job_whose_end_is_on_record_cannot_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with subprocess.Popen(["sleep", "1000"]) as script:  # it would end within moments
        began = process.get_start(script.pid)
        one = JobRecord("7", "a", "local", str(tmp_path), time.time(), (), script.pid, began)
        one.save()
        attempt(one, outcome)
        assert jobgen("cancel", "7")[::2] == (5, "job 7 has already ended\n")
        assert script.poll() is None
        script.kill()


def test_cancel_waits_for_a_process_that_one_look_cannot_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script's shell bears no mark; the program that it starts has one only once it runs."""
    monkeypatch.chdir(tmp_path)
    JobRecord("7", "a", "local", str(tmp_path), time.time(), (), 2**22, 1).save()
    looks = iter([[2**22 + 1], [], [2**22 + 2], [], []])
    monkeypatch.setattr(process, "list_marked", lambda marks: next(looks))
    assert jobgen("cancel", "7")[0] == 0
    assert not [*looks]


def test_runs_that_are_tracked_elsewhere_are_found_in_the_logs(tmp_path: Path) -> None:
    logs = tmp_path / "logs" / "n1"
    logs.mkdir(parents=True)
    wandb = (
        "\x1b[34mwandb\x1b[0m: View run \x1b[33mcalm-sea-7\x1b[0m at: \x1b[34m\x1b[4m{}\x1b[0m\n"
    )
    (logs / "rank-0.err").write_text(
        "wandb: View run at https://wandb.ai/us/gpt/runs/a1\n"
        + "x" * 200_000
        + wandb.format("https://wandb.ai/us/gpt/runs/a1")
    )
    (logs / "rank-10.out").write_text(
        "View run big-fish at: http://n1:5000/#/experiments/0/runs/b2\n"
    )
    (logs / "rank-2.out").write_text("View run at javascript:alert(1)\nsee https://example.org\n")
    os.mkfifo(logs / "rank-3.out")
    assert find_tracked(str(tmp_path)) == (
        "https://wandb.ai/us/gpt/runs/a1",
        "http://n1:5000/#/experiments/0/runs/b2",
    )
    assert find_tracked(f"{tmp_path}/nothing") == ()
