"""The emulated PBS does what a real OpenPBS was measured to do.

Each test names the section of pbs/README.md ("What a real OpenPBS does") that it holds.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cluster_fixtures
import pytest
from cluster_fixtures import PATIENCE, Pbs, run, running, wait_until

pytestmark = pytest.mark.cluster

# In a script: wait until so many lines of its own output match; tasks print by way of others.
SEEN = 'seen() { until [ "$(grep -c "$2" /proc/$$/fd/1)" -ge "$1" ]; do sleep 0.1; done; }\n'
NEVER = "Can Never Run: Insufficient amount of resource: "
SCATTER = ("-l", "select=2:ncpus=1", "-l", "place=scatter")


@pytest.fixture(scope="module", autouse=True)
def quick(pbs: Pbs) -> Iterator[None]:
    """Shorter delays than the real ones, but for who saves, and a history of ended jobs."""
    with pbs.settings(kill_delay=600, poll=0.3, copy_retry=0.1, history=True):
        yield


@dataclass
class Outcome:
    """A job that has ended: its attributes and what it printed."""

    id: str
    shown: dict[str, Any]
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def status(self) -> Any:
        return self.shown.get("Exit_status")


@dataclass
class User:
    """Submits scripts in a folder and collects what became of them."""

    pbs: Pbs
    folder: Path

    def submit(self, script: str, *options: str, name: str = "job") -> str:
        path = self.folder / f"{name}.sh"
        path.write_text(script if script.startswith("#!") else f"#!/bin/bash\n{script}\n")
        return self.pbs.submit("-N", name, *options, path, cwd=self.folder)

    def collect(self, job_id: str, *, name: str = "job") -> Outcome:
        shown = self.pbs.wait(job_id)
        number = re.split(r"[.\[]", job_id)[0]
        texts = []
        for which in "oe":
            path = self.folder / f"{name}.{which}{number}"
            texts.append(path.read_text(errors="replace") if path.exists() else "")
        return Outcome(job_id, shown, *texts)

    def run(self, script: str, *options: str) -> Outcome:
        return self.collect(self.submit(script, *options))

    def until(self, file: str, *, lines: int = 1) -> None:
        """Wait for a file of the folder to have so many lines."""
        path = self.folder / file
        wait_until(
            lambda: path.exists() and path.read_text().count("\n") >= lines,
            what=lambda: f"{file}: {path.read_text() if path.exists() else 'missing'}",
        )

    def read(self, file: str) -> str:
        return (self.folder / file).read_text()


@pytest.fixture
def user(pbs: Pbs, tmp_path: Path) -> User:
    return User(pbs, tmp_path)


# --- 1. PBS_NODEFILE and placement ---------------------------------------------------


@pytest.mark.parametrize(
    ("select", "place", "hosts"),
    [
        ("3:ncpus=4:ngpus=2:mpiprocs=2", "scatter:excl", "n1 n1 n2 n2 n3 n3"),
        ("2:ncpus=4:ngpus=4+1:ncpus=2:ngpus=2", "scatter", "n1 n2 n3"),
        ("1:host=n3:ncpus=1+1:ncpus=2:mpiprocs=3", "free", "n3 n1 n1 n1"),
        ("2:ncpus=1:mpiprocs=0", "scatter", ""),
    ],
)
def test_the_node_file_has_a_line_per_mpi_process_in_the_order_of_the_chunks(
    user: User, select: str, place: str, hosts: str
) -> None:
    """Section 1."""
    job = user.run("cat $PBS_NODEFILE", "-l", f"select={select}", "-l", f"place={place}")
    assert job.lines == hosts.split()


def test_names_in_the_node_file_are_canonical_and_others_short(user: User) -> None:
    """Section 1: the resolver decides; `hostname` and exec_host stay short."""
    with user.pbs.settings(domain="cluster.test"):
        job = user.run("cat $PBS_NODEFILE; hostname; getent hosts n2", *SCATTER)
    assert job.lines[:3] == ["n1.cluster.test", "n2.cluster.test", "n1"]
    assert job.lines[3].split()[1:] == ["n2.cluster.test", "n2"]
    assert job.shown["exec_host"] == "n1/0+n2/0"


@pytest.mark.parametrize(
    ("select", "comment"),
    [
        ("1:ncpus=999", NEVER + "ncpus (R: 999 A: 40 T: 40)"),
        ("1:ngpus=5", "Not Running: Insufficient amount of resource: ngpus "),
    ],
)
def test_too_large_requests_are_accepted_and_wait(user: User, select: str, comment: str) -> None:
    """Sections 1 and 5: chunks are placed greedily, so their order decides as well."""
    job = user.submit("true", "-l", f"select={select}", "-l", "place=scatter")
    wait_until(lambda: "comment" in user.pbs.job(job))
    shown = user.pbs.job(job)
    assert (shown["job_state"], shown["comment"]) == ("Q", comment)
    user.pbs.cancel(job)


def test_exclusive_jobs_keep_others_off_their_hosts(user: User) -> None:
    """Section 1."""
    first = user.submit("sleep 600", *SCATTER[:2], "-l", "place=scatter:exclhost", name="first")
    user.pbs.wait(first, "R")
    assert user.run("hostname").lines == ["n3"]
    user.pbs.run("qdel", "-W", "force", first)


# --- 2. Environment ------------------------------------------------------------------


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if re.match(r"\w+=", line))


def test_the_script_starts_in_the_home_folder_with_a_login_shells_environment(user: User) -> None:
    """Section 2."""
    env = user.pbs.env | {"OF_THE_SUBMITTER": "x"}
    script = user.folder / "job.sh"
    script.write_text(
        '#!/bin/bash\nenv; echo "at=$PWD mask=$(umask) zero=$0"; cat; ls -ld $TMPDIR\n'
    )
    number = user.pbs.run(
        "qsub", "-l", "select=1:ncpus=8:mpiprocs=2", str(script), env=env, cwd=user.folder
    ).stdout.strip()
    user.pbs.wait(number)
    text = (user.folder / f"job.sh.o{number.partition('.')[0]}").read_text()
    found = variables(text)
    assert f"at={user.pbs.home} mask=0077 zero=/var/spool/pbs/mom_priv/jobs/{number}.SC" in text
    assert re.search(rf"drwx------.* /var/tmp/pbs\.{re.escape(number)}$", text, re.MULTILINE)
    assert "OF_THE_SUBMITTER" not in found
    expected = {
        "PBS_JOBID": number,
        "PBS_NODENUM": "0",
        "PBS_TASKNUM": "1",
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_O_WORKDIR": str(user.folder),
        "PBS_O_HOST": "login",
        "PBS_JOBDIR": str(user.pbs.home),
        "HOME": str(user.pbs.home),
        "TMPDIR": f"/var/tmp/pbs.{number}",
        "NCPUS": "8",
        "OMP_NUM_THREADS": "8",
        "USER": "root",
    }
    assert {name: found[name] for name in expected} == expected
    missing = {"PBS_NODEID", "PBS_NUM_NODES", "PBS_GPUFILE", "CUDA_VISIBLE_DEVICES"}
    assert not missing & found.keys()
    assert (user.folder / f"job.sh.o{number.partition('.')[0]}").stat().st_mode & 0o777 == 0o600


# --- 3. pbsdsh -----------------------------------------------------------------------


def test_tasks_have_a_bare_environment_and_a_session_of_their_own(user: User) -> None:
    """Section 3: no child of pbsdsh, nothing that the script exported."""
    job = user.run(
        f"{SEEN}export EXPORTED=1; pbsdsh -- /bin/sh -c 'exec > $TMPDIR/x; env; pwd; umask; "
        'readlink /proc/self/fd/0; ps -o sid= -p $$ | tr -d " "; ps -o ppid= -p $$; echo $$\';'
        "cat $TMPDIR/x; echo --; pbs_tmrsh n2 /bin/sh -c 'cat $TMPDIR/x; echo end'; seen 1 '^end$'",
        *SCATTER,
        "-v",
        "GIVEN=a b",
    )
    first, second = job.out.removesuffix("end\n").split("--\n")
    for node, text in enumerate([first, second]):
        found = variables(text)
        assert found["PATH"] == "/bin:/usr/bin"
        assert found["GIVEN"] == "a b"
        assert found["PBS_NODENUM"] == str(node)
        assert found["PBS_TASKNUM"] == ("00000002", "20000001")[node]
        assert not {"EXPORTED", "USER", "LOGNAME", "SHELL", "LANG"} & found.keys()
        # Of all hosts' tasks, those on the primary host have no node file.
        assert ("PBS_NODEFILE" in found) == (node == 1)
        home, mask, stdin, session, parent, own = text.splitlines()[-6:]
        assert (home, mask, stdin) == (str(user.pbs.home), "0077", "/dev/null")
        assert session == own
        assert int(parent) == 1  # the mom


def test_pbsdsh_ends_with_0_whatever_its_tasks_do(user: User) -> None:
    """Section 3."""
    job = user.run(
        "pbsdsh -- /bin/sh -c 'exit 3'; echo $?; pbsdsh -n 1 -- /bin/sh -c 'kill -9 $$'; echo $?;"
        "pbsdsh -n 0 /no/such; echo $?; pbsdsh; echo $?; pbsdsh -u true; echo $?;"
        "until grep -q 'No such file' /proc/$$/fd/2; do sleep 0.1; done",
        *SCATTER,
    )
    assert sorted(job.lines[:2]) == [f"pbsdsh: task 0x0000000{n} exit status 3" for n in (0, 1)]
    assert job.lines[2:] == [
        "0",
        "pbsdsh: task 0x00000000 exit status 265",
        "0",
        "pbsdsh: task 0x00000000 exit status 254",
        "0",
        "1",
        "1",
    ]
    assert "No such file or directory" in job.err


def test_n_counts_lines_of_the_node_file_and_wraps(user: User) -> None:
    """Section 3."""
    job = user.run(
        f"{SEEN}i=0; for n in 0 1 2 3 99; do pbsdsh -n $n hostname; seen $((++i)) ^n; done",
        "-l",
        "select=2:ncpus=2:mpiprocs=2,place=scatter",
    )
    assert job.lines == ["n1", "n1", "n2", "n2", "n2"]


def test_task_output_never_goes_through_pbsdsh(user: User) -> None:
    """Section 3."""
    script = 'echo "[$(pbsdsh hostname)]"; pbsdsh hostname > /dev/null; seen 4 ^n'
    job = user.run(SEEN + script, *SCATTER)
    assert sorted(job.lines) == ["[]", "n1", "n1", "n2", "n2"]


def test_arguments_arrive_as_they_are(user: User) -> None:
    """Section 3: no shell is involved."""
    words = ["a b", "", "$HOME", "*", "it's", '"', "a;b", "é", "x" * 100_000]
    (user.folder / "words.json").write_text(json.dumps(words))
    show = "import sys, json; json.dump(sys.argv[1:], open(sys.argv[1] + '.seen', 'w'))"
    user.run(
        "#!/usr/bin/python3\n"
        "import json, os, subprocess\n"
        f"name = {str(user.folder)!r} + '/words.json'\n"
        f"subprocess.run(['pbsdsh', '-n', '1', '--', '/usr/bin/python3', '-c', {show!r}, name]"
        " + json.load(open(name)))\n",
        *SCATTER,
    )
    assert json.loads(user.read("words.json.seen"))[1:] == words


# --- 4. pbs_tmrsh --------------------------------------------------------------------


def test_pbs_tmrsh_returns_the_tasks_status_and_wants_the_exact_name(user: User) -> None:
    """Section 4."""
    with user.pbs.settings(domain="cluster.test"):
        job = user.run(
            "h=n2.cluster.test; for c in 'exit 3' 'kill -9 $$' 'kill $$' true; do "
            "pbs_tmrsh $h /bin/sh -c \"$c\"; echo $?; done; pbs_tmrsh $h 'echo a; echo b'; echo $?;"
            "pbs_tmrsh n2 true; echo $?; ip=$(getent hosts n2); pbs_tmrsh ${ip%% *} true; echo $?;"
            "pbs_tmrsh -x $h true; echo $?",
            *SCATTER,
        )
    assert job.lines == ["3", "9", "15", "0", "254", "255", "0", "255"]
    assert f'pbs_tmrsh: host "n2" is not a node in job <{job.id}>' in job.err


# --- 5. qsub and the other commands ---------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-l", "select=1:gpus=2"], 187, "qsub: Unknown resource: gpus"),
        (["-l", "walltime=1d"], 166, "Resource_List.walltime"),
        (["-l", "place=scatter"], 7, 'Cannot have "place" without "select"'),
        (["-l", "select=1", "-l", "mem=1gb"], 5, '"select" or "place", resource is: mem'),
        (["-q", "nosuch"], 170, "qsub: Unknown queue"),
        (["-N", "a b"], 2, "qsub: illegal -N value"),
        (["-N", "x" * 231], 2, "qsub: Job name is too long"),
        (["-J", "0-0"], 2, "qsub: illegal -J value"),
        (["-J", "0-10000"], 3, "Array job exceeds server or queue size limit"),
        (["-W", "depend=foo:1"], 2, "illegal -W value"),
        (["-v", "NOT_SET"], 1, "qsub: cannot send environment with the job"),
        (["/no/such/script"], 1, "No such file or directory"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else None,
)
def test_qsub_refuses(user: User, options: list[str], code: int, message: str) -> None:
    """Section 5: the error number's low byte, or 1, 2 and the like for usage."""
    refused = user.pbs.run("qsub", "-h", *options, cwd=user.folder, check=False)
    assert (refused.returncode, refused.stdout) == (code, "")
    assert message in refused.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["-l", "walltime=00:90:00"],
        ["-N", "1_+-.a"],
        ["-J", "1-9:3%2"],
    ],
    ids=" ".join,
)
def test_qsub_accepts_and_prints_only_the_id(user: User, options: list[str]) -> None:
    """Section 5."""
    done = run(
        ["qsub", "-h", *options], env=user.pbs.env, cwd=user.folder, stdin=subprocess.DEVNULL
    )
    assert re.fullmatch(r"\d+(\[\])?\.login\n", done.stdout)
    assert done.stderr == ""
    run(["qdel", done.stdout.strip()], env=user.pbs.env, check=False)


@pytest.mark.parametrize(
    ("text", "walltime"),
    [
        ("#PBS -l walltime=60", "00:01:00"),
        ("\n# comment\n:\n#PBS -N x -l walltime=60", "00:01:00"),
        ("#PBS -l walltime=60\n#PBS -l walltime=70", "00:01:00"),
        ("set -e\n#PBS -l walltime=60", None),
    ],
)
def test_directives_are_read_down_to_the_first_command(
    user: User, text: str, walltime: str | None
) -> None:
    """Section 5; of the same resource in two directives the first counts."""
    job = user.submit(f"{text}\ntrue", "-h")
    assert user.pbs.job(job)["Resource_List"].get("walltime") == walltime
    user.pbs.cancel(job)


def test_the_command_line_beats_directives_per_option_and_resource(user: User) -> None:
    """Section 5."""
    text = "#PBS -l select=2,walltime=60 -j eo\ntrue"
    job = user.submit(text, "-h", "-l", "walltime=5", "-l", "walltime=9", "-j", "oe")
    shown = user.pbs.job(job)
    assert shown["Resource_List"]["walltime"] == "00:00:09"
    assert shown["Resource_List"]["select"] == 2
    assert shown["Join_Path"] == "oe"
    user.pbs.cancel(job)


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ([], {"job.oN": "out\n", "job.eN": "err\n"}),
        (["-j", "oe"], {"job.oN": "out\nerr\n"}),
        (["-k", "oed", "-j", "oe", "-o", "live.log"], {"live.log": "out\nerr\n"}),
    ],
    ids=" ".join,
)
def test_where_output_goes(user: User, options: list[str], files: dict[str, str]) -> None:
    """Section 5."""
    number = user.submit("echo out; echo err >&2", *options)
    user.pbs.wait(number)
    found = {
        str(path.relative_to(user.folder)).replace(number.partition(".")[0], "N"): path.read_text()
        for path in user.folder.rglob("*")
        if path.is_file() and path.name != "job.sh"
    }
    assert found == files


def test_output_appears_at_the_end_unless_kept_and_live(user: User) -> None:
    """Section 5."""
    script = f"echo now; while [[ ! -e {user.folder}/go ]]; do sleep 0.1; done"
    kept = user.submit(script, "-k", "oed", name="kept")
    spooled = user.submit(script, name="spooled")
    user.until(f"kept.o{kept.partition('.')[0]}")
    user.pbs.wait(spooled, "R")
    assert not list(user.folder.glob("spooled.o*"))
    (user.folder / "go").touch()
    user.pbs.wait(kept)
    assert user.collect(spooled, name="spooled").out == "now\n"


@pytest.mark.parametrize(("last", "status"), [(0, 0), (2, 1)])
def test_arrays(user: User, last: int, status: int) -> None:
    """Sections 1, 2 and 5: members are 7[0].login; the status is that of the last to end."""
    job = user.submit(
        "echo $PBS_ARRAY_INDEX $PBS_ARRAY_ID $PBS_JOBID $PBS_NODEFILE\n"
        f"[[ $PBS_ARRAY_INDEX != {last} ]] || until [[ -e {user.folder}/go ]]; do sleep 0.1; done\n"
        "exit $PBS_ARRAY_INDEX",
        "-J",
        "0-2:2",
    )
    number = job.partition("[")[0]
    assert job == f"{number}[].login"
    user.pbs.wait(f"{number}[{2 - last}].login")
    (user.folder / "go").touch()
    shown = user.pbs.wait(job)
    assert (shown["Exit_status"], shown["array_state_count"].split()[0]) == (status, "Queued:0")
    for index in (0, 2):
        member = f"{number}[{index}].login"
        text = f"{index} {job} {member} /var/spool/pbs/aux/{member}\n"
        assert user.read(f"job.o{number}.{index}") == text
        assert user.pbs.job(member)["Exit_status"] == index
    unknown = user.pbs.run("qstat", f"{number}[1].login", check=False)
    assert (unknown.returncode, unknown.stderr) == (
        153,
        f"qstat: Unknown Job Id {number}[1].login\n",
    )


def test_an_array_runs_no_more_at_once_than_asked(user: User) -> None:
    """Section 5."""
    job = user.submit("sleep 600", "-J", "1-4%2")
    wait_until(lambda: "Running:2" in user.pbs.job(job).get("array_state_count", ""))
    shown = user.pbs.job(job)
    assert (shown["job_state"], shown["array_indices_remaining"]) == ("B", "3-4")
    user.pbs.cancel(job)
    assert user.pbs.wait(job)["Exit_status"] == 1


@pytest.mark.parametrize(
    ("kind", "status", "runs"),
    [
        ("afterok", 1, False),
        ("afternotok", 1, True),
        ("afterany", 1, True),
    ],
)
def test_dependencies(user: User, kind: str, status: int, runs: bool) -> None:
    """Section 5: a child whose condition cannot come true goes without a word."""
    end = user.folder / "end"
    parent = user.submit(f"until [ -e {end} ]; do sleep 0.1; done; exit {status}", name="parent")
    waiting = user.submit("true", "-W", f"depend={kind}:{parent}", name="waiting")
    assert user.pbs.job(waiting)["job_state"] == "H"
    end.touch()
    user.pbs.wait(parent)
    short = parent.partition(".")[0]
    late = user.submit("true", "-W", f"depend={kind}:{short}", name="late")
    for job in (waiting, late):
        assert ("Exit_status" in user.pbs.wait(job)) == runs


@pytest.mark.parametrize("history", [True, False])
def test_dependents_of_what_never_ran(user: User, history: bool) -> None:
    """Section 5: one in the queue keeps them for ever; one that waits takes them with it."""
    if not history:
        user.pbs.script("set", "history=false")
    try:
        parent = user.submit("true", "-h", name="parent")
        child = user.submit("true", "-W", f"depend=afterany:{parent}", name="child")
        other = user.submit("true", "-W", f"depend=afterany:{child}", name="other")
        user.pbs.cancel(parent)
        unknown = user.submit("true", "-W", "depend=afterok:99999", name="unknown")
        assert "Exit_status" not in user.pbs.wait(unknown)
        assert [user.pbs.job(job)["job_state"] for job in (child, other)] == ["H", "H"]
        late = user.submit("true", "-W", f"depend=afterany:{parent}", name="late")
        assert ("Exit_status" in user.pbs.wait(late)) == history  # else it comes to an unknown job
        user.pbs.cancel(child)
        assert "Exit_status" not in user.pbs.wait(other)
    finally:
        user.pbs.script("set", "history=true")


def test_what_a_server_is_and_how_settings_change(user: User) -> None:
    """Its table is as qstat -Q's, and a number of seconds is whole."""
    head, line, row = user.pbs.run("qstat", "-B").stdout.splitlines()
    assert " ".join(head.split()) == "Server Max Tot Que Run Hld Wat Trn Ext Status"
    assert [len(part) for part in line.split()] == [16, *[5] * 8, 11]
    assert (row.split()[0], row.split()[-1]) == ("login", "Active")
    shown = user.pbs.run("qstat", "-Bf").stdout
    assert re.search(r"node_fail_requeue = \d+\n", shown)
    command = [str(user.pbs.scripts / "pbs-set"), "kill_delay=three"]
    changed = subprocess.run(command, env=user.pbs.script_env, capture_output=True, check=False)
    assert (changed.returncode, changed.stderr.count(b"\n")) == (1, 1), changed.stderr


def test_qsub_inside_a_job_is_refused_unless_the_site_allows_it(user: User) -> None:
    """Section 5."""
    script = "echo true | qsub -N inner; echo $?; qdel $PBS_JOBID; echo $?"
    job = user.run(script)
    assert job.lines == ["175", "159"]
    assert "qsub: Bad UID for job execution" in job.err
    with user.pbs.settings(flatuid=True):
        job = user.run("echo true | qsub -N inner; echo $?")
    assert re.fullmatch(r"\d+\.login\n0\n", job.out)


def test_codes_of_the_other_commands(user: User) -> None:
    """Section 5."""
    done = user.run("true").id

    def code(*command: str) -> int:
        return user.pbs.run(*command, check=False).returncode

    assert [code(command, "99999") for command in ("qstat", "qdel", "qsig", "qalter")] == [153] * 4
    assert [code(command, done) for command in ("qstat", "qdel", "qsig")] == [35] * 3
    held = user.submit("true", "-h")
    assert code("qsig", held) == 168
    assert code("qsig", "-s", "NOSUCH", held) == 165
    assert code("qrerun", held) == 159
    assert code("qdel", "abc") == 1
    assert code("qalter", "-l", "walltime=70", held) == 0
    assert user.pbs.job(held)["Resource_List"]["walltime"] == "00:01:10"
    assert code("qdel", held) == 0


def test_qstat(user: User) -> None:
    """Section 5: text wraps at 80 columns with a tab; JSON is valid, digits are numbers."""
    job = user.submit("sleep 600", "-v", f"LONG={'x' * 200}", "-l", "select=1:ncpus=2", name="12")
    user.pbs.wait(job, "R")
    text = user.pbs.run("qstat", "-f", job).stdout
    assert text.startswith(f"Job Id: {job}\n    Job_Name = 12\n")
    assert max(len(line.expandtabs(8)) for line in text.splitlines()) <= 80
    assert f"LONG={'x' * 200}" in text.replace("\n\t", "")
    document = json.loads(user.pbs.run("qstat", "-x", "-f", "-F", "json", job).stdout)
    assert document["pbs_server"] == "login"
    shown = document["Jobs"][job]
    assert (shown["Job_Name"], shown["Resource_List"]["ncpus"]) == ("12", 2)
    assert shown["Variable_List"]["LONG"] == "x" * 200
    # Of several operands JSON has the jobs of the first alone; -F dsv all, a line each.
    other = user.submit("true", "-h", "-v", r"A=x|y\,z")
    document = json.loads(user.pbs.run("qstat", "-f", "-F", "json", other, job).stdout)
    assert [*document["Jobs"]] == [other]
    lines = user.pbs.run("qstat", "-f", "-F", "dsv", job, other).stdout.splitlines()
    assert [line.partition("|")[0] for line in lines] == [f"Job Id: {job}", f"Job Id: {other}"]
    assert "|Job_Name=12|" in lines[0]
    assert "|Resource_List.ncpus=2|" in lines[0]
    assert r"A=x\|y\,z" in lines[1]
    user.pbs.run("qdel", "-W", "force", job, other)
    assert user.pbs.wait(job)["Exit_status"] == 265


# --- 6. Signals and the end of a job ---------------------------------------------------

# A task that logs its signals and, at the first SIGTERM, saves for a while.
SAVER = """#!/usr/bin/python3
import os, signal, sys, time
log, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
def note(what):
    with open(log, "a") as file:
        print(name, what, file=file)
def save(number, frame):
    note(signal.Signals(number).name)
    if not save.begun:
        save.begun = True
        time.sleep(seconds)
        note("saved")
        os._exit(0)
save.begun = False
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, save)
note("up")
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def saver(user: User) -> str:
    """The command line of a saver that logs into `log` of the folder; name and time follow."""
    path = user.folder / "saver.py"
    path.write_text(SAVER)
    path.chmod(0o755)
    return f"{path} {user.folder}/log"


def test_termination_goes_to_the_primary_hosts_sessions_only(user: User, saver: str) -> None:
    """Section 6: pbsdsh forwards to the others; who traps gets kill_delay to save."""
    both_saved = f"until [ $(grep -c saved {user.folder}/log) = 2 ]; do sleep 0.1; done"
    job = user.submit(
        f"trap 'echo script SIGTERM >> {user.folder}/log' TERM\n"
        f"pbsdsh -n 0 -- {saver} first 0.8 & pbsdsh -n 1 -- {saver} second 0.8 &\n"
        f"pbs_tmrsh n2 {saver} alone 0.8 & wait; wait; wait; wait; {both_saved}",
        *SCATTER,
    )
    user.until("log", lines=3)
    user.pbs.cancel(job)
    done = user.collect(job)
    log = user.read("log").splitlines()
    # The mom and pbsdsh both signal it; two signals at a time may count as one.
    assert log.count("first SIGTERM") in (1, 2)
    assert log.count("second SIGTERM") == 1
    assert log.count("script SIGTERM") == 1
    assert {"first saved", "second saved"} <= set(log)
    assert not any(line.startswith("alone") for line in log if line != "alone up")
    assert done.status == 271
    assert "pbsdsh: killing task 0x00000002 signal 15" in done.lines
    assert user.pbs.processes(re.escape(str(user.folder))) == {"n1": [], "n2": [], "n3": []}


def test_walltime(user: User, saver: str) -> None:
    """Section 6: SIGTERM some time after the limit, SIGKILL kill_delay later, status -29."""
    with user.pbs.settings(kill_delay=10):
        script = f"trap : TERM; {saver} bg 0.5 & wait; wait; sleep 600"
        number = user.submit(script, "-l", "walltime=600")
        user.until("log")
        user.pbs.run("qalter", "-l", "walltime=1", number)
        job = user.collect(number)
    assert job.status == -29
    assert re.search(r"^=>> PBS: job killed: walltime \d+ exceeded limit 1$", job.err, re.MULTILINE)
    assert "bg saved" in user.read("log")
    assert job.shown["comment"].endswith(" and exceeded resource walltime")


def test_on_other_hosts_a_dead_task_takes_its_session_along(user: User, saver: str) -> None:
    """Section 6: there the children of a task's shell cannot save, on the primary host they can."""
    job = user.submit(
        "trap : TERM\nfor n in 0 1; do "
        f'pbsdsh -n $n -- /bin/sh -c "{saver} child$n $((n * 600)).5; true" & done; '
        f"pbsdsh -n 1 -- {saver} itself 0.5 & wait; wait; "
        f"until [ $(grep -c saved {user.folder}/log) = 2 ]; do sleep 0.1; done",
        *SCATTER,
    )
    user.until("log", lines=3)
    user.pbs.cancel(job)
    user.collect(job)
    assert {"child0 saved", "itself saved"} <= set(user.read("log").splitlines())
    assert "child1 saved" not in user.read("log")


def test_what_remains_at_the_scripts_end_is_killed_but_not_other_sessions(
    user: User, saver: str
) -> None:
    """Section 6."""
    job = user.run(
        f"pbsdsh -o -- {saver} task 1; {saver} bg 1 & setsid {saver} own 1 & "
        f"pbsdsh -n 1 -- /bin/sh -c 'setsid {saver} far 1 & "
        f"until grep -q far {user.folder}/log; do sleep 0.1; done' & "
        f"while [[ $(wc -l < {user.folder}/log) -lt 5 ]]; do sleep 0.1; done",
        *SCATTER,
    )
    assert job.status == 0
    assert "SIGTERM" not in user.read("log")
    left = user.pbs.processes(re.escape(str(user.folder)))
    assert [line.split()[-2] for line in left["n1"]] == ["own"]
    assert [line.split()[-2] for line in left["n2"]] == ["far"]
    for node in ("n1", "n2"):
        user.pbs.on(node, "pkill", "-9", "-f", str(user.folder))


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 300", 44), ("kill -9 $$", 137)],
)
def test_exit_status(user: User, script: str, status: int) -> None:
    """Section 5: of the script by way of its shell, or 256 and the shell's own signal."""
    assert user.run(script).status == status


def test_without_a_history_a_member_is_shown_with_its_arrays_attributes(user: User) -> None:
    """Section 5."""
    waits = f"until [[ -e {user.folder}/go ]]; do sleep 0.2; done"
    script = f"[[ $PBS_ARRAY_INDEX != 1 ]] || exit 3; {waits}"
    user.pbs.script("set", "history=false")
    try:
        array = user.submit(script, "-J", "0-1")
        member = array.replace("[]", "[1]")
        wait_until(lambda: user.pbs.job(member).get("job_state") == "X")
        shown = user.pbs.job(member)
        listed = user.pbs.run("qstat", "-t", "-f", "-F", "dsv", array).stdout
        (user.folder / "go").touch()
        wait_until(lambda: user.pbs.state(array) == "F")
        gone = user.pbs.run("qstat", "-f", member, check=False)
    finally:
        user.pbs.script("set", "history=true")
    assert shown["comment"] == "Subjob finished"
    assert shown["Exit_status"] == 1  # of the array, so far
    assert not {"exec_host", "array_id"} & {*shown}
    assert f"Job Id: {member}|" in listed
    assert gone.returncode == 153


def test_qrerun_by_an_operator(user: User) -> None:
    """Section 6: the same id, run_count 2, output appended, nothing in the environment."""
    runs = f"{user.folder}/runs"
    again = f"[ $(wc -l < {runs}) = 2 ]"  # the first run goes on until it is ended
    job = user.submit(f"echo run; echo >> {runs}; {again} || sleep 600", "-k", "oed")
    user.until("runs")
    with user.pbs.settings(operators=True):
        user.pbs.run("qrerun", job)
    done = user.collect(job)
    assert (done.out, done.shown["run_count"], done.status) == ("run\nrun\n", 2, 0)


# --- 7. Node failure -------------------------------------------------------------------


def test_a_lost_second_host_lets_the_job_end_well(user: User) -> None:
    """Section 7: its tasks count as ended after max_poll_downtime, without an error."""
    with user.pbs.settings(down_delay=0.2, max_poll_downtime=1.0):
        job = user.submit(
            f"pbsdsh -- /bin/sh -c 'echo >> {user.folder}/up; [ $PBS_NODENUM = 0 ] || sleep 600';"
            "echo rc $?",
            *SCATTER,
        )
        user.until("up", lines=2)
        user.pbs.fail("n2")
        wait_until(lambda: "down" in user.pbs.run("pbsnodes", "n2").stdout)
        done = user.collect(job)
        user.pbs.heal("n2")
    assert (done.status, done.out) == (0, "rc 0\n")


def test_a_job_goes_on_without_a_second_host_if_it_tolerates_that(user: User) -> None:
    """Section 7: else it is killed, though its script goes on, and begins again."""
    script = f"echo >> {user.folder}/up; sleep 4; echo went on"
    with user.pbs.settings(down_delay=0.2, max_poll_downtime=0.5):
        tolerant = user.submit(script, *SCATTER, "-W", "tolerate_node_failures=all")
        user.until("up")
        user.pbs.fail("n2")
        done = user.collect(tolerant)
        user.pbs.heal("n2")
        assert (done.status, done.out, done.shown["run_count"]) == (0, "went on\n", 1)
        wait_until(lambda: "free" in user.pbs.run("pbsnodes", "n2").stdout)
        ends = user.submit(script, *SCATTER, "-r", "n")
        user.until("up", lines=2)
        user.pbs.fail("n2")
        assert user.collect(ends).status == -14
        user.pbs.heal("n2")
        wait_until(lambda: "free" in user.pbs.run("pbsnodes", "n2").stdout)
        again = user.submit(script, *SCATTER, "-k", "oed")
        user.until("up", lines=3)
        user.pbs.fail("n2")
        done = user.collect(again)
        user.pbs.heal("n2")
    assert (done.status, done.out, done.shown["run_count"]) == (0, "went on\n", 2)


def test_a_lost_primary_host_requeues_the_job(user: User) -> None:
    """Section 7; with -r n the job ends with -20."""
    script = f"hostname >> {user.folder}/up; [[ $(hostname) == n2 ]] || sleep 600"
    with user.pbs.settings(down_delay=0.2, node_fail_requeue=0.3):
        again = user.submit(script, *SCATTER)
        never = user.submit("hostname; sleep 600", "-r", "n")
        user.until("up")
        user.pbs.wait(never, "R")
        user.pbs.fail("n1")
        shown = user.pbs.wait(again)
        assert (shown["Exit_status"], shown["run_count"]) == (0, 2)
        assert shown["exec_host"] == "n2/0+n3/0"
        assert user.pbs.wait(never)["Exit_status"] == -20
        user.pbs.heal("n1")
    wait_until(lambda: "free" in user.pbs.run("pbsnodes", "n1").stdout)


# --- the hosts themselves --------------------------------------------------------------


def test_a_cluster_goes_away_with_the_process_that_brought_it_up(pbs: Pbs) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom cluster_fixtures import Pbs, running\n"
        "for cluster in running(Pbs):\n"
        "    print(cluster.run_folder, flush=True)\n    time.sleep(600)"
    )
    env = os.environ | {"PYTHONPATH": str(Path(cluster_fixtures.__file__).parent)}
    child = subprocess.Popen(
        [sys.executable, "-c", program], env=env, stdout=-1, stderr=-3, text=True
    )
    assert child.stdout
    folder = Path(child.stdout.readline().strip())
    assert (folder / "bin" / "qsub").exists()
    spaces = Path("/run/netns")
    prefix = f"jg-pbs-{child.pid}-"
    assert sum(space.name.startswith(prefix) for space in spaces.iterdir()) == 5
    child.kill()
    child.communicate(timeout=PATIENCE)
    wait_until(lambda: not folder.exists())
    assert not [space for space in spaces.iterdir() if space.name.startswith(prefix)]


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_an_ordinary_user_skips_but_ci_fails(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="pbs cluster: needs root"):
        next(running(Pbs))
