"""The table of jobs and the scheduler: dependencies, what runs where, and a job's end."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import lifecycle
import resources
from jobs import BEGUN, FINISHED, WALLTIME_EXCEEDED, Job
from link import HISTORY, PERMISSION, UNKNOWN_JOB, RefusedError, settings


class Mom:
    """The server's end of the connection to one host's mom."""

    def __init__(self, host: str, writer: asyncio.StreamWriter) -> None:
        self.host = host
        self.writer = writer
        self.asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.lost = False

    async def call(self, op: str, **request: Any) -> dict[str, Any]:
        """Ask and wait; ConnectionError when the host is lost meanwhile, OSError on refusal."""
        if self.lost:
            raise ConnectionError(self.host)
        number = max(self.asked, default=0) + 1
        future = self.asked[number] = asyncio.get_running_loop().create_future()
        self.writer.write(json.dumps(request | {"op": op, "number": number}).encode() + b"\n")
        answer: dict[str, Any] = await future
        if "error" in answer:
            raise OSError(answer["error"])
        return answer

    def answered(self, answer: dict[str, Any]) -> None:
        future = self.asked.pop(answer.pop("answer"))
        if not future.done():
            future.set_result(answer)

    def lose(self) -> None:
        self.lost = True
        for future in self.asked.values():
            if not future.done():
                future.set_exception(ConnectionError(self.host))
        self.asked.clear()


class Scheduler:
    """All jobs, and the moms of the hosts that are up."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.jobs: dict[str, Job] = {}
        self.forgotten: dict[str, Job] = {}  # without a history; whoever waited still knows them
        self.number = 1
        self.moms: dict[str, Mom] = {}
        self.down: set[str] = set()  # nodes that count as down
        self.waiting: dict[str, list[asyncio.StreamWriter]] = {}  # -W block=true
        self.background: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Any) -> None:
        """Run in the background, kept until it has ended; a host may be lost meanwhile."""

        async def guarded() -> None:
            with contextlib.suppress(OSError):
                await coroutine

        task = asyncio.get_running_loop().create_task(guarded())
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    @property
    def settings(self) -> dict[str, Any]:
        return settings(self.run)

    # --- finding jobs -------------------------------------------------------------

    def find(self, name: str) -> Job:
        """The job of an id, which may lack the server's name."""
        short, _, server = name.partition(".")
        if not short[:1].isdigit():
            raise RefusedError(1, f"illegally formed job identifier: {name}")
        for known in (name, f"{short}.{self.settings['server']}"):
            if known in self.jobs and (not server or known == name):
                return self.jobs[known]
        full = name if server else f"{name}.{self.settings['server']}"
        raise RefusedError(UNKNOWN_JOB, f"Unknown Job Id {full}")

    def active(self, name: str) -> Job:
        job = self.find(name)
        if job.state in FINISHED:
            raise RefusedError(HISTORY, f"Job has finished {name}")
        return job

    def owned(self, message: dict[str, Any], uid: int) -> Job:
        job = self.active(message["job"])
        away = message["host"] != job.message["host"] and not self.settings["flatuid"]
        if not self.settings["operators"] and (uid != job.user.uid or away):
            raise RefusedError(PERMISSION, f"Unauthorized Request  {message['job']}")
        return job

    def free(self) -> dict[str, dict[str, int]]:
        """What is unused of each node that is up and not taken by an exclusive job."""
        free = {
            name: dict(node)
            for name, node in self.settings["nodes"].items()
            if name in self.moms and name not in self.down
        }
        for job in self.jobs.values():
            if job.state not in "RE":
                continue
            for host, chunk in zip(job.placed, job.chunks, strict=True):
                if host in free:
                    for key in resources.CONSUMABLE:
                        free[host][key] -= chunk[key]
                    if "excl" in job.request["place"]:
                        del free[host]
        return free

    def schedule(self) -> None:
        """One cycle: settle dependencies, then start what fits, first come first."""
        for job in list(self.jobs.values()):
            if job.state in "QH" and job.index is None:
                self._settle(job)
        whole, free = self.settings["nodes"], self.free()
        for job in list(self.jobs.values()):
            if job.state != "Q" or job.members is not None or not self._may_start(job):
                continue
            found = resources.fit(job.chunks, place=job.request["place"], free=free, whole=whole)
            if isinstance(found, str):
                job.comment = found
            else:
                job.begin(found)
                free = self.free()
                self.spawn(lifecycle.start(self, job))

    def _may_start(self, job: Job) -> bool:
        if job.index is None:
            return True
        parent = self.jobs[f"{job.number}[].{job.server}"]
        options, attributes = job.message["options"], job.message["attributes"]
        at_once = int(options["J"].partition("%")[2] or attributes.get("max_run_subjobs", 0))
        if parent.state not in "QB":
            return False
        members = parent.members or []
        return not at_once or sum(member.state in "RE" for member in members) < at_once

    def _settle(self, job: Job) -> None:
        """Hold a job for its dependencies, let it go, or drop it as they can't be met."""
        left = []
        for kind, name in job.dependencies:
            parent = self.forgotten.get(name)
            if parent is None or parent.mtime <= job.ctime:
                try:
                    parent = self.find(name)
                except RefusedError:
                    return self._drop(job)
            over = parent.state in FINISHED
            # Who waited for a job that was deleted before it ran waits for ever; who comes
            # later finds a job without an exit status, which counts as a good one.
            waits = not over or (parent.exit_status is None and parent.mtime > job.ctime)
            good = not parent.exit_status
            wrong = (kind == "afterok" and not good) or (kind == "afternotok" and good)
            if parent.dropped or (wrong and not waits):
                return self._drop(job)
            if waits and not (kind == "after" and parent.state in BEGUN + "B"):
                left.append((kind, parent.id))
        job.dependencies = left
        job.holds = job.holds.replace("s", "") + ("s" if left or job.stuck else "")
        if ("H" if job.holds else "Q") != job.state:
            job.enter("H" if job.holds else "Q")
        return None

    def _drop(self, job: Job) -> None:
        """Its dependencies can't be met any more: it goes without a word."""
        job.dropped, job.holds = True, "s"
        self.finish(job, None)

    def finish(self, job: Job, status: int | None) -> None:
        """The job's end in the records, and what waits for it."""
        job.exit_status = status
        if job.comment.startswith(("Job run", "Job Array")):
            what = "failed" if status else "finished"
            if job.deleted:
                what = "terminated"
                if job.members is None:
                    what += f" by {job.user.name}@{job.message['host']}"
            elif status == WALLTIME_EXCEEDED:
                what = "exceeded resource walltime"
            job.comment += f" and {what}"
        job.enter("F" if job.index is None else "X")
        if job.index is not None:
            parent = self.jobs[f"{job.number}[].{job.server}"]
            members = parent.members or []
            if status is not None:
                parent.exit_status = 1 if status > 0 else 2 if status < 0 else 0
            if parent.state not in FINISHED and all(m.state in FINISHED for m in members):
                self.finish(parent, parent.exit_status)
                for member in members:
                    member.state = parent.state
        for writer in self.waiting.pop(job.id, []):
            writer.write(json.dumps({"exit_status": status}).encode() + b"\n")
        loop = asyncio.get_running_loop()
        loop.call_soon(self.schedule)  # what waits for it learns how it ended
        if not self.settings["history"]:
            self.forgotten[job.id] = job
            loop.call_soon(self.jobs.pop, job.id, None)
