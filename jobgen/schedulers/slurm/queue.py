"""The state of Slurm jobs: squeue, and sacct for jobs that squeue forgot (22.05 to 25.05)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence

from jobgen.errors import RefusedError, SchedulerUnavailableError
from jobgen.schedulers import base

# squeue(1), "JOB STATE CODES". A word that is not here is `unknown`: a new one may mean anything.
_WORDS: dict[base.StateName, str] = {
    "queued": "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD",
    "running": "RUNNING SUSPENDED STOPPED SIGNALING RESIZING",
    "stopping": "COMPLETING STAGE_OUT",
    "done": "COMPLETED",
    "failed": "FAILED OUT_OF_MEMORY LAUNCH_FAILED RECONFIG_FAIL",
    "cancelled": "CANCELLED PREEMPTED",
    "timeout": "TIMEOUT DEADLINE",
    "node lost": "NODE_FAIL BOOT_FAIL",
}
_STATES = {word: name for name, words in _WORDS.items() for word in words.split()}
_NO_NODE = "a node could not start it, and sinfo -R says which and why"
# Reasons to wait that nothing but the user changes. Of a job that was put back they begin with why.
_PUT_BACK = re.compile("(launch|).*requeued.*held.*")
_STUCK = {
    "DependencyNeverSatisfied": "it waits for something that can no longer happen: cancel it",
    "BadConstraints": "no nodes fit what it asks for, so it is held",
    "JobHeldUser": "release it with scontrol release",
    "-held": "release it with scontrol release",
    "launch-held": f"{_NO_NODE}; then scontrol release",
    "JobHoldMaxRequeue": f"{_NO_NODE}; then scontrol release",
}
# Where the reason is that nodes are down or drained; so many of them are named.
_AWAY = re.compile("are DOWN, DRAINED|ReqNodeNotAvail|Nodes_required")
_MOST_NODES = 5
# A line for each job or task; its reason may have a `|`, and `CANCELLED by 1000` is a state. Behind
# the state squeue names the node of the script, and those that the job has.
_ROW = re.compile(
    r"([0-9]+)(_[0-9]+|_\[[^|]*)?(\+[0-9]+)?\|([^|\s]+)(?: by \w+| ([^|\s]*) ([^|\s]*))?"
    r"\|(.*)\|([^|]*)\|([^|]*)",
    re.ASCII,
)
_HEADING = re.compile(r"CLUSTER: \S+")  # of the answer for one of several clusters


def make_environment(around: Mapping[str, str]) -> dict[str, str]:
    """Leave out the user's filters and formats; have times in seconds since 1970."""
    own = {key: value for key, value in around.items() if not re.match("SQUEUE_|SACCT_", key)}
    return own | {"SLURM_TIME_FORMAT": "%s"}


def make_query(ids: Sequence[str]) -> list[str]:
    """Return `squeue`, which knows a job until some minutes after its end (MinJobAge)."""
    options = ["--noheader", "--states=all", "--array", f"--jobs={','.join(ids)}"]
    return ["squeue", *options, "--format=%i|%T %B %N|%r|%S|%e"]


def make_history_query(ids: Sequence[str]) -> list[str]:
    """Return `sacct`, which prints one line for each allocation; many clusters have none."""
    options = ["--noheader", "--parsable2", "--allocations", f"--jobs={','.join(ids)}"]
    return ["sacct", *options, "--format=JobID,State,Reason,Start,End"]


def knows_none(refusal: str) -> bool:
    """Return whether squeue does not know these jobs: for a single one it fails."""
    return "Invalid job id specified" in refusal


def is_plain(state: base.State) -> bool:
    """Return whether Slurm says FAILED, its word for any exit status but 0."""
    return state.reason.startswith("FAILED")


def read_states(output: str) -> tuple[dict[str, base.State], str]:
    """Return states by ID, such as `12_3` for a task, and a line that is not about a job."""
    states: dict[str, base.State] = {}
    stray = ""
    for line in filter(str.strip, output.splitlines()):
        if row := _ROW.fullmatch(line.strip()):
            number, task, component, word, host, nodes, *rest = row.groups(default="")
            reason, start, end = rest
            if word == "RUNNING" and _lacks(nodes, host):  # with --no-kill the job keeps the others
                reason = f"Node failure on {host} has ended its script: cancel it, and submit again"
            # The first component of a heterogeneous job has the script.
            if component in ("", "+0"):
                times = _parse_time(start), _parse_time(end)
                # `12_[3-5]` are tasks that have not begun, and as the array itself.
                job_id = number if "[" in task else number + task
                base.add_state(states, job_id, _read_state(word, reason, *times))
        elif not _HEADING.fullmatch(line.strip()):
            stray = stray or line
    return states, stray


def _lacks(nodes: str, host: str) -> bool:
    """Whether a list such as n[2-3,07],m1 is without a node; not if it is written otherwise."""
    if not re.fullmatch(r"([^][,]+(\[[-,\d]+\])?(,|$))+", nodes):
        return False
    parts = re.findall(r"([^][,]+)(?:\[([^]]*)\])?", nodes)
    return not any(host in _list_named(stem, spans) for stem, spans in parts)


def _list_named(stem: str, spans: str) -> Iterator[str]:
    """Yield the nodes of a part of such a list, of which the spans may be 2-3,07."""
    for first, last in re.findall(r"(\d+)-?(\d*)", spans):
        for number in range(int(first), int(last or first) + 1):
            yield f"{stem}{number:0{len(first)}}"
    if not spans:
        yield stem


def read_history(output: str) -> tuple[dict[str, base.State], str]:
    """Return the same; accounting may have lost track of a job that has not ended."""
    states, stray = read_states(output)
    for job_id, state in states.items():
        if not state.ended:
            states[job_id] = base.State("unknown", f"only sacct knows it, as {state.name}")
    return states, stray


def _read_state(word: str, reason: str, start: float | None, end: float | None) -> base.State:
    reason = "" if reason in ("None", "") else reason
    name = _STATES.get(word, "unknown")
    if name == "unknown":
        reason = f"Slurm calls it {word}"
    elif name in base.ENDED and name != "done" and word != "CANCELLED":
        reason = f"{word} {reason}".strip()
    elif word == "CANCELLED" and not reason.startswith("Dependency"):
        reason = ""  # why it had to wait before
    elif word in ("SUSPENDED", "STOPPED"):
        reason = "suspended"
    if name == "queued":
        return base.State(name, _explain_wait(reason), start, None)
    return base.State(name, reason, start, end)


def _explain_wait(reason: str) -> str:
    """Return why a job waits, with what can be done if it will not start by itself."""
    reason = base.DEPENDENT if reason == "Dependency" else reason
    stuck = _STUCK.get(_PUT_BACK.sub(r"\1-held", reason))
    return f"{reason}: {stuck}" if stuck else reason


def _parse_time(word: str) -> float | None:
    return float(word) if re.fullmatch("[0-9]{1,15}", word) else None


def ask_more(job_id: str, state: base.State, ask: base.Ask) -> base.State:
    """Return that it is preempted, or which nodes it excludes, lacks, or could not start it."""
    if _NO_NODE in state.reason or _AWAY.search(state.reason):
        return state._replace(reason=_name_nodes(job_id, state.reason, ask))
    stuck = "BadConstraints" in state.reason
    if not (stuck or state.name == "running" or is_plain(state)):
        return state
    shown = ask(["scontrol", "--oneliner", "show", "job", job_id])
    about = dict(re.findall(r"\b(ExcNodeList|PreemptTime|EndTime)=(\w[^ ]*)", shown))
    if stuck and "ExcNodeList" in about:
        why = f"{state.reason}; it excludes {about['ExcNodeList']} (ExcNodeList)"
        return state._replace(reason=why)
    if re.match(r"\d", about.get("PreemptTime", "")):
        why = f"preempted by another job at {about['PreemptTime']}"
        if state.name == "running":
            return state._replace(reason=f"{why}; Slurm ends it at {about.get('EndTime')}")
        return state._replace(name="cancelled", reason=why)
    return state


def _name_nodes(job_id: str, reason: str, ask: base.Ask) -> str:
    """Return why a job waits with the nodes of its partition that are drained, for instance."""
    about = ask(["scontrol", "--oneliner", "show", "job", job_id])
    own = re.findall(" (--partition=[^ ]+)", about.replace(" Partition=", " --partition="))[:1]
    shown = ask(["sinfo", *own, "--list-reasons", "--noheader", "--format=%n|%T|%E"])
    nodes = re.findall(r"^ *([^|\s]+)\|([^|]*)\|(.*\S)", shown, re.MULTILINE)
    if _NO_NODE in reason:
        bad = [f"{node} could not start it ({why})" for node, _, why in nodes if "rolog" in why]
        return reason.replace(_NO_NODE, "".join(bad[:1]) or _NO_NODE)
    away = [f"{node} is {state} ({why})" for node, state, why in nodes]
    return "; ".join([reason, *away[:_MOST_NODES]])


def list_own_jobs(ask: base.Ask, since: float) -> Iterator[base.OwnJobs]:
    """squeue has each job's script, for some minutes after its end; sacct the whole command."""
    argv = ["squeue", "--me", "--states=all", "--noheader", "--format=job|%i|%o"]
    yield _parse_listing(ask(argv))
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since - base.CLOCKS))
    argv = ["sacct", "--allocations", "--noheader", "--parsable2", f"--starttime={start}"]
    try:
        answer = ask([*argv, "--format=JobID,SubmitLine"])
    except (RefusedError, SchedulerUnavailableError):  # many clusters have no accounting
        return
    yield _parse_listing(re.sub("(?m)^(?=.)", "job|", answer))


def _parse_listing(listing: str) -> base.OwnJobs:
    """Of each `job|12_[0-3]|/home/me/script`; the id is that of a whole array."""
    jobs = re.findall(r"^job\|([0-9]+)[^|\n]*\|(.*)", listing, re.MULTILINE)
    if listing.strip() and (not jobs or not listing.endswith("\n")):  # half of it says nothing
        raise RefusedError(f"expected a list of jobs, but got {listing[:200]!r}")
    return jobs
