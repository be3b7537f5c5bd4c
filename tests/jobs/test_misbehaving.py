"""A hundred answers of schedulers that no manual has: none loses a job, doubles one or keeps a lie.

Each is given once; then the scheduler answers as it should, and all must be right.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from support import jobgen

from jobgen import process
from jobgen.jobs.record import JobRecord
from jobgen.process import CommandResult

# --- at submission --------------------------------------------------------------------------------

# What the command that submits does after `accept`, which counts the job as $N; or without it.
SBATCH = {
    "id, then a wrapper's refusal": 'accept; echo $N; echo "curl: (7) Connection refused" >&2; '
    "exit 1",
    "time-out and connect failure": "accept; echo 'Socket timed out on send/recv, retrying' >&2; "
    "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1",
    "failover": "accept; echo '(connect failure)' >&2; echo 'Zero Bytes were transmitted' >&2; "
    "exit 1",
    "colours": "accept; printf '\\033[1mWelcome\\033[0m\\n'; echo $N",
    "byte order mark": "accept; printf '\\357\\273\\277%s\\n' $N",
    "carriage return": "accept; printf '%s\\r\\n' $N",
    "the long form": 'accept; echo "Submitted batch job $N on cluster c1"',
    "two ids": "accept; echo 7; echo $N",
    "an id twice": "accept; echo $N; echo $N",
    "nothing": "accept",
    "killed": "accept; kill -9 $$",
    "killed after the id": "accept; echo $N; kill -9 $$",
    "German": "accept; echo 'Zeitüberschreitung' >&2; exit 1",
    "protocol": "accept; echo 'sbatch: error: Protocol authentication error' >&2; exit 1",
    "unspecified": "accept; echo 'sbatch: error: Unspecified error' >&2; exit 1",
    "communication": "accept; echo 'sbatch: error: Communication failure' >&2; exit 1",
    "a year before it": "accept; echo 2024; echo $N",
    "zero": "accept; echo 0; exit 1",
    "half a line": "accept; printf %s ${N:0:1}; exit 1",
    "a line without its end": "accept; printf %s $N",
    "padded": "accept; printf '  %s\\t\\n' $N",
    "a megabyte": "accept; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo $N",
    "bytes of no text": "accept; printf '\\377\\376\\000'; echo $N",
    "a page": "accept; echo '<html>504</html>'; exit 255",
    "a hook's words": "accept; echo 'lua: your account was set to a1'; echo $N",
    "warnings": "accept; echo 'sbatch: warning: memory per CPU is raised' >&2; echo $N",
    "retries": "accept; echo 'Slurm temporarily unable to accept job, sleeping' >&2; echo $N",
    "heard, and no job": "echo 'sbatch: error: Socket timed out on send/recv' >&2; exit 1",
    "refused": "echo 'sbatch: error: Invalid account' >&2; exit 1",
    "refused with 0": "echo 'sbatch: error: job_submit denied' >&2",
    "nobody there": "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1",
}
QSUB = {
    "id, then no connection": 'accept; echo $N.pbs; echo "qsub: cannot connect to server" >&2; '
    "exit 15",
    "failover": "accept; echo 'Connection refused' >&2; echo 'qsub: End of File' >&2; exit 1",
    "no permission": "accept; echo 'No Permission.' >&2; echo 'qsub: cannot connect to server pbs "
    "(errno=15007)' >&2; exit 1",
    "end of file": "accept; echo 'qsub: End of File' >&2; exit 1",
    "nothing": "accept",
    "killed": "accept; kill -9 $$",
    "a notice": "accept; echo 'Maintenance on Monday'; echo $N.pbs",
    "an id twice": "accept; echo $N.pbs; echo $N.pbs",
    "half a line": "accept; printf %s ${N:0:1}; exit 1",
    "a page": "accept; echo '<html>504</html>'",
    "hook": "echo 'qsub: request rejected by hook' >&2; exit 32",
    "limit": "echo 'qsub: would exceed limit on resource ncpus in queue' >&2; exit 188",
    "nobody there": "echo 'qsub: cannot connect to server pbs (errno=111)' >&2; exit 111",
}
# What the list of one's own jobs says at that moment.
LISTS = {
    "cached": "exit 0",
    "cut": "printf 'job|101|/home/u/runs/t/subm'; exit 0",
    "away": "echo 'slurm_load_jobs error: Unable to contact controller' >&2; exit 1",
    "a page": "echo '<html>504</html>'; exit 0",
}
FAKE = r"""#!/bin/bash
accept() { N=$((101 + $(wc -l <"$FAKE/accepted"))); echo "$N ${*: -1}" >>"$FAKE/accepted"; }
words="$*" last="${*: -1}"
[[ $words != *--test-only* ]] || exit 0
case ${0##*/} in
    sbatch | qsub)
        accept() {
            N=$((101 + $(wc -l <"$FAKE/accepted"))); echo "$N $words" >>"$FAKE/accepted"
        }
        if [[ -s $FAKE/answer ]]; then source "$FAKE/answer"; exit; fi
        accept
        if [[ ${0##*/} == qsub ]]; then echo "$N.pbs"; else echo "$N"; fi ;;
    squeue)
        if [[ $words == *--me* ]]; then
            if [[ -s $FAKE/list ]]; then source "$FAKE/list"; fi
            while read -r id rest; do echo "job|$id|${rest##* }"; done <"$FAKE/accepted"
        else
            while read -r id _; do echo "$id|PENDING|Priority|N/A|N/A"; done <"$FAKE/accepted"
        fi ;;
    qselect) while read -r id _; do echo "$id.pbs"; done <"$FAKE/accepted" ;;
    qstat)
        while read -r id rest; do
            echo "Job Id: $id.pbs|job_state=Q|Submit_arguments=$rest"
        done <"$FAKE/accepted" ;;
    *) echo 'Slurm accounting storage is disabled' >&2; exit 1 ;;
esac
"""


def list_submissions() -> Iterator[tuple[str, str, str, str]]:
    """Each with the scheduler, what is submitted to it and what it lists then."""
    for name, answer in SBATCH.items():
        yield f"slurm: {name}", "slurm", answer, ""
    for name, answer in QSUB.items():
        yield f"pbs: {name}", "pbs", answer, ""
    for name, listing in LISTS.items():
        for answer in ("protocol", "time-out and connect failure", "heard, and no job"):
            yield f"slurm: {answer}, list {name}", "slurm", SBATCH[answer], listing


def test_no_answer_to_a_submission_loses_or_doubles_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    fakes = tmp_path / "bin"
    fakes.mkdir()
    for command in ("sbatch", "squeue", "sacct", "qsub", "qselect", "qstat"):
        (fakes / command).write_text(FAKE)
        (fakes / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{fakes}:{os.environ['PATH']}")
    for number, (name, scheduler, answer, listing) in enumerate(list_submissions()):
        with subtests.test(name):
            folder = tmp_path / str(number)
            folder.mkdir()
            monkeypatch.chdir(folder)
            monkeypatch.setenv("FAKE", str(folder))
            for file, text in (("accepted", ""), ("answer", answer), ("list", listing)):
                Path(file).write_text(text)
            spec = {"name": "a", "scheduler": scheduler, "resources": {"walltime": "5m"}}
            Path("job.yaml").write_text(json.dumps(spec | {"run": {"command": ["true"]}}))
            check_submission("accept" in answer)


def check_submission(accepted: bool) -> None:
    """Submit, and again with a scheduler that is well, until that settles it."""
    ended = [jobgen("submit")]
    for file in ("answer", "list"):
        Path(file).write_text("")
    for _ in range(3):
        ended.append(jobgen("submit"))
        intents = list(Path().glob("runs/a/submissions/*.json"))
        if not intents and ended[-1].code != 6:
            break
        for path in [*intents, *Path().glob("runs/a/*/job.json")]:  # five minutes go by
            before = path.stat().st_mtime - 301
            os.utime(path, (before, before))
    jobs = [line.split()[0] for line in Path("accepted").read_text().splitlines()]
    records = [json.loads(path.read_text())["id"] for path in Path().glob("runs/a/*/job.json")]
    assert [record.partition(".")[0] for record in records] == jobs == ["101"], ended
    assert ended[-1].code == (2 if accepted or ended[0].code == 0 else 0), ended
    assert not any("Traceback" in each.err for each in ended)


# --- at status ------------------------------------------------------------------------------------

# What squeue prints of job 101, which runs, its exit code and errors; then what sacct prints.
SQUEUE: dict[str, tuple[str, int, str, str]] = {
    **{
        f"the word {word!r}": (f"101|{word}|None|1700000000|N/A\n", 0, "", "")
        for word in (
            *("REVOKED", "POWER_UP_NODE", "EXPEDITING", "UPDATE_DB", "RUNN", "FAILE", "COMPLETE"),
            *("?", "R", "running", "JOB_RUNNING", "NULL", "OUT_OF_ME+", "NODE_FAIL+", "101"),
        )
    },
    "a line cut": ("101|RUNN", 0, "", ""),
    "a line without its end": ("101|FAILED|None|1|2", 0, "", ""),
    "half the fields": ("101|FAILED\n", 0, "", ""),
    "a notice": ("** Maintenance **\n", 0, "", ""),
    "a notice and the line": ("** Maintenance **\n101|RUNNING|None|1|2\n", 0, "", ""),
    "a cluster's head": ("CLUSTER: c2\n101|RUNNING|None|1|2\n", 0, "", ""),
    "another job's line": ("1011|FAILED|None|1|2\n", 0, "", ""),
    "a task's line": ("101_0|FAILED|None|1|2\n", 0, "", ""),
    "a second component": ("101+0|RUNNING|None|1|2\n101+1|FAILED|None|1|2\n", 0, "", ""),
    "a reason with bars": ("101|RUNNING|a|FAILED|b|1|2\n", 0, "", ""),
    "no times": ("101|RUNNING|None||\n", 0, "", ""),
    "times in words": ("101|RUNNING|None|yesterday|tomorrow\n", 0, "", ""),
    "a page": ("<html>504</html>\n", 0, "", ""),
    "NUL": ("\0\0\0\n", 0, "", ""),
    "usage": ("Usage: squeue [-A account] [--clusters names]\n", 0, "", ""),
    "nothing": ("", 0, "", ""),
    "time-out": ("", 1, "slurm_load_jobs error: Socket timed out", ""),
    "away": ("", 1, "Unable to contact slurm controller (connect failure)", ""),
    "lines and a failure": ("101|FAILED|None|1|2\n", 1, "slurm_load_jobs error: Zero Bytes", ""),
    "sacct: running": ("", 1, "Invalid job id specified", "101|RUNNING|None|1|Unknown\n"),
    "sacct: pending": ("", 1, "Invalid job id specified", "101|PENDING|None|Unknown|Unknown\n"),
    "sacct: requeued": ("", 0, "", "101|REQUEUED|None|1|Unknown\n"),
    "sacct: resizing": ("", 1, "Invalid job id specified", "101|RESIZING|None|1|2\n"),
    "sacct: a new word": ("", 1, "Invalid job id specified", "101|A_NEW_WORD|None|1|2\n"),
    "sacct: cut": ("", 1, "Invalid job id specified", "101|FAILED|None|1"),
    "sacct: another": ("", 0, "", "1011|FAILED|None|1|2\n"),
}
QSTAT: dict[str, tuple[str, int, str]] = {
    "no state": ("Job Id: 101.pbs|Job_Name=a\n", 0, ""),
    "an empty state": ("Job Id: 101.pbs|job_state=\n", 0, ""),
    "a new letter": ("Job Id: 101.pbs|job_state=Z\n", 0, ""),
    "a small letter": ("Job Id: 101.pbs|job_state=f\n", 0, ""),
    "two letters": ("Job Id: 101.pbs|job_state=RF\n", 0, ""),
    "cut": ("Job Id: 101.pbs|job_state=F", 0, ""),
    "cut in the id": ("Job Id: 10", 0, ""),
    "a notice": ("Maintenance on Monday\n", 0, ""),
    "a notice and the line": ("Maintenance\nJob Id: 101.pbs|job_state=R\n", 0, ""),
    "another job's line": ("Job Id: 1011.pbs|job_state=F|Exit_status=1\n", 0, ""),
    "JSON": ('{"Jobs": {"101.pbs": {"job_state": "F"}}}\n', 0, ""),
    "the table": ("101.pbs  a  alice  00:00:00 F workq\n", 0, ""),
    "nothing": ("", 0, ""),
    "no server": ("", 111, "qstat: cannot connect to server pbs (errno=111)"),
    "end of file": ("", 1, "qstat: End of File"),
    "a bar in a comment": ("Job Id: 101.pbs|comment=a\\|job_state=F|job_state=R\n", 0, ""),
}
ENDED = {"done", "failed", "cancelled", "timeout", "node lost"}


def test_no_answer_about_a_running_job_is_taken_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    cases = [("slurm", name, answer[:3], answer[3]) for name, answer in SQUEUE.items()]
    cases += [("pbs", name, answer, "") for name, answer in QSTAT.items()]
    answers: dict[str, CommandResult] = {}
    nothing = CommandResult("", 1, "disabled")
    monkeypatch.setattr(process, "ask", lambda argv, **_: answers.get(argv[0], nothing))
    for number, (scheduler, name, answer, history) in enumerate(cases):
        with subtests.test(f"{scheduler}: {name}"):
            folder = tmp_path / str(number)
            folder.mkdir()
            monkeypatch.chdir(folder)
            job_id = "101" if scheduler == "slurm" else "101.pbs"
            begin_job(job_id, scheduler)
            command = "squeue" if scheduler == "slurm" else "qstat"
            answers[command] = CommandResult(*answer)
            answers["sacct"] = CommandResult(history, 0, "") if history else nothing
            told = jobgen("status", job_id)
            assert told.out.strip() not in ENDED, told
            assert "Traceback" not in told.err
            running = "101|RUNNING|None|1|2\n", "Job Id: 101.pbs|job_state=R\n"
            answers[command] = CommandResult(running[scheduler == "pbs"], 0, "")
            assert jobgen("status", job_id).out.strip() == "running"


def begin_job(job_id: str, scheduler: str) -> None:
    """A job on record whose script has begun."""
    job = JobRecord(job_id, "a", scheduler, os.getcwd(), 1.0, ("x",))
    attempt = job.run_dir / "attempts" / "0"
    attempt.mkdir(parents=True)
    (job.run_dir / "job.json").write_text(json.dumps(asdict(job)))
    (attempt / "script").write_text("#!/bin/bash\n")
    (attempt / "nodes").write_text("n1\n")


def test_there_are_a_hundred() -> None:
    assert len(list(list_submissions())) + len(SQUEUE) + len(QSTAT) >= 100
