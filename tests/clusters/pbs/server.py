"""pbs_server with its scheduler: the table of jobs, the requests of commands and moms."""

import asyncio
import json
import pwd
import re
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

import lifecycle
import shown
from jobs import BEGUN, FINISHED, Job, User
from link import (
    BAD_STATE,
    BAD_USER,
    HISTORY,
    NOT_RERUNNABLE,
    PERMISSION,
    UNKNOWN_JOB,
    UNKNOWN_QUEUE,
    RefusedError,
)
from scheduler import Mom, Scheduler


class Server(Scheduler):
    """What commands and moms ask for."""

    # --- requests -----------------------------------------------------------------

    def do_submit(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        now = self.settings
        if message["queue"] not in now["queues"]:
            raise RefusedError(UNKNOWN_QUEUE, "qsub: Unknown queue")
        entry = pwd.getpwuid(uid)
        home = now["home"] or entry.pw_dir
        user = User(entry.pw_name, uid, entry.pw_gid, home, entry.pw_shell)
        options = message["options"]
        members = None
        if "J" in options:
            span = re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?(?:%\d+)?", options["J"])
            assert span
            indices = range(int(span[1]), int(span[2]) + 1, int(span[3] or 1))
            if len(indices) > now["max_array_size"]:
                raise RefusedError(3, "qsub: Array job exceeds server or queue size limit")
            members = [Job(0, now["server"], user, message, index=i) for i in indices]
        job = Job(self.number, now["server"], user, message, members=members)
        job.read_dependencies()
        if "u" in options and options["u"].partition("@")[0] != entry.pw_name:
            raise RefusedError(BAD_USER, "qsub: Bad UID for job execution")
        for each in [job, *(members or [])]:
            each.number = self.number
            self.jobs[each.id] = each
        self.number += 1
        if "h" in options:
            job.holds = "u"
            job.enter("H")
        self.waiting[job.id] = []
        asyncio.get_running_loop().call_soon(self.schedule)
        return {"id": job.id}

    def do_status(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        """qstat: attributes of the jobs asked for, or of all; problems beside them."""
        found: dict[str, Any] = {}
        problems = []
        chosen: list[Job] = []
        for name in message["jobs"]:
            try:
                job = self._find_shown(name)
                past = job.state in FINISHED and not self.settings["history"]
                if past and job.index is None:  # history is unset since
                    raise RefusedError(UNKNOWN_JOB, f"Unknown Job Id {job.id}")
                if job.state in FINISHED and not (past or message["history"]):
                    text = "Job has finished, use -x or -H to obtain historical job information"
                    raise RefusedError(HISTORY, f"{name} {text}")
            except RefusedError as refused:
                problems.append([refused.code, refused.text])
                continue
            chosen += [job, *(job.members or [] if message["members"] else [])]
        if not message["jobs"]:
            for job in self.jobs.values():
                listed = message["members"] or job.index is None
                if listed and (message["history"] or job.state not in FINISHED):
                    chosen.append(job)
        for job in chosen:
            past = job.index is not None and job.id in self.forgotten
            found[job.id] = shown.past_member(self._parent(job)) if past else shown.attributes(job)
        return {"jobs": found, "problems": problems}

    def _find_shown(self, name: str) -> Job:
        """The job of an id; also a member whose end is forgotten, while its array is there."""
        member = self.forgotten.get(name if "." in name else f"{name}.{self.settings['server']}")
        if member is None or member.index is None or self._parent(member).state in FINISHED:
            return self.find(name)
        return member

    def _parent(self, member: Job) -> Job:
        name = f"{member.number}[].{member.server}"
        return self.jobs.get(name) or self.forgotten[name]

    def do_delete(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        job = self.owned(message, uid)
        for each in [*(job.members or []), job]:
            if each.state not in FINISHED:
                self._delete(each, force=message["force"])
        return {}

    def _delete(self, job: Job, *, force: bool) -> None:
        job.deleted = True
        if any(member.state in "RE" for member in job.members or []):
            return  # it ends with them
        if job.state == "R":
            mom = self.moms.get(job.hosts[0])
            if mom is None or mom.lost:
                if not force:
                    raise RefusedError(15070, f"Server could not connect to MOM {job.id}")
                self.finish(job, None)
            elif force:
                self.spawn(mom.call("kill", job=job.id))
            else:
                self.spawn(mom.call("terminate", job=job.id))
        elif job.state == "E":
            raise RefusedError(BAD_STATE, f"Request invalid for state of job {job.id}")
        else:
            job.dropped = bool(job.dependencies)  # who waits for one that waits goes with it
            self.finish(job, None)

    def do_signal(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        job = self.owned(message, uid)
        special = message["signal"] in ("suspend", "resume", "admin-suspend", "admin-resume")
        if special and not self.settings["operators"]:
            raise RefusedError(PERMISSION, f"Unauthorized Request  {message['job']}")
        if job.state != "R":
            raise RefusedError(BAD_STATE, f"Request invalid for state of job {message['job']}")
        if special:  # on all of its hosts
            job.suspended = message["signal"].endswith("suspend")
            number = signal.SIGSTOP if job.suspended else signal.SIGCONT
            for host in dict.fromkeys(job.hosts):
                self.spawn(self.moms[host].call("signal", job=job.id, signal=number))
            return {}
        mom = self.moms[job.hosts[0]]
        self.spawn(mom.call("signal", job=job.id, signal=message["signal"]))
        return {}

    def do_rerun(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        job = self.active(message["job"])
        if not self.settings["operators"]:
            raise RefusedError(PERMISSION, f"Unauthorized Request  {message['job']}")
        if not job.rerunnable:
            raise RefusedError(NOT_RERUNNABLE, f"Job is not rerunnable {message['job']}")
        if job.state != "R":
            raise RefusedError(BAD_STATE, f"Request invalid for state of job {message['job']}")
        job.rerun = True
        self.spawn(self.moms[job.hosts[0]].call("terminate", job=job.id))
        return {}

    def do_alter(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        job = self.owned(message, uid)
        if job.state in BEGUN and ("select" in message["request"] or message["attributes"]):
            raise RefusedError(
                15015, f"Cannot modify attribute while job running  {message['job']}"
            )
        if job.state == "R" and "walltime" in message["request"]:
            limit = message["request"]["walltime"]
            self.spawn(self.moms[job.hosts[0]].call("limit", job=job.id, limit=limit))
        job.message = job.message | {
            "options": job.message["options"] | message["options"],
            "attributes": job.message["attributes"] | message["attributes"],
            "request": job.message["request"] | message["request"],
        }
        self.schedule()
        return {}

    def do_hold(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        """qhold and qrls: the user's hold of a job that has not begun."""
        job = self.owned(message, uid)
        if job.state in BEGUN:
            raise RefusedError(BAD_STATE, f"Request invalid for state of job {message['job']}")
        job.holds = job.holds.replace("u", "") + ("u" if message["hold"] else "")
        job.enter("H" if job.holds else "Q")
        self.schedule()
        return {}

    def do_nodes(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        nodes = {}
        for name, whole in self.settings["nodes"].items():
            jobs = [job for job in self.jobs.values() if job.state in "RE" and name in job.placed]
            free = self.free().get(name, whole)
            state = "down" if name in self.down or name not in self.moms else "free"
            if state == "free" and jobs:
                excl = any("excl" in job.request["place"] for job in jobs)
                state = "job-exclusive" if excl else "free" if free["ncpus"] else "job-busy"
            used = {key: whole[key] - free[key] for key in whole}
            nodes[name] = {
                "state": state,
                "whole": whole,
                "used": used,
                "jobs": [j.id for j in jobs],
            }
        return {"nodes": nodes}

    # --- connections ----------------------------------------------------------------

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("socket")
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        uid = struct.unpack("3i", credentials)[1]
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if message["op"] == "mom":
                    await self.serve_mom(message["host"], reader, writer)
                elif message["op"] == "tm":
                    await lifecycle.serve_tasks(self, message, reader, writer)
                else:
                    self.answer(message, uid, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    def answer(self, message: dict[str, Any], uid: int, writer: asyncio.StreamWriter) -> None:
        try:
            answer = getattr(self, f"do_{message['op']}")(message, uid)
        except RefusedError as refused:
            answer = {"refused": refused.code, "text": refused.text}
        writer.write(json.dumps(answer).encode() + b"\n")
        if message["op"] == "submit" and "id" in answer:
            self.waiting[answer["id"]].append(writer)

    async def serve_mom(
        self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """A host is up, until its connection ends."""
        mom = self.moms[host] = Mom(host, writer)
        self.down.discard(host)
        lifecycle.returned(self, host)
        self.schedule()
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "answer" in message:
                    mom.answered(message)
                elif job := self.jobs.get(message["job"]):
                    lifecycle.task_ended(job, message)
        except ConnectionError:
            pass
        finally:
            mom.lose()
            self.spawn(lifecycle.host_lost(self, mom))


async def main(run: Path) -> None:
    server = Server(run)
    listening = await asyncio.start_unix_server(
        server.accept, path=str(run / "server.sock"), limit=2**30
    )
    (run / "server.sock").chmod(0o777)
    (run / "hosts" / "login" / "ready").touch()
    print(f"server is up at {time.ctime()}", flush=True)
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
