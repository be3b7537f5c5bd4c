"""A job as the server knows it: its request, where it runs, its files and variables."""

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from link import host_name
from resources import CONSUMABLE

# Where every host has what belongs to its own mom.
SPOOL = Path("/var/spool/pbs")
WALLTIME_EXCEEDED = -29
# States of a job that is over, and of one that has begun.
FINISHED = "FX"
BEGUN = "REFX"

SUFFIX = {"o": "OU", "e": "ER"}
DEPENDENCIES = ("after", "afterok", "afternotok", "afterany")  # others are ignored


@dataclass
class User:
    """Whose job it is, as the password file has it; home is the same on all hosts."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str


@dataclass(eq=False)
class Job:
    """One job, one member of an array (`index`), or a whole array (`members`)."""

    number: int
    server: str
    user: User
    message: dict[str, Any]  # the request, as qsub sent it
    index: int | None = None
    members: "list[Job] | None" = None
    state: str = "Q"
    holds: str = ""
    suspended: bool = False  # then `state` is still R
    comment: str = ""
    exit_status: int | None = None
    placed: list[str] = field(default_factory=list)  # the node of each chunk
    run_count: int = 0
    cookie: str = ""
    ctime: float = field(default_factory=time.time)
    stime: float = 0.0
    mtime: float = field(default_factory=time.time)
    session: int = 0
    etime: float = 0.0  # the end of the script
    cpu_seconds: float = 0.0
    memory: int = 0  # kB
    over: "asyncio.Future[int] | None" = None  # the script's end, from the primary host's mom
    obits: "dict[int, asyncio.Future[int]]" = field(default_factory=dict)  # of TM tasks
    task_hosts: dict[int, str] = field(default_factory=dict)
    demux: list[int] = field(default_factory=list)  # the primary host's ports for tasks' output
    rerun: bool = False  # when it ends it goes back to the queue
    deleted: bool = False
    dependencies: list[tuple[str, str]] = field(default_factory=list)  # kind and job: not yet met
    dropped: bool = False  # its dependencies could not be met: who waits for it goes, too
    stuck: bool = False  # it failed to start too often

    @property
    def id(self) -> str:
        if self.members is not None:
            return f"{self.number}[].{self.server}"
        index = "" if self.index is None else f"[{self.index}]"
        return f"{self.number}{index}.{self.server}"

    @property
    def name(self) -> str:
        return str(self.message["options"]["N"])

    @property
    def request(self) -> dict[str, Any]:
        return dict(self.message["request"])

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return list(self.message["request"]["chunks"])

    @property
    def rerunnable(self) -> bool:
        return bool(self.message["options"].get("r", "y") == "y")

    @property
    def tolerant(self) -> bool:
        """Whether it goes on without a host that is not the primary one."""
        return bool(self.message["attributes"].get("tolerate_node_failures") == "all")

    @property
    def hosts(self) -> list[str]:
        """The hosts, each once, in the order of the chunks; the first is the primary host."""
        return list(dict.fromkeys(self.placed))

    @property
    def lines(self) -> list[tuple[str, dict[str, Any]]]:
        """Host and chunk of each line of the node file: one per MPI process."""
        pairs = zip(self.placed, self.chunks, strict=True)
        return [(host, chunk) for host, chunk in pairs for _ in range(chunk["mpiprocs"])]

    def enter(self, state: str, *, comment: str | None = None) -> None:
        self.state = state
        self.mtime = time.time()
        if comment is not None:
            self.comment = comment

    # --- files ---------------------------------------------------------------

    @property
    def umask(self) -> int:
        return int(self.message["attributes"].get("umask", "077"), 8) & 0o777

    def paths(self) -> dict[str, str]:
        """What qstat shows as the places of output: `o` and `e`, as if never joined or kept."""
        paths = {}
        for which in SUFFIX:
            given = self.message["options"].get(which)
            default = f"{self.name}.{which}{self.number}"
            if self.index is not None or self.members is not None:
                default += ".^array_index^"
            path = f"{self.message['folder']}/{given.rpartition(':')[2] if given else default}"
            if given and given.rpartition(":")[2].startswith("/"):
                path = given.rpartition(":")[2]
            if given and Path(path).is_dir():
                path = path.rstrip("/") + "/"
            if self.index is not None:
                path = path.replace("^array_index^", str(self.index))
            paths[which] = path
        return paths

    def final_paths(self) -> dict[str, str]:
        """Where output goes: `o` and `e`, or the one that both are joined to."""
        options = self.message["options"]
        join = options.get("j", "n")
        paths = {}
        for which, path in self.paths().items():
            if join[0] not in ("n", which):
                continue
            if path.endswith("/"):
                path = f"{path}{self.id}.{SUFFIX[which]}"
            if self.is_live(which) and "d" not in options["k"]:
                path = f"{self.user.home}/{Path(path).name}"
            paths[which] = path
        return paths

    def is_live(self, which: str) -> bool:
        """Does `which` output go to its final path while the job runs (-k)?"""
        return which in str(self.message["options"].get("k", "n"))

    def spool_paths(self, run: Path, *, host: str) -> dict[str, str]:
        """Where the running job's output is: on the primary host, or seen from elsewhere."""
        spool = SPOOL if host == self.hosts[0] else run / "hosts" / self.hosts[0] / "spool"
        return {
            which: path if self.is_live(which) else f"{spool}/spool/{self.id}.{SUFFIX[which]}"
            for which, path in self.final_paths().items()
        }

    # --- environment ---------------------------------------------------------

    def node_file(self, domain: str) -> str:
        return "".join(f"{host_name(host, domain)}\n" for host, _ in self.lines)

    def environment(self, host: str, chunk: dict[str, Any], *, task: int) -> dict[str, str]:
        """What a task gets from the mom; task 1 is the script."""
        threads = str(chunk.get("ompthreads", chunk["ncpus"]))
        result: dict[str, str] = {"PATH": "/bin:/usr/bin"} | self.message["variables"]
        result |= {
            "HOME": self.user.home,
            "PBS_JOBNAME": self.name,
            "PBS_JOBID": self.id,
            "PBS_QUEUE": self.message["queue"],
            "PBS_JOBCOOKIE": self.cookie,
            "PBS_NODENUM": str(self.hosts.index(host)),
            "PBS_TASKNUM": "1" if task == 1 else f"{task:08X}",
            "PBS_MOMPORT": "15003",
            "PBS_JOBDIR": self.user.home,
            "PBS_ENVIRONMENT": "PBS_BATCH",
            "ENVIRONMENT": "BATCH",
            "NCPUS": threads,
            "OMP_NUM_THREADS": threads,
            "TMPDIR": f"/var/tmp/pbs.{self.id}",
        }
        if account := self.message["options"].get("A"):
            result["PBS_ACCOUNT"] = account
        if task == 1:
            shell = self.message["options"].get("S", self.user.shell)
            result |= {"LOGNAME": self.user.name, "USER": self.user.name, "SHELL": shell}
            if self.index is not None:
                result["PBS_ARRAY_INDEX"] = str(self.index)
                result["PBS_ARRAY_ID"] = f"{self.number}[].{self.server}"
        if task == 1 or host != self.hosts[0]:
            result["PBS_NODEFILE"] = str(SPOOL / "aux" / self.id)
        return result

    # --- dependencies ----------------------------------------------------------

    def read_dependencies(self) -> None:
        """Take up -W depend: the kind and the other job of each dependency."""
        for part in filter(None, self.message["attributes"].get("depend", "").split(",")):
            kind, *ids = part.split(":")
            if kind in DEPENDENCIES:
                self.dependencies += [(kind, parent) for parent in ids]

    # --- what qstat shows ------------------------------------------------------

    @property
    def exec_host(self) -> str:
        words = []
        for at, (host, chunk) in enumerate(zip(self.placed, self.chunks, strict=True)):
            slot = self.placed[:at].count(host)
            words.append(f"{host}/{slot}" + (f"*{chunk['ncpus']}" if chunk["ncpus"] != 1 else ""))
        return "+".join(words)

    @property
    def exec_vnode(self) -> str:
        parts = []
        for host, chunk in zip(self.placed, self.chunks, strict=True):
            names = [name for name in chunk["given"] if name in CONSUMABLE]
            amounts = [f"{name}={chunk[name]}{'kb' * (name == 'mem')}" for name in names]
            parts.append(f"({':'.join([host, *amounts])})")
        return "+".join(parts)

    def begin(self, placed: list[str]) -> None:
        """Count a new run on these nodes."""
        self.placed, self.suspended = placed, False
        self.cookie = secrets.token_hex(16).upper()
        self.run_count += 1
        self.stime, self.etime = time.time(), 0.0
        self.exit_status = None
        self.over = asyncio.get_running_loop().create_future()
        self.obits, self.task_hosts = {}, {}
        self.rerun = False
        at = time.strftime("%a %b %d at %H:%M")
        self.enter("R", comment=f"Job run at {at} on {self.exec_vnode}")
