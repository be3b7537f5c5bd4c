"""`jobgen logs`: every line once, whose it is, whatever happens to the files."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs import JOBGEN
from support import ROOT, jobgen

from jobgen.errors import SchedulerUnavailableError
from jobgen.jobs import logs, status, tail, watch
from jobgen.jobs.record import JobRecord
from jobgen.jobs.tail import LONGEST, Tail, fold_lines
from jobgen.output import make_printable
from jobgen.process import get_start
from jobgen.schedulers.base import State

CHATTER = ROOT / "tests" / "helpers" / "programs" / "chatter.py"
CUT = "jobgen: log was cut or replaced here; lines may be missing"


def read(following: Tail, *, sure: bool = False) -> list[str]:
    following.look(sure=sure)
    found = []
    while not following.fill(8) and following.lines:
        found += [line.decode() for line in following.lines]
        following.lines.clear()
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


class TestTail:
    def test_whole_lines_as_they_come(self, log: Path) -> None:
        following = Tail(log)
        assert read(following) == []
        append(log, "one\ntw")
        assert read(following) == ["one"]
        append(log, "o\n\nthree")
        assert read(following) == ["two", ""]
        following.finish()
        assert list(following.lines) == [b"three"]

    def test_what_was_cut_is_said_and_read_from_its_beginning(self, log: Path) -> None:
        following = Tail(log)
        append(log, "one\ntwo\n")
        assert read(following) == ["one", "two"]
        os.truncate(log, 0)
        append(log, "a\n")
        assert read(following) == [CUT, "a"]

    def test_of_a_log_that_was_replaced_is_said_that_lines_may_be_missing(self, log: Path) -> None:
        following = Tail(log)
        append(log, "before rotate\n")
        assert read(following) == ["before rotate"]
        log.rename(log.with_name("log.1"))
        append(log, "after rotate A\nB\n")  # as long as the one before, or longer
        assert read(following) == [CUT, "after rotate A", "B"]

    def test_a_log_that_is_rotated_between_look_and_read_is_not_mistaken(self, log: Path) -> None:
        following = Tail(log)
        append(log, "one\ntwo\n")
        assert read(following) == ["one", "two"]
        append(log, "three\n")
        following.look()
        log.rename(log.with_name("log.1"))
        append(log, "a longer line than all of those\n")
        following.fill(LONGEST)
        assert not following.lines
        assert read(following) == [CUT, "a longer line than all of those"]

    def test_a_file_that_vanishes_and_comes_again(self, log: Path) -> None:
        following = Tail(log)
        append(log, "one\nrest")
        assert read(following) == ["one"]
        log.unlink()
        assert read(following, sure=True) == []
        append(log, "two\n")
        assert read(following) == ["rest", CUT, "two"]

    def test_a_file_that_cannot_be_read_is_not_passed_over(self, log: Path) -> None:
        """It is said, once, and the other files of the job are shown."""
        log.symlink_to(log)
        following = Tail(log)
        (said,) = read(following)
        assert said.startswith("jobgen: log cannot be read: ")
        assert "symbolic links" in said
        assert read(following) == []
        log.unlink()
        append(log, "one\n")
        assert read(following) == ["one"]

    def test_a_line_that_never_ends_comes_in_pieces_that_cut_no_character(self, log: Path) -> None:
        append(log, "ä€" * LONGEST)
        following = Tail(log)
        pieces = read(following)
        following.finish()
        assert "".join([*pieces, following.lines.pop().decode()]) == "ä€" * LONGEST
        assert max(map(len, pieces)) <= LONGEST

    def test_of_a_line_that_overwrites_itself_the_last_is_shown_now_and_then(
        self, log: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        following = Tail(log)
        append(log, "windows\r\n1%\r2%\r")
        assert read(following) == ["windows"]
        now = time.monotonic()
        monkeypatch.setattr(tail.time, "monotonic", lambda: now + 11)
        append(log, "3%\r")
        assert read(following) == ["2%"]
        append(log, "4%\r100%\n")
        assert read(following) == ["100%"]


class Lines(Tail):
    """A tail of lines that are known."""

    def __init__(self, lines: list[bytes], each: int) -> None:
        super().__init__(Path())
        self._left, self._each = lines[::-1], each

    def fill(self, limit: int) -> None:
        for _ in range(min(self._each, len(self._left))):
            self.lines.append(self._left.pop())


@given(
    st.lists(st.lists(st.sampled_from([b"a", b"b", b"c", b""]), max_size=12), max_size=5),
    st.integers(1, 4),
)
def test_each_keeps_its_lines_and_their_order(files: list[list[bytes]], each: int) -> None:
    found: list[list[bytes]] = [[] for _ in files]
    for indices, line in fold_lines([Lines(lines, each) for lines in files]):
        assert list(indices) == sorted(set(indices))
        for index in indices:
            found[index].append(line)
    assert found == files


def test_what_many_say_is_said_once_and_what_one_says_stays_together() -> None:
    ranks = [[b"up", b"trouble 0", b"at 0", b"step 1"], [b"up", b"step 1"], [b"late", b"step 1"]]
    assert list(fold_lines([Lines(lines, 4) for lines in ranks])) == [
        ((0, 1), b"up"),
        ((0,), b"trouble 0"),
        ((0,), b"at 0"),
        ((2,), b"late"),
        ((0, 1, 2), b"step 1"),
    ]


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    """What stands for the supervising script of a job."""
    script = subprocess.Popen(["sleep", "1000"])
    yield script
    script.kill()
    script.wait()


@pytest.fixture
def job(
    process: "subprocess.Popen[bytes]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> JobRecord:
    """A job on this machine that runs as long as `process` does."""
    monkeypatch.chdir(tmp_path)
    began = get_start(process.pid)
    made = JobRecord("7", "chat", "local", str(tmp_path), time.time(), (), process.pid, began)
    made.save()
    return made


def said(job: JobRecord, files: dict[str, str | bytes]) -> None:
    for name, text in files.items():
        path = job.run_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        append(path, text)


def ends(job: JobRecord, outcome: str = "done 0") -> None:
    said(job, {"attempts/0/outcome": outcome})
    assert job.pid
    os.kill(job.pid, signal.SIGTERM)


FILES: dict[str, str | bytes] = {
    "job.out": "n1.site n2\ndone",
    "logs/n1.site/rank-0.out": "up\nloss 1\n",
    "logs/n1.site/rank-1.out": "up\n",
    "logs/n2/rank-2.out": "up\n",
    "logs/n2/rank-10.out": b"up\n\x00\xff\x1b[1mbold",
    "logs/n2/rank-2.err": "Traceback\n",
    "logs/n2/agent.log": "n2 is node 1\n",
    "logs/n2/rank-2.out.gz": "not a log\n",
    "logs/stray": "nor is this a node\n",
}


class TestCommand:
    @pytest.mark.parametrize(
        ("options", "lines"),
        [
            ("", ["n1.site n2", "done", "4 ranks, 0-2,10 | up", "n1.site rank 0 | loss 1",
                  "n2 rank 10 | \0\ufffd\x1b[1mbold"]),
            ("--rank 0", ["n1.site rank 0 | up", "n1.site rank 0 | loss 1"]),
            ("--node n1", ["2 ranks, 0-1 | up", "n1.site rank 0 | loss 1"]),
            ("--node 0", ["2 ranks, 0-1 | up", "n1.site rank 0 | loss 1"]),
            ("--node 2", []),
            ("--stderr", ["n2 | n2 is node 1", "n2 rank 2 | Traceback"]),
            ("--stderr --rank 2", ["n2 rank 2 | Traceback"]),
            ("--stderr --node n1.site", []),
            ("--rank 5", []),
        ],
    )  # fmt: skip
    def test_says_whose_each_line_is(self, job: JobRecord, options: str, lines: list[str]) -> None:
        said(job, FILES | {"attempts/0/nodes": "n1.site\nn2\n"})
        there = "rank 2 on n2" if "--stderr" in options else "ranks 0-2,10 on n1.site, n2"
        nothing = f"no such output: runs/chat/7 has that of {there}\n"
        printed = "".join(f"{line}\n" for line in lines)
        # Of those, n1.site alone is there; it has said nothing on stderr.
        code = 2 if options in ("--rank 5", "--node 2") else 0
        words = ("logs", "7", *options.split())
        assert jobgen(*words) == (code, printed, "" if lines else nothing)
        assert jobgen(*words, "--json")[::2] == (code, "" if lines else nothing)

    def test_a_role_that_has_printed_elsewhere_or_does_not_exist(self, job: JobRecord) -> None:
        files = {"server/logs/n1/rank-0.err": "listens\n", "clients/logs/n2/rank-0.out": "up\n"}
        said(job, {f"roles/{name}": text for name, text in files.items()})
        told = "no such output, but there are lines on stderr: add --stderr\n"
        assert jobgen("logs", "7", "--role", "server") == (0, "", told)
        others = "no such output: runs/chat/7 has that of rank 0 on n2 (of clients, server)\n"
        assert jobgen("logs", "7", "--role", "sever") == (2, "", others)
        assert jobgen("logs", "7", "--node", "n9").code == 2
        said(job, {"roles/server/logs/n1/rank-1.err": "", "roles/server/logs/n1/rank-1.out": ""})
        assert jobgen("logs", "7", "--rank", "1").code == 0  # which is there, and silent

    def test_an_array_says_the_task(self, job: JobRecord) -> None:
        sweep = JobRecord("7", "chat", "slurm", job.folder, job.submitted, (), tasks=2)
        sweep.save()
        for task in (0, 1):
            Path(f"chat-7_{task}.out").write_text(f"task {task} of two\n")
            said(sweep.task(task), {"logs/n1/rank-0.out": "up\n", "logs/n1/rank-1.out": "up\n"})
        assert jobgen("logs", "7").out.splitlines() == [
            "task 0 | task 0 of two",
            "task 0 2 ranks, 0-1 | up",
            "task 1 | task 1 of two",
            "task 1 2 ranks, 0-1 | up",
        ]
        assert jobgen("logs", "7_1").out.splitlines() == ["task 1 of two", "2 ranks, 0-1 | up"]

    def test_all_jobs_of_a_chain(self, job: JobRecord) -> None:
        JobRecord("7", "chat", "pbs", job.folder, job.submitted, (), links=("8",)).save()
        for number in (7, 8):
            Path(f"chat.o{number}").write_text(f"I am {number}\n")
        assert jobgen("logs", "7").out.splitlines() == ["I am 7", "I am 8"]

    def test_what_the_script_says_is_read_where_its_directive_sends_it(
        self, job: JobRecord
    ) -> None:
        one = JobRecord("7", "chat", "slurm", job.folder, job.submitted, ())
        one.save()
        said(one, {"script": "#!/bin/bash\n#SBATCH --output=mine-%j.log\n"})
        Path("mine-7.log").write_text("jobgen: DONE\n")
        assert jobgen("logs", "7").out == "jobgen: DONE\n"


ESCAPES = "\x1b[1;31mred\x1b[0m \x1b]0;title\x07 \x1b[2J \x9b6n \x1b]52;c;eA==\x07"


def test_of_what_a_terminal_obeys_colours_alone_are_passed_on() -> None:
    printed = make_printable(ESCAPES)
    assert printed.startswith("\x1b[1;31mred\x1b[0m \ufffd]0;title\ufffd \ufffd[2J \ufffd6n ")
    assert printed.count("\x1b") == 2
    assert make_printable("two\n\tlines\n") == "two\n\tlines\n"


def run_on_terminal(*words: str) -> str:
    """Return what a command writes to a terminal, on stdout and stderr."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = subprocess.Popen([*JOBGEN, *words], env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    pieces = []
    with contextlib.suppress(OSError):  # how the end of a terminal shows
        while piece := os.read(ours, 4096):
            pieces.append(piece)
    os.close(ours)
    command.wait(120)
    return b"".join(pieces).decode()


def test_a_terminal_gets_colours_alone_of_a_job_and_a_pipe_all(job: JobRecord) -> None:
    said(job, {"logs/n1/rank-0.out": f"{ESCAPES}\n"})
    assert jobgen("logs", "7").out == f"n1 rank 0 | {ESCAPES}\n"
    assert run_on_terminal("logs", "7") == f"n1 rank 0 | {make_printable(ESCAPES)}\r\n"


def test_a_terminal_gets_colours_alone_of_what_a_scheduler_says(
    job: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("bin").mkdir()
    Path("bin/scancel").write_text(f"#!/bin/sh\necho 'scancel: error: {ESCAPES}' >&2; exit 1\n")
    Path("bin/scancel").chmod(0o755)
    monkeypatch.setenv("PATH", f"{os.getcwd()}/bin:{os.environ['PATH']}")
    JobRecord("8", "chat", "slurm", job.folder, job.submitted, ()).save()
    assert f"error: {ESCAPES}\n" in jobgen("cancel", "8").err
    assert f"error: {make_printable(ESCAPES)}\r\n" in run_on_terminal("cancel", "8")


def following(*options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*JOBGEN, "logs", "7", "-f", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class TestFollow:
    def test_late_folders_and_the_end_of_the_job(self, job: JobRecord) -> None:
        process = following()
        assert process.stdout
        said(job, {"job.out": "begun\n"})
        assert process.stdout.readline() == "begun\n"
        said(job, {"logs/n1/rank-0.out": "first\n"})
        assert process.stdout.readline() == "n1 rank 0 | first\n"
        said(job, {"logs/n1/rank-1.out": "second\n"})
        assert process.stdout.readline() == "n1 rank 1 | second\n"
        said(job, {"logs/n2/rank-2.out": "no end"})
        ends(job, "failed 1")
        assert process.communicate(timeout=300) == ("n2 rank 2 | no end\n", "")
        assert process.returncode == 0

    def test_control_c(self, job: JobRecord) -> None:
        process = following("--rank", "0")
        assert process.stdout
        said(job, {"logs/n1/rank-0.out": "first\n"})
        assert process.stdout.readline() == "n1 rank 0 | first\n"
        process.send_signal(signal.SIGINT)
        goes_on = (
            "job 7 is not cancelled; wait for it with jobgen wait 7, or end it with jobgen cancel 7"
        )
        assert process.communicate(timeout=300)[1] == f"{goes_on}\n\ninterrupted\n"
        assert process.returncode == 130

    @pytest.mark.parametrize("silent", [9, 10])
    def test_a_scheduler_that_is_away_for_a_while_ends_nothing(
        self, job: JobRecord, monkeypatch: pytest.MonkeyPatch, silent: int
    ) -> None:
        answers = iter([None] * silent)

        def look(jobs: list[JobRecord], **_: object) -> status.StatusReport:
            if next(answers, "up") is None:
                waits = status.JobStatus(jobs[0], State("unknown"))
                return status.StatusReport((waits,), ("squeue has not answered",))
            return status.StatusReport((status.JobStatus(jobs[0], State("done")),), ())

        monkeypatch.setattr(status, "look", look)
        said(job, {"logs/n1/rank-0.out": "first\n"})
        monkeypatch.setattr(watch, "POLL_SECONDS", 0.0)
        lines = logs.follow_logs(replace(job, scheduler="slurm"), pause=lambda _: None)
        assert str(next(lines)) == "n1 rank 0 | first"
        said(job, {"logs/n1/rank-0.out": "last\n"})
        if silent == 10:
            assert str(next(lines)) == "n1 rank 0 | last"
            with pytest.raises(SchedulerUnavailableError):
                next(lines)
            return
        assert [str(line) for line in lines] == ["n1 rank 0 | last"]

    def test_asks_of_the_files_no_more_than_it_must(
        self, job: JobRecord, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """1,024 ranks: each file is looked at, and each folder listed, once a round."""
        said(job, {f"logs/n{rank // 8}/rank-{rank}.out": "up\n" for rank in range(1024)})
        asked: Counter[str] = Counter()

        def counted(name: str) -> None:
            function: Callable[..., object] = getattr(os, name)

            def call(what: object, *words: object, **more: object) -> object:
                asked[name] += name == "fstat" or f"{job.run_dir}/logs" in str(what)
                return function(what, *words, **more)

            monkeypatch.setattr(os, name, call)

        for name in ("stat", "listdir", "scandir", "fstat"):
            counted(name)
        rounds = []

        def pause(seconds: float) -> None:
            assert 2 < seconds < 10
            rounds.append(dict(asked))
            if len(rounds) == 3:
                said(job, {"logs/n3/rank-24.out": "more\n"})
            if len(rounds) == 4:
                ends(job)
            asked.clear()

        lines = list(logs.follow_logs(job, pause=pause))
        assert [str(line) for line in lines] == [
            "1024 ranks, 0-1023 | up",
            "n3 rank 24 | more",
        ]
        once = {"stat": 1024, "listdir": 1 + 128}
        read = once | {"fstat": 1}  # of the open file, which asks no server
        assert [+Counter(each) for each in rounds[1:4]] == [once, once, read]


def expanded(output: Path) -> Iterator[tuple[int, str]]:
    """Rank and text of each line, where one of many ranks counts for each of them."""
    with output.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            who, _, text = line.rstrip("\n").partition(" | ")
            alone = re.fullmatch(r"n\d+ rank (\d+)", who)
            if alone:
                yield int(alone[1]), text
                continue
            many = re.fullmatch(r"(\d+) ranks, ([0-9,-]+)", who)
            assert many, line
            ranks = []
            for span in many[2].split(","):
                first, _, last = span.partition("-")
                ranks += range(int(first), int(last or first) + 1)
            assert len(ranks) == int(many[1])
            for rank in ranks:
                yield rank, text


# The command; at its end it says how many KiB it has held at most (proc(5); what getrusage(2) says
# counts from before exec).
MEASURED = """
import atexit, sys
from pathlib import Path
from jobgen.cli.main import main

def say():
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(line.split()[1] for line in lines if line.startswith("VmHWM:")), file=sys.stderr)

atexit.register(say)
main()
"""


@pytest.mark.slow
def test_follow_loses_no_line_and_holds_little(job: JobRecord, tmp_path: Path) -> None:
    ranks, lines = 64, 15_700  # 100 MB
    output = tmp_path / "output"
    chatter = [sys.executable, str(CHATTER), str(job.run_dir), str(ranks), str(lines), "100"]
    with output.open("wb") as file:
        follower = subprocess.Popen(
            [sys.executable, "-c", MEASURED, "logs", "7", "-f"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
        )
    subprocess.run(chatter, check=True, timeout=300)
    ends(job)
    _, most = follower.communicate(timeout=300)
    assert follower.returncode == 0
    assert int(most) < 100 * 1024
    written = sum(path.stat().st_size for path in job.run_dir.glob("logs/*/*"))
    assert written > ranks * lines * 100
    following = [0] * ranks
    for rank, text in expanded(output):
        number, _, rest = text.partition(" ")
        assert int(number) == following[rank]
        following[rank] += 1
        who = "all" if int(number) % 10 == 0 else f"rank {rank}"
        assert rest.startswith(f"{who} ")
        assert len(text) == 99
    assert following == [lines] * ranks
    said_once = len(re.findall(rb"^.+ \| [0-9]+ all ", output.read_bytes(), re.M))
    assert said_once < 3 * lines // 10
