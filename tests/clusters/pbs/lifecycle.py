"""One run of a job, on the server's side: start, TM tasks, the end, lost hosts."""

import asyncio
import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import FINISHED, SPOOL, Job
from link import host_name

if TYPE_CHECKING:
    from scheduler import Mom, Scheduler

TRIES = 21  # starts of a job, before it is held
COPY_TRIES = 4
TM_ESYSTEM = 17000
TM_ENOTCONNECTED = 17002
START_FAILED = -3
PRIMARY_LOST = -20
SISTER_LOST = -14


async def start(server: "Scheduler", job: Job) -> None:
    """Bring the job to its hosts and run its script; back to the queue if that fails."""
    try:
        first = job.hosts[0]
        stderr = job.spool_paths(server.run, host=first)
        for host in job.hosts:
            answer = await server.moms[host].call(
                "begin",
                job=job.id,
                uid=job.user.uid,
                gid=job.user.gid,
                node_file=job.node_file(server.settings["domain"]),
                script=job.message["script"] if host == first else None,
                stderr=stderr.get("e", stderr.get("o")),
                limit=job.request.get("walltime", 0) if host == first else 0,
                demux=host == first and len(job.hosts) > 1,
            )
            if host == first:
                job.demux = answer["ports"]
        await run_task(server, job, host=first, chunk=job.chunks[0], task=1)
    except (OSError, KeyError) as error:
        print(f"{job.id}: cannot start: {error!r}", flush=True)
        await end_on(server, job, job.hosts)
        if job.run_count >= TRIES:
            job.stuck, job.exit_status = True, START_FAILED
            job.enter("H", comment="job held, too many failed attempts to run")
        else:
            # It keeps its nodes meanwhile: the real server asks for it again as soon.
            await asyncio.sleep(server.settings["start_retry"])
            if job.deleted:
                server.finish(job, None)
            else:
                job.enter("Q")
        server.schedule()
        return
    assert job.over
    await over(server, job, await job.over)


async def run_task(
    server: "Scheduler", job: Job, *, host: str, chunk: dict[str, Any], task: int, argv: Any = None
) -> None:
    """Have the mom of `host` start the script (task 1) or a TM task."""
    paths = job.spool_paths(server.run, host=host)
    output: list[Any] = [paths.get("o", paths.get("e")), paths.get("e", paths.get("o"))]
    if task != 1 and job.demux:
        output = [[job.hosts[0], port] for port in job.demux]
    stdin = ""
    environment = job.environment(host, chunk, task=task)
    if task != 1 or (argv := job.message["program"]):
        program = argv[0]
    else:
        stdin = f"{SPOOL}/mom_priv/jobs/{job.id}.SC\n"
        program = job.message["options"].get("S", job.user.shell)
        argv = ["-" + Path(program).name]
    answer = await server.moms[host].call(
        "spawn",
        job=job.id,
        task=task,
        program=program,
        argv=argv,
        environment=environment,
        stdin=stdin,
        stdout=output[0],
        stderr=output[1],
        cwd=job.user.home,
        umask=job.umask,
        user=job.user.name,
        uid=job.user.uid,
        gid=job.user.gid,
    )
    if task == 1:
        job.session = answer["pid"]
        if job.deleted:  # before the mom knew of it
            await server.moms[host].call("terminate", job=job.id)
        parent = server.jobs.get(f"{job.number}[].{job.server}")
        if parent and parent.state == "Q":
            at = time.strftime("%a %b %d at %H:%M")
            parent.stime = time.time()
            parent.enter("B", comment=f"Job Array Began at {at}")


def task_ended(job: Job, event: dict[str, Any]) -> None:
    """A mom says that a task has exited, with what status and after what use."""
    job.cpu_seconds += event.get("cpu", 0.0)
    job.memory = max(job.memory, event.get("memory", 0))
    future = job.over if event["task"] == 1 else job.obits.get(event["task"])
    if future and not future.done():
        future.set_result(event["status"])


async def end_on(server: "Scheduler", job: Job, hosts: list[str]) -> None:
    """SIGKILL and cleaning up, on the other hosts first."""
    for host in reversed(hosts):
        with contextlib.suppress(OSError, KeyError):
            await server.moms[host].call("end", job=job.id)
    for future in job.obits.values():
        if not future.done():
            future.set_result(0)


async def over(server: "Scheduler", job: Job, status: int) -> None:
    """The script has ended: clean up, bring the output home, count the job as finished."""
    job.enter("E")
    job.etime = time.time()
    await end_on(server, job, job.hosts)
    if job.rerun:
        job.enter("Q")
        server.schedule()
        return
    outside = job.spool_paths(server.run, host="")
    for which, path in job.final_paths().items():
        if not job.is_live(which):
            await deliver(server, job, spooled=Path(outside[which]), to=path)
        if which in job.message["options"].get("R", ""):
            Path(path).unlink(missing_ok=True)
    server.finish(job, status)


async def deliver(server: "Scheduler", job: Job, *, spooled: Path, to: str) -> None:
    """Copy output to where it belongs; after some tries it stays on the host, undelivered."""
    for _ in range(COPY_TRIES):
        try:
            if not reachable(server, to):
                raise OSError(f"{to} is not on a shared file system")
            shutil.copy(spooled, to)
            os.chown(to, job.user.uid, job.user.gid)
        except OSError as error:
            print(f"{job.id}: {error}", flush=True)
            await asyncio.sleep(server.settings["copy_retry"])
        else:
            spooled.unlink()
            return
    with contextlib.suppress(OSError):
        spooled.rename(spooled.parent.parent / "undelivered" / spooled.name)


def reachable(server: "Scheduler", path: str) -> bool:
    """Is it covered by a mom's $usecp: not in a folder that each host has for itself?"""
    own = ("/tmp", "/var/tmp", "/dev", "/proc", "/run", "/sys")
    shared = [server.settings["home"], str(server.run), *server.settings["shared"]]
    inside = [path == folder or path.startswith(f"{folder}/") for folder in filter(None, shared)]
    return any(inside) or not path.startswith(tuple(f"{folder}/" for folder in own))


# --- lost hosts ------------------------------------------------------------------


async def host_lost(server: "Scheduler", mom: "Mom") -> None:
    """A host does not answer any more: what becomes of its jobs, and when."""
    host, now = mom.host, server.settings
    running = [job for job in server.jobs.values() if job.state == "R" and host in job.hosts]
    await asyncio.sleep(now["down_delay"])
    if server.moms.get(host) is not mom:
        return
    server.down.add(host)
    runs = {job.id: job.run_count for job in running}
    lost = [job for job in running if job.hosts[0] == host]
    others = [job for job in running if job.hosts[0] != host]
    for job in others:
        print(f"{job.id}: lost communication with {host}, not killing job yet", flush=True)

    async def give_up(job: Job, delay: float) -> None:
        await asyncio.sleep(delay)
        if server.moms.get(host) is mom and job.state == "R" and job.run_count == runs[job.id]:
            if job in lost:
                await abandon(server, job)
            elif not job.tolerant:
                for task, on in job.task_hosts.items():
                    if on == host:
                        task_ended(job, {"task": task, "status": 0})
                await asyncio.sleep(now["poll"])
                if job.state == "R" and job.run_count == runs[job.id]:
                    job.rerun = job.rerunnable
                    await server.moms[job.hosts[0]].call("kill", job=job.id, status=SISTER_LOST)

    delays = [now["node_fail_requeue"]] * len(lost) + [now["max_poll_downtime"]] * len(others)
    await asyncio.gather(*map(give_up, lost + others, delays))


async def abandon(server: "Scheduler", job: Job) -> None:
    """The primary host is lost: the job starts anew elsewhere, or ends if it may not."""
    await end_on(server, job, job.hosts)
    for path in job.spool_paths(server.run, host="").values():
        if path.startswith(str(server.run / "hosts")):
            Path(path).unlink(missing_ok=True)
    if job.rerunnable and not job.deleted:
        job.enter("Q")
        server.schedule()
    else:
        server.finish(job, PRIMARY_LOST)


def returned(server: "Scheduler", host: str) -> None:
    """A host is back with nothing of its jobs: they cannot go on."""
    for job in server.jobs.values():
        if job.state != "R" or host not in job.hosts or job.run_count == 0:
            continue
        index = job.hosts.index(host)
        if index == 0:
            server.spawn(abandon(server, job))
            continue
        name = host_name(host, server.settings["domain"])
        text = f"node {index} ({name}) requested job die, code 15009"
        mom = server.moms[job.hosts[0]]
        if not job.tolerant:
            server.spawn(mom.call("terminate", job=job.id, status=271, text=text))


# --- TM: what pbsdsh and pbs_tmrsh ask for ------------------------------------------


async def serve_tasks(
    server: "Scheduler",
    hello: dict[str, Any],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Spawn tasks on the nodes (lines of the node file), signal them, tell their end."""

    def tell(**message: Any) -> None:
        if not writer.is_closing():
            writer.write(json.dumps(message).encode() + b"\n")

    job = server.jobs.get(hello["job"])
    if job is None or job.state in FINISHED or job.cookie != hello["cookie"]:
        tell(refused=TM_ENOTCONNECTED, text="not connected (17002) (17002)")
        return
    domain = server.settings["domain"]
    tell(nodes=[host_name(host, domain) for host, _ in job.lines])
    while line := await reader.readline():
        request = json.loads(line)
        if request["op"] == "spawn":
            host, chunk = job.lines[request["node"]]
            base = job.hosts.index(host) << 29
            mine = sum(on == host for on in job.task_hosts.values())
            task = (base + mine + (1 if base else 2)) & 0xFFFFFFFF
            job.task_hosts[task] = host
            obit = job.obits[task] = asyncio.get_running_loop().create_future()
            try:
                await run_task(server, job, host=host, chunk=chunk, task=task, argv=request["argv"])
            except (OSError, KeyError) as error:
                print(f"{job.id}: a task on {host} does not start: {error!r}", flush=True)
                tell(error=TM_ESYSTEM)
                continue
            tell(task=task)

            def tell_end(done: "asyncio.Future[int]", task: int = task) -> None:
                tell(obit=task, status=done.result())

            obit.add_done_callback(tell_end)
        elif request["op"] == "kill":
            with contextlib.suppress(OSError, KeyError):
                await server.moms[job.task_hosts[request["task"]]].call(
                    "signal", job=job.id, task=request["task"], signal=request["signal"]
                )
