"""Answers of schedulers that no manual has: none loses a job, doubles one or keeps a lie.

Each is given once; then the scheduler answers as it should, and all must be right.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import jobgen

from jobgen import process
from jobgen.jobs.hand_over import search_jobs
from jobgen.jobs.record import JobRecord
from jobgen.process import CommandResult

RUN = subprocess.run

# --- at submission --------------------------------------------------------------------------------

# What the command that submits does: `accept` counts the job as $N, `later` when the
# test says so, and `silent` is a command that does not come back in time.
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
    "a banner after it": "accept; echo $N; echo 'Thank you for using Foo'",
    "a banner around it": "accept; echo '*** Foo ***'; echo; echo $N; echo '*** quota 80 % ***'",
    "with its cluster": 'accept; sleep 0.2; echo "$N;c1"',
    "with its cluster, apart": 'accept; echo "$N ;c1"',
    "the long form, alone": 'accept; echo "Submitted batch job $N"',
    "no answer in time": "accept; silent",
    "the id, and no end in time": "accept; echo $N; silent",
    "a time-out, then accepted": "later; echo 'sbatch: error: Socket timed out' >&2; exit 1",
    "no words, then accepted": "later; exit 1",
    "id on stderr": "accept; echo $N >&2",
    "id on stderr, and a failure": "accept; echo $N >&2; exit 1",
    "a crash after the id": "accept; echo $N; kill -SEGV $$",
    "a no-break space": "accept; printf '%s\\302\\240\\n' $N",
    "retries that ended": "accept; echo 'sbatch: error: Resource temporarily unavailable' >&2; "
    "exit 1",
    "the backup took it": "accept; echo 'sbatch: error: Batch job submission failed: Unable to "
    "contact slurm controller (connect failure)' >&2; exit 1",
    "refused by QOS": "echo 'sbatch: error: Job violates accounting/QOS policy' >&2; exit 1",
    "a megabyte of errors": "accept; head -c 1000000 /dev/zero | tr '\\0' y >&2; echo $N",
    "zeros before it": "accept; echo 000$N",
    "a step's id": "accept; echo $N.0",
    "JSON": "accept; echo '{\"job_id\": '$N'}'",
    "the script taken away": 'accept; rm "${words##* }"; echo $N',
    "no such command": "exit 127",
    "as one that knows no --test-only": "accept; echo $N; ignores-test",
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
    "a budget after it": "accept; echo $N.pbs; echo 'Remaining budget: 10 kSU'",
    "without its server": "accept; echo $N",
    "another name of the server": "accept; echo $N.pbs.cluster.example.org",
    "brackets": "accept; echo $N[].pbs",
    "id on stderr": "accept; echo $N.pbs >&2",
    "a broken pipe": "accept; kill -PIPE $$",
    "no answer in time": "accept; silent",
    "no words, then accepted": "later; exit 1",
    "premature end": "accept; echo 'qsub: Premature end of message' >&2; exit 15",
    "all destinations": "echo 'qsub: Job rejected by all possible destinations' >&2; exit 1",
    "not authorised": "echo 'qsub: Unauthorized Request' >&2; exit 159",
}
# What the list of one's own jobs says at that moment.
LISTS = {
    "cached": "exit 0",
    "cut": "printf 'job|101|/home/u/runs/t/subm'; exit 0",
    "away": "echo 'slurm_load_jobs error: Unable to contact controller' >&2; exit 1",
    "a page": "echo '<html>504</html>'; exit 0",
    "of others, of the same name": "echo 'job|55|/home/bob/runs/a/submissions/x.sbatch'",
    "twice": 'list "" ""; exit',
    "of components": "list +0 +1; exit",
    "below a banner": "echo '** login4 will be rebooted **'",
    "with returns": "list $'\\r'; exit",
    "an error and 0": "echo 'slurm_load_jobs error: Socket timed out' >&2; exit 0",
    "late": "silent",
    "cut in a path": "list | head -c 20; exit",
    "refused": "echo 'squeue: error: Invalid user' >&2; exit 1",
}
# The same of PBS, where qselect and qstat read it.
PBS_LISTS = {
    "qselect is away": "[[ $0 == *qstat ]] || { echo 'cannot connect to server' >&2; exit 1; }",
    "qselect is cached": "[[ $0 == *qstat ]] || exit 0",
    "qselect knows no -x": "[[ $words != *-x* ]] || { echo 'illegal option' >&2; exit 2; }",
    "qselect has others": "[[ $0 == *qstat ]] || printf '7.pbs\\n8.pbs\\n'",
    "qstat does not know it": "[[ $0 != *qstat ]] || { echo 'Unknown Job Id' >&2; exit 153; }",
    "qstat is cut": "[[ $0 != *qstat ]] || { echo -n 'Job Id: 101.pbs|Submit_argum'; exit 0; }",
}
FAKE = r"""#!/bin/bash
# A scheduler's command: a file of the answer to a submission, to a list or to a question, if any.
words="$*" name=${0##*/}
accept() { N=$((101 + $(wc -l <"$FAKE/accepted"))); echo "$N $words" >>"$FAKE/accepted"; }
later() { echo "$words" >"$FAKE/later"; }
silent() { : >"$FAKE/silent"; exit; }
ignores-test() { :; }
list() {
    local more=("${@:-}") id rest end
    while read -r id rest; do
        for end in "${more[@]}"; do echo "job|$id$end|${rest##* }"; done
    done <"$FAKE/accepted"
}
[[ $words != *--test-only* ]] || grep -qs ignores-test "$FAKE/answer" || exit 0
case $name in
    sbatch | qsub)
        if [[ -s $FAKE/answer ]]; then source "$FAKE/answer"; exit; fi
        accept
        if [[ $name == qsub ]]; then echo "$N.pbs"; else echo "$N"; fi ;;
    squeue)
        if [[ $words == *--me* ]]; then
            if [[ -s $FAKE/list ]]; then source "$FAKE/list"; fi
            list
        else
            if [[ -s $FAKE/state ]]; then source "$FAKE/state"; fi
            while read -r id _; do echo "$id|PENDING|Priority|N/A|N/A"; done <"$FAKE/accepted"
        fi ;;
    qselect)
        if [[ -s $FAKE/list ]]; then source "$FAKE/list"; fi
        while read -r id _; do echo "$id.pbs"; done <"$FAKE/accepted" ;;
    qstat)
        if [[ -s $FAKE/list ]]; then source "$FAKE/list"; fi
        if [[ -s $FAKE/state ]]; then source "$FAKE/state"; fi
        while read -r id rest; do
            echo "Job Id: $id.pbs|job_state=Q|Submit_arguments=$rest"
        done <"$FAKE/accepted" ;;
    *)
        if [[ -s $FAKE/history ]]; then source "$FAKE/history"; fi
        echo 'Slurm accounting storage is disabled' >&2; exit 1 ;;
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
    yield "slurm: backup, list away", "slurm", SBATCH["the backup took it"], LISTS["away"]
    for name, listing in PBS_LISTS.items():
        yield f"pbs: list {name}", "pbs", QSUB["end of file"], listing


def run_unless_silent(
    argv: list[str], *, timeout: float | None = None, **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command; one that is silent has taken too long, without a clock."""
    done = RUN(argv, **settings)
    silent = Path(os.environ["FAKE"], "silent")
    if silent.exists():
        silent.unlink()
        raise subprocess.TimeoutExpired(argv, timeout or 0)
    return done


@pytest.fixture
def scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What begins a row: a folder with a spec, and a scheduler that answers so."""
    fakes = tmp_path / "bin"
    fakes.mkdir()
    for command in ("sbatch", "squeue", "sacct", "qsub", "qselect", "qstat"):
        (fakes / command).write_text(FAKE)
        (fakes / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{fakes}:{os.environ['PATH']}")
    monkeypatch.setattr(process.subprocess, "run", run_unless_silent)

    def begin(name: str, **answers: str) -> None:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        monkeypatch.chdir(folder)
        monkeypatch.setenv("FAKE", str(folder))
        answer(**answers)
        spec = {"name": "a", "scheduler": name, "resources": {"walltime": "5m"}}
        Path("job.yaml").write_text(json.dumps(spec | {"run": {"command": ["true"]}}))

    return begin


def answer(**answers: str) -> None:
    """Have the scheduler answer so, and well where nothing is said."""
    Path("accepted").touch()
    for file in ("answer", "list", "state", "history"):
        Path(file).write_text(answers.get(file, ""))


def grow_old(seconds: float) -> None:
    """Let time go by for all that is recorded."""
    for path in [*Path().glob("runs/a/submissions/*.json"), *Path().glob("runs/a/*/job.json")]:
        before = path.stat().st_mtime - seconds
        os.utime(path, (before, before))


def list_accepted() -> list[str]:
    return [line.split()[0] for line in Path("accepted").read_text().splitlines()]


@pytest.mark.slow
def test_no_answer_to_a_submission_loses_or_doubles_a_job(
    scheduler: Callable[..., None], subtests: pytest.Subtests
) -> None:
    for name, which, answered, listing in list_submissions():
        with subtests.test(name):
            scheduler(which, answer=answered, list=listing)
            check_submission(answered)


def check_submission(answered: str) -> None:
    """Submit, and again with a scheduler that is well, until that settles it."""
    ended = [jobgen("submit")]
    answer()
    ended.append(jobgen("submit"))
    if Path("later").exists():
        number = 101 + len(list_accepted())
        with Path("accepted").open("a") as file:
            file.write(f"{number} {Path('later').read_text()}")
    for _ in range(3):
        ended.append(jobgen("submit"))
        intents = list(Path().glob("runs/a/submissions/*.json"))
        if not intents and ended[-1].code != 6:
            break
        grow_old(301)
    records = [json.loads(path.read_text())["id"] for path in Path().glob("runs/a/*/job.json")]
    numbers = [re.split(r"\D", record)[0] for record in records]
    assert numbers == list_accepted() == ["101"], ended
    known = any(word in answered for word in ("accept", "later")) or 0 in (
        ended[0].code,
        ended[1].code,
    )
    assert ended[-1].code == (2 if known else 0), ended
    assert not any("Traceback" in each.err for each in ended)


# --- at status ------------------------------------------------------------------------------------

T = 1_700_000_000  # when it was submitted, and began
# What squeue prints of job 101, which runs, its exit code and errors; then what sacct prints.
SQUEUE: dict[str, tuple[str, int, str, str]] = {
    **{
        f"the word {word!r}": (f"101|{word}|None|{T}|N/A\n", 0, "", "")
        for word in (
            *("REVOKED", "POWER_UP_NODE", "EXPEDITING", "UPDATE_DB", "RUNN", "FAILE", "COMPLETE"),
            *("?", "R", "running", "JOB_RUNNING", "NULL", "OUT_OF_ME+", "NODE_FAIL+", "101"),
        )
    },
    "a line cut": ("101|RUNN", 0, "", ""),
    "a line without its end": ("101|FAILED|None|{T}|N/A", 0, "", ""),
    "half the fields": ("101|FAILED\n", 0, "", ""),
    "a notice": ("** Maintenance **\n", 0, "", ""),
    "a notice and the line": ("** Maintenance **\n101|RUNNING|None|{T}|N/A\n", 0, "", ""),
    "a cluster's head": ("CLUSTER: c2\n101|RUNNING|None|{T}|N/A\n", 0, "", ""),
    "another job's line": ("1011|FAILED|None|{T}|N/A\n", 0, "", ""),
    "a task's line": ("101_0|FAILED|None|{T}|N/A\n", 0, "", ""),
    "a second component": ("101+0|RUNNING|None|{T}|N/A\n101+1|FAILED|None|{T}|N/A\n", 0, "", ""),
    "a reason with bars": ("101|RUNNING|a|FAILED|b|{T}|N/A\n", 0, "", ""),
    "no times": ("101|RUNNING|None||\n", 0, "", ""),
    "times in words": ("101|RUNNING|None|yesterday|tomorrow\n", 0, "", ""),
    "a page": ("<html>504</html>\n", 0, "", ""),
    "NUL": ("\0\0\0\n", 0, "", ""),
    "usage": ("Usage: squeue [-A account] [--clusters names]\n", 0, "", ""),
    "nothing": ("", 0, "", ""),
    "time-out": ("", 1, "slurm_load_jobs error: Socket timed out", ""),
    "away": ("", 1, "Unable to contact slurm controller (connect failure)", ""),
    "lines and a failure": (
        "101|FAILED|None|{T}|N/A\n",
        1,
        "slurm_load_jobs error: Zero Bytes",
        "",
    ),
    "sacct: running": ("", 1, "Invalid job id specified", "101|RUNNING|None|{T}|Unknown\n"),
    "sacct: pending": ("", 1, "Invalid job id specified", "101|PENDING|None|Unknown|Unknown\n"),
    "sacct: requeued": ("", 0, "", "101|REQUEUED|None|{T}|Unknown\n"),
    "sacct: resizing": ("", 1, "Invalid job id specified", "101|RESIZING|None|{T}|N/A\n"),
    "sacct: a new word": ("", 1, "Invalid job id specified", "101|A_NEW_WORD|None|{T}|N/A\n"),
    "sacct: cut": ("", 1, "Invalid job id specified", "101|FAILED|None|{T}"),
    "sacct: another": ("", 0, "", "1011|FAILED|None|{T}|N/A\n"),
    "a heading": ("JOBID|STATE|REASON|START|END\n101|RUNNING|None|{T}|N/A\n", 0, "", ""),
    "an error and 0": ("slurm_load_jobs error: Unable to contact controller\n", 0, "", ""),
    "a return": ("101|RUNNING|None|{T}|N/A\r\n", 0, "", ""),
    "colours": ("101|\x1b[31mFAILED\x1b[0m|None|{T}|N/A\n", 0, "", ""),
    "it runs and has failed": ("101|RUNNING|None|{T}|N/A\n101|FAILED|None|{T}|N/A\n", 0, "", ""),
    "it has failed and runs": ("101|FAILED|None|{T}|N/A\n101|RUNNING|None|{T}|N/A\n", 0, "", ""),
    "it runs at a sibling's": ("101|RUNNING|None|{T}|N/A\n101|REVOKED|None|{T}|N/A\n", 0, "", ""),
    "killed in a line": ("101|FAILED|None", -9, "", ""),
    "killed after a line": ("101|FAILED|None|{T}|N/A\n", -9, "", ""),
    "bytes": ("\ufffd\ufffd\n101|RUNNING|None|{T}|N/A\n", 0, "", ""),
    "NUL in the word": ("101|FAI\0LED|None|{T}|N/A\n", 0, "", ""),
    "a megabyte": (f"101|RUNNING|{'r' * 1_000_000}|{{T}}|N/A\n", 0, "", ""),
    "times of 400 digits": (f"101|RUNNING|None|{'9' * 400}|{'9' * 400}\n", 0, "", ""),
    "times of 15 digits": (f"101|PENDING|None|{'9' * 15}|{'9' * 15}\n", 0, "", ""),
    "a cut word": ("101|CANCELLE+|None|{T}|N/A\n", 0, "", ""),
    "two words": ("101|COMPLETED FAILED|None|{T}|N/A\n", 0, "", ""),
    "two words and a comma": ("101|FAILED,REQUEUED|None|{T}|N/A\n", 0, "", ""),
    "a word and its flag": ("101|RUNNING+COMPLETING|None|{T}|N/A\n", 0, "", ""),
    "sacct: an older job": ("", 0, "", "101|COMPLETED|None|1000000000|1000000100\n"),
    "sacct: an older failure": ("", 0, "", "101|FAILED|None|1000000000|1000000100\n"),
    "sacct: a banner": ("", 0, "", "dbd is behind\n101|RUNNING|None|{T}|Unknown\n"),
    "sacct: the start before": (
        "",
        0,
        "",
        "101|NODE_FAIL|None|{T}|N/A\n101|RUNNING|None|{T}|Unknown\n",
    ),
    "sacct: the start before, last": (
        "",
        0,
        "",
        "101|RUNNING|None|{T}|Unknown\n101|NODE_FAIL|None|{T}|N/A\n",
    ),
}
R = "Job Id: 101.pbs|job_state=R"
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
    "unknown and 0": ("", 0, "qstat: Unknown Job Id 101.pbs"),
    "two jobs on a line": ("Job Id: 102.pbs|job_state=FJob Id: 101.pbs|job_state=R\n", 0, ""),
    "it runs with an end": ("Job Id: 101.pbs|job_state=R|Exit_status=1\n", 0, ""),
    "it runs and has ended": (
        "Job Id: 101.pbs|job_state=R\nJob Id: 101.pbs|job_state=F|Exit_status=1\n",
        0,
        "",
    ),
    "usage": ("", 2, "usage: qstat [-f] [-W site_specific]"),
    "killed in a line": ("Job Id: 101.pbs|job_state=F|Exit_", -9, ""),
    "a year of five digits": (f"{R}|stime=Sun Sep  9 01:46:40 99999\n", 0, ""),
    "a walltime of 999 digits": (f"{R}|Resource_List.walltime={'9' * 999}:00:00\n", 0, ""),
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
            answers[command] = CommandResult(answer[0].replace("{T}", str(T)), *answer[1:])
            history = history.replace("{T}", str(T))
            answers["sacct"] = CommandResult(history, 0, "") if history else nothing
            told = jobgen("status", job_id)
            assert told.out.splitlines()[0] not in ENDED, told
            assert {told.code, jobgen("list").code} <= {0, 6}
            running = f"101|RUNNING|None|{T}|N/A\n", f"{R}\n"
            answers[command] = CommandResult(running[scheduler == "pbs"], 0, "")
            assert jobgen("status", job_id).out.startswith("running\n")


def begin_job(job_id: str, scheduler: str) -> None:
    """A job on record whose script has begun."""
    job = JobRecord(job_id, "a", scheduler, os.getcwd(), float(T), ("x",))
    attempt = job.run_dir / "attempts" / "0"
    attempt.mkdir(parents=True)
    (job.run_dir / "job.json").write_text(json.dumps(asdict(job)))
    (attempt / "script").write_text("#!/bin/bash\n")
    (attempt / "nodes").write_text("n1\n")


# --- at a second submission of what runs for an hour ----------------------------------------------

WHILE_IT_RUNS = {
    "slurm": {
        "an empty list": "exit 0",
        "a new word": "echo '101|EXPEDITING|None|N/A|N/A'; exit 0",
        "another job's line": "echo '1011|FAILED|None|N/A|N/A'; exit 0",
        "a page": "echo '<html>503</html>'; exit 0",
        "no answer in time": "silent",
    },
    "pbs": {
        "an empty list": "exit 0",
        "a new letter": "echo 'Job Id: 101.pbs|job_state=Z'; exit 0",
        "no server": "echo 'Connection refused' >&2; exit 111",
    },
}


def test_what_runs_is_not_submitted_again_whatever_is_said_of_it(
    scheduler: Callable[..., None], subtests: pytest.Subtests
) -> None:
    for which, states in WHILE_IT_RUNS.items():
        for name, state in states.items():
            with subtests.test(f"{which}: {name}"):
                scheduler(which)
                assert jobgen("submit").code == 0
                attempt = Path("runs/a/101/attempts/0")
                attempt.mkdir(parents=True)
                shutil.copy("runs/a/101/script", attempt)
                grow_old(3600)
                answer(state=state, history="echo '101|COMPLETED|None|1000000000|1'; exit 0")
                assert {jobgen("submit").code, jobgen("submit").code} <= {2, 6}
                assert list_accepted() == ["101"]


def test_the_users_filters_hide_no_job_of_an_interrupted_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "squeue").write_text(
        '#!/bin/sh\n[ "$SQUEUE_PARTITION" ] || echo "job|7|/a.sbatch"\n'
    )
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SQUEUE_PARTITION", "debug")
    job = SimpleNamespace(scheduler="slurm", submitted=0.0)
    intent: Any = SimpleNamespace(token="a.sbatch", job=job)
    assert search_jobs([intent]) == {"a.sbatch": ["7"]}
