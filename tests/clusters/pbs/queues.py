"""The attributes of queues and of the server: what qstat -Q and -B show."""

from __future__ import annotations

from link import VERSION, host_name

# Tests start commands thousands of times: what only types need is not imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _state_count(jobs: list[dict[str, Any]]) -> str:
    letters = {"Transit": "T", "Queued": "Q", "Held": "H", "Waiting": "W", "Running": "R"}
    letters |= {"Exiting": "E", "Begun": "B"}
    states = [job["job_state"] for job in jobs]
    return "".join(f"{name}:{states.count(letter)} " for name, letter in letters.items())


def queue(now: dict[str, Any], name: str, jobs: dict[str, Any]) -> dict[str, Any]:
    """In the order of the real one: what is set stands before enabled and started."""
    own = [job for job in jobs.values() if job["queue"] == name]
    counts = {"total_jobs": len(own), "state_count": _state_count(own)}
    first, last = {"queue_type": "Execution"}, {"enabled": "True", "started": "True"}
    changes = now["queue_attributes"].get(name, {})
    first |= {key: value for key, value in changes.items() if key in first}
    last |= {key: value for key, value in changes.items() if key in last}
    between = {key: value for key, value in changes.items() if key not in first | last}
    return {**first, **counts, **between, **last}


def server(now: dict[str, Any], jobs: dict[str, Any]) -> dict[str, Any]:
    """The attributes that a user sees, those that only differ between sites left out."""
    return {
        "server_state": "Active",
        "server_host": host_name(now["server"], now["domain"]),
        "scheduling": "True",
        "total_jobs": len(jobs),
        "state_count": _state_count(list(jobs.values())),
        "default_queue": now["queues"][0],
        "resources_default": {"ncpus": 1},
        "default_chunk": {"ncpus": 1},
        "node_fail_requeue": round(now["node_fail_requeue"]),
        "max_array_size": now["max_array_size"],
        "pbs_version": VERSION,
        "job_history_enable": str(now["history"]),
    }
