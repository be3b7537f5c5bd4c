"""`--host`: by ssh to an sshd of the test's own on this machine, with its own keys."""

import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_fixtures import wait_until
from jobs import JOBGEN, jobgen, submit
from support import ROOT

from jobgen import __version__
from jobgen.errors import UsageError
from jobgen.jobs.record import JobRecord
from jobgen.machine.transfer import pack_files, unpack_files
from jobgen.process import get_start

pytestmark = pytest.mark.slow

SBIN = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"
MISSING = [name for name in ("sshd", "ssh", "ssh-keygen") if not shutil.which(name, path=SBIN)]
if MISSING and os.environ.get("CI") != "true":
    pytest.skip(f"needs {', '.join(MISSING)}", allow_module_level=True)


SLURM = "name: a\nscheduler: slurm\nresources: {nodes: 1}\nrun: {script: train.py}\n"


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with `bin/ssh`, which knows `login.site`, and what a login shell there reads."""
    folder = tmp_path_factory.mktemp("login")
    for name in ("host", "user"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(argv, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nPasswordAuthentication no\n"
        f"SetEnv BASH_ENV={folder}/env\n"
    )
    (folder / "ssh_config").write_text(
        f"Host login.site\nHostName 127.0.0.1\nPort {port}\nUser {pwd.getpwuid(os.geteuid())[0]}\n"
        f"IdentityFile {folder}/user\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
        "StrictHostKeyChecking yes\nBatchMode yes\n"
        f"Host lost.site\nHostName 127.0.0.1\nPort 9\nBatchMode yes\n"
    )
    executable(folder / "bin" / "ssh", f'exec {shutil.which("ssh")} -F {folder}/ssh_config "$@"')
    executable(folder / "there" / "jobgen", f'exec {sys.executable} -m jobgen "$@"')
    (folder / "env").write_text(
        f"export PATH={folder}/there:{ROOT}/tests/helpers/bin:$PATH PYTHONPATH={ROOT}\n"
        f"export FAKE_LOG={folder}/calls\n"
    )
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    sshd = str(shutil.which("sshd", path=SBIN))
    server = subprocess.Popen(
        [sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.PIPE, text=True
    )
    try:
        end = time.monotonic() + 300
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert server.poll() is None, server.communicate()[1]
                assert time.monotonic() < end
                time.sleep(0.1)
        yield folder
    finally:
        server.terminate()
        server.communicate()


class Ran:
    """A command with --host, from the folder `here`, for the folder `there`."""

    def __init__(self, login: Path, tmp_path: Path) -> None:
        self.here, self.there = tmp_path / "here", tmp_path / "there"
        self.here.mkdir()
        self.env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.env["PATH"] = f"{login}/bin:{os.environ['PATH']}"

    def start(self, command: str, *words: str, host: str = "login.site") -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*JOBGEN, command, "--host", f"{host}:{self.there}", *words],
            env=self.env,
            cwd=self.here,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, command: str, *words: str, host: str = "login.site") -> tuple[int, str, str]:
        process = self.start(command, *words, host=host)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err


@pytest.fixture
def on_host(login: Path, tmp_path: Path) -> Ran:
    return Ran(login, tmp_path)


def test_a_spec_goes_there_with_what_it_needs_and_is_submitted_there(on_host: Ran) -> None:
    files = {
        "specs/job.yaml": "extends: base.yaml\nname: a\nrun: {script: 'my train.py'}\n",
        "specs/base.yaml": "scheduler: slurm\nresources: {nodes: 2}\nrun: {args: {lr: 1}}\n",
        "my train.py": "print(1)\n",
        ".jobgen/sites/mine.yaml": "scheduler: slurm\n",
        "large.bin": "stays here\n",
    }
    for name, text in files.items():
        (on_host.here / name).parent.mkdir(parents=True, exist_ok=True)
        (on_host.here / name).write_text(text)
    code, out, err = on_host("submit", "specs/job.yaml", "--set", "resources.nodes=3")
    assert (code, out) == (0, "4242\n"), err
    assert "run folder: runs/a/4242\n" in err
    assert re.search(r"next: jobgen logs -f --host \S+ 4242, jobgen status --host \S+ 4242\n", err)
    for name, text in files.items():
        sent = on_host.there / name
        assert sent.exists() == (name != "large.bin")
        assert name == "large.bin" or sent.read_text() == text
    record = json.loads((on_host.there / "runs/a/4242/job.json").read_text())
    assert record["folder"] == str(on_host.there)
    assert "#SBATCH --nodes=3" in (on_host.there / "runs/a/4242/script").read_text()
    assert not (on_host.here / "runs").exists()


def test_what_is_wrong_has_the_same_words_and_code_as_there(on_host: Ran) -> None:
    (on_host.here / "job.yaml").write_text("name: a\nresources: {}\n")
    code, out, err = on_host("submit")
    assert (code, out) == (3, "")
    assert "job.yaml:" in err
    assert not on_host.there.exists()  # it was seen here
    on_host.there.mkdir()
    code, _, err = on_host("status", "99")
    assert code == 2
    assert "no job '99' below ./runs" in err
    code, _, err = on_host("status", "99", host="lost.site")
    assert code == 6
    assert err.endswith("ssh to lost.site failed with code 255\n")
    (on_host.here / "job.yaml").write_text(SLURM)
    code, _, err = on_host("submit", host="lost.site")
    assert code == 6
    assert err.endswith("failed with code 255; nothing was submitted on lost.site\n")
    code, _, err = on_host("status", "99", host="-oProxyCommand=true")
    assert code == 2
    assert "write it as login.site or me@login.site:FOLDER" in err
    code, _, err = on_host("submit", host="me@login.site:22")
    assert code == 2
    assert "ports go into ~/.ssh/config" in err
    code, _, err = on_host("submit", "job.yaml", "--dry-run", "--set", "resources.nodes=0")
    assert code == 3
    (on_host.here / "job.yaml").write_text(SLURM + "send: [../x.py]\n")
    code, _, err = on_host("submit")
    assert (code, err) == (2, "../x.py: outside of this folder; jobgen will not send it\n")
    (on_host.here / "job.yaml").write_text(SLURM)
    on_host.there = on_host.there / "nowhere"
    code, _, err = on_host("list")
    assert code == 2
    assert f"there is no folder {on_host.there} on login.site; jobgen submit --host makes" in err


@pytest.mark.parametrize("there", [0o2775, 0o700, 0o777])
@pytest.mark.parametrize("here", [0o700, 0o777])
def test_folders_there_keep_their_modes_and_owners(on_host: Ran, here: int, there: int) -> None:
    for folder, mode in ((on_host.here, here), (on_host.there, there)):
        (folder / "exp").mkdir(parents=True)
        (folder / "exp").chmod(mode)
        folder.chmod(mode)
        os.chown(folder, -1, 1)
    (on_host.here / "base.yaml").write_text(SLURM)
    (on_host.here / "exp" / "job.yaml").write_text("extends: ../base.yaml\n")
    (on_host.here / "train.py").write_text("pass\n")
    (on_host.here / "train.py").chmod(0o700)
    (on_host.there / "train.py").write_text("old\n")
    (on_host.there / "train.py").chmod(0o664)
    os.utime(on_host.there / "train.py", (1, 1))
    assert on_host("submit", "exp/job.yaml")[0] == 0
    for folder in (on_host.there, on_host.there / "exp"):
        assert stat.S_IMODE(folder.stat().st_mode) == there
    assert on_host.there.stat().st_gid == 1
    assert stat.S_IMODE((on_host.there / "train.py").stat().st_mode) == 0o664
    assert (on_host.there / "train.py").read_text() == "pass\n"


def test_a_newer_file_there_is_not_replaced(on_host: Ran) -> None:
    (on_host.here / "job.yaml").write_text(SLURM)
    (on_host.here / "train.py").write_text("here\n")
    on_host.there.mkdir()
    (on_host.there / "train.py").write_text("there\n")
    os.utime(on_host.there / "train.py", (time.time() + 60, time.time() + 60))
    code, out, err = on_host("submit")
    assert (code, out) == (2, "")
    assert "train.py: newer on " in err
    assert err.endswith("jobgen on login.site exited with 2\n")
    assert (on_host.there / "train.py").read_text() == "there\n"
    assert not (on_host.there / "job.yaml").exists()
    os.utime(on_host.here / "train.py", (time.time() + 90, time.time() + 90))
    assert on_host("submit")[0] == 0
    assert (on_host.there / "train.py").read_text() == "here\n"


def test_what_the_program_needs_goes_too(on_host: Ran) -> None:
    here = on_host.here
    (here.parent / "base.yaml").write_text("account: ours\nscheduler: slurm\n")
    (here / "job.yaml").write_text(
        "extends: ../base.yaml\nname: a\nresources: {}\nrun: {script: train.py}\n"
        "send: [helper.py, pkg]\n"
    )
    (here.parent / "real.py").write_text("")
    (here / "train.py").symlink_to("../real.py")
    (here / "pkg").mkdir()
    for name in ("helper.py", "other.py", "pkg/__init__.py", "pkg/a.py", "known.txt", "ours.log"):
        (here / name).write_text("")
    code, _, err = on_host("submit")
    assert code == 0, err
    assert "job.yaml: sent as one file with ../base.yaml" in err
    assert not (on_host.there / "train.py").is_symlink()
    assert (on_host.there / "pkg" / "a.py").is_file()
    assert not (on_host.there / "other.py").exists()
    assert "#SBATCH --account=ours" in (on_host.there / "runs/a/4242/script").read_text()
    (here / ".gitignore").write_text("*.log\n")
    for words in (["init", "-q"], ["add", "known.txt", "train.py"]):
        subprocess.run(["git", *words], cwd=here, check=True)
    assert on_host("submit", "--again", "-J", "b")[0] == 0
    assert not (on_host.there / "known.txt").exists(), "send lists others"
    code, _, err = on_host("submit", "--again", "-J", "c", "--set", "send=null")
    assert (code, "no git repository" in err) == (0, False), err
    for name in ("known.txt", "other.py", "ours.log"):  # known, new, ignored
        assert (on_host.there / name).exists() == (name != "ours.log")


def test_the_files_that_commands_start_go_too(on_host: Ran) -> None:
    here = on_host.here
    (here / "job.yaml").write_text(
        "name: a\nscheduler: slurm\nresources: {nodes: 3}\nroles:\n"
        "  server: {nodes: 1, run: {command: [python3, -u, srv.py, --config=a.json, -p]}}\n"
        "  judge: {nodes: 1, run: {command: bash tools/judge.sh b.txt}}\n"
        "  train: {nodes: 1, run: {script: train.py, args: {data: c.txt, config: d.txt}}}\n"
        "send: [./d.txt]\n"
    )
    (here / "tools").mkdir()
    files = ("srv.py", "a.json", "tools/judge.sh", "b.txt", "train.py", "c.txt", "d.txt")
    for name in files:
        (here / name).write_text("")
    code, _, err = on_host("submit")
    assert code == 0, err
    for name in files:
        assert (on_host.there / name).exists() == (name not in ("a.json", "b.txt", "c.txt")), name


def test_the_users_own_config_counts_there(on_host: Ran) -> None:
    (on_host.here / "job.yaml").write_text(SLURM)
    (on_host.here / "train.py").write_text("")
    config = on_host.here.parent / "config" / "jobgen"
    (config / "sites").mkdir(parents=True)
    (config / "config.yaml").write_text("account: '12'\n")
    on_host.env["XDG_CONFIG_HOME"] = str(config.parent)
    code, out, err = on_host("submit", "--dry-run")
    assert code == 0, err
    assert "from your own config: account=" in err
    assert "#SBATCH --account=12\n" in out
    (config / "sites" / "mine.yaml").write_text("scheduler: slurm\n")
    (on_host.here / "job.yaml").write_text(SLURM.replace("scheduler: slurm", "site: mine"))
    code, _, err = on_host("submit")
    assert code == 3
    assert "sites/mine.yaml exists only on this machine; copy it to .jobgen/sites/mine.yaml" in err


def test_a_rerun_there_offers_lines_for_here(on_host: Ran) -> None:
    (on_host.here / "job.yaml").write_text(
        "name: a\nscheduler: slurm\nresources: {}\nrun: {command: [hostname]}\n"
    )
    assert on_host("submit")[0] == 0
    code, _, err = on_host("rerun", "4242", "--again", "--set", "name=b")
    assert code == 0, err
    assert re.search(r"next: jobgen logs -f --host \S+ 4242, jobgen status --host \S+ 4242\n", err)


def test_what_the_hosts_bashrc_prints_does_no_harm(on_host: Ran, login: Path) -> None:
    on_host.there.mkdir()
    env = (login / "env").read_text()
    (login / "env").write_text(env + "echo welcome; echo careful >&2\n")
    try:
        code, out, err = on_host("list", "--json")
    finally:
        (login / "env").write_text(env)
    assert (code, json.loads(out)) == (0, {"jobs": []})
    assert "welcome" in err


def test_another_version_there_is_told(on_host: Ran, login: Path) -> None:
    on_host.there.mkdir()
    program = login / "there" / "jobgen"
    text = program.read_text()
    program.write_text(
        text.replace("exec", '[ "$1" = --version ] && echo jobgen 0.0.9 && exit\nexec')
    )
    try:
        code, _, err = on_host("list")
    finally:
        program.write_text(text)
    assert code == 0
    warning = f"warning: jobgen 0.0.9 is on login.site, and jobgen {__version__} here"
    assert err.splitlines()[0] == warning


@pytest.mark.parametrize("when", ["at once", "receive", "submit"])
def test_a_killed_ssh_leaves_no_old_code_and_no_silent_job(
    on_host: Ran, login: Path, when: str
) -> None:
    """It is killed when the host begins a command; the next one says what became of it."""
    (on_host.here / "job.yaml").write_text(SLURM)
    (on_host.here / "train.py").write_text("new\n")
    on_host.there.mkdir()
    (on_host.there / "train.py").write_text("old\n")
    os.utime(on_host.there / "train.py", (1, 1))
    program, ssh = login / "there" / "jobgen", login / "bin" / "ssh"
    texts = {path: path.read_text() for path in (program, ssh)}
    if when == "at once":
        ssh.write_text("#!/bin/sh\nkill -9 $$\n")
    else:
        ssh.write_text(texts[ssh].replace("exec ", f"echo $$ >{login}/pid\nexec ", 1))
        kill = f'[ "$1" = {when} ] && kill -9 "$(cat {login}/pid)" && sleep 1\nexec'
        program.write_text(texts[program].replace("exec", kill))
    try:
        code, out, err = on_host("submit")
    finally:
        for path, text in texts.items():
            path.write_text(text)
    assert (code, out) == (6, "")
    assert "ssh to login.site was killed by signal 9; " in err
    end = time.monotonic() + 300
    while commands_there(on_host.there):
        assert time.monotonic() < end
        time.sleep(0.1)
    ran = list(on_host.there.glob("runs/a/*/job.json"))
    if when == "submit":
        check = f"check with jobgen list --host login.site:{on_host.there}"
        assert f"the job may have been submitted on login.site; {check}" in err
        assert (on_host.there / "train.py").read_text() == "new\n"
    else:
        assert "nothing was submitted on login.site" in err
        assert not ran
    code, out, err = on_host("submit", "--again")
    assert code == 0, err
    assert (on_host.there / "train.py").read_text() == "new\n"


def test_half_of_the_files_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_text(name)
    line = pack_files(["a", "b"], {})
    for length in range(0, len(line), 7):
        with pytest.raises(UsageError, match="not arrived whole"):
            unpack_files(line[:length], "there")
    assert not Path("there").exists()
    unpack_files(line, "there")
    assert Path("there/b").read_text() == "b"
    with pytest.raises(UsageError, match="outside"):
        unpack_files(line.replace('"a"', '"../a"'), "there")


def test_there_must_be_a_jobgen_there(on_host: Ran, login: Path) -> None:
    on_host.there.mkdir()
    program = login / "there" / "jobgen"
    program.rename(f"{program}-away")
    try:
        code, _, err = on_host("status", "1")
    finally:
        Path(f"{program}-away").rename(program)
    assert code == 6
    assert "jobgen is not in PATH of a login shell on login.site (bash -l); install it" in err


@pytest.fixture
def job(on_host: Ran) -> Iterator[JobRecord]:
    """A job there that runs as long as a process does."""
    script = subprocess.Popen(["sleep", "1000"])
    began = get_start(script.pid)
    made = JobRecord("7", "a", "local", str(on_host.there), time.time(), (), script.pid, began)
    made.save()
    log = made.run_dir / "logs" / "n1" / "rank-0.out"
    log.parent.mkdir(parents=True)
    log.write_text("é 1\n")
    yield made
    script.kill()
    script.wait()


def test_a_job_is_seen_followed_and_ended_there(on_host: Ran, job: JobRecord) -> None:
    assert on_host("status", "7")[:2] == (0, "running\n")
    following = on_host.start("logs", "7", "-f")
    assert following.stdout
    assert following.stdout.readline() == "n1 rank 0 | é 1\n"
    assert on_host("cancel", "7")[:2] == (0, "")
    assert following.communicate(timeout=300)[0] == ""
    assert following.returncode == 0
    assert on_host("cancel", "7")[0] == 5


@pytest.mark.parametrize("lines", [10, 100_000])
def test_a_pipe_that_is_closed_here_leaves_nothing_on_stderr(
    on_host: Ran, job: JobRecord, lines: int
) -> None:
    """It had the rest of the output behind an error of bash there, as a page of a report had."""
    (job.run_dir / "logs" / "n1" / "rank-0.out").write_text("step 1\n" * lines)
    printing = on_host.start("logs", "7")
    assert printing.stdout
    printing.stdout.close()
    assert printing.communicate(timeout=300)[1] == ""
    assert printing.returncode == 1, "as without --host"


def test_the_page_of_a_report_comes_here(on_host: Ran, job: JobRecord) -> None:
    code, out, err = on_host("report", "-o", "-", "7")
    assert code == 0, err
    assert out.splitlines()[-1] == "</html>"
    assert "a 7" in json.loads(on_host("report", "7", "--json")[1])["title"]
    for words in (("-o", "my page.html"), ("-omy page.html",), ("--output=a.html", "--text")):
        code, _, err = on_host("report", "7", *words)
        assert code == 2
        assert "would be written on the host; have it printed, with -o - > " in err
    assert on_host("report", "8", "-o", "-")[0] == 2
    assert not list(on_host.there.rglob("*.html"))
    assert not list(on_host.here.iterdir())
    assert on_host("report", "7")[:2] == (0, "runs/a/7/report.html\n")


def commands_there(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(folder):
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_command_there_ends_with_the_one_here(on_host: Ran, job: JobRecord, how: int) -> None:
    following = on_host.start("logs", "7", "-f")
    assert following.stdout
    assert following.stdout.readline() == "n1 rank 0 | é 1\n"
    assert any("logs" in command for command in commands_there(on_host.there))
    if how == signal.SIGINT:
        os.killpg(following.pid, how)  # as a terminal does
        following.communicate(timeout=300)
        assert following.returncode == 130
    else:
        following.kill()
        following.communicate(timeout=300)
    end = time.monotonic() + 300
    while commands_there(on_host.there):
        assert time.monotonic() < end, commands_there(on_host.there)
        time.sleep(0.1)
    assert get_start(job.pid) == job.started  # the job goes on


def test_a_port_of_a_job_there_is_forwarded_through_the_login_node(on_host: Ran) -> None:
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        port, local = one.getsockname()[1], other.getsockname()[1]
    serve = f"echo hello >index.html; exec python3 -m http.server {port} --bind 127.0.0.1"
    content = {
        "name": "web",
        "resources": {"walltime": "5m"},
        "launch": {"mode": "plain"},
        "run": {"command": ["bash", "-c", serve]},
    }
    job = submit(content, scheduler="local", cwd=on_host.there)
    wait_until(lambda: (on_host.there / "index.html").exists(), timeout=300)
    forward = on_host.start("forward", job.id, str(port), "--local-port", str(local))
    try:
        wait_until(lambda: get(f"http://127.0.0.1:{local}/") == "hello\n", timeout=300)
    finally:
        forward.terminate()
        _, err = forward.communicate(timeout=300)
    before, _, after = err.partition("ssh connects to login.site, which the site must allow")
    assert "Ctrl-C" not in before  # the address is told once ssh listens there
    assert f"http://127.0.0.1:{local}/ is port {port} of login.site; Ctrl-C ends it\n" in after
    assert get(f"http://127.0.0.1:{local}/") == ""  # no ssh is left
    code, out, _ = on_host("forward", job.id, str(port), "--print")
    assert code == 0
    assert out.endswith(f":localhost:{port} login.site\n")
    jobgen("cancel", job.id, cwd=on_host.there, env=os.environ)
    code, _, err = on_host("forward", job.id, str(port))
    assert (code, "it has no node to enter" in err) == (2, True)


def get(address: str) -> str:
    """The page at an address; nothing if nobody answers."""
    try:
        with urllib.request.urlopen(address, timeout=60) as page:
            return str(page.read().decode())
    except OSError:
        return ""
