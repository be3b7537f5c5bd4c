"""What qstat shows of a job."""

import time
from typing import Any

from jobs import FINISHED, Job
from resources import clock, size

HOLD_ORDER = "uos"
# States as numbers; H and what has ended know finer ones.
SUBSTATES = {"Q": 10, "H": 22, "R": 42, "E": 51, "F": 92, "B": 70, "X": 92}


def attributes(job: Job) -> dict[str, Any]:
    """The attributes in qstat's order; a dict is a group such as Resource_List."""
    options, server = job.message["options"], job.message["host"]
    paths = job.paths()
    shown: dict[str, Any] = {
        "Job_Name": job.name,
        "Job_Owner": f"{job.user.name}@{server}",
    }
    if job.stime and job.members is None:
        shown["resources_used"] = {
            "cpupercent": 0,
            "cput": clock(job.cpu_seconds),
            "mem": f"{job.memory}kb",
            "ncpus": sum(chunk["ncpus"] for chunk in job.chunks),
            "vmem": f"{job.memory}kb",
            "walltime": clock((job.etime or time.time()) - job.stime),
        }
    shown["job_state"] = "S" if job.suspended else job.state
    shown |= {"queue": job.message["queue"], "server": job.server}
    if "A" in options:
        shown["Account_Name"] = options["A"]
    shown |= {
        "Checkpoint": "u",
        "ctime": time.ctime(job.ctime),
        "Error_Path": f"{server}:{paths['e']}",
    }
    if job.placed:
        shown |= {"exec_host": job.exec_host, "exec_vnode": job.exec_vnode}
    request = job.request
    walltime = request.get("walltime")
    listed: dict[str, Any] = {}
    for name in ("mem", "mpiprocs", "ncpus", "ngpus"):
        amounts = [chunk[name] for chunk in job.chunks if name in chunk["given"]]
        if amounts:
            listed[name] = size(sum(amounts)) if name == "mem" else sum(amounts)
    listed |= {
        "nodect": len(job.chunks),
        "place": request["place"],
        "select": request["select"],
    }
    rest = {k: v for k, v in request.items() if k not in (*listed, "chunks", "walltime")}
    listed |= rest
    if walltime is not None:
        listed["walltime"] = clock(walltime)
    shown |= {
        "Hold_Types": "".join(sorted(job.holds, key=HOLD_ORDER.index)) or "n",
        "Join_Path": options.get("j", "n"),
        "Keep_Files": options.get("k", "n"),
        "Mail_Points": options.get("m", "a"),
        "mtime": time.ctime(job.mtime),
        "Output_Path": f"{server}:{paths['o']}",
        "Priority": int(options.get("p", "0")),
        "qtime": time.ctime(job.ctime),
        "Rerunable": str(job.rerunnable),
        "Resource_List": listed,
    }
    if job.stime:
        shown["stime"] = time.ctime(job.stime)
    if job.stime and job.members is None:
        shown |= {"session_id": job.session, "jobdir": job.user.home}
    shown["substate"] = 43 if job.suspended else SUBSTATES[job.state]
    if job.state == "H" and "u" in job.holds:
        shown["substate"] = 20
    elif job.state in FINISHED and (job.deleted or job.exit_status):
        shown["substate"] = 91 if job.deleted else 93
    shown["Variable_List"] = job.message["variables"]
    if job.comment:
        shown["comment"] = job.comment
    shown["etime"] = time.ctime(job.ctime)
    if job.dependencies:
        parents = [f"{kind}:{name}@{job.server}" for kind, name in job.dependencies]
        shown["depend"] = ",".join(parents)
    if "umask" in job.message["attributes"]:
        shown["umask"] = job.message["attributes"]["umask"]
    if job.run_count:
        shown["run_count"] = job.run_count
    if job.exit_status is not None:
        shown["Exit_status"] = job.exit_status
    shown["Submit_arguments"] = " ".join(job.message["arguments"])
    if job.state in FINISHED:
        shown["history_timestamp"] = int(job.mtime)
    if job.members is not None:
        states = "".join(member.state for member in job.members)
        queued = [member.index or 0 for member in job.members if member.state in "QH"]
        counts = {"Queued": "QH", "Running": "R", "Exiting": "E", "Expired": "X"}
        count = (f"{k}:{sum(map(v.count, states))}" for k, v in counts.items())
        shown |= {
            "array": "True",
            "array_state_count": " ".join(count),
            "array_indices_submitted": options["J"].partition("%")[0],
            "array_indices_remaining": _ranges(queued) or "-",
        }
    if job.index is not None:
        shown |= {"array_id": f"{job.number}[].{job.server}", "array_index": job.index}
    shown |= {"project": options.get("P", "_pbs_project_default"), "Submit_Host": server}
    return shown


def past_member(parent: Job) -> dict[str, Any]:
    """A member that has ended, where no history is kept: status_subjob of stat_job.c.

    The array's own attributes, but for those of arrays, with another state and comment.
    """
    shown = attributes(parent)
    common = [*shown.items()][: [*shown].index("array")]
    return dict(common) | {"job_state": "X", "comment": "Subjob finished"}


def _ranges(numbers: list[int]) -> str:
    """1-3,5: numbers in ascending order, neighbours joined."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)
