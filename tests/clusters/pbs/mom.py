"""pbs_mom of one host, as its PID 1: starts tasks, signals their sessions, reports their end.

The rules of who is signalled and when are those of the real mom:

- A task is a session. A signal goes to every process of the sessions of all tasks that have
  not exited, and to no other.
- When a task's first process dies, the rest of its session is killed, except while the job is
  being terminated (qdel, walltime; on the primary host only): then the task goes on until its
  session is empty, which only the next poll notices, or until kill_delay has passed.
- When the script's task has exited, the job is over.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs import SPOOL, WALLTIME_EXCEEDED
from link import host_name, settings
from task import SCRIPT, become_task

# The real mom reads all of /proc before it collects its dead, which takes about as long.
# What a task's first process leaves behind has so much time to get a session of its own.
LOOK_AROUND = 0.02


@dataclass
class Task:
    pid: int  # also the session's id
    exit_status: int | None = None
    exited: bool = False
    cpu: float = 0.0  # seconds, with its children's
    memory: int = 0  # kB, of the largest process


@dataclass
class LocalJob:
    """What this host knows of a job. `limit` is 0 where no walltime is watched here."""

    tmpdir: Path
    files: list[Path]
    stderr: str
    limit: float = 0.0
    listening: list[socket.socket] = field(default_factory=list)  # until demux has them
    started: float = field(default_factory=time.monotonic)
    tasks: dict[int, Task] = field(default_factory=dict)
    terminating: bool = False
    kill_at: float = 0.0
    exit_status: int | None = None  # given by the mom; stronger than the script's

    @property
    def running(self) -> list[Task]:
        return [task for task in self.tasks.values() if not task.exited]


def members(session: int) -> list[int]:
    """The live processes of a session."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(words[3]) == session and words[0] not in "ZX":
                    found.append(int(entry))
    return found


def signal_session(session: int, number: int) -> int:
    """Signal all of a session; SIGKILL until none is left. Returns how many there were."""
    count = 0
    while processes := members(session):
        count += len(processes)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        if number != signal.SIGKILL:
            break
    return count


class Mom:
    def __init__(self, host: str, run: Path) -> None:
        self.host = host
        self.run = run
        self.jobs: dict[str, LocalJob] = {}
        self.writer: asyncio.StreamWriter | None = None

    # --- requests of the server ------------------------------------------------

    def begin(self, request: dict[str, Any]) -> dict[str, Any]:
        """A job comes to this host: its node file, script and scratch folder."""
        name, uid, gid = request["job"], request["uid"], request["gid"]
        node_file = SPOOL / "aux" / name
        node_file.write_text(request["node_file"])
        node_file.chmod(0o644)
        tmpdir = Path(f"/var/tmp/pbs.{name}")
        shutil.rmtree(tmpdir, ignore_errors=True)
        tmpdir.mkdir(mode=0o700)
        os.chown(tmpdir, uid, gid)
        files = [node_file]
        if request["script"] is not None:
            script = SPOOL / "mom_priv" / "jobs" / f"{name}.SC"
            script.write_text(request["script"], encoding="utf-8", errors="surrogateescape")
            script.chmod(0o700)
            os.chown(script, uid, gid)
            files.append(script)
        self.write_hosts()
        job = self.jobs[name] = LocalJob(tmpdir, files, request["stderr"], request["limit"])
        if request["demux"]:
            job.listening = [socket.create_server(("", 0)) for _ in range(2)]
        return {"ports": [listener.getsockname()[1] for listener in job.listening]}

    def spawn(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start a task. The answer is its pid, or the reason why its output cannot open."""
        job = self.jobs[request["job"]]
        failure, report = os.pipe()  # closed without a word by a successful exec
        pid = os.fork()
        if not pid:
            become_task(request, report, job.listening)
        os.close(report)
        if request["task"] == SCRIPT:
            for listener in job.listening:
                listener.close()
        with os.fdopen(failure, "rb") as pipe:
            error = pipe.read().decode()
        if error:
            return {"error": error}
        job.tasks[request["task"]] = Task(pid)
        return {"pid": pid}

    def signal(self, request: dict[str, Any]) -> dict[str, Any]:
        """A signal to one task's session, or to those of all."""
        job = self.jobs[request["job"]]
        chosen = [job.tasks[request["task"]]] if request.get("task") else job.running
        for task in chosen:
            if not task.exited:
                signal_session(task.pid, request["signal"])
        return {}

    def terminate(self, request: dict[str, Any]) -> dict[str, Any]:
        """SIGTERM now, SIGKILL at the first poll after kill_delay."""
        job = self.jobs[request["job"]]
        job.terminating = True
        job.kill_at = time.monotonic() + settings(self.run)["kill_delay"]
        if request.get("status") is not None:
            job.exit_status = request["status"]
        if text := request.get("text"):
            self.complain(job, text)
        return self.signal({"job": request["job"], "signal": signal.SIGTERM})

    def limit(self, request: dict[str, Any]) -> dict[str, Any]:
        """Another walltime, by qalter."""
        self.jobs[request["job"]].limit = request["limit"]
        return {}

    def kill(self, request: dict[str, Any]) -> dict[str, Any]:
        job = self.jobs[request["job"]]
        job.terminating = False
        job.exit_status = request.get("status", job.exit_status)
        return self.signal({"job": request["job"], "signal": signal.SIGKILL})

    def end(self, request: dict[str, Any]) -> dict[str, Any]:
        """The job is over: what is left of it here goes; processes with SIGKILL."""
        job = self.jobs.pop(request["job"], None)
        if job:
            for task in job.running:
                signal_session(task.pid, signal.SIGKILL)
            shutil.rmtree(job.tmpdir, ignore_errors=True)
            for path in job.files:
                path.unlink(missing_ok=True)
        return {}

    # --- what happens by itself --------------------------------------------------

    def reap(self) -> None:
        """Collect the dead: tasks, and orphans of the whole host."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            code = os.waitstatus_to_exitcode(status)
            for name, job in list(self.jobs.items()):
                for number, task in job.tasks.items():
                    if task.pid == pid and not task.exited:
                        task.exit_status = code if code >= 0 else 256 - code
                        task.cpu, task.memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss
                        if not (job.terminating and members(task.pid)):
                            self.task_over(name, number)

    def task_over(self, name: str, number: int) -> None:
        job = self.jobs[name]
        task = job.tasks[number]
        signal_session(task.pid, signal.SIGKILL)
        task.exited = True
        status = task.exit_status or 0
        if number == SCRIPT and job.exit_status is not None:
            status = job.exit_status
        used = {"cpu": task.cpu, "memory": task.memory}
        self.tell({"job": name, "task": number, "status": status} | used)

    def poll(self, delay: float) -> None:
        """What the real mom looks at now and then: empty sessions, limits."""
        now = time.monotonic()
        for name, job in list(self.jobs.items()):
            if job.terminating and now >= job.kill_at:
                self.kill({"job": name})
            for number, task in job.tasks.items():
                dead = task.exit_status is not None and not task.exited
                if dead and not members(task.pid):
                    self.task_over(name, number)
            used = now - job.started
            if job.limit and used > job.limit and not job.terminating and not job.kill_at:
                text = f"walltime {int(used)} exceeded limit {int(job.limit)}"
                self.terminate({"job": name, "status": WALLTIME_EXCEEDED, "text": text})
        loop = asyncio.get_running_loop()
        loop.call_later(delay, lambda: self.poll(settings(self.run)["poll"]))

    def complain(self, job: LocalJob, text: str) -> None:
        with open(job.stderr, "a") as stderr:
            print(f"=>> PBS: job killed: {text}", file=stderr)

    def write_hosts(self) -> None:
        """/etc/hosts as the settings have it: the canonical name comes first."""
        now = settings(self.run)
        text = Path("/etc/hosts").read_text()
        lines = []
        for line in text.splitlines():
            address, *names = line.split()
            if names[-1] in now["nodes"] or names[-1] == now["server"]:
                full = host_name(names[-1], now["domain"])
                names = list(dict.fromkeys([full, names[-1]]))
            lines.append(" ".join([address, *names]))
        Path("/etc/hosts").write_text("\n".join(lines) + "\n")

    # --- the connection ----------------------------------------------------------

    def tell(self, message: dict[str, Any]) -> None:
        if self.writer:
            self.writer.write(json.dumps(message).encode() + b"\n")

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, lambda: loop.call_later(LOOK_AROUND, self.reap))
        for folder in ("aux", "mom_priv/jobs", "spool", "undelivered"):
            (SPOOL / folder).mkdir(parents=True, exist_ok=True)
        (SPOOL / "spool").chmod(0o1777)
        self.write_hosts()
        reader, self.writer = await asyncio.open_unix_connection(
            str(self.run / "server.sock"), limit=2**30
        )
        self.tell({"op": "mom", "host": self.host})
        (self.run / "hosts" / self.host / "ready").touch()
        self.poll(settings(self.run)["poll"])
        while line := await reader.readline():
            request = json.loads(line)
            try:
                answer = getattr(self, request["op"])(request)
            except Exception as error:  # told to the server, which fails the request
                answer = {"error": repr(error)}
            self.tell(answer | {"answer": request["number"]})


if __name__ == "__main__":
    asyncio.run(Mom(sys.argv[1], Path(sys.argv[2])).serve())
