"""The job in jobgen's words."""

from harness import NODES, PROCESSES, PROGRAM, serve

import jobgen


def describe(words: str) -> dict[str, object]:
    """The spec."""
    return {
        "name": "peers",
        "scheduler": "slurm",
        "resources": {"nodes": NODES, "cpus_per_node": 2, "walltime": "10m"},
        "launch": {"processes_per_node": PROCESSES},
        "run": {"script": PROGRAM, "args": [words]},
    }


def render(words: str) -> str:
    """The script, with nothing of the one before."""
    return jobgen.render(jobgen.resolve(jobgen.load(describe(words))))


def submit(words: str) -> str:
    """Submit it."""
    return jobgen.submit(jobgen.prepare(describe(words))).id


if __name__ == "__main__":
    serve(render, submit)
