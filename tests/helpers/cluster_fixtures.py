"""Clusters for tests: a real Slurm (`slurm`) and an emulated PBS (`pbs`), three nodes each.

Both need root on Linux, as their hosts are namespaces; for an ordinary user the tests that use
them are skipped. With CI=true in the environment they fail instead: nothing is skipped there.

A cluster is this test process's own: two test runs at a time do not meet. It goes away when the
process does, however that ends.
"""

import contextlib
import importlib.util
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLUSTERS = ROOT / "tests" / "clusters"
Result = subprocess.CompletedProcess[str]
#: seconds; a wait returns when the event comes, which takes minutes on a machine of load 40
PATIENCE = 240.0


_NUMBERS = itertools.count()


class Cluster:
    """A running cluster: its commands, its nodes, its jobs."""

    kind: str  # slurm or pbs: the scripts' prefix
    scripts: Path  # the folder they are in
    # Variables of a job that the tests themselves may run in.
    foreign = re.compile(r"(SLURM|SBATCH|SRUN|SALLOC|PBS|PMI|OMPI)_|(NCPUS|OMP_NUM_THREADS)$")

    def __init__(self, run: Path, options: Sequence[str] = ()) -> None:
        self.run_folder = run
        self.nodes = ("n1", "n2", "n3")
        kind = self.kind.upper()
        own = {k: v for k, v in os.environ.items() if not self.foreign.match(k)}
        #: for subprocesses: the cluster's commands come first in PATH, for its own scripts too
        self.env = own | {"PATH": f"{run}/bin:{own['PATH']}"}
        self.script_env = self.env | {
            f"JOBGEN_{kind}_RUN": str(run),
            # Names of network namespaces are the machine's: they carry the process id, and a number
            # where a process has several clusters.
            f"JOBGEN_{kind}_PREFIX": f"jg-{self.kind}-{os.getpid()}-{next(_NUMBERS)}",
        }
        self._options = options
        self._guard: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        """Bring it up. From then on a guard waits for the end of this process."""
        down = [str(self.scripts / f"{self.kind}-down"), "--purge", "--quiet"]
        # It reads until this process, the only one with the other end, closes it or dies. In
        # a session of its own no Ctrl-C reaches it.
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; exec "$@"', "guard", *down],
            stdin=subprocess.PIPE,
            env=self.script_env,
            start_new_session=True,
        )
        up = subprocess.run(
            [str(self.scripts / f"{self.kind}-up"), *self._options],
            env=self.script_env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
        )
        if up.returncode:
            pytest.fail(f"{self.kind}-up failed:\n{up.stdout}{up.stderr}", pytrace=False)

    def down(self) -> None:
        if self._guard and self._guard.stdin:
            self._guard.stdin.close()
            self._guard.wait()

    # --- hosts ---------------------------------------------------------------------

    def script(self, name: str, *arguments: str) -> Result:
        """One of the cluster's own scripts: `fail`, `heal`, `on`, `set`."""
        return run(
            [str(self.scripts / f"{self.kind}-{name}"), *arguments],
            env=self.script_env,
        )

    def on(self, host: str, *command: str) -> str:
        """What a command prints on a host."""
        return self.script("on", host, *command).stdout

    def fail(self, node: str, *, link_only: bool = False) -> None:
        """Cut a node's power; or its network alone, and it still shares the folders."""
        self.script("fail", *(["--link"] if link_only else []), node)

    def heal(self, node: str) -> None:
        """Bring a node back."""
        self.script("heal", node)

    def processes(self, pattern: str) -> dict[str, list[str]]:
        """The command lines on each compute node that is up and match the pattern.

        Read from outside, as tests ask often: a node's processes share a namespace with its first.
        """
        found: dict[str, list[str]] = {node: [] for node in self.nodes}
        nodes = {}
        for node in self.nodes:
            with contextlib.suppress(OSError):  # it is down
                init = (self.run_folder / "hosts" / node / "init.pid").read_text().split()[0]
                nodes[os.readlink(f"/proc/{init}/ns/pid")] = node
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # it has ended
                if node := nodes.get(os.readlink(f"/proc/{pid}/ns/pid"), ""):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                    line = words.replace("\0", " ").strip()
                    found[node] += [line] if re.search(pattern, line) else []
        return found

    # --- jobs ----------------------------------------------------------------------

    def run(self, *command: str, **options: Any) -> Result:
        """A command as a user of the cluster types it; it must succeed unless check=False."""
        return run(list(command), env=options.pop("env", self.env), **options)

    def submit(self, *arguments: str | Path, cwd: Path) -> str:
        """Submit a job with the scheduler's own command; the job's id."""
        raise NotImplementedError

    def job(self, job_id: str) -> dict[str, str]:
        """All that the scheduler says of a job."""
        raise NotImplementedError

    def state(self, job_id: str) -> str:
        """The job's state in the scheduler's own words."""
        raise NotImplementedError

    def ended(self, job_id: str) -> bool:
        raise NotImplementedError

    def cancel(self, job_id: str) -> None:
        raise NotImplementedError

    def wait(self, job_id: str, *states: str, timeout: float = PATIENCE) -> dict[str, str]:
        """Ask until the job is in one of the states, or has ended; what is said of it then."""
        wait_until(
            lambda: (self.state(job_id) in states) if states else self.ended(job_id),
            timeout=timeout,
            every=0.2,
            what=lambda: f"{job_id} is not {states or 'over'}: {self.job(job_id)}",
        )
        return self.job(job_id)


class Slurm(Cluster):
    """A real Slurm: see tests/clusters/slurm/README.md."""

    kind = "slurm"
    scripts = CLUSTERS / "slurm"

    def submit(self, *arguments: str | Path, cwd: Path) -> str:
        command = ["sbatch", "--parsable", *map(str, arguments)]
        return self.run(*command, cwd=cwd).stdout.strip().partition(";")[0]

    def job(self, job_id: str) -> dict[str, str]:
        """The words of `scontrol show job`, such as JobState, Reason, ExitCode, NodeList."""
        shown = self.run("scontrol", "--oneliner", "show", "job", job_id).stdout
        return dict(re.findall(r"(\S+?)=(\S*)", shown.splitlines()[0]))

    def state(self, job_id: str) -> str:
        return self.job(job_id)["JobState"]

    def ended(self, job_id: str) -> bool:
        """Whether it has ended, and each task of an array too."""
        shown = self.run("scontrol", "--oneliner", "show", "job", job_id).stdout
        going = {"PENDING", "RUNNING", "COMPLETING", "SUSPENDED"}
        return going.isdisjoint(re.findall(r" JobState=(\S+)", shown))

    def cancel(self, job_id: str) -> None:
        self.run("scancel", job_id)

    @contextlib.contextmanager
    def settings(self, **changes: Any) -> Iterator[None]:
        """Other lines of slurm.conf for a while; then those from before again."""
        conf = self.run_folder / "etc/slurm/slurm.conf"
        before = text = conf.read_text()
        for key, value in changes.items():
            text, found = re.subn(rf"^{key}=.*", f"{key}={value}", text, flags=re.M)
            text += "" if found else f"{key}={value}\n"
        conf.write_text(text)
        self.run("scontrol", "reconfigure")
        try:
            yield
        finally:
            conf.write_text(before)
            self.run("scontrol", "reconfigure")


class Pbs(Cluster):
    """An emulated PBS: see tests/clusters/pbs/README.md."""

    kind = "pbs"
    scripts = CLUSTERS / "pbs"

    @property
    def home(self) -> Path:
        """The home folder of jobs: where they start."""
        return self.run_folder / "home"

    def submit(self, *arguments: str | Path, cwd: Path) -> str:
        return self.run("qsub", *map(str, arguments), cwd=cwd).stdout.strip()

    def job(self, job_id: str) -> dict[str, Any]:
        """The attributes of `qstat -f`, such as job_state, Exit_status, exec_host.

        Of an ended job there are some only where the server keeps a history.
        """
        for options in (["-f"], ["-x", "-f"]):
            ended = self.run("qstat", *options, "-F", "json", job_id, check=False)
            jobs = json.loads(ended.stdout).get("Jobs", {}) if ended.stdout else {}
            if job_id in jobs:
                return dict(jobs[job_id])
        return {"job_state": "F"}

    def state(self, job_id: str) -> str:
        """Asked of the server itself: waits ask often, and each command starts a Python."""
        asked = {"op": "status", "jobs": [job_id], "members": False, "history": True}
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(self.run_folder / "server.sock"))
            link.sendall(json.dumps(asked).encode() + b"\n")
            with link.makefile() as answer:
                jobs = json.loads(answer.readline())["jobs"]
        return str(jobs[job_id]["job_state"]) if job_id in jobs else "F"

    def ended(self, job_id: str) -> bool:
        return self.state(job_id) in "FX"

    def cancel(self, job_id: str) -> None:
        """End a job; one that has ended is left alone, as by scancel."""
        done = self.run("qdel", job_id, check=False)
        assert done.returncode in (0, 35, 153), done.stderr  # finished, or already forgotten

    def add_ssh(self, folder: Path) -> dict[str, str]:
        """Make an ssh that knows the nodes; return the environment of a login node that has it."""
        ssh = folder / "bin" / "ssh"
        ssh.parent.mkdir(exist_ok=True)
        own = "".join(
            f"{key}={value} " for key, value in self.script_env.items() if "JOBGEN" in key
        )
        ssh.write_text(
            f'#!/bin/sh\nnode=$1; shift\n{own}exec {self.scripts}/pbs-on "$node" sh -c "$*"\n'
        )
        ssh.chmod(0o755)
        return {**self.env, "PATH": f"{ssh.parent}:{self.env['PATH']}"}

    @contextlib.contextmanager
    def settings(self, **changes: Any) -> Iterator[None]:
        """Other settings (tests/clusters/pbs/link.py) for a while; then the defaults again."""
        self.script("set", *(f"{key}={json.dumps(value)}" for key, value in changes.items()))
        try:
            yield
        finally:
            self.script("set", *(f"{key}=null" for key in changes))


def run(
    command: list[str],
    *,
    env: Mapping[str, str],
    check: bool = True,
    timeout: float = PATIENCE,
    **options: Any,
) -> Result:
    """Run a command with no standard input; its failure shows what it printed."""
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=timeout, check=False, **options
    )
    if check and done.returncode:
        text = f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        raise AssertionError(text)
    return done


def wait_until(
    condition: Callable[[], bool],
    *,
    timeout: float = PATIENCE,
    every: float = 0.1,
    what: Callable[[], str] = lambda: "it did not come true",
) -> None:
    """Ask until the condition holds; AssertionError with `what` after the timeout."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"after {timeout:g} s: {what()}")
        time.sleep(every)


def skip_without(*modules: str) -> None:
    """Skip the test, or the file, where one of these is not installed; with CI=true, fail.

    Unlike pytest.importorskip it imports nothing: torch would take every worker seconds.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            assert os.environ.get("CI") != "true", f"{module} is not installed"
            pytest.skip(f"needs {module}", allow_module_level=True)


def why_not() -> str | None:
    """Why no cluster can be brought up here; None if one can."""
    if not sys.platform.startswith("linux"):
        return "needs Linux namespaces"
    if os.geteuid() != 0:
        return "needs root, to make hosts of namespaces"
    try:
        command = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "true"]
        allowed = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "needs unshare (util-linux)"
    return f"namespaces: {allowed.stderr.strip()}" if allowed.returncode else None


def running(cluster: type[Cluster], *, options: Sequence[str] = ()) -> Iterator[Any]:
    """Bring a cluster up, hand it out, take it down; the body of a session's fixture."""
    if reason := why_not():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{cluster.kind} cluster: {reason}", pytrace=False)
        pytest.skip(f"{cluster.kind} cluster: {reason}")
    # Not below pytest's own folder: that is for root's eyes only, daemons have other users.
    # A module's own cluster stands beside the session's, in a folder of its own.
    name = f"jobgen-test-{os.getpid()}-{cluster.kind}{next(_NUMBERS)}"
    made = cluster(Path(tempfile.gettempdir(), name), options)
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """A real Slurm with nodes n1, n2 (4 GPUs each) and n3 (2 GPUs)."""
    yield from running(Slurm)


@pytest.fixture(scope="session")
def pbs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pbs]:
    """An emulated PBS with nodes n1, n2 (16 CPUs, 4 GPUs) and n3 (8 CPUs, 2 GPUs).

    Its nodes have a /tmp of their own, in which only these are shared: what tests make below
    tmp_path, this checkout and the Python that runs the tests.
    """
    shared = [tmp_path_factory.getbasetemp(), ROOT, Path(sys.prefix)]
    yield from running(Pbs, options=[word for path in shared for word in ("--share", str(path))])


@pytest.fixture(params=["slurm", "pbs"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Each of the two in turn, or those that a test names."""
    found: Cluster = request.getfixturevalue(request.param)
    return found
