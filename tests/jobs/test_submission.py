"""At most one job of each submission, and none that is lost: by every crash, answer and full disk.

The points at which `jobgen submit` is killed are all effects it has on the disk and on processes,
in the order of its code: `faults.py` finds them. They are, with what the next command does:

  killed before                          there is             the next command
  folders, the script, the intent        nothing              submits
  TOKEN.out, the file for the answer     an intent            says there is no job; submits
  sbatch or qsub is started              an empty answer      cannot know for five minutes
  its end                                that process         says that it is at work
  the record and what is beside it       the id in TOKEN.out  writes the record
  the next job of a PBS chain            fewer ids than jobs  says how many are queued
  the intent and the rest are taken away a record             has nothing to do
  a local job is let begin               a record of nothing  takes it back, and submits
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cluster_fixtures import Pbs, Slurm, wait_until, why_not
from faults import at_once, command, in_a_child, killed, points
from support import ROOT, Ended, jobgen

from jobgen import process

# By a variable, since a clone below /tmp would get a warning about a disk that nodes do not share.
os.environ["TESTS_VENV"] = sys.prefix
# Effects from when a scheduler is asked; those before it are tried on this machine.
HANDING_OVER = r"Popen|\.out'|job\.json|os\.remove"
HELD = {"slurm": "#SBATCH --hold", "pbs": "#PBS -h"}


def spec(folder: Path, scheduler: str, **more: object) -> None:
    content = {"name": "a", "scheduler": scheduler, "resources": {"walltime": "5m"}}
    content |= {"run": {"command": ["true"]}, "environment": {"venv": "$TESTS_VENV"}} | more
    if scheduler in HELD:
        content["directives"] = [HELD[scheduler]]
    (folder / "job.yaml").write_text(json.dumps(content))


def record(folder: Path) -> dict[str, object]:
    """The one record there is."""
    (path,) = folder.glob("runs/a/*/job.json")
    found: dict[str, object] = json.loads(path.read_text())
    assert {"script", "job.yaml"} <= {each.name for each in path.parent.iterdir()}
    assert str(found["token"]) in (path.parent / "script").read_text()
    return found


def intents(folder: Path) -> list[Path]:
    return list(folder.glob("runs/a/submissions/*.json"))


def late(folder: Path) -> str:
    """When it is known what has become of the submission that was interrupted."""
    (path,) = intents(folder)
    return time.strftime("%H:%M:%S", time.localtime(path.stat().st_mtime + 300))


def make_late(folder: Path) -> None:
    """Five minutes go by."""
    for path in intents(folder):
        before = path.stat().st_mtime - 301
        os.utime(path, (before, before))


def next_command(folder: Path, env: Mapping[str, str], *, there: list[str]) -> Ended:
    """What `submit` does after a crash that has left these jobs; it settles all in the end."""
    ended = in_a_child(command("submit"), folder, env)
    assert ended is not None
    assert "Traceback" not in ended.err
    if intents(folder):  # nobody can know yet, of a job or of the chain's next one
        assert ended.code == (2 if there else 6), ended
        assert f"until {late(folder)}" in ended.err
        make_late(folder)
        ended = in_a_child(command("submit"), folder, env)
        assert ended is not None
        assert there or "no job resulted from the submission of 'a' at " in ended.err
    assert intents(folder) == []
    return ended


def each_point(
    folder: Path,
    env: Mapping[str, str],
    *,
    prepare: Callable[[Path], None],
    jobs: Callable[[Path], list[str]],
    clean: Callable[[Path], None],
    chain: int = 1,
    of: str = "",
) -> int:
    """Kill at each point, run the next command, and count the jobs; how many points there are."""
    count = 0
    steps = points(folder, env, "submit", of=of)
    for here in steps:
        prepare(here)
        next(steps)
        there = jobs(here)
        ended = next_command(here, env, there=there)
        assert ended.code in (0, 2), ended
        found = record(here)
        if there:
            assert (ended.code, ended.out) == (2, ""), ended
            # On this machine a job begins at once.
            assert re.search(
                rf"job {re.escape(there[0])} has the same script and is (queued|running)", ended.err
            )
            assert jobs(here) == there == [found["id"], *found["links"]]
            if len(there) < chain:
                assert f"only {len(there)} of the chain's {chain} jobs are queued" in ended.err
        else:
            assert (ended.code, ended.out) == (0, f"{found['id']}\n"), ended
            assert jobs(here) == [found["id"], *found["links"]]
            assert len(jobs(here)) == chain
        clean(here)
        count += 1
    return count


def test_slurm_kill_at_each_point(slurm: Slurm, tmp_path: Path) -> None:
    def jobs(_: Path) -> list[str]:
        return slurm.run("squeue", "--noheader", "--format=%i").stdout.split()

    def clean(_: Path) -> None:
        slurm.run("scancel", *jobs(_))

    def prepare(here: Path) -> None:
        spec(here, "slurm")

    count = each_point(
        tmp_path, slurm.env, prepare=prepare, jobs=jobs, clean=clean, of=HANDING_OVER
    )
    assert count > 5


def test_forty_submissions_into_one_folder_at_a_time(slurm: Slurm, tmp_path: Path) -> None:
    spec(tmp_path, "slurm")
    again = command("submit", "--again")
    try:
        assert at_once([again] * 40, tmp_path, slurm.env) == [0] * 40
        listed = slurm.run("squeue", "--noheader", "--format=%i|%Z|%o").stdout.splitlines()
    finally:
        slurm.run("scancel", "--user=root")
    # Jobs of a test that has failed before may still be there.
    jobs = [line.split("|") for line in listed]
    found = {job: script for job, folder, script in jobs if folder == str(tmp_path)}
    records = [json.loads(path.read_text()) for path in tmp_path.glob("runs/a/*/job.json")]
    assert {each["id"]: each["token"] for each in records} == {
        job: Path(script).stem for job, script in found.items()
    }
    assert len(records) == 40
    assert list(tmp_path.glob("runs/a/submissions/*")) == []


QSUB = """#!/bin/sh
case ${{FAULT-}} in
    unheard) kill -KILL $PPID; exit 1 ;;
    crash) id=$({qsub} "$@"); kill -KILL $PPID; echo "$id" ;;
    lost) {qsub} "$@" >/dev/null; echo 'qsub: End of File' >&2; exit 1 ;;
    both) {qsub} "$@" >/dev/null; kill -KILL $PPID; exit 1 ;;
    *) exec {qsub} "$@" ;;
esac
"""


def test_30_submissions_to_a_pbs_without_history_with_crashes_and_lost_answers(
    pbs: Pbs, tmp_path: Path
) -> None:
    """Each is tried twice, as a user would; what went well the first time is refused then.

    Of six kinds of fault there are 5 each: a kill at each of the first 5 points.
    """
    folder, bin_folder = tmp_path / "work", tmp_path / "bin"
    for path in (folder, bin_folder):
        path.mkdir()
    spec(folder, "pbs")
    (bin_folder / "qsub").write_text(QSUB.format(qsub=pbs.run_folder / "bin" / "qsub"))
    (bin_folder / "qsub").chmod(0o755)
    env = {**pbs.env, "PATH": f"{bin_folder}{os.pathsep}{pbs.env['PATH']}"}
    faults = ("", "unheard", "crash", "lost", "both", "killed")

    def submission(number: int, *, fault: str) -> Callable[[], Ended]:
        words = ("submit", "--set", f"run.command=[echo, '{number}']")
        act = killed(number // len(faults), "", *words) if fault == "killed" else command(*words)

        def action() -> Ended:
            os.environ["FAULT"] = fault
            return act()

        return action

    def try_all(*, faulty: bool) -> list[int]:
        """All at a time; then what is left of them is settled."""
        each = [submission(n, fault=faults[n % 6] if faulty else "") for n in range(30)]
        codes = at_once(each, folder, env)
        make_late(folder)
        # A qsub whose jobgen was killed may still run: nobody says then what will come of it.
        wait_until(settle, what=lambda: f"there are {intents(folder)}")
        return codes

    def settle() -> bool:
        """Whether the next command leaves nothing open."""
        listed = in_a_child(command("list"), folder, env)
        assert listed is not None
        assert listed.code == 0
        return intents(folder) == []

    def list_jobs() -> dict[str, str]:
        """The script of each job of this test."""
        shown = pbs.run("qstat", "-f", "-F", "json").stdout
        jobs = json.loads(shown).get("Jobs", {}) if shown else {}
        return {
            job_id: Path(job["Submit_arguments"].split()[-1]).stem
            for job_id, job in jobs.items()
            if job["Variable_List"]["PBS_O_WORKDIR"] == str(folder)
        }

    try:
        with pbs.settings(history=False):
            first = try_all(faulty=True)
            accepted = list_jobs()
            second = try_all(faulty=False)
            jobs = list_jobs()
    finally:
        pbs.run("qdel", *list_jobs())
    records = [json.loads(path.read_text()) for path in folder.glob("runs/a/*/job.json")]
    assert {each["id"]: each["token"] for each in records} == jobs
    assert len({each["digest"] for each in records}) == len(records) == 30
    # The first time no job came of a fault before the scheduler; all others are refused now.
    assert first.count(0) >= 9
    assert first.count(-signal.SIGKILL) >= 15
    assert accepted.items() <= jobs.items()
    assert sorted({*second}) == [0, 2]
    assert second.count(2) == len(accepted)


def test_pbs_kill_at_each_point_of_a_chain(pbs: Pbs, tmp_path: Path) -> None:
    def jobs(_: Path) -> list[str]:
        return pbs.run("qselect").stdout.split()

    def clean(_: Path) -> None:
        pbs.run("qdel", *reversed(jobs(_)))

    def prepare(here: Path) -> None:
        spec(here, "pbs", on_walltime={"notice": "1m", "then": "resubmit", "at_most": 3})

    count = each_point(
        tmp_path, pbs.env, prepare=prepare, jobs=jobs, clean=clean, chain=3, of=HANDING_OVER
    )
    assert count > 10


@pytest.mark.slow
def test_local_kill_at_each_point(tmp_path: Path) -> None:
    """The jobs wait for one that never ends: this process."""

    def prepare(here: Path) -> None:
        spec(here, "local", after=["20300101-000000-1"])
        folder = here / "runs/b/20300101-000000-1"
        folder.mkdir(parents=True)
        own = {"pid": os.getpid(), "started": process.get_start(os.getpid()), "end": 0}
        (folder / "job.json").write_text(json.dumps(own, indent=1))

    def processes(here: Path) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                pid, own = int(path.parent.name), b""
                while os.readlink(path.with_name("cwd")) == str(here) and not own:
                    own = path.read_bytes()  # for a moment nothing, where it starts a program
                if b"JOBGEN_SUBMIT_ID=" in own and os.getsid(pid) == pid:
                    found.append(pid)
            except OSError:
                continue
        return found

    def jobs(here: Path) -> list[str]:
        end = time.monotonic() + 300
        while True:  # those that were not let begin end by themselves
            there = [pid for pid in processes(here) if process.get_start(pid)]
            # One without a record has not come to where it waits yet, and will not be let begin.
            recorded = not there or [*here.glob("runs/a/*/job.json")]
            if recorded and not any(map(process.Held.waits, there)):
                break
            assert time.monotonic() < end
        return [str(record(here)["id"]) for _ in there]

    def clean(here: Path) -> None:
        for pid in processes(here):
            os.killpg(pid, signal.SIGKILL)

    each_point(tmp_path, os.environ, prepare=prepare, jobs=jobs, clean=clean)


JOBGEN = f"{sys.executable} -m jobgen"


def on_a_small_disk(script: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run commands in a folder of 256 KiB with the spec; those in `folder` come before others."""
    if reason := why_not():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    begin = "set -e; mkdir full; mount -t tmpfs -o size=256k none full; cp job.yaml full; cd full; "
    path = os.pathsep.join([*([str(folder)] if folder else []), os.environ["PATH"]])
    return subprocess.run(
        ["unshare", "--mount", "bash", "-c", begin + script],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def on_a_terminal(argv: list[str], answer: str) -> tuple[int, str]:
    """The exit code of a command on a terminal where `answer` is typed, and what was seen there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PYTHONPATH"] = str(ROOT)
        os.execv(argv[0], argv)
    os.write(terminal, f"{answer}\n".encode())
    seen = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while more := os.read(terminal, 4096):
            seen += more
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


STAND_IN = (
    rf"#!{sys.executable} -IS"
    + r"""
# Slurm or PBS in one file, whose jobs are a list in $JOBS; $FAULT says what goes wrong.
import os, sys, time
command, jobs, fault = os.path.basename(sys.argv[0]), os.environ["JOBS"], os.environ.get("FAULT")
words = " ".join(sys.argv[1:])
if "--test-only" in words:
    if fault == "asked":
        os.kill(os.getppid(), 9)
    time.sleep(600 if fault == "deaf" else 0)
    sys.exit(0)
if command in ("sbatch", "qsub"):
    if fault == "refused":
        sys.exit(f"{command}: error: invalid partition")
    if fault == "nobody":
        sys.exit(f"{command}: error: Unable to contact slurm controller (connect failure)")
    if fault == "slow":
        time.sleep(3)
    if fault != "lost":
        with open(jobs, "a") as file:
            print(words, file=file)
    number = len(open(jobs).readlines()) if os.path.exists(jobs) else 0
    if fault in ("accepted, 1", "silent"):
        sys.exit(f"{command}: error: Socket timed out on send/recv operation")
    if fault == "lost":
        sys.exit(f"{command}: error: Socket timed out on send/recv operation")
    if fault == "unfit":
        sys.exit(f"{command}: error: Requested node configuration is not available")
    if fault == "failover":
        sys.exit(f"{command}: Connection refused\\n{command}: End of File")
    if fault == "accounting":
        sys.exit(f"{command}: error: Unable to contact slurm controller (connect failure)")
    if fault == "id, refused":
        print(f"{number}.pbs" if command == "qsub" else number)
        sys.exit("curl: (7) Failed to connect to audit.site: Connection refused")
    if fault == "parent":
        os.kill(os.getppid(), 9)
        time.sleep(0.5)
    if fault == "late":
        time.sleep(600)
    if fault == "full":
        filler = os.open("filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(filler, bytes(1024)):
                pass
        except OSError:
            pass
    job = f"{number}.pbs" if command == "qsub" else number
    print("<html>504 Gateway Time-out</html>" if fault == "html" else job)
    sys.exit(1 if fault == "id, 1" else 0)
if fault in ("silent", "html, all"):
    print("<html>504 Gateway Time-out</html>")
    sys.exit(0)
lines = open(jobs).read().splitlines() if os.path.exists(jobs) else []
if command == "squeue" and "--me" in words:
    for number, line in enumerate(lines, start=1):
        print(f"job|{number}|/home/me/{line.split()[-1]}")
elif command == "squeue":
    for id in words.partition("--jobs=")[2].split()[0].split(","):
        says = "FAILED|BadConstraints" if fault == "unfit" else "PENDING|Priority"
        print(f"{id}|{says}|N/A|N/A")
elif command == "qselect":
    print("\n".join(f"{number}.pbs" for number, _ in enumerate(lines, start=1)))
elif command == "qstat":
    for number, line in enumerate(lines, start=1):
        if f"{number}.pbs" in words:
            print(f"Job Id: {number}.pbs|job_state=Q|Submit_arguments={line}")
elif command in ("scancel", "qdel"):
    os.remove(jobs)
else:
    sys.exit("there is no accounting here")
"""
)


class TestAnswers:
    """What a scheduler may answer, each on both."""

    @pytest.fixture(autouse=True)
    def _stand_ins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        commands = tmp_path / "bin"
        commands.mkdir()
        for name in ("sbatch", "squeue", "sacct", "scancel", "qsub", "qselect", "qstat", "qdel"):
            (commands / name).write_text(STAND_IN)
            (commands / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
        monkeypatch.setenv("JOBS", str(tmp_path / "jobs"))
        monkeypatch.chdir(tmp_path)

    @pytest.fixture(params=["slurm", "pbs"], autouse=True)
    def scheduler(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        spec(tmp_path, request.param)
        return str(request.param)

    @staticmethod
    def submit(monkeypatch: pytest.MonkeyPatch, fault: str = "", *options: str) -> Ended:
        monkeypatch.setenv("FAULT", fault)
        return jobgen("submit", *options)

    @staticmethod
    def jobs() -> int:
        return len(Path("jobs").read_text().splitlines()) if Path("jobs").exists() else 0

    @pytest.mark.parametrize("fault", ["accepted, 1", "id, 1", "html", "late"])
    def test_a_job_that_was_accepted_is_found_at_once(
        self, monkeypatch: pytest.MonkeyPatch, fault: str, scheduler: str
    ) -> None:
        if fault == "late":
            monkeypatch.setattr(process, "TIMEOUT_SECONDS", 3)  # it starts within that
        code, out, err = self.submit(monkeypatch, fault)
        assert (code, self.jobs()) == (0, 1), err
        assert out == f"{record(Path())['id']}\n"
        assert intents(Path()) == []
        assert "; but " in err
        assert self.submit(monkeypatch).code == 2
        assert self.jobs() == 1

    def test_a_refusal_is_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        code, out, err = self.submit(monkeypatch, "refused")
        assert (code, out) == (5, "")
        assert "invalid partition\n" in err
        assert intents(Path()) == []
        assert self.submit(monkeypatch).code == 0

    @pytest.mark.parametrize("scheduler", ["slurm"], indirect=True)
    def test_a_refused_job_that_slurm_lists_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        code, out, err = self.submit(monkeypatch, "unfit")
        refusal = "sbatch: error: Requested node configuration is not available\n"
        assert (code, out, err) == (5, "", f"sbatch failed with exit code 1: {refusal}")
        assert (intents(Path()), list(Path("runs").glob("*/*/job.json"))) == ([], [])

    @pytest.mark.parametrize("fault", ["failover", "accounting", "id, refused"])
    def test_whatever_the_words_are_a_job_that_exists_is_found(
        self, monkeypatch: pytest.MonkeyPatch, fault: str
    ) -> None:
        code, out, err = self.submit(monkeypatch, fault)
        assert (code, self.jobs()) == (0, 1), err
        assert out.startswith("1")
        assert re.search("(refused|connect failure|End of File)", err)
        assert intents(Path()) == []
        assert self.submit(monkeypatch).code == 2
        assert self.jobs() == 1

    def test_nobody_was_there_to_hear_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        code, out, err = self.submit(monkeypatch, "nobody")
        assert (code, out) == (6, "")
        assert "connect failure" in err
        assert intents(Path()) == []

    @pytest.mark.parametrize("recorded", [False, True])
    def test_a_submission_whose_script_is_lost_is_settled_once(
        self, monkeypatch: pytest.MonkeyPatch, recorded: bool
    ) -> None:
        with monkeypatch.context() as interrupted:
            interrupted.setattr("jobgen.jobs.journal.remove_intent", lambda intent: None)
            assert self.submit(monkeypatch).code == 0
        (path,) = intents(Path())
        path.write_text(path.read_text().replace(f'"pid": {os.getpid()}', '"pid": 0'))
        for suffix in (".sbatch", ".pbs"):
            path.with_suffix(suffix).unlink(missing_ok=True)
        (found,) = Path("runs/a").glob("*/job.json")
        if not recorded:
            found.unlink()
        before = found.read_text() if recorded else ""
        assert "it is job 1" in jobgen("list").err
        assert jobgen("list").err == ""
        assert not recorded or found.read_text() == before

    @pytest.mark.parametrize("fault", ["lost", "silent"])
    def test_nobody_knows_and_so_nothing_more_is_submitted(
        self, monkeypatch: pytest.MonkeyPatch, fault: str
    ) -> None:
        code, out, err = self.submit(monkeypatch, fault)
        assert (code, out) == (6, "")
        assert "Socket timed out" in err
        assert f"from {late(Path())} on it can also say that there is none" in err
        code, _, err = self.submit(monkeypatch, "html, all")
        assert code == 6
        assert "is not settled: " in err
        assert "nothing more is submitted; give --again" in err
        accepted = self.jobs()
        make_late(Path())
        code, out, err = self.submit(monkeypatch, "html, all")
        assert (code, self.jobs()) == (6, accepted)  # also then: it does not answer
        code, out, err = self.submit(monkeypatch)
        assert self.jobs() == 1
        if accepted:
            assert code == 2
            assert "was interrupted: it is job 1" in err
        else:
            assert (code, self.jobs()) == (0, 1)
            assert ": the scheduler knows no job of it" in err
        record(Path())

    def test_again_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.submit(monkeypatch, "silent").code == 6
        code, _, err = self.submit(monkeypatch, "", "--again")
        assert (code, self.jobs()) == (0, 2)
        assert "was interrupted: it is job 1" in err
        assert len(list(Path().glob("runs/a/*/job.json"))) == 2

    def test_jobgen_is_killed_while_the_scheduler_takes_the_job(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """sbatch lives on, and what it prints is not lost."""
        monkeypatch.setenv("FAULT", "parent")
        assert in_a_child(command("submit"), tmp_path, os.environ) is None
        code, _, err = self.submit(monkeypatch)
        assert code in (2, 6)
        assert "still hands it over\n" in err or "was interrupted: it is job 1" in err
        end = time.monotonic() + 300
        while intents(tmp_path):
            assert time.monotonic() < end
            ended = in_a_child(command("list"), tmp_path, os.environ)
            assert ended is not None
            err += ended.err
        assert "was interrupted: it is job 1" in err
        code, _, err = self.submit(monkeypatch)
        assert (code, self.jobs()) == (2, 1)
        assert str(record(tmp_path)["id"]).startswith("1")

    def test_jobgen_is_killed_while_the_scheduler_is_only_asked(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheduler: str
    ) -> None:
        """No job is there yet, and the next command knows it at once."""
        if scheduler == "pbs":  # qsub cannot be asked
            assert self.submit(monkeypatch, "asked").code == 0
            return
        monkeypatch.setenv("FAULT", "asked")
        assert in_a_child(command("submit"), tmp_path, os.environ) is None
        assert (self.jobs(), len(intents(tmp_path))) == (0, 1)
        code, _, err = self.submit(monkeypatch)
        assert (code, self.jobs(), intents(tmp_path)) == (0, 1, [])
        assert ": it was interrupted before the scheduler was asked\n" in err

    def test_a_scheduler_that_is_slow_to_say_what_would_be_is_not_waited_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobgen.jobs.submit._TEST_SECONDS", 0.2)
        code, _, err = self.submit(monkeypatch, "deaf")
        assert (code, self.jobs()) == (0, 1)
        assert "--test-only" not in err

    def test_the_disk_fills_up_while_the_scheduler_takes_the_job(
        self, monkeypatch: pytest.MonkeyPatch, scheduler: str
    ) -> None:
        monkeypatch.setenv("FAULT", "full")
        ended = on_a_small_disk(
            f"{JOBGEN} submit || echo code $?; rm filler; {JOBGEN} list >/dev/null; FAULT= "
            f"{JOBGEN} submit || echo code $?; ls runs/a/*/job.json runs/a/submissions"
        )
        job = "1.pbs" if scheduler == "pbs" else "1"
        folder = "runs/a/1"
        assert ended.stdout.splitlines() == [
            *(job, "code 1", "code 2", f"{folder}/job.json", "", "runs/a/submissions:")
        ], ended
        full, found, again = ended.stderr.splitlines()
        assert full.startswith(f"job {job} is submitted, but not on record yet: ")
        assert "No space left on device; jobgen will find it" in full
        assert found.endswith(f"was interrupted: it is job {job}, and on record now")
        assert again.startswith(f"job {job} has the same script and is queued: {folder}; ")
        assert self.jobs() == 1

    @pytest.mark.parametrize(("answer", "jobs"), [("n", 1), ("y", 2)])
    def test_on_a_terminal_it_asks(
        self, monkeypatch: pytest.MonkeyPatch, answer: str, jobs: int
    ) -> None:
        assert self.submit(monkeypatch).code == 0
        code, said = on_a_terminal([sys.executable, "-m", "jobgen", "submit"], answer)
        assert (code == 0, self.jobs()) == (jobs == 2, jobs), said
        assert "has the same script and is queued" in said
        assert "submit another job? [y/N]: " in said
        assert "Traceback" not in said

    @pytest.mark.parametrize(("answer", "jobs"), [("n", 1), ("y", 2)])
    def test_a_rerun_without_a_word_asks_or_refuses(
        self, monkeypatch: pytest.MonkeyPatch, answer: str, jobs: int
    ) -> None:
        assert self.submit(monkeypatch).code == 0
        id = str(record(Path())["id"])
        monkeypatch.setattr("sys.stdin", io.StringIO())
        refused = jobgen("rerun")
        assert (refused.code, self.jobs()) == (2, 1)
        line = f"type: jobgen rerun {id}"
        assert refused.err == f"name the job to rerun; the latest is a {id}; {line}\n"
        argv = [sys.executable, "-m", "jobgen", "rerun", "--again"]
        code, said = on_a_terminal(argv, answer)
        assert (code == 0, self.jobs()) == (jobs == 2, jobs), said
        assert re.search(rf"rerun a {id} \(queued.*\)\? \[y/N\]: ", said), said
        assert ("next: jobgen logs -f " in said) == (jobs == 2)
        assert "Traceback" not in said

    def test_a_rerun_with_other_values_names_the_spec_that_is_kept_of_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.submit(monkeypatch).code == 0
        again = jobgen("rerun", str(record(Path())["id"]), "--again", "--set", "queue=other")
        assert (again.code, self.jobs()) == (0, 2), again
        scripts = [path.read_text() for path in Path().glob("runs/a/*/script")]
        assert all("\n# rendered by jobgen from: job.yaml\n" in one for one in scripts)

    def test_a_rerun_and_a_comparison_tell_that_the_code_has_changed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def change(number: int, then: str) -> str:
            Path("model.py").write_text(f"x = {number}\n")
            own = "git -c user.name=a -c user.email=a@b.c"
            subprocess.run(f"{own} {then}", shell=True, check=True, stdout=subprocess.DEVNULL)
            return jobgen("rerun", id, "--again").err if id else ""

        id = ""
        Path(".gitignore").write_text("*\n!model.py\n")
        change(1, "init -q && git add model.py && git -c user.name=a -c user.email=b commit -qm x")
        assert self.submit(monkeypatch).code == 0
        id, code = (str(record(Path())[key]) for key in ("id", "commit"))
        assert "the code" not in change(1, "status")
        words = f"the code has changed since job {id}: commit {code[:12]} -> commit "
        assert f"{words}{code[:12]} and 1 changed file (diff " in change(2, "status")
        assert re.search(rf"(?m)^{words}[0-9a-f]{{12}}$", change(2, "commit -qam y"))
        told = json.loads(jobgen("report", "--all", "--json").out)
        assert told["comparison"]["settings"] == ["code"]

    def test_a_job_that_began_and_that_the_scheduler_has_forgotten(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.submit(monkeypatch, "lost").code == 6
        (intent,) = intents(Path())
        attempt = Path("runs/a/77/attempts/0")
        attempt.mkdir(parents=True)
        (attempt / "script").write_text(f"# submitted by jobgen as {intent.stem}\n")
        assert "it is job 77, and on record" in self.submit(monkeypatch).err
        found = json.loads(Path("runs/a/77/job.json").read_text())
        assert found["token"] == intent.stem

    @pytest.mark.parametrize("left", ["attempts", "record"])
    def test_a_number_that_an_earlier_job_had_gives_no_second_job_in_its_folder(
        self, monkeypatch: pytest.MonkeyPatch, left: str
    ) -> None:
        """Which would go on from its checkpoints: of two servers, or after one has begun anew."""
        assert self.submit(monkeypatch).code == 0
        (before,) = Path().glob("runs/a/*/job.json")
        text = before.read_text()
        if left == "attempts":  # of plain sbatch or qsub
            before.unlink()
            attempt = before.parent / "attempts" / "0"
            attempt.mkdir(parents=True)
            os.utime(attempt, (0, 0))
        Path("jobs").unlink()
        code, out, err = self.submit(monkeypatch, "", "--again")
        assert (code, out, before.exists()) == (5, "", left == "record"), err
        assert "has the number of an earlier job, and would share its run folder runs/a/1;" in err
        assert "-J" in err
        assert not before.exists() or before.read_text() == text
        assert intents(Path()) == []
        assert self.jobs() == 0  # it is cancelled

    def test_foreign_files_are_named_and_no_traceback(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = Path("runs/a/submissions")
        folder.mkdir(parents=True)
        texts = ["", "[]", "{}", '{"job": 1}', "\0", '{"job": {}}', '{"job": null, "jobs": "x"}']
        for number, text in enumerate(texts):
            (folder / f"{number}.json").write_text(text)
        (folder / "x.json").mkdir()
        Path("runs/a/job.json").touch()
        (folder / "notes").touch()
        code, _, err = self.submit(monkeypatch)
        assert code == 0
        assert err.count(": not the record of a submission: ") == len(texts)
        assert "x.json: not a file\n" in err

    def test_what_differs_in_the_least_is_something_else(
        self, monkeypatch: pytest.MonkeyPatch, scheduler: str
    ) -> None:
        assert self.submit(monkeypatch).code == 0
        same = self.submit(monkeypatch)
        run_dir = Path("runs/a/1")
        assert same == (
            2,
            "",
            f"job {record(Path())['id']} has the same script and is queued: {run_dir}; "
            "give --again for another job\n",
        )
        assert self.submit(monkeypatch, "", "--set", "run.command=[false]").code == 0
        assert self.submit(monkeypatch, "", "--after", "1").code == 0
        assert self.submit(monkeypatch, "", "--after", "1").code == 2
        assert self.jobs() == 3


@pytest.mark.parametrize(
    ("prepare", "code", "said"),
    [
        ("head -c 3m /dev/zero >zero 2>/dev/null || true", 1, "No space left on device; nothing"),
        ("mount -o remount,ro .", 1, "Read-only file system; nothing was submitted"),
    ],
)
def test_a_disk_that_takes_nothing(tmp_path: Path, prepare: str, code: int, said: str) -> None:
    spec(tmp_path, "slurm")
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\necho called >>{tmp_path}/called\necho 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    ended = on_a_small_disk(f"{prepare}; exec {JOBGEN} submit", tmp_path)
    assert (ended.returncode, ended.stdout) == (code, ""), ended
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not (tmp_path / "called").exists()


def test_a_project_of_uv_is_synced_once_before_the_job_is_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = tmp_path / "bin"
    commands.mkdir()
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    (tmp_path / "job.yaml").write_text(
        "name: a\nscheduler: slurm\nresources: {nodes: 2}\n"
        "environment: {uv: true}\nrun: {module: m}\n"
    )
    assert "there is no pyproject.toml; uv init makes it" in jobgen("submit").err
    (tmp_path / "pyproject.toml").touch()
    assert "environment.uv: there is no uv.lock here; uv lock makes it" in jobgen("submit").err
    (tmp_path / "uv.lock").touch()
    assert "environment.uv: there is no uv command here" in jobgen("submit").err
    for name, body in (
        ("sbatch", '[ "$1" = --test-only ] || { echo "sbatch" >>calls; echo 7; }'),
        (
            "uv",
            'echo "uv $*" >>calls; if [ -e broken ]; then echo "no such package" >&2; exit 2; fi',
        ),
    ):
        (commands / name).write_text(f"#!/bin/sh\n{body}\n")
        (commands / name).chmod(0o755)
    assert jobgen("submit", "--dry-run").code == 0
    assert not (tmp_path / "calls").exists()
    (tmp_path / "broken").touch()
    refused = jobgen("submit")
    assert refused.code == 2
    assert "uv sync --locked: no such package" in refused.err
    assert (tmp_path / "calls").read_text() == "uv sync --locked\n"
    (tmp_path / "broken").unlink()
    assert jobgen("submit").out == "7\n"
    assert (tmp_path / "calls").read_text() == "uv sync --locked\n" * 2 + "sbatch\n"
    script = (tmp_path / "runs/a/7/script").read_text()
    assert "    . .venv/bin/activate || die " in script
